"""What users write: kills_script.py LOOP SCHEDULE EPOCHS SECONDS_PER_BATCH. All nodes share a folder of checkpoints.

LOOP is "trainer", or "own" for a training loop of the user's. The last line of the root is the accuracy.
"""

import sys
import time

import torch
from support.own_loop import OwnLoop
from support.small_net import criterion, make_data
from torch.utils.data import DataLoader, TensorDataset

from ravnest import Node, Trainer, set_seed

loop, schedule, epochs, delay_s = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])


def slow(outputs, targets):
    time.sleep(delay_s)
    return criterion(outputs, targets)


set_seed(42)
x, y = make_data(2000)
train = DataLoader(TensorDataset(x[:1000], y[:1000]), batch_size=50, shuffle=True)
val = DataLoader(TensorDataset(x[1000:], y[1000:]), batch_size=250)

with Node(
    optimizer=torch.optim.Adam,
    optimizer_params={"lr": 0.005},
    criterion=slow,
    labels=train,
    test_labels=val,
    schedule=schedule,
    average="drain" if schedule == "sync" else "overlap",
    reduce_factor=2,
    progress=False,
) as node:
    trainer = (OwnLoop if loop == "own" else Trainer)(
        node=node,
        train_loader=train,
        val_loader=val,
        epochs=epochs,
        save=True,
        shard=True,
        checkpoint="checkpoints",
        checkpoint_every="3 updates",
        resume=True,
    )
    trainer.train()
    print("accuracy", trainer.evaluate(), flush=True)
