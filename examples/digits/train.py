"""Step 2, on every node, each in a terminal of its own and in any order: train.

python train.py --node node_0 [--epochs 100] [--seed 42]
python train.py --node node_1
python train.py --node node_2
"""

import argparse

import torch
from digits import make_loaders
from torch import nn

from ravnest import Node, Trainer, set_seed

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--node", help="which node of the plan this is, such as node_0")
parser.add_argument("--epochs", type=int, default=100)
parser.add_argument("--schedule", default="async", choices=["async", "sync", "gpipe"])
parser.add_argument("--seed", type=int, default=42)
options = parser.parse_args()

set_seed(options.seed)
train_loader, val_loader = make_loaders()
loss = nn.MSELoss()

with Node(
    name=options.node,
    optimizer=torch.optim.Adam,
    criterion=lambda outputs, targets: loss(outputs, targets[1]),
    labels=train_loader,
    test_labels=val_loader,
    schedule=options.schedule,
) as node:
    trainer = Trainer(
        node=node,
        train_loader=train_loader,
        val_loader=val_loader,
        epochs=options.epochs,
        save=True,
    )
    trainer.train()
