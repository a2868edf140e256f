"""Today's models, as the transformers library has them: captured, cut in three and trained as PyTorch itself does.

The library is installed for the tests only (requirements-test.txt, by scripts/bootstrap --tests).
"""

import importlib.util
import warnings

import pytest
import torch
from support.cuts import spread_cuts
from support.passes import assert_same
from support.pipelines import ADAM, MOMENTUM, Task, trained, trained_by_torch
from support.soaked import soaked_but
from support.sum_order import summed_apart
from torch.utils import _pytree as pytree

import ravnest

if importlib.util.find_spec("transformers") is None:  # not skipped: nobody would see that nothing was tested
    pytest.fail("transformers is not here: scripts/bootstrap --tests installs it", pytrace=False)

from support.transformers_models import EQUAL, GROUPED

pytestmark = pytest.mark.slow

STEPS, SAMPLES = 10, 4


def loss(outputs, targets):
    """Of whatever the model gives: each of its numbers with a weight of its own."""
    floats = [value for value in pytree.tree_leaves(outputs) if value.is_floating_point()]
    return sum((value.flatten() * torch.cos(torch.arange(value.numel()) + targets[0])).mean() for value in floats)


def task_of(case):
    return Task(case, loss, lambda samples: torch.rand(samples))


def captured(case, folder):
    args, kwargs = case.example()
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        path = ravnest.capture(case.model(), args, kwargs, folder / "model.pt2")
    return path, [str(each.message) for each in raised if str(each.message).startswith("captured")]


def saved(case, outcome):
    """What a state dict has of an outcome: the captured model has no buffers that nothing reads."""
    return {name: outcome.state[name] for name in case.model().state_dict()}


@pytest.mark.parametrize("case", soaked_but({"whisper"}, EQUAL), ids=lambda case: case.name)
def test_trains_as_pytorch_does_to_the_bit(case, tmp_path):
    path, notes = captured(case, tmp_path)
    assert notes == []
    task = task_of(case)
    batches = task.batches([SAMPLES] * STEPS)
    cuts = spread_cuts(ravnest.load(path), 3)
    ours = trained(path, task, cuts, batches, ADAM)
    theirs = trained_by_torch(path, task, batches, ADAM)
    assert ours.losses == theirs.losses
    assert_same(saved(case, ours), saved(case, theirs), f"{case.name} cut at {cuts}")


@pytest.mark.parametrize("case", soaked_but({"llama"}, GROUPED), ids=lambda case: case.name)
def test_trains_as_pytorch_does_within_rounding(case, tmp_path):
    """By SGD: Adam would make a whole step of a gradient that is zero but for rounding."""
    path, notes = captured(case, tmp_path)
    assert len(notes) == 1
    assert "within rounding" in notes[0] and "takes another path when torch.export traces it" in notes[0]
    task = task_of(case)
    batches = task.batches([SAMPLES] * STEPS)
    ours = trained(path, task, spread_cuts(ravnest.load(path), 3), batches, MOMENTUM)
    theirs = trained_by_torch(path, task, batches, MOMENTUM)
    assert ours.losses == pytest.approx(theirs.losses, rel=1e-5, abs=1e-6)
    for name, value in saved(case, theirs).items():
        assert (ours.state[name] - value).abs().max() <= 1e-5 * value.abs().max(), name


def test_t5_is_equal_to_the_bit_but_where_a_stage_sums_apart(tmp_path):
    """Its embedding is tied three times, and every layer of the decoder reads the encoder's result twice."""
    case = next(case for case in EQUAL if case.name == "t5")
    path, _ = captured(case, tmp_path)
    task = task_of(case)
    batches = task.batches([SAMPLES] * 3)
    theirs = trained_by_torch(path, task, batches, MOMENTUM)
    for stages in (2, 4, 5):
        cuts = spread_cuts(ravnest.load(path), stages)
        ours = trained(path, task, cuts, batches, MOMENTUM)
        apart = summed_apart(path, cuts)
        assert bool(apart) == (stages > 2)
        if not apart:
            assert_same(saved(case, ours), saved(case, theirs), f"cut at {cuts}")
        for name, value in saved(case, theirs).items():
            assert (ours.state[name] - value).abs().max() <= 1e-5 * value.abs().max(), f"{name} in {stages} stages"


def test_rounding_is_that_of_the_type_that_the_model_computes_with(tmp_path):
    """With autocast around the capture sums are made in bfloat16, though weights and gradients are float32."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        _, notes = captured(GROUPED[0], tmp_path)
    assert len(notes) == 1 and "within rounding" in notes[0]
