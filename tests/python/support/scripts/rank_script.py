"""What users write, for one rank, with one thing that goes wrong: rank_script.py WHAT [RANK], and that on that rank.

Prints "training" in the middle of a step, and "done" with a digest of the parameters. With several WHAT:PORT in the
place of WHAT it plays one after the other, each with its own MASTER_PORT, and prints what each has come to, as JSON.
With --cuda as the last word it computes on the GPU, and gradients go by NCCL.
"""

import hashlib
import json
import os
import sys
import time

import torch
from support.small_net import criterion, make_data, make_net
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import ravnest
from ravnest import Node, Trainer

WHOLE_MEMORY = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 4.00 GiB of which 1.50 GiB is free. "
    "Process 7 has 2.50 GiB memory in use."
)


ON_GPU = sys.argv[-1] == "--cuda"


class BranchesOnData(nn.Module):
    """No graph can be made of it."""

    def forward(self, x):
        return x if x.sum() > 0 else -x


# What a rank cannot be made with.
WRONG_OPTIONS = {
    "capture fails": {"model": BranchesOnData()},
    "option of pipelines": {"window": 4},
    "unknown option": {"optimiser": torch.optim.SGD},
}


class Data(TensorDataset):
    """Samples one by one, of which one cannot be had."""

    bad = None

    def __getitem__(self, i):
        if i == self.bad:
            raise OSError("the disk is gone")
        return super().__getitem__(i)


class LeavesItsLoopEarly(Trainer):
    """A loop of the user's own."""

    batches = 7

    def train(self):
        self.prelim_checks()
        for _, (x, _) in zip(range(self.batches), self.train_loader, strict=False):
            self.node.forward_compute(x)
        self.node.wait_for_backwards()


class Play:
    """One run of this rank; `what` goes wrong on rank `victim`."""

    def __init__(self, what: str, victim: int):
        self.what, self.victim, self.asked, self.own = what, victim, 0, False

    def is_here(self, what: str) -> bool:
        return self.what == what and self.own

    def criterion(self, outputs, item):
        self.asked += 1
        loss = criterion(outputs, item)
        if self.asked == 3:
            if self.is_here("criterion raises"):
                raise ValueError("no such class")
            if self.is_here("out of memory"):
                raise torch.OutOfMemoryError(WHOLE_MEMORY)
            if self.is_here("script exits"):
                sys.exit(3)
            if self.own and self.what in ("nan", "stop at nan"):
                return loss * float("nan")
        if self.what == "long":
            print("training", flush=True)
            time.sleep(0.02)
        if self.what == "long step" and self.asked == 3:
            print("training", flush=True)
            if self.own:
                time.sleep(600)
        return loss

    def run(self) -> None:
        ravnest.set_seed(42)
        x, y = make_data()
        samples = 1 if self.what == "few samples" else 140
        data = Data(x[:samples], y[:samples])
        train = DataLoader(data, batch_size=10)
        val = DataLoader(TensorDataset(x[140:], y[140:]), batch_size=25)
        options = {"optimizer": torch.optim.SGD, "optimizer_params": {"lr": 0.05}, "criterion": self.criterion}
        options |= {"example_args": (x[:20],), "labels": train, "test_labels": val, "progress": False}
        here = int(os.environ["RANK"]) == self.victim
        if here and self.what in ("other clip_norm", "other units"):
            options |= {"clip_norm": 0.5} if self.what == "other clip_norm" else {"units": "blocks"}
        if ON_GPU:
            options |= {"device": "cuda", "backend": "nccl", "trusted_network": True}
        if here and self.what in WRONG_OPTIONS:
            options |= WRONG_OPTIONS[self.what]
        with Node(strategy="ddp", **{"model": make_net(), **options}) as node:
            self.own = node.rank == self.victim
            data.bad = 17 if self.is_here("loader raises") else None
            if self.is_here("leaves early"):
                sys.exit(0)
            if self.is_here("returns early"):
                return
            loop = LeavesItsLoopEarly if self.what == "leaves its loop early" else Trainer
            trainer = loop(node=node, train_loader=train, val_loader=val, epochs=self.epochs, save=True)
            if self.is_here("leaves its loop early"):
                trainer.batches = 2
            trainer.stop_at_nan = self.what == "stop at nan"
            if self.is_here("evaluates"):
                trainer.evaluate()
            trainer.train()
            values = b"".join(parameter.detach().cpu().numpy().tobytes() for parameter in node.parameters())
            print("done", hashlib.sha256(values).hexdigest(), flush=True)

    @property
    def epochs(self) -> int:
        return 10000 if self.what == "long" else 3 if self.is_here("more epochs") else 2


def play_all(plays: list[str]) -> None:
    for each in plays:
        what, port = each.rsplit(":", 1)
        os.environ["MASTER_PORT"] = port
        began, ended = time.monotonic(), "went well"
        try:
            Play(what, victim=1).run()
        except BaseException as error:
            ended = f"{type(error).__name__}: {error}"
        print(json.dumps({"what": what, "ended": ended, "seconds": time.monotonic() - began}), flush=True)


if __name__ == "__main__":
    if ON_GPU:
        sys.argv.pop()
    if ":" in sys.argv[1]:
        play_all(sys.argv[1:])
    else:
        Play(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0).run()
