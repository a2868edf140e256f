"""What users write, for one rank, with one thing that goes wrong: rank_script.py WHAT [RANK], and that on that rank.

Prints "training" in the middle of a step, "validating" in a validation, and "done" with a digest of the parameters.
"""

import hashlib
import sys
import time

import torch
from support.small_net import criterion, make_data, make_net
from torch.utils.data import DataLoader, TensorDataset

import ravnest
from ravnest import Node, Trainer

what, victim = sys.argv[1] if len(sys.argv) > 1 else "nothing", int(sys.argv[2]) if len(sys.argv) > 2 else 0
ravnest.set_seed(42)
x, y = make_data()
asked = {"loader": 0, "criterion": 0}
rank = -1


class Data(TensorDataset):
    """Samples one by one, so that they can go wrong."""

    def __getitem__(self, i):
        asked["loader"] += 1
        if what == "loader raises" and rank == victim and asked["loader"] == 50:
            raise OSError("the disk is gone")
        return super().__getitem__(i)


class Waiting(TensorDataset):
    def __getitem__(self, i):
        print("validating", flush=True)
        time.sleep(600)


def counting_criterion(outputs, item):
    asked["criterion"] += 1
    loss = criterion(outputs, item)
    if asked["criterion"] == 3 and rank == victim:
        if what == "criterion raises":
            raise ValueError("no such class")
        if what == "script exits":
            sys.exit(3)
        if what in ("nan", "stop at nan"):
            return loss * float("nan")
    if what == "long":
        print("training", flush=True)
        time.sleep(0.02)
    if what == "long step" and asked["criterion"] == 3:
        print("training", flush=True)
        if rank == victim:
            time.sleep(600)
    return loss


samples = 1 if what == "few samples" else 140
train = DataLoader(Data(x[:samples], y[:samples]), batch_size=10)
val = DataLoader((Waiting if what == "validation" else TensorDataset)(x[140:], y[140:]), batch_size=25)
options = {"strategy": "ddp", "example_args": (x[:20],), "optimizer": torch.optim.SGD}
options |= {"optimizer_params": {"lr": 0.05}, "criterion": counting_criterion, "labels": train, "test_labels": val}

with Node(model=make_net(), **options) as node:
    rank = node.rank
    if what == "leaves early" and rank == victim:
        sys.exit(0)
    if what == "returns early" and rank == victim:
        node.stop()
        sys.exit(0)
    epochs = {"long": 10000, "fewer epochs": 2 if rank == victim else 1}.get(what, 2)
    trainer = Trainer(node=node, train_loader=train, val_loader=val, epochs=epochs, save=True)
    if what == "stop at nan":
        trainer.stop_at_nan = True
    if what == "evaluates" and rank == victim:
        trainer.evaluate()
    trainer.train()
    values = b"".join(parameter.detach().numpy().tobytes() for parameter in node.parameters())
    print("done", hashlib.sha256(values).hexdigest(), flush=True)
