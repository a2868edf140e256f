"""A node that fails while it starts says so to all, in one way; one that runs already is not started twice."""

import contextlib
import socket
import threading
from collections.abc import Callable

import pytest
import torch
from support.nodes import wait_for
from support.small_net import criterion, loaders

import ravnest
from ravnest import Trainer


def port_of(cluster, name: str) -> int:
    return int(ravnest.Plan.read(cluster.folder / "node_data").nodes[int(name[-1])].address.rsplit(":", 1)[1])


def listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
        return True
    return False


def train(make, before: Callable = lambda node: None):
    """One epoch, once `before` was called with the node."""
    training, validation = loaders(shuffle=False)
    with make(optimizer=torch.optim.SGD, criterion=criterion, labels=training, test_labels=validation) as node:
        before(node)
        Trainer(node=node, train_loader=training, val_loader=validation, epochs=1).train()


def test_a_node_that_runs_is_not_started_twice_and_nobody_hears_of_it(cluster):
    refused = {}
    all_are_here = threading.Event()

    def noticed(outputs, targets):
        all_are_here.set()
        return criterion(outputs, targets)

    class Twice(Trainer):
        def train(self):
            for number, (batch, _) in enumerate(self.train_loader):
                self.node.forward_compute(batch)
                if number == 0 and self.node.is_root:
                    assert all_are_here.wait(60)
                    self.start_all_again()
            self.node.wait_for_backwards()

        def start_all_again(self):
            for name in cluster.names:
                with pytest.raises(ravnest.Error) as error:
                    ravnest.Node(name=name, node_data=cluster.folder / "node_data", threads=1)
                refused[name] = str(error.value)

    def play(make):
        training, validation = loaders(shuffle=False)
        with make(optimizer=torch.optim.SGD, criterion=noticed, labels=training, test_labels=validation) as node:
            Twice(node=node, train_loader=training, val_loader=validation).train()

    cluster.run(play)  # to a good end
    assert sorted(refused) == cluster.names
    for name, sentence in refused.items():
        assert sentence.startswith(f"{name} runs already: it listens at 127.0.0.1:{port_of(cluster, name)}"), sentence
        assert "Each node may run only once" in sentence
    assert len(cluster.losses()) == len(loaders()[0])


def test_those_who_come_later_hear_the_reason_too(cluster):
    port = port_of(cluster, "node_1")

    def options(name):
        if name == "node_1":
            return {"optimizer_params": {"lr": -1.0}}
        wait_for(lambda: listens(port), "node_1 does not listen")
        return {}

    _, errors = cluster.run_to_the_end(train, options)
    assert isinstance(errors["node_1"], ValueError)
    assert str(errors["node_0"]) == str(errors["node_2"])
    assert str(errors["node_0"]).startswith("node_1 (stage 1) failed: its script raised ")


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        ("device", "cudaa", "RuntimeError: Expected one of cpu, "),
        ("lr_scheduler_params", 5, "TypeError: lr_scheduler_params must be a dict of keywords"),
        ("optimizer_params", [0.1], "TypeError: optimizer_params must be a dict of keywords"),
    ],
)
def test_what_a_node_does_not_take_is_said_on_all(cluster, option, value, sentence):
    _, errors = cluster.run_to_the_end(train, lambda name: {option: value} if name == "node_1" else {})
    assert sorted(errors) == cluster.names
    assert str(errors["node_0"]) == str(errors["node_2"])
    assert str(errors["node_0"]).startswith(f"node_1 (stage 1) failed: its script raised {sentence}")


def test_a_script_that_raises_before_it_trains(cluster):
    def before(node):
        if node.name == "node_2":
            raise RuntimeError("the data are not here")

    _, errors = cluster.run_to_the_end(lambda make: train(make, before))
    assert isinstance(errors["node_2"], RuntimeError)
    assert str(errors["node_0"]) == str(errors["node_1"])
    begin = "node_2 (stage 2) failed: its script raised RuntimeError: the data are not here (test_node_starts.py, line "
    assert str(errors["node_0"]).startswith(begin)


def test_a_stage_of_ones_own_that_can_not_be_captured(cluster):
    class Branching(torch.nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    def own(name):
        return {"model": Branching()} if name == "node_1" else {}

    _, errors = cluster.run_to_the_end(train, own)
    assert sorted(errors) == cluster.names
    assert str(errors["node_0"]) == str(errors["node_2"])
    assert str(errors["node_0"]).startswith("node_1 (stage 1) failed: its script raised ")


def test_a_reason_is_cut_and_made_printable_before_anyone_reads_it(cluster):
    def before(node):
        if node.name == "node_0":
            raise RuntimeError("\x1b[2J" + "x" * 7_000_000 + " at the end")

    _, errors = cluster.run_to_the_end(lambda make: train(make, before))
    for name in ("node_1", "node_2"):
        assert len(str(errors[name])) < 20_000
        assert "\x1b" not in str(errors[name])
        assert " at the end (test_node_starts.py, line " in str(errors[name])
