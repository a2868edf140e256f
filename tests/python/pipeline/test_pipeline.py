"""A pipeline that waits for its updates is one process, to the last bit: PyTorch's own, and whatever the cut.

One limit is known and kept out; `sum_order.summed_apart` finds it. It is a result that several later stages use, or a
tied weight that several stages after its first one use, one of them (not the last) more than once. The gradients are
summed within that stage first, so the sum is rounded in another order than in one process.
"""

import pytest
from support.cuts import legal_cuts, spread_cuts
from support.pipelines import (
    ADAM,
    BERT,
    DIGITS,
    FUSED_ADAM,
    GPT,
    MOMENTUM,
    UNET,
    assert_same_outcome,
    trained,
    trained_by_torch,
)

import ravnest

TASKS = [DIGITS, GPT, UNET, BERT]
# Fifty steps, or as many passes in fewer steps of four: the models are small, and the runs many.
STEPS = {1: 50, 4: 13}
CHOICES = [(DIGITS, ADAM), (DIGITS, MOMENTUM), (GPT, FUSED_ADAM), (UNET, MOMENTUM), (BERT, ADAM)]
# Not both before and within one attention, whose input has four uses: see above.
BERT_IN_SIX = ["layers.0.out", "layers.1", "layers.1.up", "layers.2", "pool"]


@pytest.fixture(scope="module")
def by_torch(archive):
    """The outcome in PyTorch, each worked out once."""
    known = {}

    def outcome(task, optimizer, microbatches):
        key = (task.case.name, str(optimizer), microbatches)
        if key not in known:
            batches = task.batches([8] * STEPS[microbatches])
            known[key] = trained_by_torch(archive(task.case), task, batches, optimizer, microbatches=microbatches)
        return known[key]

    return outcome


@pytest.mark.parametrize("stages", [2, 3, 4, 6])
@pytest.mark.parametrize("microbatches", [1, 4])
@pytest.mark.parametrize(
    "task, optimizer", CHOICES, ids=lambda each: each[0] if type(each) is tuple else each.case.name
)
def test_the_pipeline_trains_as_the_module_does(task, optimizer, microbatches, stages, archive, by_torch):
    path = archive(task.case)
    batches = task.batches([8] * STEPS[microbatches])
    cuts = BERT_IN_SIX if task is BERT and stages == 6 else spread_cuts(ravnest.load(path), stages)
    ours = trained(path, task, cuts, batches, optimizer, microbatches=microbatches)
    assert_same_outcome(ours, by_torch(task, optimizer, microbatches), f"{task.case.name} cut at {cuts}")
    assert [each["updates"] for each in ours.statistics] == [len(batches)] * stages
    assert all(each["staleness_most"] == 0 for each in ours.statistics)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.case.name)
def test_wherever_it_is_cut_the_numbers_are_the_same(task, archive):
    """Every third legal cut: between a transposition and its product, in the middle of long skips, anywhere."""
    path = archive(task.case)
    batches = task.batches([4] * 2)
    whole = trained(path, task, [], batches, MOMENTUM, microbatches=2)
    for cut in legal_cuts(ravnest.load(path))[::3]:
        outcome = trained(path, task, [cut], batches, MOMENTUM, microbatches=2)
        assert_same_outcome(outcome, whole, f"{task.case.name} cut at {cut}")
