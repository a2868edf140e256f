"""Node and Trainer: a cluster gives what one process would, whatever it is given to work with."""

import pytest
import torch
from nodes import Cluster, plan
from small_net import criterion, loaders, make_data, make_net
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import ravnest
from ravnest import Trainer
from ravnest.labels import items_of

SEED = 42


@pytest.fixture
def cluster(tmp_path):
    plan(tmp_path, make_net(), (torch.randn(20, 12),))
    return Cluster(tmp_path)


def script(epochs=3, trainer=Trainer, calls=("train",), trainer_options=None, **options):
    """What users write, the same for every node."""

    def play(make):
        train, val = loaders()
        options.setdefault("optimizer", torch.optim.SGD)
        options.setdefault("optimizer_params", {"lr": 0.05, "momentum": 0.9})
        with make(
            **{"criterion": criterion, "labels": train, "test_labels": val, "schedule": "sync", **options}
        ) as node:
            own = trainer(
                node=node, train_loader=train, val_loader=val, epochs=epochs, save=True, **(trainer_options or {})
            )
            results = [getattr(own, call)() for call in calls]
            return {"results": results, "node": node.name, "lr": _lr(node), "state": _state(node)}

    return play


def _lr(node):
    return [group["lr"] for group in node.optimizer.param_groups] if node.optimizer is not None else []


def _state(node):
    return node.optimizer.state_dict()["state"] if node.optimizer is not None else {}


def plain(
    epochs=3,
    optimizer=torch.optim.SGD,
    options=None,
    scheduler=None,
    update_frequency=1,
    by_epoch=True,
    clip=None,
    model=None,
):
    """The same in one process of plain PyTorch: losses by update, accuracies by epoch, the model and its rates."""
    model = model or make_net()
    train, val = loaders()
    own = optimizer(model.parameters(), **(options if options is not None else {"lr": 0.05, "momentum": 0.9}))
    rates = scheduler(own) if scheduler else None
    losses, accuracies, window, batches = [], [], 0.0, 0
    for epoch in range(epochs):
        model.train()
        for item in items_of(train, SEED, epoch):
            loss = criterion(model(item[0]), item)
            loss.backward()
            window += loss.item()
            batches += 1
            if batches % update_frequency == 0:
                if clip:
                    clip(model.parameters())
                own.step()
                own.zero_grad()
                losses.append(window)
                window = 0.0
                if rates and not by_epoch:
                    rates.step()
        if rates and by_epoch:
            rates.step()
        model.eval()
        with torch.no_grad():
            right = sum((model(x).argmax(1) == y).sum().item() for x, y in val)
        accuracies.append(100 * right / 60)
    return losses, accuracies, model, own


def assert_same(cluster, expected) -> None:
    losses, accuracies, model, _ = expected
    assert cluster.losses() == [round(loss, 4) for loss in losses]
    assert cluster.accuracies() == [round(accuracy, 2) for accuracy in accuracies]
    fused = cluster.fused()
    own = model.state_dict()
    assert fused.keys() == own.keys()
    for name, tensor in own.items():
        assert fused[name].dtype == tensor.dtype
        assert torch.equal(fused[name], tensor), name
    make_net().load_state_dict(fused, strict=True)


@pytest.mark.parametrize(
    ("optimizer", "options"),
    [
        (torch.optim.SGD, {"lr": 0.05, "momentum": 0.9, "nesterov": True}),
        (torch.optim.Adam, {}),
        (torch.optim.AdamW, {"lr": 0.01, "weight_decay": 0.1}),
    ],
)
def test_a_synchronous_run_is_that_of_plain_pytorch(cluster, optimizer, options):
    cluster.run(script(optimizer=optimizer, optimizer_params=options))
    assert_same(cluster, plain(optimizer=optimizer, options=options))


class Rule(torch.optim.Optimizer):
    """An optimizer that nobody knows."""

    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self.state[parameter]["seen"] = self.state[parameter].get("seen", 0) + 1
                    parameter.sub_(parameter.grad.sign(), alpha=group["lr"])


