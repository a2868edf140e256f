"""What goes wrong on one node is said, in the same words, on every node."""

import re
import socket

import pytest
import torch
from support.nodes import plan
from support.small_net import criterion, loaders, make_net
from torch import nn

import ravnest
from ravnest import Trainer


def play_with(trainer=Trainer, call="train", **options):
    def play(make):
        train, val = loaders(shuffle=options.pop("shuffle", False))
        own = {"optimizer": torch.optim.SGD, "criterion": criterion, "labels": train, "test_labels": val, **options}
        with make(**own) as node:
            getattr(trainer(node=node, train_loader=train, val_loader=val, epochs=2, save=True), call)()

    return play


def reasons(cluster, script, options_of=lambda name: {}) -> str:
    """The one reason that all nodes have given."""
    _, errors = cluster.run_to_the_end(script, options_of)
    assert sorted(errors) == cluster.names
    others = {str(error) for name, error in errors.items() if isinstance(error, ravnest.Error)}
    assert len(others) == 1, errors
    return others.pop()


def test_a_loss_of_torch_itself_as_criterion_is_told_what_its_targets_are(cluster):
    _, errors = cluster.run_to_the_end(play_with(criterion=torch.nn.CrossEntropyLoss()))
    (reason,) = {str(errors[name]) for name in cluster.names}
    assert "the criterion raised TypeError" in reason
    assert reason.endswith("the whole item of `labels` as its targets, here a list of 2: take the labels out of it")


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda outputs, targets: outputs - targets, True),
        (lambda outputs, targets: targets.long(), True),
        (lambda outputs, targets: targets["labels"], True),
        (lambda outputs, targets: nn.functional.ctc_loss(outputs, targets, [1], [1]), True),
        (lambda outputs, targets: outputs.sun(), False),
        (lambda outputs, targets: torch.mean(outputs, dims=(1,)), False),
    ],
)
def test_only_who_took_the_targets_for_a_tensor_is_told_to_take_the_labels_out(alone, wrong, told):
    _, errors = alone.run_to_the_end(play_with(criterion=wrong))
    (error,) = errors.values()
    assert "the criterion raised" in str(error)
    assert ("take the labels out of it" in str(error)) == told, error


def test_the_criterions_exception_is_one_line_on_every_node(cluster):
    def broken(outputs, targets):
        raise ValueError("no such class")

    _, errors = cluster.run_to_the_end(play_with(criterion=broken))
    (reason,) = {str(errors[name]) for name in cluster.names}
    begin = "node_2 (stage 2) failed: the criterion raised ValueError: no such class (test_node_failures.py, line "
    assert reason.startswith(begin) and reason.endswith(", in broken)") and "\n" not in reason
    assert str(errors["node_2"].__cause__) == "no such class", "its traceback is for the node where it happened"
    assert errors["node_0"].__cause__ is None


def test_a_criterion_that_gives_no_tensor(cluster):
    assert "the criterion must give a tensor, not int" in reasons(cluster, play_with(criterion=lambda *_: 3))


def test_a_leaf_without_criterion_or_labels(cluster):
    assert "no criterion" in reasons(cluster, play_with(criterion=None))
    assert "no labels" in reasons(cluster, play_with(labels=None))


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        ("update_frequency", 0, "update_frequency must be at least 1, not 0"),
        ("microbatches", -2, "microbatches must be at least 1, not -2"),
        ("window", -1, "window must be at least 0, not -1"),
        ("reduce_factor", 0, "reduce_factor must be at least 1, not 0"),
        ("reduce_factor", 0.5, "reduce_factor must be a whole number, not 0.5"),
        ("clip_norm", -1.0, "clip_norm must be more than 0, not -1.0"),
        ("clip_value", float("nan"), "clip_value must be more than 0, not nan"),
        ("outer_momentum", 1, "outer_momentum must be at least 0 and less than 1, not 1"),
        ("threads", 0, "threads must be at least 1, not 0"),
    ],
)
def test_a_number_that_can_not_be_meant_is_refused(alone, option, value, sentence):
    with pytest.raises((ValueError, TypeError), match=f"^{re.escape(sentence)}$"):
        alone.run(play_with(**{option: value}))


@pytest.mark.parametrize(("option", "least"), [("epochs", 0), ("val_freq", 1), ("batch_size", 1), ("step_size", 1)])
def test_a_trainers_number_that_can_not_be_meant_is_refused(option, least):
    with pytest.raises(ValueError, match=f"{option} must be at least {least}, not {least - 1}"):
        Trainer(**{option: least - 1})


def test_labels_in_another_order(cluster):
    def shuffled(name):
        return {"labels": loaders(shuffle=True)[0]} if name == "node_2" else {}

    reason = reasons(cluster, play_with(), shuffled)
    assert "the labels of node_2 for batch 0 of epoch 0 are not those of node_0" in reason
    assert not (cluster.folder / "losses.txt").exists(), "nothing was trained on wrong pairs"


def test_a_loop_of_ones_own_trains_on_no_wrong_pairs_either(cluster):
    class Own(Trainer):
        def train(self):
            for x, _ in self.train_loader:
                self.node.forward_compute(x)
            self.node.wait_for_backwards()

    def shuffled(name):
        return {"labels": loaders(shuffle=True)[0]} if name == "node_2" else {}

    assert "are not those of node_0" in reasons(cluster, play_with(trainer=Own), shuffled)


def test_labels_that_end_too_early(cluster):
    def short(name):
        return {"labels": list(loaders(shuffle=False)[0])[:4]} if name == "node_2" else {}

    reason = reasons(cluster, play_with(), short)
    assert "the labels of node_2 end after 4 batches, but node_0 sent batch 4 of epoch 0" in reason


