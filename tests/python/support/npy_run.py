"""A run of the small network from files: data as .npy, settings as train.toml, and the same for Python's nodes."""

from pathlib import Path

import numpy
import torch
from torch.utils.data import DataLoader, TensorDataset

from ravnest import Trainer
from support.small_net import criterion, make_data

BATCH = 25  # the last batches of both data sets are short: 140 samples to train on, 60 to validate with

CONFIG = """
epochs = {epochs}
batch_size = {batch}
seed = {seed}
loss = "cross_entropy"
save = true
{schedule}
{more}

[optimizer]
name = "{optimizer}"
lr = {lr}

[data]
format = "npy"
inputs = "x.npy"
targets = "y.npy"
rows = [0, 140]
{shard}

[validation]
format = "npy"
inputs = "x.npy"
targets = "y.npy"
rows = [140, 200]
"""


def write_files(
    folder: Path,
    epochs=3,
    schedule="sync",
    optimizer="Adam",
    lr=0.01,
    more="",
    tables="",
    shard="",
    batch=BATCH,
    seed=42,
) -> None:
    """x.npy, y.npy and train.toml; with schedule=None, one for whoever trains a whole model."""
    x, y = make_data()
    numpy.save(folder / "x.npy", x.numpy())
    numpy.save(folder / "y.npy", y.numpy())
    schedule = f'schedule = "{schedule}"' if schedule else ""
    config = CONFIG.format(
        epochs=epochs, schedule=schedule, batch=batch, seed=seed, optimizer=optimizer, lr=lr, more=more, shard=shard
    )
    (folder / "train.toml").write_text(config + tables)


def script(epochs=3, trainer_options=None, **options):
    """What write_files says, as users write it in Python."""

    def play(make):
        x, y = make_data()
        train = DataLoader(TensorDataset(x[:140], y[:140]), batch_size=BATCH)
        val = DataLoader(TensorDataset(x[140:], y[140:]), batch_size=BATCH)
        options.setdefault("optimizer", torch.optim.Adam)
        options.setdefault("optimizer_params", {"lr": 0.01})
        with make(
            **{"criterion": criterion, "labels": train, "test_labels": val, "schedule": "sync", **options}
        ) as node:
            Trainer(
                node=node, train_loader=train, val_loader=val, epochs=epochs, save=True, **(trainer_options or {})
            ).train()

    return play
