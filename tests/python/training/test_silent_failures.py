"""What would train nothing, or nothing more, without a word: it is an error on all nodes, or a line."""

import pytest
import torch
from support.nodes import Cluster, plan
from support.own_loop import OwnLoop
from support.small_net import Phases, criterion, loaders, make_net
from test_node_failures import reasons
from torch import nn

import ravnest
from ravnest import Trainer


def play_with(trainer=Trainer, epochs=2, **trainer_options):
    """A script that trains; its loaders are made anew on each node, by functions where they are given."""

    def play(make):
        train, val = loaders(shuffle=False)
        own = {"optimizer": torch.optim.SGD, "criterion": criterion, "labels": train, "test_labels": val}
        given = {"train_loader": train, "val_loader": val, **trainer_options}
        made = {
            name: value() if name.endswith("_loader") and callable(value) else value for name, value in given.items()
        }
        with make(**own) as node:
            trainer(node=node, epochs=epochs, **made).train()

    return play


class OwnLoader(Trainer):
    """A loop with a loader of its own, which gives less from epoch to epoch."""

    def train(self):
        items = list(loaders(shuffle=False)[0])
        for count in (7, 3, 0):
            for x, _ in items[:count]:
                self.node.forward_compute(x)
            self.node.wait_for_backwards()


class Once:
    """Gives its items the first time only, and can't be seen to."""

    def __init__(self, items, again=0):
        self._items, self._again = items, again

    def __iter__(self):
        items, self._items = self._items, self._items[: self._again]
        return iter(items)


def batches():
    return list(loaders(shuffle=False)[0])


# -- optimizers


@pytest.mark.parametrize("name", ["node_0", "node_1", "node_2"])
def test_a_stage_without_an_optimizer_ends_the_run_before_its_first_batch(cluster, name):
    def without(node):
        return {"optimizer": None} if node == name else {}

    for trainer in (Trainer, OwnLoop):
        reason = reasons(cluster, play_with(trainer), without)
        assert reason.startswith(f"{name} (stage {name[-1]}) failed: the stage has "), reason
        assert "to train and no optimizer: give Node optimizer=" in reason
    reason = reasons(cluster, play_with(), lambda _: {"optimizer": lambda parameters: None})
    assert reason.startswith("node_0 (stage 0)"), "all fail, and all say the same"
    assert not (cluster.folder / "losses.txt").exists()


def test_a_loop_without_a_trainer_needs_an_optimizer_too_but_predicting_does_not(cluster):
    def play(make, trains=True):
        with make(criterion=criterion, labels=batches()) as node:
            result = node.no_grad_forward_compute(torch.zeros(3, 12), output_type="prediction")
            if trains:
                node.forward_compute(torch.zeros(20, 12))
                node.wait_for_backwards()
        return result

    assert cluster.run(lambda make: play(make, trains=False))["node_0"].shape == (3, 5)
    assert "to train and no optimizer" in reasons(cluster, play)


def test_a_frozen_stage_needs_no_optimizer(tmp_path):
    model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 5))
    model[0].requires_grad_(False)
    planned = plan(tmp_path, model, (torch.randn(20, 12),), nodes=2)
    assert planned.nodes[0].trainable == 0
    cluster = Cluster(tmp_path, 2)
    cluster.run(play_with(save=True), lambda name: {"optimizer": None} if name == "node_0" else {})
    assert torch.equal(cluster.fused()["0.weight"], model[0].weight)
    assert not torch.equal(cluster.fused()["2.weight"], model[2].weight)


def foreign(_):
    return torch.optim.Adam(make_net().parameters())


def partial(parameters):
    return torch.optim.SGD(list(parameters)[1:], lr=0.1)


@pytest.mark.parametrize(
    ("optimizer", "kind", "words"),
    [
        (foreign, ValueError, "made an Adam of other parameters than it was given"),
        (torch.optim.LBFGS, TypeError, "LBFGS.step() needs a closure that computes the loss again"),
    ],
)
def test_an_optimizer_that_cannot_train_a_stage_is_said_on_all_nodes_before_they_train(cluster, optimizer, kind, words):
    _, errors = cluster.run_to_the_end(play_with(), lambda name: {"optimizer": optimizer} if name == "node_1" else {})
    assert sorted(errors) == cluster.names
    assert isinstance(errors["node_1"], kind)
    assert all(words in str(error) for error in errors.values()), errors
    assert not (cluster.folder / "losses.txt").exists()


def test_parameters_that_an_optimizer_leaves_out_are_named_in_a_line(alone, capfd):
    alone.run(play_with(), lambda _: {"optimizer": partial})
    own = sum(1 for _ in make_net().parameters())
    assert f"SGD has {own - 1} of the {own} parameters that want gradients: body.0.weight will not be" in (
        capfd.readouterr().err
    )