@pytest.mark.parametrize("optimizer", [Rule, lambda params, lr: Rule(params, lr)])
def test_any_optimizer_works(cluster, optimizer):
    results = cluster.run(script(optimizer=optimizer, optimizer_params={"lr": 0.01}))
    assert_same(cluster, plain(optimizer=Rule, options={"lr": 0.01}))
    assert all(state["seen"] == 21 for state in results["node_1"]["state"].values())


def test_a_subclass_of_a_stock_optimizer_is_its_own_optimizer(cluster):
    class Doubled(torch.optim.SGD):
        def step(self, closure=None):
            super().step(closure)
            super().step(closure)

    cluster.run(script(optimizer=Doubled, optimizer_params={"lr": 0.02}))
    assert_same(cluster, plain(optimizer=Doubled, options={"lr": 0.02}))


@pytest.mark.parametrize("by_epoch", [True, False])
@pytest.mark.parametrize(
    "scheduler",
    [
        lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5),
        lambda optimizer: torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step)),
    ],
)
def test_schedulers_step_as_in_one_process(cluster, scheduler, by_epoch):
    results = cluster.run(script(lr_scheduler=scheduler, lr_step_on_epoch_change=by_epoch))
    expected = plain(scheduler=scheduler, by_epoch=by_epoch)
    assert_same(cluster, expected)
    for result in results.values():
        assert result["lr"] == [group["lr"] for group in expected[3].param_groups]


def test_a_native_optimizer_shows_its_state(cluster):
    results = cluster.run(script(optimizer=torch.optim.Adam, optimizer_params={}))
    *_, own = plain(optimizer=torch.optim.Adam, options={})
    expected = list(own.state_dict()["state"].values())
    shown = [state for name in cluster.names for state in results[name]["state"].values()]
    assert len(shown) == len(expected)
    for one, other in zip(shown, expected, strict=True):
        assert torch.equal(one["exp_avg"], other["exp_avg"])
        assert one["step"] == other["step"]


def test_rates_that_are_set_by_hand_hold_from_the_next_call_on(cluster):
    def play(make):
        train, _ = loaders(shuffle=False)
        with make(
            optimizer=torch.optim.SGD, optimizer_params={"lr": 0.1}, criterion=criterion, labels=train, schedule="sync"
        ) as node:
            trainer = Trainer(node=node, train_loader=train)
            trainer.train()
            before = {name: tensor.clone() for name, tensor in node.parameters().items()}
            node.optimizer.param_groups[0]["lr"] = 0
            trainer.train()
            return all(torch.equal(before[name], tensor) for name, tensor in node.parameters().items())

    assert all(cluster.run(play).values())


def test_an_optimizer_of_ours_by_its_name(cluster):
    cluster.run(script(optimizer="LAMB", optimizer_params={"lr": 0.01}, schedule="async"))
    assert cluster.losses()[-1] < cluster.losses()[0]


def test_gradients_add_up_over_batches(cluster):
    cluster.run(script(update_frequency=3))
    assert_same(cluster, plain(update_frequency=3))


def test_step_size_multiplies_the_update_frequency(cluster):
    cluster.run(script(update_frequency=2, trainer_options={"step_size": 3}))
    assert len(cluster.losses()) == 21 // 6


def test_microbatches_update_once_per_batch(cluster):
    cluster.run(script(trainer_options={"microbatches": 4}, schedule="async"))
    assert len(cluster.losses()) == 21
    assert cluster.losses()[-1] < cluster.losses()[0]


def test_asynchronous_training_learns(cluster):
    cluster.run(script(epochs=12, schedule="async"))
    assert cluster.accuracies()[-1] > 40


@pytest.mark.parametrize(("val_freq", "sweeps"), [(1, 3), (5, 5), (7, 3), (1000, 1)])
def test_how_often_it_validates(cluster, val_freq, sweeps):
    cluster.run(script(trainer_options={"val_freq": val_freq}))
    assert len(cluster.accuracies()) == sweeps


