"""Optimizers from outside, as a function of parameters and gradients."""

import threading
import time

import pytest
import torch
from support import models
from support.cuts import spread_cuts
from support.models.branching import TiedLate
from support.nodes import wait_for
from support.pipelines import (
    ADAM,
    DIGITS,
    GPT,
    MOMENTUM,
    PATIENCE_S,
    Task,
    assert_same_outcome,
    labels,
    open_cluster,
    trained,
)
from torch.nn import functional as F

import ravnest


def on_the_parameters(name, options):
    """torch.optim on the stage's own parameters, as a user would give it."""

    def make(_stage):
        optimizers = []

        def step(parameters, gradients):
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = gradient
            if not optimizers and parameters:
                optimizers.append(getattr(torch.optim, name)(parameters, **options))
            for optimizer in optimizers:
                optimizer.step()

        return step

    return make


def on_copies(name, options):
    """torch.optim on copies that it keeps to itself."""

    def make(_stage):
        copies, optimizers = [], []

        def step(parameters, gradients):
            if not copies:
                copies.extend(parameter.detach().clone().requires_grad_() for parameter in parameters)
                optimizers.append(getattr(torch.optim, name)(copies, **options))
            for copy, gradient in zip(copies, gradients, strict=True):
                copy.grad = gradient
            optimizers[0].step()
            with torch.no_grad():
                for parameter, copy, gradient in zip(parameters, copies, gradients, strict=True):
                    if gradient is not None:
                        parameter.copy_(copy)

        return step

    return make


@pytest.mark.parametrize("make", [on_the_parameters, on_copies])
@pytest.mark.parametrize("task, optimizer", [(DIGITS, ADAM), (GPT, MOMENTUM)], ids=["digits", "gpt_tied"])
@pytest.mark.parametrize(
    "options", [{"schedule": "sync", "microbatches": 2}, {"schedule": "async", "window": 1}], ids=str
)
def test_an_optimizer_from_outside_is_as_good_as_ours(task, optimizer, make, options, archive):
    path = archive(task.case)
    cuts = spread_cuts(ravnest.load(path), 3)
    batches = task.batches([8] * 8)
    native = trained(path, task, cuts, batches, optimizer, **options)
    assert_same_outcome(trained(path, task, cuts, batches, make(*optimizer), **options), native, "from outside")


def test_draining_waits_for_the_updates_of_all_stages(archive):
    """The last stage answers before it updates, so the first may be through long before."""
    finished, go_on = [], threading.Event()

    def make(stage):
        def step(parameters, gradients):
            if stage == 2:
                assert go_on.wait(PATIENCE_S)
            with torch.no_grad():
                for parameter in parameters:
                    parameter.zero_()
            finished.append(stage)

        return step

    with open_cluster(archive(DIGITS.case), DIGITS, ["bn_1", "dense_1"], make) as cluster:
        try:
            cluster.train(*DIGITS.batches([8])[0])
            wait_for(lambda: sorted(finished) == [0, 1], "the first two stages did not update")
            with pytest.raises(ravnest.Error, match="the weights contain 0 updates of 1"):
                cluster.drain(0.1)
        finally:
            go_on.set()
        cluster.drain(PATIENCE_S)
        assert sorted(finished) == [0, 1, 2]
        assert [each["updates"] for each in cluster.statistics()] == [1, 1, 1]
        assert all(not parameter.any() for parameter in cluster.parameters(stage=2))


def test_the_first_stage_may_leave_while_others_still_update(archive):
    """It is through when its passes are; a step of seconds elsewhere, for which tied weights wait, is no loss of it."""
    task = Task(models.Case("tied_late", TiedLate, models.rows()), F.cross_entropy, labels(6))

    def make(stage):
        def step(parameters, gradients):
            if stage == 2:
                time.sleep(3.5)  # for longer than a driver lets a stage be gone without a word of why
            with torch.no_grad():
                for parameter, gradient in zip(parameters, gradients, strict=True):
                    if gradient is not None:
                        parameter -= gradient

        return step

    with open_cluster(archive(task.case), task, ["b", "c"], make, schedule="async") as cluster:
        cluster.train(*task.batches([6])[0])
    places = ((1, "b.weight"), (2, "c.weight"))
    stages = {stage: dict(cluster.named_parameters(stage=stage, remove_duplicate=False)) for stage, _ in places}
    kept, used = (stages[stage][name] for stage, name in places)
    assert torch.equal(kept, used)
