"""Data-parallel runs whose numbers are known: what ranks train, what one process makes of it, what PyTorch's DDP does.

Nothing here asks who the ranks are: a test computes the expected numbers for all of them.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed
from torch import nn
from torch.nn import functional as F
from torch.utils import _pytree as pytree
from torch.utils.data import DataLoader, TensorDataset

import ravnest
from support import models
from support.eager import Eager, KeyedRandom

SEED = 42
STEPS = 20


class TwoHeads(nn.Module):
    """Of its two results the criterion takes the first, so that the loss does not reach the other head."""

    def __init__(self):
        super().__init__()
        self.body, self.head, self.other = nn.Linear(6, 8), nn.Linear(8, 3), nn.Linear(8, 2)

    def forward(self, x):
        x = torch.relu(self.body(x))
        return self.head(x), self.other(x)


@dataclass(frozen=True)
class RankCase:
    """What every rank trains: some batches, of which the last is short, or there for some ranks only."""

    name: str
    model: models.Case
    optimizer: type[torch.optim.Optimizer] = torch.optim.SGD
    options: dict[str, Any] = field(default_factory=lambda: {"lr": 0.05, "momentum": 0.9})
    node: dict[str, Any] = field(default_factory=dict)  # more options of Node
    batch: int = 4  # of each rank
    steps: int = STEPS
    most_in_last: int = 1  # samples that a rank has in its last batch; rank 0 has them, the others one less

    @property
    def precision(self) -> str:
        return self.node.get("precision", "float32")

    @property
    def update_frequency(self) -> int:
        return self.node.get("update_frequency", 1)

    def samples(self, world: int) -> int:
        return (self.steps - 1) * self.batch * world + (self.most_in_last - 1) * world + 1

    def data(self, world: int) -> list[torch.Tensor]:
        """The inputs, then the targets."""
        inputs = pytree.tree_leaves(self.model.example(self.samples(world), seed=3))
        with torch.no_grad():
            args, kwargs = self.model.example(2)
            shape = first(self.model.model().eval()(*args, **kwargs)).shape[1:]
        return [*inputs, torch.randn(self.samples(world), *shape, generator=torch.Generator().manual_seed(4))]

    def loader(self, world: int) -> DataLoader:
        return DataLoader(TensorDataset(*self.data(world)), batch_size=self.batch)

    def batches(self, world: int) -> Iterator[list[list[torch.Tensor]]]:
        """For each step what each rank has; nothing for a rank without samples."""
        data = self.data(world)
        for step in range(self.steps):
            rows = [torch.arange(rank, self.samples(world), world) for rank in range(world)]
            rows = [own[step * self.batch :][: self.batch] for own in rows]
            yield [[tensor[own] for tensor in data] if len(own) else [] for own in rows]


def first(outputs):
    return next(leaf for leaf in pytree.tree_leaves(outputs) if isinstance(leaf, torch.Tensor))


def loss_of(outputs, targets) -> torch.Tensor:
    return F.mse_loss(first(outputs), targets)


def _of(name: str) -> models.Case:
    return next(case for case in models.ALL if case.name == name)


ADAMW = {"optimizer": torch.optim.AdamW, "options": {"lr": 1e-3, "weight_decay": 0.1}}
# By size these models are too small for more than one unit.
BLOCKS = {"units": "blocks"}
# Batch norm refuses a single sample, and with few of them and large steps makes chaos of differences by rounding.
DIGITS = {"options": {"lr": 1e-3, "momentum": 0.9}, "batch": 16, "most_in_last": 9}
CASES = [
    RankCase("digits", _of("digits"), **DIGITS),
    RankCase("transformer", _of("gpt"), **ADAMW, node=BLOCKS),
    RankCase("vit", _of("vit_b32"), **ADAMW, node=BLOCKS),
    RankCase("bert", _of("bert"), **ADAMW, node=BLOCKS),
    RankCase("tied", _of("gpt_tied"), node=BLOCKS),
    RankCase("tied_adamw", _of("gpt_tied"), **ADAMW),
    RankCase("lstm", models.Case("lstm_without_dropout", lambda: models.Lstm(dropout=0.0), models.tokens(100, 9))),
    RankCase("accumulating", _of("gpt"), node={**BLOCKS, "update_frequency": 2}),
    RankCase("clip_norm", _of("gpt"), node={"clip_norm": 0.01}),
    RankCase("clip_value", _of("gpt"), node={"clip_value": 0.001}),
    RankCase("frozen", _of("frozen"), **ADAMW),
    RankCase("unreached", models.Case("two_heads", TwoHeads, models.rows()), **ADAMW),
]

OF_CURVES = ("digits_bf16", "digits_fp16", "transformer_bf16", "transformer_fp16")
BF16, FP16 = {"precision": "bf16"}, {"precision": "fp16"}
IN_16_BITS = [
    RankCase("digits_bf16", _of("digits"), **DIGITS, node=BF16),
    RankCase("digits_fp16", _of("digits"), **DIGITS, node=FP16),
    RankCase("transformer_bf16", _of("gpt"), **ADAMW, node=BF16),
    RankCase("transformer_fp16", _of("gpt"), **ADAMW, node=FP16),
    RankCase("vit_bf16", _of("vit_b32"), **ADAMW, node=BF16),
    RankCase("tied_bf16", _of("gpt_tied"), node=BF16),
    RankCase("frozen_bf16", _of("frozen"), **ADAMW, node=BF16),
    RankCase("accumulating_bf16", _of("gpt"), node={**BF16, "update_frequency": 2}),
    RankCase("accumulating_fp16", _of("gpt"), node={**FP16, "update_frequency": 2}),
    RankCase("clip_norm_bf16", _of("gpt"), node={**BF16, "clip_norm": 0.01}),
    RankCase("clip_norm_fp16", _of("gpt"), node={**FP16, "clip_norm": 0.01}),
]

# Long enough to see whether 16 bits go astray. On data that are drawn losses fall to those of the mean target.
CURVES = [replace(case, name=f"{case.name}_curve", steps=200) for case in IN_16_BITS if case.name in OF_CURVES]


def clip(case: RankCase, parameters: list[torch.Tensor]) -> None:
    if "clip_norm" in case.node:
        nn.utils.clip_grad_norm_(parameters, case.node["clip_norm"])
    if "clip_value" in case.node:
        nn.utils.clip_grad_value_(parameters, case.node["clip_value"])


class OneProcess(Eager):
    """Plain PyTorch on the batches of all ranks, one after the other: what a data-parallel run has to come to.

    Each rank's gradients add up for themselves, as they do in the ranks, and then the ranks'.
    """

    def __init__(self, case: RankCase, graph: ravnest.Graph, world: int, device: str = "cpu"):
        def make_optimizer(parameters):
            # Else torch updates all of a GPU's at once, which rounds otherwise than one by one, as ranks do it.
            one_by_one = {"foreach": False} if device == "cuda" else {}
            return case.optimizer(parameters, **case.options, **one_by_one)

        super().__init__(case.model, graph, loss_of, make_optimizer, seed=SEED)
        self.module.to(device)
        self.case, self.world, self.device = case, world, device
        self.parameters = [p for p in self.module.parameters() if p.requires_grad]

    def run(self) -> list[float]:
        """Trains on all batches. The losses of the updates."""
        steps, losses = list(self.case.batches(self.world)), []
        every = self.case.update_frequency
        for begin in range(0, self.case.steps, every):
            losses.append(self._update(begin, steps[begin : begin + every]))
        return losses

    def _update(self, begin: int, steps: list[list[list[torch.Tensor]]]) -> float:
        sums: list[torch.Tensor | None] = [None] * len(self.parameters)
        loss = 0.0
        for rank in range(self.world):
            for step, batches in enumerate(steps):
                if not batches[rank]:
                    continue
                self.passes = (begin + step) * self.world + rank
                weight = len(batches[rank][-1]) / sum(len(batch[-1]) for batch in batches if batch)
                *inputs, targets = (tensor.to(self.device) for tensor in batches[rank])
                loss += weight * self._pass(inputs, targets, weight)
            for i, parameter in enumerate(self.parameters):
                if parameter.grad is not None:
                    own, before = parameter.grad, sums[i]
                    sums[i] = own if before is None else before + own
                parameter.grad = None
        for parameter, gradient in zip(self.parameters, sums, strict=True):
            parameter.grad = gradient
        if self._gradients_are_good():
            clip(self.case, self.parameters)
            self._end(update=True)
        self.optimizer.zero_grad()
        return loss

    def _gradients_are_good(self) -> bool:
        return True


TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)


class In16Bits(OneProcess):
    """The same by FSDP2's policy for mixed precision, written by hand.

    16-bit copies of the weights for each pass, losses and sums of gradients in float32, and for fp16 the loss scale of
    torch.amp.GradScaler.
    """

    def __init__(self, case: RankCase, graph: ravnest.Graph, world: int, device: str = "cpu"):
        super().__init__(case, graph, world, device)
        self.dtype = TYPES[case.precision]
        self.scale = 65536.0 if case.precision == "fp16" else 1.0
        norms = [part for part in self.module.modules() if isinstance(part, NORMS)]
        kept = {id(parameter) for norm in norms for parameter in norm.parameters()}
        self.cast = [(name, own) for name, own in self.module.named_parameters() if id(own) not in kept]

    def _pass(self, inputs, targets, weight) -> float:
        copies = {name: own.detach().to(self.dtype).requires_grad_(own.requires_grad) for name, own in self.cast}
        inputs = [each.to(self.dtype) if each.is_floating_point() else each for each in inputs]
        args, kwargs = pytree.tree_unflatten(inputs, self.spec)
        self.random.begin(self.passes)
        self.passes += 1
        with self.random:
            outputs = torch.func.functional_call(self.module, copies, args, kwargs)
        back = lambda each: each.float() if each.dtype == self.dtype else each  # noqa: E731
        loss = self.criterion(pytree.tree_map_only(torch.Tensor, back, outputs), targets)
        factor = weight * self.scale
        (loss if factor == 1 else loss * factor).backward()
        for name, own in self.cast:
            gradient = copies[name].grad
            if gradient is not None:
                own.grad = gradient.float() if own.grad is None else own.grad + gradient
        return loss.item()

    def _gradients_are_good(self) -> bool:
        gradients = [own.grad for own in self.parameters if own.grad is not None]
        good = all(bool(gradient.isfinite().all()) for gradient in gradients)
        for gradient in gradients:
            gradient.mul_(1 / self.scale)
        if not good:
            self.scale /= 2
        return good


def train_with_torch(case: RankCase, graph: ravnest.Graph, rank: int, world: int) -> list[float]:
    """By PyTorch's DistributedDataParallel, on the steps in which all ranks have as much: this rank's losses."""
    module = case.model.model()
    ddp = nn.parallel.DistributedDataParallel(module, find_unused_parameters=True)
    parameters = [p for p in module.parameters() if p.requires_grad]
    optimizer = case.optimizer(parameters, **case.options)
    random, losses = KeyedRandom(graph, SEED), []
    spec = pytree.tree_flatten(case.model.example())[1]
    for step, batches in enumerate(list(case.batches(world))[: case.steps - 1]):
        args, kwargs = pytree.tree_unflatten(batches[rank][:-1], spec)
        random.begin(step * world + rank)
        updates = (step + 1) % case.update_frequency == 0
        ddp.require_backward_grad_sync = updates
        with random:
            outputs = ddp(*args, **kwargs)
        loss = loss_of(outputs, batches[rank][-1])
        loss.backward()
        losses.append(loss.item())
        if updates:
            clip(case, parameters)
            optimizer.step()
            optimizer.zero_grad()
    return losses


def write_numbers(folder: Path, rank: int, numbers: dict[str, Any]) -> None:
    (folder / f"rank_{rank}.json").write_text(json.dumps(numbers))


def numbers_of(folder: Path, world: int) -> list[dict[str, Any]]:
    """By rank, what it has written."""
    return [json.loads((folder / f"rank_{rank}.json").read_text()) for rank in range(world)]


def losses_of_updates(folder: Path, case: RankCase, world: int) -> list[float]:
    """The mean of the ranks' losses, summed for each update but the last, whose batches are unequal."""
    ranks = [numbers["losses"][: case.steps - 1] for numbers in numbers_of(folder, world)]
    means = [sum(losses) / world for losses in zip(*ranks, strict=True)]
    every = case.update_frequency
    return [sum(means[begin : begin + every]) for begin in range(0, case.steps - every, every)]


def assert_parameters_of(one: OneProcess, state: dict[str, torch.Tensor]) -> None:
    """Within 1e-6. Not with Adam: it makes whole steps of what rounding leaves of a gradient that is zero, as that of
    the biases of attention's keys is."""
    if one.case.optimizer is not torch.optim.SGD:
        return
    for name, parameter in one.module.named_parameters():
        torch.testing.assert_close(state[name], parameter.detach().cpu(), rtol=1e-6, atol=1e-6)
