"""What users write, for one rank of the small network, whoever starts it: launched_rank.py ARCHIVE.

Leaves in rank_K.json who has started it, the losses of its batches to the bit, and a digest of the parameters.
"""

import hashlib
import json
import os
import sys
from pathlib import Path

import torch
from support.small_net import criterion, make_data
from torch.utils.data import DataLoader, TensorDataset

from ravnest import Node, Trainer, _core

x, y = make_data()
losses = []


def recorded_loss(outputs, item):
    loss = criterion(outputs, item)
    losses.append(loss.item().hex())
    return loss


train = DataLoader(TensorDataset(x[:140], y[:140]), batch_size=5)
val = DataLoader(TensorDataset(x[140:], y[140:]), batch_size=10)
with Node(
    strategy="ddp",
    model=sys.argv[1],
    optimizer=torch.optim.Adam,
    optimizer_params={"lr": 0.01},
    criterion=recorded_loss,
    labels=train,
    test_labels=val,
    threads=1,
    seed=42,
) as node:
    Trainer(node=node, train_loader=train, val_loader=val, epochs=2, save=True).train()
    values = b"".join(parameter.detach().numpy().tobytes() for parameter in node.parameters())
    told = {
        "launcher": _core.place_of(dict(os.environ)).launcher,
        "world": node.world,
        "losses": losses,
        "parameters": hashlib.sha256(values).hexdigest(),
    }
    Path(f"rank_{node.rank}.json").write_text(json.dumps(told))
