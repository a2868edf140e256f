"""The models that the tests and the benchmarks run: own small definitions of the usual architectures, and oddities.

A Case says how to build one and what to feed it. Sizes and depths are cut down for the tests; the classes take all.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from .inception import InceptionV3
from .oddities import (
    BufferWrites,
    Frozen,
    InPlace,
    ManyKinds,
    NoGrad,
    Pair,
    SpectralNorm,
    StochasticDepth,
    TiedTwice,
)
from .sequence import GPT, Bert, Lstm, Mixed
from .vision import Digits, ResNet50, UNet, ViT


@dataclass(frozen=True)
class Case:
    """A model and its inputs: `inputs(batch)` gives (args, kwargs), other numbers at every call."""

    name: str
    build: Callable[[], torch.nn.Module]
    inputs: Callable[[int], tuple[tuple, dict]]
    batch: int = 4

    def model(self, seed: int = 1) -> torch.nn.Module:
        torch.manual_seed(seed)
        return self.build()

    def example(self, batch: int | None = None, seed: int = 2) -> tuple[tuple, dict]:
        torch.manual_seed(seed)
        return self.inputs(batch or self.batch)


def images(size, channels=3):
    return lambda batch: ((torch.rand(batch, channels, size, size),), {})


def tokens(vocabulary, length):
    return lambda batch: ((torch.randint(0, vocabulary, (batch, length)),), {})


def rows(features=6):
    return lambda batch: ((torch.randn(batch, features),), {})


def bert_inputs(vocabulary, length):
    def inputs(batch):
        mask = (torch.arange(length) < torch.randint(2, length + 1, (batch, 1))).long()
        ids = torch.randint(1, vocabulary, (batch, length)) * mask
        return (ids,), {"attention_mask": mask, "token_type_ids": torch.randint(0, 2, (batch, length))}

    return inputs


def mixed_inputs(batch):
    return (torch.randint(0, 50, (batch, 7)), torch.randn(batch, 8)), {"mask": torch.rand(batch) > 0.5}


def pair_inputs(batch):
    options = {"scale": torch.rand(batch, 1), "shift": torch.rand(3)}
    return ((torch.randn(batch, 6), torch.randn(batch, 6)), options), {}


ARCHITECTURES = [
    Case("digits", Digits, images(8, 1), batch=8),
    Case("resnet50", lambda: ResNet50(width=8, classes=10, blocks=(1, 2, 1, 1)), images(64)),
    Case("inception_v3", lambda: InceptionV3(width=1 / 16, repeats=(1, 1, 1)), images(299)),
    Case("bert", lambda: Bert(100, 16, 32, depth=3, heads=4), bert_inputs(100, 12)),
    Case("gpt", lambda: GPT(60, 16, 32, depth=3, heads=4), tokens(60, 12)),
    Case("gpt_tied", lambda: GPT(60, 16, 32, depth=3, heads=4, tied=True), tokens(60, 12)),
    Case("vit_b32", lambda: ViT(image=96, dim=48, depth=4, heads=4, dropout=0.1), images(96)),
    Case("lstm", Lstm, tokens(100, 9)),
    Case("unet", lambda: UNet(width=4, depth=3), images(16)),
    Case("mixed", Mixed, mixed_inputs, batch=6),
]

# Of their full depth, for tests that take their time.
DEEP = [
    Case("deep_resnet50", lambda: ResNet50(width=8, classes=10), images(64)),
    Case("deep_inception_v3", lambda: InceptionV3(width=1 / 16), images(299)),
    Case("deep_unet", lambda: UNet(width=4), images(32)),
    Case("deep_gpt", lambda: GPT(60, 16, 16, depth=48, heads=4), tokens(60, 12)),
]

ODDITIES = [
    Case("in_place", InPlace, rows()),
    Case("buffer_writes", BufferWrites, rows()),
    Case("frozen", Frozen, rows()),
    Case("stochastic_depth", StochasticDepth, rows()),
    Case("many_kinds", ManyKinds, rows()),
    Case("no_grad", NoGrad, rows()),
    Case("spectral_norm", SpectralNorm, rows()),
    Case("pair", Pair, pair_inputs),
    Case("tied_twice", TiedTwice, rows()),
]

ALL = ARCHITECTURES + ODDITIES
