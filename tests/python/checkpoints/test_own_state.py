"""What users bring of their own, across a checkpoint: optimizers, criteria with a state, loops."""

from pathlib import Path

import pytest
import torch
from support.nodes import Cluster, plan_net
from support.own_loop import OwnLoop
from support.small_net import criterion, loaders
from torch import nn

import ravnest
from ravnest import Trainer
from ravnest.training.checkpoints import resume_of

pytestmark = pytest.mark.slow


class Lion(torch.optim.Optimizer):
    """An optimizer that ravnest does not know, with a tensor, a number and a string for each parameter."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.99)):
        super().__init__(params, {"lr": lr, "betas": betas})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                if not state:
                    state.update(momentum=torch.zeros_like(parameter), calls=0, mode="warm")
                state["calls"] += 1
                one, two = group["betas"]
                mixed = state["momentum"] * one + parameter.grad * (1 - one)
                parameter -= group["lr"] * mixed.sign() * (2 if state["mode"] == "warm" else 1)
                state["momentum"].mul_(two).add_(parameter.grad, alpha=1 - two)
                if state["calls"] == 5:
                    state["mode"] = "hot"


class Margin(nn.Module):
    """A criterion that keeps something from batch to batch."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(()))

    def forward(self, outputs, targets):
        loss = criterion(outputs, targets)
        self.mean.mul_(0.9).add_(loss.detach(), alpha=0.1)
        return loss * (1 + self.mean)


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    plan_net(tmp_path, 3)
    monkeypatch.chdir(tmp_path)
    return Cluster(tmp_path)


def trained(cluster, epochs, trainer=Trainer, checkpoint=None, resume=None, **options) -> dict:
    """name -> each tensor after so many epochs."""
    train, _ = loaders()

    def script(make):
        with make(
            **{"optimizer": torch.optim.Adam, "criterion": criterion, "schedule": "sync"} | options, labels=train
        ) as node:
            trainer(node=node, train_loader=train, epochs=epochs, checkpoint=checkpoint, resume=resume).train()
            return dict(node.named_parameters()) | dict(node.named_buffers())

    return {name: tensor for stage in cluster.run(script).values() for name, tensor in stage.items()}


@pytest.mark.parametrize(
    "options",
    [{"optimizer": Lion}, {"criterion": Margin}, {"trainer": OwnLoop}, {"optimizer": "LAMB"}],
    ids=["optimizer", "criterion", "loop", "lamb"],
)
def test_what_is_the_user_s_own_goes_on_to_the_bit(cluster, options):
    def made():
        return {key: value() if key == "criterion" else value for key, value in options.items()}

    expected = trained(cluster, 4, **made())
    trained(cluster, 2, checkpoint="checkpoints", **made())
    again = trained(cluster, 4, checkpoint="checkpoints", resume=True, **made())
    for name, tensor in expected.items():
        assert torch.equal(again[name], tensor), name


@pytest.mark.parametrize("who", ["node_0", "node_1"])
def test_checkpoints_that_one_node_alone_makes_are_refused(cluster, who):
    train, _ = loaders()

    def script(make):
        with make(optimizer=torch.optim.Adam, criterion=criterion, labels=train) as node:
            Trainer(node=node, train_loader=train, checkpoint="c" if node.name == who else None).train()

    one, other = ("epoch", "none") if who == "node_0" else ("none", "epoch")
    with pytest.raises(ravnest.Error, match=f"checkpoint is {one} on node_0 and {other} on node_1"):
        cluster.run(script)


def test_a_loop_without_a_beginning_and_an_end_makes_no_checkpoints(cluster):
    train, _ = loaders()

    def script(make):
        with make(optimizer=torch.optim.Adam, criterion=criterion, labels=train) as node:
            Trainer(node=node, train_loader=train, checkpoint="c")
            node.forward_compute(next(iter(train))[0])

    _, errors = cluster.run_to_the_end(script)
    assert isinstance(errors["node_0"], ValueError) and "put this loop into the train() of a" in str(errors["node_0"])
    assert "put this loop into the train() of a" in str(errors["node_2"])


def test_the_variable_of_a_run_that_begins_anew_says_nothing(monkeypatch):
    for value in ("", "0", "false"):
        monkeypatch.setenv("RAVNEST_RESUME", value)
        Trainer(checkpoint=None)


def test_the_variable_is_named_where_it_wants_what_the_script_does_not(monkeypatch):
    monkeypatch.setenv("RAVNEST_RESUME", "true")
    with pytest.raises(ValueError, match="RAVNEST_RESUME needs checkpoint="):
        Trainer(checkpoint=None)
    Trainer(checkpoint=None, resume=False)


@pytest.mark.parametrize(
    ("said", "word"),
    [(True, "newest"), (False, ""), ("1", "newest"), ("0", ""), (1, "1"), (0, "0"), (Path("c/last"), "c/last")],
)
def test_numbers_are_updates_and_words_are_those_of_the_variable(said, word):
    assert resume_of(said) == word


class Secretive(Lion):
    """One that keeps what no file can hold."""

    def step(self, closure=None):
        super().step()
        for state in self.state.values():
            state["history"] = [print]


def test_an_optimizer_that_keeps_what_a_checkpoint_cannot_hold_is_refused_with_its_name(cluster):
    with pytest.raises(ravnest.Error, match=r"a checkpoint cannot hold what Secretive keeps as history, a list"):
        trained(cluster, 2, checkpoint="checkpoints", optimizer=Secretive)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"resume": True}, "resume= needs checkpoint="),
        ({"checkpoint": "c", "checkpoint_every": "sometimes"}, 'write "epoch", "500 updates" or "10 min"'),
        ({"checkpoint": "c", "checkpoint_every": "5 minuts"}, '"5 minuts" does not say how often'),
        ({"checkpoint": "c", "checkpoint_every": 5}, "checkpoint_every must be 'epoch', '500 updates' or '10 min'"),
        ({"checkpoint": "c", "checkpoint_best": "loss"}, "checkpoint_best must be 'val_accuracy' or None, not 'loss'"),
        ({"checkpoint": "c", "checkpoint_keep": -1}, "checkpoint_keep"),
        ({"checkpoint": "c", "resume": 1.5}, "resume must be True, 'best', the number of an update or a path, not 1.5"),
        ({"checkpoint": ""}, "checkpoint= is empty"),
    ],
)
def test_what_cannot_be_meant_is_refused(options, sentence):
    with pytest.raises(ValueError) as raised:
        Trainer(**options)
    assert sentence in str(raised.value)
