"""What users write: node_script.py EPOCHS [SECONDS_PER_BATCH]. Says when it trains, and how it ended."""

import sys

import torch
from support.small_net import criterion, loaders, slow_criterion

from ravnest import Node, Trainer, set_seed

epochs, delay_s = int(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 0.0

set_seed(42)
train, val = loaders()


with Node(
    optimizer=torch.optim.Adam,
    criterion=slow_criterion(delay_s) if delay_s else criterion,
    labels=train,
    test_labels=val,
) as node:
    trainer = Trainer(node=node, train_loader=train, val_loader=val, epochs=epochs, save=True)
    trainer.train()
    print("accuracy", trainer.evaluate(), flush=True)
