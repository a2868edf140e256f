"""How a run ends: whatever goes wrong in a stage, everyone hears of it soon and in words."""

import gc
import threading
import time
import weakref

import pytest
import torch
from support.passes import assert_same
from support.pipelines import DIGITS, PATIENCE_S, open_cluster, trained
from support.ports import free_addresses
from torch.nn import functional as F

import ravnest

CUTS = ["bn_1", "dense_1"]
AT_ONCE_S = 10.0


def raising(_outputs, _targets):
    raise ArithmeticError("this loss makes no sense")


class RaisesInBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.sum()

    @staticmethod
    def backward(ctx, gradient):
        raise ArithmeticError("this gradient makes no sense")


def failing_optimizer(stage):
    def step(parameters, gradients):
        if stage == 1:
            raise ArithmeticError("this step makes no sense")

    return step


def offered_until_it_ends(cluster, targets=None):
    inputs, fitting = DIGITS.batches([8])[0]
    for _ in range(1000):
        cluster.train(inputs, fitting if targets is None else targets, timeout_s=AT_ONCE_S)


FAILURES = {
    "criterion": ({"criterion": raising}, None, r"stage_2 \(stage 2\) failed: .*this loss makes no sense"),
    "backward": (
        {"criterion": lambda y, _: RaisesInBackward.apply(y)},
        None,
        r"stage_2 \(stage 2\) failed: .*this gradient makes no sense",
    ),
    "no tensor": ({"criterion": lambda *_: 0.5}, None, r"stage_2 .*the criterion must give a tensor, not float"),
    "no loss": ({"criterion": lambda y, _: y}, None, r"stage_2 .*a loss of one element, not of the sizes \[8, 10\]"),
    "targets": (
        {"criterion": F.cross_entropy},
        torch.zeros(3, dtype=torch.long),
        r"stage_2 .*Expected input batch_size \(8\) to match target batch_size \(3\)",
    ),
    "optimizer": ({"optimizer": failing_optimizer}, None, r"stage_1 \(stage 1\) failed: .*this step makes no sense"),
}


@pytest.mark.parametrize("way", ["in one process", "over sockets"])
@pytest.mark.parametrize("schedule", ["sync", "async"])
@pytest.mark.parametrize("what", FAILURES)
def test_a_failure_in_a_stage_ends_the_run_with_its_words(what, schedule, way, archive):
    options, targets, words = FAILURES[what]
    if way == "over sockets":
        options = options | {"addresses": free_addresses(3)}
    cluster = open_cluster(archive(DIGITS.case), DIGITS, CUTS, schedule=schedule, **options)
    start = time.monotonic()
    for call in (lambda: offered_until_it_ends(cluster, targets), lambda: cluster.drain(AT_ONCE_S), cluster.close):
        with pytest.raises(ravnest.Error, match=f"(?s){words}") as caught:
            call()
        assert "frame #" not in str(caught.value), "a stack of C++ is nothing for users"
    assert time.monotonic() - start < AT_ONCE_S


@pytest.mark.parametrize("stage", [0, 1, 2])
@pytest.mark.parametrize("busy", [True, False], ids=["busy", "idle"])
def test_a_stage_that_is_stopped_ends_the_run(stage, busy, archive):
    cluster = open_cluster(archive(DIGITS.case), DIGITS, CUTS, schedule="async")
    inputs, targets = DIGITS.batches([8])[0]
    for _ in range(4):
        cluster.train(inputs, targets)
    if not busy:
        cluster.drain(PATIENCE_S)
    cluster.stop(stage, "was asked to stop")
    start = time.monotonic()
    for call in (lambda: offered_until_it_ends(cluster), lambda: cluster.drain(AT_ONCE_S), cluster.close):
        with pytest.raises(ravnest.Error, match=rf"stage_{stage} \(stage {stage}\) was asked to stop"):
            call()
    assert time.monotonic() - start < AT_ONCE_S


def test_inputs_that_do_not_fit_end_the_run(archive):
    cluster = open_cluster(archive(DIGITS.case), DIGITS, CUTS)
    cluster.train(torch.rand(8, 3, 8, 8), torch.zeros(8, dtype=torch.long))
    with pytest.raises(ravnest.Error, match=r'stage_0 \(stage 0\) failed: input "x" must be') as caught:
        cluster.drain(AT_ONCE_S)
    assert "frame #" not in str(caught.value)


# -- leaving


class Slow:
    """A criterion that says when it is being asked, and takes its time."""

    def __init__(self):
        self.asked = threading.Event()

    def __call__(self, outputs, targets):
        self.asked.set()
        time.sleep(0.2)
        return DIGITS.criterion(outputs, targets)


def test_leaving_by_an_exception_ends_what_runs(archive):
    slow, start = Slow(), time.monotonic()
    with (
        pytest.raises(KeyError, match="mine"),
        open_cluster(archive(DIGITS.case), DIGITS, CUTS, criterion=slow) as cluster,
    ):
        for batch in DIGITS.batches([8] * 4):
            cluster.train(*batch)
        assert slow.asked.wait(PATIENCE_S)
        raise KeyError("mine")
    assert time.monotonic() - start < AT_ONCE_S
    with pytest.raises(ravnest.Error, match="was closed before its passes were done"):
        cluster.train(*DIGITS.batches([8])[0])


def test_a_cluster_that_is_dropped_ends(archive):
    """Also while its last stage runs Python, which the thread that drops it holds."""
    slow = Slow()
    cluster = open_cluster(archive(DIGITS.case), DIGITS, CUTS, criterion=slow)
    for batch in DIGITS.batches([8] * 2):
        cluster.train(*batch)
    assert slow.asked.wait(PATIENCE_S)
    ended, start = weakref.ref(cluster), time.monotonic()
    del cluster
    gc.collect()
    assert ended() is None and time.monotonic() - start < AT_ONCE_S


def test_a_closed_cluster_shows_its_weights_and_takes_no_more(archive):
    batches = DIGITS.batches([8] * 2)
    with open_cluster(archive(DIGITS.case), DIGITS, CUTS) as cluster:
        for batch in batches:
            cluster.train(*batch)
    expected = trained(archive(DIGITS.case), DIGITS, CUTS, batches)
    assert_same(cluster.state_dict(), expected.state, "after closing")
    assert [report["loss"] for report in cluster.drain(AT_ONCE_S)] == expected.losses
    with pytest.raises(ravnest.Error, match="closed"):
        cluster.train(*batches[0], timeout_s=AT_ONCE_S)
    cluster.close()


def test_a_stage_that_does_not_exist_is_an_index_error(archive):
    with open_cluster(archive(DIGITS.case), DIGITS, CUTS) as cluster:
        for call in (cluster.parameters, cluster.stop):
            with pytest.raises(IndexError, match="there is no stage 3"):
                call(3)
