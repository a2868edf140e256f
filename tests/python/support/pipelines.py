"""What the tests of the pipeline train: models with their batches and losses, by a cluster or by PyTorch itself."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn import functional as F

import ravnest
from ravnest import LocalCluster
from support import models
from support.eager import Eager
from support.passes import assert_same, flat_inputs

SEED = 11
PATIENCE_S = 60.0  # only a test that fails waits so long
ADAM = ("Adam", {"lr": 1e-2})
FUSED_ADAM = ("Adam", {"lr": 1e-2, "fused": True})
MOMENTUM = ("SGD", {"lr": 0.05, "momentum": 0.9})


@dataclass(frozen=True)
class Task:
    """A model with a loss and targets: `targets(samples)` gives other ones at every call."""

    case: models.Case
    criterion: Callable
    targets: Callable[[int], torch.Tensor]

    def batches(self, sizes: list[int]) -> list[tuple[list, torch.Tensor]]:
        """Of each batch the model's inputs, flat, and the targets."""
        result = []
        for number, samples in enumerate(sizes):
            inputs = flat_inputs(*self.case.example(samples, seed=100 + number))
            result.append((inputs, self.targets(samples)))
        return result


@dataclass
class Outcome:
    losses: list[float]  # by pass
    state: dict[str, torch.Tensor]
    statistics: list[dict]


def labels(classes: int, *sizes: int):
    return lambda samples: torch.randint(0, classes, (samples, *sizes))


def per_token(outputs, targets):
    return F.cross_entropy(outputs.flatten(0, 1), targets.flatten())


def bert_loss(outputs, targets):
    return per_token(outputs["hidden"], targets) + outputs["pooled"].square().mean()


def case_of(name: str) -> models.Case:
    return next(case for case in models.ALL if case.name == name)


DIGITS = Task(case_of("digits"), lambda y, t: F.mse_loss(y, F.one_hot(t, 10).float()), labels(10))
GPT = Task(case_of("gpt_tied"), per_token, labels(60, 12))
UNET = Task(case_of("unet"), F.cross_entropy, labels(2, 16, 16))
BERT = Task(case_of("bert"), bert_loss, labels(32, 12))


def open_cluster(path, task: Task, cuts: list, optimizer=ADAM, **options) -> LocalCluster:
    graph = ravnest.load(path)
    stages = graph.slice(cuts) if cuts else graph
    name, params = optimizer if isinstance(optimizer, tuple) else (optimizer, None)
    options = {"schedule": "sync", "seed": SEED} | options
    return LocalCluster(stages, options.pop("criterion", task.criterion), name, params, **options)


def trained(path, task: Task, cuts: list, batches: list, optimizer=ADAM, *, updates=None, **options) -> Outcome:
    """A cluster's outcome; `updates` says after which batches the optimizer steps, by default after each."""
    with open_cluster(path, task, cuts, optimizer, **options) as cluster:
        for number, (inputs, targets) in enumerate(batches):
            update = updates is None or updates[number]
            cluster.train(inputs, targets, update=update, timeout_s=PATIENCE_S)
        losses = [report["loss"] for report in cluster.drain(PATIENCE_S)]
        state = {name: tensor.clone() for name, tensor in cluster.state_dict().items()}
        return Outcome(losses, state, cluster.statistics())


def trained_by_torch(path, task: Task, batches: list, optimizer=ADAM, *, updates=None, microbatches=1) -> Outcome:
    name, params = optimizer
    make = getattr(torch.optim, name)
    eager = Eager(
        task.case,
        ravnest.load(path),
        task.criterion,
        lambda parameters: make(parameters, **params),
        seed=SEED,
        microbatches=microbatches,
    )
    losses = []
    for number, (inputs, targets) in enumerate(batches):
        losses += eager.train(inputs, targets, update=updates is None or updates[number])
    return Outcome(losses, eager.state(), [])


def assert_same_outcome(ours: Outcome, theirs: Outcome, what: str) -> None:
    """Losses, weights and buffers, to the last bit."""
    assert ours.losses == theirs.losses, f"{what}: losses"
    assert_same(ours.state, theirs.state, what)