def test_evaluate_gives_the_accuracy_on_every_node(cluster):
    results = cluster.run(script(calls=("train", "evaluate")))
    assert {result["results"][1] for result in results.values()} == {plain()[1][-1]}


def test_a_shuffled_loader_validates_too(cluster):
    def play(make):
        train, _ = loaders()
        x, y = make_data()
        val = DataLoader(TensorDataset(x[140:], y[140:]), batch_size=25, shuffle=True)
        with make(optimizer=torch.optim.SGD, criterion=criterion, labels=train, test_labels=val) as node:
            Trainer(node=node, train_loader=train, val_loader=val, epochs=3).train()

    cluster.run(play)
    assert len(cluster.accuracies()) == 3


def test_pred_returns_the_outputs_on_the_root(cluster):
    x, _ = make_data()

    class Predicts(Trainer):
        def pred(self, data=None):
            return super().pred(x[:50]), super().pred(DataLoader(TensorDataset(x[:50]), batch_size=20))

    results = cluster.run(script(calls=("train", "pred"), trainer=Predicts))
    model = make_net()
    model.load_state_dict(cluster.fused())
    batch, batches = results["node_0"]["results"][1]
    with torch.no_grad():
        torch.testing.assert_close(batch, model.eval()(x[:50]))
        torch.testing.assert_close(batches, model(x[:50]))
    assert results["node_1"]["results"][1] is None


class Own(Trainer):
    """A loop of the user's."""

    def train(self):
        self.prelim_checks()
        for epoch in range(self.epochs):
            for x, _ in self.train_loader:
                self.node.forward_compute(x)
            self.node.wait_for_backwards()
            if epoch == 0:
                self.node.trigger_save_submodel()
                self.first = self.node.n_forwards


def test_a_training_loop_of_ones_own(cluster):
    cluster.run(script(trainer=Own))
    losses, _, model, _ = plain()
    assert cluster.losses() == [round(loss, 4) for loss in losses]
    fused = cluster.fused()
    assert all(torch.equal(fused[name], tensor) for name, tensor in model.state_dict().items())


def test_a_loop_of_ones_own_validates(cluster):
    class Validates(Own):
        def train(self):
            for _ in range(2):
                for x, _ in self.train_loader:
                    self.node.forward_compute(x)
                for x, _ in self.val_loader:
                    self.node.no_grad_forward_compute(x, output_type="val_accuracy")
                self.node.wait_for_backwards()
            for x, _ in self.val_loader:
                self.node.no_grad_forward_compute(x, output_type="accuracy")

    cluster.run(script(trainer=Validates, epochs=2))
    assert cluster.accuracies() == [round(accuracy, 2) for accuracy in plain(epochs=2)[1]]


def test_a_script_without_a_trainer(cluster):
    def play(make):
        train, _ = loaders(shuffle=False)
        with make(
            optimizer=torch.optim.SGD,
            optimizer_params={"lr": 0.05},
            criterion=lambda outputs, targets: nn.functional.cross_entropy(outputs, targets),
            labels=[y for _, y in train],
        ) as node:
            for x, _ in train:
                node.forward_compute(tensors=x)
            node.wait_for_backwards()

    cluster.run(play)
    assert len(cluster.losses()) == 7


def test_labels_may_be_a_tensor(cluster):
    def play(make):
        train, _ = loaders(shuffle=False)
        _, y = make_data()
        with make(
            optimizer=torch.optim.SGD,
            optimizer_params={"lr": 0.05},
            criterion=lambda outputs, targets: nn.functional.cross_entropy(outputs, targets),
            labels=y[:140],
            schedule="sync",
        ) as node:
            Trainer(node=node, train_loader=train, batch_size=20).train()

    cluster.run(play)
    assert len(cluster.losses()) == 7