def test_an_optimizer_that_raises(cluster):
    class Broken(torch.optim.SGD):
        def step(self, closure=None):
            raise RuntimeError("out of steps")

    def broken(name):
        return {"optimizer": Broken} if name == "node_1" else {}

    reason = reasons(cluster, play_with(), broken)
    assert reason.startswith("node_1 (stage 1) failed: the optimizer raised RuntimeError: out of steps (")


def test_an_optimizer_that_can_not_be_made(cluster):
    def negative(name):
        return {"optimizer_params": {"lr": -1.0}} if name == "node_1" else {}

    _, errors = cluster.run_to_the_end(play_with(), negative)
    assert isinstance(errors["node_1"], ValueError)
    assert str(errors["node_0"]) == str(errors["node_2"])
    begin = "node_1 (stage 1) failed: its script raised ValueError: Invalid learning rate"
    assert str(errors["node_0"]).startswith(begin)


def test_a_scheduler_that_raises(cluster):
    def broken(optimizer):
        return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 / (1 - epoch))

    reason = reasons(cluster, play_with(lr_scheduler=broken))
    assert "the scheduler raised ZeroDivisionError: " in reason


def test_a_root_whose_loop_raises(cluster):
    class Broken(Trainer):
        def train(self):
            self.node.forward_compute(torch.zeros(20, 12))
            raise KeyError("epoch")

    _, errors = cluster.run_to_the_end(play_with(trainer=Broken))
    assert isinstance(errors["node_0"], KeyError)
    assert str(errors["node_1"]) == str(errors["node_2"])
    assert str(errors["node_1"]).startswith("node_0 (stage 0) failed: its script raised KeyError: 'epoch' (")


def test_inputs_that_the_model_does_not_take(cluster):
    class Wide(Trainer):
        def train(self):
            self.node.forward_compute(torch.zeros(20, 13))
            self.node.wait_for_backwards()

    assert reasons(cluster, play_with(trainer=Wide)).startswith("node_0 (stage 0) failed: ")


def test_nodes_that_are_started_differently(cluster):
    def other(name):
        return {"schedule": "sync"} if name == "node_1" else {}

    reason = reasons(cluster, play_with(), other)
    assert "schedule is async on node_0 and sync on node_1: start the same script on every node" in reason


def test_nodes_that_make_different_calls(cluster):
    def play(make):
        with make(optimizer=torch.optim.SGD, criterion=criterion, labels=loaders()[0]) as node:
            trainer = Trainer(node=node, train_loader=loaders()[0], val_loader=loaders()[1])
            return trainer.evaluate() if node.name == "node_2" else trainer.train()

    assert "node_0 runs train() while node_2 runs evaluate()" in reasons(cluster, play)


@pytest.mark.parametrize("name", ["node_0", "node_1", "node_2"])
def test_a_stage_that_can_not_be_saved(cluster, name):
    (cluster.folder / "taken").write_text("a file where a folder should be")

    def elsewhere(node):
        return {"trained": cluster.folder / "taken"} if node == name else {}

    reason = reasons(cluster, play_with(), elsewhere)
    assert reason.startswith(f"{name} (stage {name[-1]}) failed: ")
    assert "taken" in reason
    saved = [each for each in cluster.names if (cluster.folder / f"trained/cluster_0/{each}.safetensors").exists()]
    assert saved == [each for each in cluster.names if each != name]
    assert reason.endswith(f"saved are the stages of {', '.join(saved)}")


def test_a_loss_file_that_can_not_be_written(cluster):
    reason = reasons(cluster, play_with(loss_filename=str(cluster.folder / "missing/losses.txt")))
    assert "missing/losses.txt" in reason


def test_a_stage_of_another_model(cluster, tmp_path):
    other = tmp_path / "other"
    model = nn.Sequential(nn.Linear(12, 40), nn.ReLU(), nn.Linear(40, 9), nn.ReLU(), nn.Linear(9, 5))
    plan(other, model, (torch.randn(20, 12),))
    planned = ravnest.Plan.read(cluster.folder / "node_data").nodes[1].address
    foreign = ravnest.Plan.read(other / "node_data").nodes[1].address
    own = cluster.folder / f"node_data/cluster_0/{planned}/submod.pt"
    own.write_bytes((other / f"node_data/cluster_0/{foreign}/submod.pt").read_bytes())
    _, errors = cluster.run_to_the_end(play_with())
    assert sorted(errors) == cluster.names
    assert "belongs to another plan or model" in str(errors["node_1"])
    for name in ("node_0", "node_2"):
        assert str(errors[name]) == f"node_1 (stage 1) failed: {errors['node_1']}"


def test_a_node_with_another_plan(cluster, tmp_path):
    other = tmp_path / "other/node_data"
    other.mkdir(parents=True)
    (other / "node_configs.json").write_text((cluster.folder / "node_data/node_configs.json").read_text())
    ravnest.clusterize(make_net(), (torch.randn(20, 12),), node_data=other)
    _, errors = cluster.run_to_the_end(play_with(), lambda name: {"node_data": other} if name == "node_2" else {})
    assert sorted(errors) == cluster.names
    for error in errors.values():
        assert "its certificate is of another plan: unpack the same plan's packages on both machines" in str(error)
    assert str(errors["node_0"]) == str(errors["node_1"])


def test_a_port_that_is_taken(cluster):
    address = ravnest.Plan.read(cluster.folder / "node_data").nodes[2].address
    with socket.socket() as other:
        other.bind(("127.0.0.1", int(address.rsplit(":", 1)[1])))
        other.listen()
        _, errors = cluster.run_to_the_end(play_with())
    assert sorted(errors) == cluster.names
    assert address in str(errors["node_2"])
    for name in ("node_0", "node_1"):
        assert str(errors[name]) == f"node_2 (stage 2) failed: {errors['node_2']}"
