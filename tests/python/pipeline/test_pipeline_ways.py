"""Other ways to run the same training give the same bits: schedules, sockets, recomputing. Compression nearly does."""

import pytest
import torch
from support import models
from support.cuts import spread_cuts
from support.pipelines import (
    ADAM,
    BERT,
    DIGITS,
    GPT,
    MOMENTUM,
    UNET,
    Task,
    assert_same_outcome,
    case_of,
    labels,
    trained,
)
from support.ports import free_addresses
from torch.nn import functional as F

import ravnest

TASKS = pytest.mark.parametrize("task", [DIGITS, GPT, UNET, BERT], ids=lambda task: task.case.name)
# Noise on the input, a choice per sample, a power iteration that writes buffers: what a second run could get wrong.
ODD = [
    Task(case_of(name), lambda y, t: F.cross_entropy(y if torch.is_tensor(y) else y[0], t), labels(3))
    for name in ("stochastic_depth", "buffer_writes", "spectral_norm", "no_grad")
]


def cut_in(task, archive, stages):
    path = archive(task.case)
    return path, spread_cuts(ravnest.load(path), stages)


@TASKS
def test_gpipe_is_sync_in_another_order(task, archive):
    path, cuts = cut_in(task, archive, 3)
    batches = task.batches([8] * 4)
    one, other = (trained(path, task, cuts, batches, microbatches=4, schedule=way) for way in ("sync", "gpipe"))
    assert_same_outcome(other, one, "gpipe")
    assert other.statistics[0]["in_flight_most"] == 4 and one.statistics[0]["in_flight_most"] <= 3


@pytest.mark.parametrize("tls", [False, True], ids=["tcp", "tls"])
@TASKS
def test_over_sockets_the_numbers_are_the_same(task, tls, archive):
    path, cuts = cut_in(task, archive, 3)
    batches = task.batches([8] * 3)
    within = trained(path, task, cuts, batches, microbatches=2)
    across = trained(path, task, cuts, batches, microbatches=2, addresses=free_addresses(3), tls=tls)
    assert_same_outcome(across, within, "over sockets")


@pytest.mark.parametrize("case, cut", [("bert", 23), ("gpt_tied", 11), ("gpt_tied", 12)])
def test_a_transposed_tensor_crosses_sockets_as_it_lies_in_memory(case, cut, archive):
    """Kernels go by the strides: in another order of dimensions a product would be rounded in another way."""
    task = {"bert": BERT, "gpt_tied": GPT}[case]
    path = archive(task.case)
    before, after = (ravnest.load(path).operators()[position]["target"] for position in (cut - 1, cut))
    assert any(kind in before + after for kind in ("transpose", "permute", "unbind")), "the case has changed"
    batches = task.batches([8] * 2)
    whole = trained(path, task, [], batches, MOMENTUM)
    across = trained(path, task, [cut], batches, MOMENTUM, addresses=free_addresses(2))
    assert_same_outcome(across, whole, f"cut at {cut}")


@pytest.mark.parametrize(
    "options", [{"schedule": "sync", "microbatches": 2}, {"schedule": "async", "window": 1}], ids=str
)
@pytest.mark.parametrize("task", [DIGITS, GPT, UNET, BERT, *ODD], ids=lambda task: task.case.name)
def test_what_is_recomputed_is_the_same(task, options, archive):
    """Dropout draws the same numbers, and statistics of batches are counted once."""
    path = archive(task.case)
    stages = 3 if task.case in [*models.ARCHITECTURES, UNET.case] else 2
    cuts = spread_cuts(ravnest.load(path), stages)
    batches = task.batches([8] * 3)
    kept, recomputed = (trained(path, task, cuts, batches, recompute=again, **options) for again in (False, True))
    assert_same_outcome(recomputed, kept, "recomputed")


@pytest.mark.parametrize("compression, tolerance", [("fp16", 2e-3), ("bf16", 2e-2), ("int8", 5e-2)])
@pytest.mark.parametrize("schedule", ["sync", "async"])
def test_compressed_it_trains_nearly_the_same(compression, tolerance, schedule, archive):
    """The first losses stay within a share of the exact ones, and the last are far below the first."""
    path, cuts = cut_in(GPT, archive, 3)
    batches = GPT.batches([8]) * 30
    options = {"schedule": schedule, "window": 1 if schedule == "async" else 0}
    exact = trained(path, GPT, cuts, batches, ADAM, **options)
    lossy = trained(path, GPT, cuts, batches, ADAM, compression=compression, **options)
    assert lossy.losses != exact.losses, "nothing was compressed"
    assert lossy.losses[:4] == pytest.approx(exact.losses[:4], rel=tolerance)
    assert lossy.losses[-1] < lossy.losses[0] / 2