def rank(tmp_path, **options):
    """A run of one rank, in this process."""
    train, _ = loaders(shuffle=False)
    given = {"model": make_net(), "optimizer": torch.optim.SGD, "criterion": criterion, "labels": train, **options}
    losses = str(tmp_path / "losses.txt")
    example = (torch.randn(20, 12),)
    with ravnest.Node(strategy="ddp", example_args=example, loss_filename=losses, **given) as node:
        Trainer(node=node, train_loader=train, epochs=1).train()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"optimizer": foreign}, "made an Adam of other parameters than it was given"),
        (
            {"optimizer": torch.optim.LBFGS},
            "needs a closure that computes the loss again, and each batch is computed once",
        ),
        ({"model": Phases(12, 5)}, 'parameter "phases" is complex64, but ravnest trains real ones'),
        (
            {"criterion": lambda outputs, targets: criterion(outputs, targets).detach().requires_grad_()},
            "the gradient of the criterion's loss does not reach the model's outputs",
        ),
    ],
)
def test_what_cannot_be_trained_is_refused_of_a_rank_too(tmp_path, options, words):
    with pytest.raises((ValueError, TypeError, ravnest.Error), match=words):
        rank(tmp_path, **options)
    assert not (tmp_path / "losses.txt").exists() or not (tmp_path / "losses.txt").read_text()


def test_parameters_that_a_ranks_optimizer_leaves_out_are_named_in_a_line(tmp_path, capfd):
    rank(tmp_path, optimizer=partial)
    assert "body.0.weight will not be trained" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda **given: ravnest.Trainer(**given), "Trainer() has no keyword epoch; did you mean epochs?"),
        (lambda **given: ravnest.clusterize(None, **given), "clusterize() has no keyword epoch"),
    ],
)
def test_a_keyword_that_does_not_exist(call, sentence):
    with pytest.raises(TypeError) as raised:
        call(epoch=3)
    assert str(raised.value) == sentence


def test_a_keyword_that_node_does_not_have_is_told_to_the_others(cluster):
    _, errors = cluster.run_to_the_end(play_with(), lambda name: {"optimiser": None} if name == "node_1" else {})
    assert sorted(errors) == cluster.names
    assert isinstance(errors["node_1"], TypeError)
    assert str(errors["node_1"]) == "Node() has no keyword optimiser; did you mean optimizer?"
    assert all("no keyword optimiser" in str(error) for error in errors.values()), errors


# -- losses


def without_gradient(outputs, targets):
    with torch.no_grad():
        return criterion(outputs, targets)


def test_a_loss_without_a_gradient_ends_the_run_at_the_first_batch(cluster):
    for bad in (lambda outputs, targets: criterion(outputs.detach(), targets), without_gradient):
        reason = reasons(cluster, play_with(), lambda _, bad=bad: {"criterion": bad})
        assert reason.startswith("node_2 (stage 2) failed: the criterion's loss has no gradient"), reason
        assert "look for .detach()" in reason
    assert not (cluster.folder / "losses.txt").exists()


def test_a_loss_that_takes_a_gradient_of_itself_ends_the_run_at_the_first_batch(cluster):
    def cut_off(outputs, targets):
        return criterion(outputs, targets).detach().requires_grad_()

    reason = reasons(cluster, play_with(), lambda _: {"criterion": cut_off})
    assert reason.startswith("node_2 (stage 2) failed: the gradient of the criterion's loss does not reach"), reason
    assert not (cluster.folder / "losses.txt").exists()


def test_a_criterion_with_parameters_of_its_own_ends_the_run_at_the_first_batch(cluster):
    head = nn.Linear(5, 5)

    def learned(outputs, targets):
        return nn.functional.cross_entropy(head(outputs), targets[1])

    reason = reasons(cluster, play_with(), lambda _: {"criterion": learned})
    assert "the criterion has 2 parameters of its own, of the sizes [5" in reason, reason
    assert "make them part of the model, or freeze them" in reason
    head.requires_grad_(False)
    cluster.run(play_with(epochs=1), lambda _: {"criterion": learned})


