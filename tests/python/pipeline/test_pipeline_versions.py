"""Every gradient of passes that overlap is exact: a backward differentiates at the weights that its forward used.

The proof replays a run whose stages update while passes are in flight: it finds, stage by stage, the version that gave
a pass its outputs, and takes the gradient there in PyTorch.
"""

import itertools
import time

import pytest
import torch
from support import models
from support.eager import KeyedRandom
from support.passes import assert_same
from support.pipelines import (
    PATIENCE_S,
    SEED,
    Task,
    open_cluster,
)
from torch import nn
from torch.func import functional_call
from torch.nn import functional as F

import ravnest


def three_parts() -> nn.Module:
    def part(n, m):
        return nn.Sequential(nn.Linear(n, m), nn.Tanh(), nn.Dropout(0.2))

    return nn.Sequential(part(6, 12), part(12, 12), part(12, 6), nn.Linear(6, 4))


THREE = Task(
    models.Case("three_parts", three_parts, models.rows()), F.cross_entropy, lambda n: torch.randint(0, 4, (n,))
)
CUTS = ["1", "2"]


class Recorder:
    """Plain SGD, given to every stage, that keeps each version of the weights and each gradient; and the outputs."""

    def __init__(self, passes):
        self.cluster, self.passes = None, passes
        self.versions = [[], [], []]  # by stage and number of updates: parameters
        self.gradients = [[], [], []]  # by stage and update
        self.outputs = []  # by pass

    def make(self, stage):
        def step(parameters, gradients):
            self.gradients[stage].append([gradient.clone() for gradient in gradients])
            with torch.no_grad():
                for parameter, gradient in zip(parameters, gradients, strict=True):
                    parameter -= 0.5 * gradient
            self.versions[stage].append([parameter.detach().clone() for parameter in parameters])

        return step

    def criterion(self, outputs, targets):
        """Waits until as many passes are in flight as can be: those after this one have their forwards behind them."""
        self.outputs.append(outputs.detach().clone())
        deadline = time.monotonic() + PATIENCE_S
        while self.cluster.statistics()[0]["forwards"] < min(len(self.outputs) + 2, self.passes):
            assert time.monotonic() < deadline, "the first stage does not go on"
            time.sleep(0.0005)
        return F.cross_entropy(outputs, targets)


def recorded_run(path, batches, microbatches) -> tuple[Recorder, list, list[float], list[dict]]:
    recorder = Recorder(len(batches) * microbatches)
    options = {"schedule": "async", "criterion": recorder.criterion, "microbatches": microbatches}
    with open_cluster(path, THREE, CUTS, recorder.make, **options) as cluster:
        names = [[name for name, _ in cluster.named_parameters(stage=stage)] for stage in range(3)]
        for stage in range(3):
            first = [parameter.detach().clone() for parameter in cluster.parameters(stage=stage)]
            recorder.versions[stage].append(first)
        recorder.cluster = cluster
        for inputs, targets in batches:
            cluster.train(inputs, targets, timeout_s=PATIENCE_S)
        losses = [report["loss"] for report in cluster.drain(PATIENCE_S)]
        return recorder, names, losses, cluster.statistics()


def replay(module, random, number, inputs, weights):
    random.begin(number)
    with random:
        return functional_call(module, weights, (inputs,))


def versions_of(recorder, names, module, random, number, inputs, newest) -> list[dict]:
    """The weights, by stage, with which the pass gave just these outputs: of all that there were lately, one choice."""
    found = []
    for choice in itertools.product(range(max(0, newest - 3), newest + 1), repeat=3):
        weights = {}
        for stage, version in enumerate(choice):
            weights |= dict(zip(names[stage], recorder.versions[stage][version], strict=True))
        with torch.no_grad():
            outputs = replay(module, random, number, inputs, weights)
        if torch.equal(outputs, recorder.outputs[number]):
            found.append((choice, weights))
    assert len(found) == 1, f"pass {number} was computed at {len(found)} choices of versions"
    return found[0]


@pytest.mark.parametrize("microbatches", [1, 4])
def test_every_gradient_is_exact_at_the_version_that_its_forward_used(microbatches, archive):
    path = archive(THREE.case)
    batches = THREE.batches([8] * (16 if microbatches == 1 else 6))
    recorder, names, losses, statistics = recorded_run(path, batches, microbatches)
    module = THREE.case.model()
    random = KeyedRandom(ravnest.load(path), SEED)
    stalest = [0, 0, 0]
    number = 0
    for update, (inputs, targets) in enumerate(batches):
        sums: dict[str, torch.Tensor] = {}
        for x, y in zip(inputs[0].tensor_split(microbatches), targets.tensor_split(microbatches), strict=True):
            choice, weights = versions_of(recorder, names, module, random, number, x, update)
            stalest = [max(most, update - version) for most, version in zip(stalest, choice, strict=True)]
            leaves = {name: tensor.clone().requires_grad_() for name, tensor in weights.items()}
            loss = F.cross_entropy(replay(module, random, number, x, leaves), y)
            assert loss.item() == losses[number]
            if microbatches > 1:
                loss = loss * (len(y) / len(targets))
            gradients = torch.autograd.grad(loss, list(leaves.values()))
            for name, gradient in zip(leaves, gradients, strict=True):
                sums[name] = sums[name] + gradient if name in sums else gradient
            number += 1
        for stage in range(3):
            ours = dict(zip(names[stage], recorder.gradients[stage][update], strict=True))
            assert_same(ours, {name: sums[name] for name in names[stage]}, f"update {update}, stage {stage}")
    assert stalest == [each["staleness_most"] for each in statistics]
    assert stalest[0] == (2 if microbatches == 1 else 1), "the run was to overlap"
    assert stalest[2] == 0, "the last stage answers at once"
    for each in statistics:
        assert each["in_flight_most"] <= 3
        assert each["versions_most"] <= (each["in_flight_most"] + 1 if microbatches == 1 else 2)
