"""Step 2, on every node, each in a terminal of its own and in any order: train.

python train.py --node node_0 --data FOLDER [--epochs 30] [--small]
python train.py --node node_1 --data FOLDER
python train.py --node node_2 --data FOLDER
"""

import argparse
import sys
from pathlib import Path

import torch
from torch.nn import functional as F

from ravnest import Node, Trainer, set_seed

sys.path.append(str(Path(__file__).parents[1]))
from cifar10 import make_loaders

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--node", help="which node of the plan this is, such as node_0")
parser.add_argument("--data", help="the folder with CIFAR-10's batches; the root and the leaf need it")
parser.add_argument("--rows", type=int, help="train on so many images only")
parser.add_argument("--batch", type=int, default=128)
parser.add_argument("--epochs", type=int, default=30)
parser.add_argument("--device", default="cpu", help="such as cuda:0")
parser.add_argument("--small", action="store_true", help="four small batches")
options = parser.parse_args()
if options.small:
    options.rows, options.batch, options.epochs = 64, 16, 1

set_seed(42)
train_loader, val_loader = make_loaders(options.data, options.batch, options.rows)

with Node(
    name=options.node,
    optimizer=torch.optim.SGD,
    optimizer_params={"lr": 0.05, "momentum": 0.9, "weight_decay": 5e-4},
    lr_scheduler=torch.optim.lr_scheduler.CosineAnnealingLR,
    lr_scheduler_params={"T_max": options.epochs},
    criterion=lambda outputs, targets: F.cross_entropy(outputs, targets[1]),
    labels=train_loader,
    test_labels=val_loader,
    device=options.device,
) as node:
    trainer = Trainer(node=node, train_loader=train_loader, val_loader=val_loader, epochs=options.epochs, save=True)
    trainer.train()