def test_a_dataset_is_batched(cluster):
    def play(make):
        x, y = make_data()
        data = TensorDataset(x, y)
        with make(optimizer=torch.optim.SGD, criterion=criterion, labels=data, test_labels=data) as node:
            trainer = Trainer(node=node, train_loader=data, val_loader=data, batch_size=32)
            trainer.train()
            return trainer.evaluate()

    results = cluster.run(play)
    assert len(cluster.losses()) == 7
    assert len(set(results.values())) == 1


def test_files_of_an_earlier_run_are_kept(cluster):
    cluster.run(script(epochs=1))
    first = (cluster.folder / "losses.txt").read_text()
    cluster.run(script(epochs=2))
    assert (cluster.folder / "losses.txt.1").read_text() == first
    assert len(cluster.losses()) == 14


def test_the_same_seed_gives_the_same_run(cluster):
    cluster.run(script(schedule="sync"))
    cluster.run(script(schedule="sync"))
    assert (cluster.folder / "losses.txt").read_text() == (cluster.folder / "losses.txt.1").read_text()


def test_one_node_alone(tmp_path):
    plan(tmp_path, make_net(), (torch.randn(20, 12),), nodes=1, min_cluster_size=1)
    alone = Cluster(tmp_path, 1)
    alone.run(script(calls=("train", "evaluate")))
    assert_same(alone, plain())


def test_gradients_are_clipped_by_value(cluster):
    cluster.run(script(clip_value=0.01))
    assert_same(cluster, plain(clip=lambda parameters: nn.utils.clip_grad_value_(parameters, 0.01)))


def test_a_stages_gradients_are_clipped_by_their_norm(tmp_path):
    plan(tmp_path, make_net(), (torch.randn(20, 12),), nodes=1, min_cluster_size=1)
    alone = Cluster(tmp_path, 1)
    alone.run(script(clip_norm=0.1))
    assert_same(alone, plain(clip=lambda parameters: nn.utils.clip_grad_norm_(parameters, 0.1)))


def make_head() -> nn.Module:
    torch.manual_seed(9)
    return nn.Sequential(nn.Linear(32, 24), nn.Tanh(), nn.Linear(24, 5))


def test_a_module_in_place_of_the_planned_stage(cluster):
    last = ravnest.Plan.read(cluster.folder / "node_data").nodes[2]
    assert last.module == "head.0"

    def own(name):
        return {"model": make_head()} if name == "node_2" else {}

    cluster.run(script(), own)
    model = make_net()
    model.head = make_head()
    assert cluster.losses() == [round(loss, 4) for loss in plain(model=model)[0]]


def test_a_module_that_does_not_fit_the_planned_stage(cluster):
    def own(name):
        return {"model": nn.Linear(24, 5)} if name == "node_0" else {}

    _, errors = cluster.run_to_the_end(script(), own)
    assert sorted(errors) == cluster.names
    assert str(errors["node_1"]).startswith("node_0 (stage 0) failed: its script raised\nTraceback")


def test_the_weights_of_one_cluster_are_the_latest(tmp_path):
    plan(tmp_path, make_net(), (torch.randn(20, 12),), nodes=1, min_cluster_size=1)

    def play(make):
        with make(criterion=criterion, labels=loaders()[0]) as node:
            before = {name: tensor.clone() for name, tensor in node.state_dict().items()}
            node.get_latest_weights()
            return all(torch.equal(before[name], tensor) for name, tensor in node.state_dict().items())

    assert Cluster(tmp_path, 1).run(play)["node_0"]


def test_names_come_from_outside_too(monkeypatch, tmp_path):
    monkeypatch.setattr("sys.argv", ["train.py", "--node", "node_9"])
    with pytest.raises(ravnest.Error, match="node_data"):
        ravnest.Node(node_data=tmp_path / "node_data")
    monkeypatch.setattr("sys.argv", ["train.py"])
    monkeypatch.delenv("RAVNEST_NODE", raising=False)
    with pytest.raises(ValueError, match="which node is this"):
        ravnest.Node(node_data=tmp_path / "node_data")