def test_optimizers_and_schedulers_that_are_made_already_are_refused(cluster):
    made = torch.optim.SGD(make_net().parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(made, 1)
    for own, sentence in (
        ({"optimizer": made}, "give the class (optimizer=SGD) and optimizer_params="),
        ({"lr_scheduler": scheduler}, "give the class (lr_scheduler=StepLR) and lr_scheduler_params="),
    ):
        _, errors = cluster.run_to_the_end(play_with(), lambda _, own=own: own)
        assert sorted(errors) == cluster.names
        assert any(isinstance(error, TypeError) and sentence in str(error) for error in errors.values()), errors


def test_a_model_that_is_wholly_frozen_can_not_be_trained(tmp_path):
    plan(tmp_path, make_net().requires_grad_(False), (torch.randn(20, 12),), nodes=1, min_cluster_size=1)
    assert "all parameters are frozen" in reasons(Cluster(tmp_path, 1), play_with())


def bad_from(batch: int):
    """A criterion whose loss is nan from that batch on, counted from 1."""
    seen = []

    def turning_bad(outputs, targets):
        seen.append(None)
        return criterion(outputs, targets) * (float("nan") if len(seen) >= batch else 1)

    return turning_bad


def test_a_loss_that_is_not_finite_is_said(cluster, capfd):
    cluster.run(play_with(), lambda name: {"criterion": bad_from(4), "progress": name == "node_0"})
    written = capfd.readouterr().err
    assert written.count("the loss that node_2 computed in step 4 (epoch 1, batch 4) is nan") == 1, written
    assert "but the loss was not finite in 11 steps, first in step 4: 280 samples" in written


@pytest.mark.parametrize("trainer", [Trainer, OwnLoop])
def test_a_loss_that_is_not_finite_ends_the_run_where_that_is_asked_for(cluster, trainer):
    reason = reasons(cluster, play_with(trainer, stop_at_nan=True), lambda _: {"criterion": bad_from(4)})
    assert reason == (
        "node_0 (stage 0) failed: the loss that node_2 computed in step 4 (epoch 1, batch 4) is nan, and stop_at_nan "
        "ends the run there"
    )


# -- loaders


@pytest.mark.parametrize("trainer", [Trainer, OwnLoop])
@pytest.mark.parametrize(
    ("loader", "sentence"),
    [
        (
            lambda: Once(batches()),
            "train_loader gave no batch in epoch 2, after 7 batches in epoch 1: it can be iterated",
        ),
        (lambda: Once([]), "train_loader gave no batch in epoch 1: it is empty"),
    ],
)
def test_an_epoch_without_batches_ends_the_run(alone, trainer, loader, sentence):
    _, errors = alone.run_to_the_end(play_with(trainer, train_loader=loader))
    assert sentence in str(errors["node_0"])


def test_a_generator_for_several_epochs_is_refused_at_the_start(cluster):
    for name in ("train_loader", "val_loader"):
        _, errors = cluster.run_to_the_end(play_with(**{name: lambda: (each for each in batches())}))
        assert sorted(errors) == cluster.names
        sentence = f"{name} is a generator, which can be iterated only once, but there are 2 epochs: "
        assert all(str(error).startswith(sentence) for error in errors.values()), errors
    assert not (cluster.folder / "losses.txt").exists()


def test_loaders_that_are_seen_to_be_empty_are_refused_at_the_start(alone):
    for name in ("train_loader", "val_loader"):
        _, errors = alone.run_to_the_end(play_with(**{name: list}))
        assert str(errors["node_0"]).startswith(f"{name} has no batch: it is empty")


def test_a_generator_for_one_epoch_is_fine(alone):
    alone.run(play_with(epochs=1, train_loader=lambda: (each for each in batches())))
    assert len(alone.losses()) == 7


def test_labels_that_can_be_iterated_only_once(cluster):
    reason = reasons(cluster, play_with(), lambda _: {"labels": Once(batches())})
    assert "the labels of node_2 gave 7 batches before and none for batch 0 of epoch 1: they can be iterated" in reason


def test_validation_data_that_can_be_iterated_only_once(alone):
    once = {"val_loader": lambda: Once(list(loaders()[1]))}
    _, errors = alone.run_to_the_end(play_with(**once))
    assert "val_loader gave no batch in validation 2, after 3 batches in validation 1" in str(errors["node_0"])


def test_an_epoch_with_fewer_batches_is_said(alone, capfd):
    alone.run(play_with(epochs=3, train_loader=lambda: Once(batches(), again=3)))
    assert len(alone.losses()) == 7 + 3 + 3
    line = "the training loop gave 3 batches in epoch 2, and 7 batches in epoch 1"
    assert capfd.readouterr().err.count(line) == 1


def test_a_loop_with_a_loader_of_its_own_says_how_many_batches_came(alone, capfd):
    alone.run(play_with(OwnLoader))
    written = capfd.readouterr().err
    assert "the training loop gave 3 batches in epoch 2, and 7 batches in epoch 1" in written
    assert "no batch was fed for epoch 3, so wait_for_backwards() waits for nothing" in written
