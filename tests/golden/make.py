"""Writes the archives of this folder, as torch.export.save does it: the format that our reader has to go on reading.

They are kept in the tree. Run this only to add one, or when torch's format changes and both shall be read:
    .venv/bin/python tests/golden/make.py [NAME ...]
"""

import pathlib
import sys

import torch
from torch import nn

FOLDER = pathlib.Path(__file__).parent


class Normalised(nn.Module):
    """Batch-norm statistics, a random operator and a dynamic batch, in training mode."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)
        self.norm = nn.BatchNorm1d(3)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(self.norm(self.fc(x)).relu())


class Tied(nn.Module):
    """One weight under two names, and a position buffer outside of the state dict."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(6, 4)
        self.head = nn.Linear(4, 6, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("shift", torch.arange(4, dtype=torch.float32), persistent=False)

    def forward(self, tokens):
        return self.head(self.embed(tokens) + self.shift)


class Masked(nn.Module):
    """Integers and a mask in, a dict out, and minus infinity as a constant."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(5, 4)
        self.fc = nn.Linear(4, 4)

    def forward(self, tokens, *, mask):
        scores = self.fc(self.embed(tokens)).masked_fill(mask.unsqueeze(-1), float("-inf"))
        return {"weights": scores.softmax(1), "length": tokens.shape[1]}


class Windowed(nn.Module):
    """A strided window on a larger storage, an empty buffer and a constant that export lifts out of the code."""

    def __init__(self):
        super().__init__()
        base = torch.arange(12, dtype=torch.float32).reshape(4, 3)
        self.window = nn.Parameter(base.t()[1:])
        self.register_buffer("nothing", torch.empty(0, 3))

    def forward(self, x):
        return x @ self.window + torch.tensor([1.0, 2.0, 3.0, 4.0]) + self.nothing.sum()


BATCH = torch.export.Dim("batch", min=2, max=64)
MODELS = {
    "normalised": (Normalised, (torch.ones(4, 4),), {}, ({0: BATCH},)),
    "tied": (Tied, (torch.zeros(3, 5, dtype=torch.long),), {}, ({0: BATCH},)),
    "masked": (
        Masked,
        (torch.zeros(3, 5, dtype=torch.long),),
        {"mask": torch.zeros(3, 5, dtype=torch.bool)},
        {"tokens": {0: BATCH}, "mask": {0: BATCH}},
    ),
    "windowed": (Windowed, (torch.ones(4, 2),), {}, ({0: BATCH},)),
}


def main(names):
    for name in names or MODELS:
        kind, args, kwargs, dynamic = MODELS[name]
        torch.manual_seed(0)
        program = torch.export.export(kind().train(), args, kwargs, dynamic_shapes=dynamic)
        for node in program.graph.nodes:
            node.meta.pop("stack_trace", None)  # paths of the machine that this ran on
        torch.export.save(program, FOLDER / f"{name}.pt2")


if __name__ == "__main__":
    main(sys.argv[1:])
