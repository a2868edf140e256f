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
from support.soaked import soaked

import ravnest

CUTS = ["bn_1", "dense_1"]


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


def offered_until_it_ends(cluster):
    inputs, targets = DIGITS.batches([8])[0]
    for _ in range(1000):
        cluster.train(inputs, targets, timeout_s=PATIENCE_S)


# Where Python is at work; what the worker refuses by itself is tested in C++ (src/ravnest/worker).
FAILURES = {
    "criterion": ({"criterion": raising}, r"stage_2 \(stage 2\) failed: .*this loss makes no sense"),
    "backward": (
        {"criterion": lambda y, _: RaisesInBackward.apply(y)},
        r"stage_2 \(stage 2\) failed: .*this gradient makes no sense",
    ),
    "cut off": (
        {"criterion": lambda y, _: y.sum().detach().requires_grad_()},
        "stage_2 .*the gradient of the criterion's loss does not reach the model's outputs",
    ),
    "no tensor": ({"criterion": lambda *_: 0.5}, r"stage_2 .*the criterion must give a tensor, not float"),
    "optimizer": ({"optimizer": failing_optimizer}, r"stage_1 \(stage 1\) failed: .*this step makes no sense"),
}


WAYS = [
    ("sync", "in one process"),
    ("async", "over sockets"),
    *soaked(("async", "in one process"), ("sync", "over sockets")),
]


@pytest.mark.parametrize("how", WAYS, ids=" ".join)
@pytest.mark.parametrize("what", FAILURES)
def test_a_failure_in_a_stage_ends_the_run_with_its_words(what, how, archive):
    schedule, way = how
    options, words = FAILURES[what]
    if way == "over sockets":
        options = options | {"addresses": free_addresses(3)}
    cluster = open_cluster(archive(DIGITS.case), DIGITS, CUTS, schedule=schedule, **options)
    for call in (lambda: offered_until_it_ends(cluster), lambda: cluster.drain(PATIENCE_S), cluster.close):
        with pytest.raises(ravnest.Error, match=f"(?s){words}") as caught:
            call()
        assert "frame #" not in str(caught.value), "a stack of C++ is nothing for users"


STOPPED = [(1, "busy"), (0, "idle"), *soaked((0, "busy"), (2, "busy"), (1, "idle"), (2, "idle"))]


@pytest.mark.parametrize("which", STOPPED, ids=str)
def test_a_stage_that_is_stopped_ends_the_run(which, archive):
    stage, state = which
    cluster = open_cluster(archive(DIGITS.case), DIGITS, CUTS, schedule="async")
    inputs, targets = DIGITS.batches([8])[0]
    for _ in range(4):
        cluster.train(inputs, targets)
    if state == "idle":
        cluster.drain(PATIENCE_S)
    cluster.stop(stage, "was asked to stop")
    for call in (lambda: offered_until_it_ends(cluster), lambda: cluster.drain(PATIENCE_S), cluster.close):
        with pytest.raises(ravnest.Error, match=rf"stage_{stage} \(stage {stage}\) was asked to stop"):
            call()


def test_inputs_that_do_not_fit_end_the_run(archive):
    cluster = open_cluster(archive(DIGITS.case), DIGITS, CUTS)
    cluster.train(torch.rand(8, 3, 8, 8), torch.zeros(8, dtype=torch.long))
    with pytest.raises(ravnest.Error, match=r'stage_0 \(stage 0\) failed: input "x" must be') as caught:
        cluster.drain(PATIENCE_S)
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
    slow = Slow()
    with (
        pytest.raises(KeyError, match="mine"),
        open_cluster(archive(DIGITS.case), DIGITS, CUTS, criterion=slow) as cluster,
    ):
        for batch in DIGITS.batches([8] * 4):
            cluster.train(*batch)
        assert slow.asked.wait(PATIENCE_S)
        raise KeyError("mine")
    with pytest.raises(ravnest.Error, match="was closed before its passes were done"):
        cluster.train(*DIGITS.batches([8])[0])


def test_a_cluster_that_is_dropped_ends(archive):
    """Also while its last stage runs Python, which the thread that drops it holds."""
    slow = Slow()
    cluster = open_cluster(archive(DIGITS.case), DIGITS, CUTS, criterion=slow)
    for batch in DIGITS.batches([8] * 2):
        cluster.train(*batch)
    assert slow.asked.wait(PATIENCE_S)
    ended = weakref.ref(cluster)
    del cluster
    gc.collect()
    assert ended() is None


def test_a_closed_cluster_shows_its_weights_and_takes_no_more(archive):
    batches = DIGITS.batches([8] * 2)
    with open_cluster(archive(DIGITS.case), DIGITS, CUTS) as cluster:
        for batch in batches:
            cluster.train(*batch)
    expected = trained(archive(DIGITS.case), DIGITS, CUTS, batches)
    assert_same(cluster.state_dict(), expected.state, "after closing")
    assert [report["loss"] for report in cluster.drain(PATIENCE_S)] == expected.losses
    with pytest.raises(ravnest.Error, match="closed"):
        cluster.train(*batches[0], timeout_s=PATIENCE_S)
    cluster.close()


def test_a_stage_that_does_not_exist_is_an_index_error(archive):
    with open_cluster(archive(DIGITS.case), DIGITS, CUTS) as cluster:
        for call in (lambda stage: cluster.parameters(stage=stage), cluster.stop):
            with pytest.raises(IndexError, match="there is no stage 3"):
                call(3)


def test_the_number_of_a_stage_is_not_taken_for_recurse(archive):
    with open_cluster(archive(DIGITS.case), DIGITS, CUTS) as cluster:
        with pytest.raises(TypeError, match="recurse must be True or False, not 2; stage= has the parameters of one"):
            cluster.parameters(2)
        assert len(list(cluster.parameters(False, stage=2))) > 0
        for call in (cluster.buffers, lambda number: cluster.named_buffers("", number)):
            with pytest.raises(TypeError, match=r"recurse must be True or False, not 2$"):
                call(2)
