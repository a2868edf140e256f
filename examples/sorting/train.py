"""Step 2, on every node, each in a terminal of its own and in any order: train.

python train.py --node node_0 [--epochs 4] [--small]
python train.py --node node_1
python train.py --node node_2
"""

import argparse

import torch
from sorting import make_loaders
from torch.nn import functional as F

from ravnest import Node, Trainer, set_seed

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--node", help="which node of the plan this is, such as node_0")
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--small", action="store_true", help="a smaller model and little data")
options = parser.parse_args()

set_seed(42)
train_loader, val_loader = make_loaders(options.small)

with Node(
    name=options.node,
    optimizer=torch.optim.NAdam,
    optimizer_params={"lr": 1e-3},
    lr_scheduler=torch.optim.lr_scheduler.StepLR,
    lr_scheduler_params={"step_size": 1, "gamma": 0.3},
    criterion=lambda outputs, targets: F.cross_entropy(outputs.flatten(0, 1), targets[1].flatten()),
    labels=train_loader,
    test_labels=val_loader,
) as node:
    # Parts of a batch fill the pipeline, and weights are at most one update old.
    trainer = Trainer(
        node=node,
        train_loader=train_loader,
        val_loader=val_loader,
        epochs=1 if options.small else options.epochs,
        microbatches=4,
        save=True,
    )
    trainer.train()
