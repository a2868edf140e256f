"""Without waiting for updates: one pass at a time is PyTorch's own loop, and more of them keep few versions."""

import math

import pytest
from support.cuts import spread_cuts
from support.pipelines import ADAM, BERT, DIGITS, GPT, MOMENTUM, assert_same_outcome, trained, trained_by_torch

import ravnest

EVERY_SECOND = [number % 2 == 1 for number in range(16)]


@pytest.mark.parametrize("optimizer", [ADAM, MOMENTUM], ids=lambda each: each[0])
@pytest.mark.parametrize("task", [DIGITS, GPT, BERT], ids=lambda task: task.case.name)
def test_one_pass_at_a_time_is_the_modules_own_training(task, optimizer, archive):
    path = archive(task.case)
    batches = task.batches([8] * 16)
    ours = trained(path, task, spread_cuts(ravnest.load(path), 3), batches, optimizer, schedule="async", window=1)
    assert_same_outcome(ours, trained_by_torch(path, task, batches, optimizer), "async, window 1")
    assert all(each["versions_most"] == 1 and each["staleness_most"] == 0 for each in ours.statistics)


@pytest.mark.parametrize("microbatches", [1, 2])
@pytest.mark.parametrize("task", [DIGITS, BERT], ids=lambda task: task.case.name)
def test_gradients_of_several_batches_are_summed_before_an_update(task, microbatches, archive):
    """Not with tied weights: each stage's share of their gradient is summed over the batches first."""
    path = archive(task.case)
    batches = task.batches([8] * 16)
    options = {"updates": EVERY_SECOND, "microbatches": microbatches}
    cuts = spread_cuts(ravnest.load(path), 3)
    ours = trained(path, task, cuts, batches, MOMENTUM, schedule="async", window=1, **options)
    assert_same_outcome(ours, trained_by_torch(path, task, batches, MOMENTUM, **options), "every second batch")
    assert all(each["updates"] == 8 for each in ours.statistics)


@pytest.mark.parametrize("schedule", ["sync", "gpipe"])
def test_sums_over_batches_are_those_of_the_module_also_with_tied_weights(schedule, archive):
    path = archive(GPT.case)
    batches = GPT.batches([8] * 16)
    options = {"updates": EVERY_SECOND, "microbatches": 2}
    ours = trained(path, GPT, spread_cuts(ravnest.load(path), 3), batches, MOMENTUM, schedule=schedule, **options)
    assert_same_outcome(ours, trained_by_torch(path, GPT, batches, MOMENTUM, **options), schedule)


@pytest.mark.parametrize("task", [DIGITS, GPT], ids=lambda task: task.case.name)
def test_overlapping_passes_keep_few_versions(task, archive):
    """In the general case too, tied weights included: as many versions as passes in flight and the newest, and no
    more than two where a batch has as many parts as there are stages. That they learn is for benchmarks to show:
    parts of two samples are too noisy for a test."""
    path = archive(task.case)
    cuts = spread_cuts(ravnest.load(path), 4)
    batches = task.batches([8]) * 24
    for microbatches in (1, 4):
        outcome = trained(path, task, cuts, batches, ADAM, schedule="async", microbatches=microbatches)
        assert len(outcome.losses) == 24 * microbatches and all(map(math.isfinite, outcome.losses))
        for stage, each in enumerate(outcome.statistics):
            assert each["in_flight_most"] <= 4 - stage and each["staleness_most"] <= 3 - stage
            assert each["versions_most"] <= (each["in_flight_most"] + 1 if microbatches == 1 else 2), f"stage {stage}"
