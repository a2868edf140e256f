"""Node and Trainer: a cluster gives what one process would, whatever it is given to work with."""

import pytest
import torch
from support.plain_run import assert_same, plain, script
from support.small_net import Phases, criterion, loaders, make_data, make_net
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import ravnest
from ravnest import Trainer


def test_a_node_gives_its_parameters_as_a_module_does(alone):
    def play(make):
        with make() as node:
            own = dict(node.named_parameters())
            assert [id(each) for each in node.parameters()] == [id(each) for each in own.values()]
            return {name: each.detach().clone() for name, each in own.items()} | dict(node.named_buffers())

    (tensors,) = alone.run(play).values()
    model = make_net()
    assert list(tensors) == [name for name, _ in (*model.named_parameters(), *model.named_buffers())]
    assert all(torch.equal(tensors[name], parameter) for name, parameter in model.named_parameters())


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


def test_one_node_alone(alone):
    alone.run(script(calls=("train", "evaluate")))
    assert_same(alone, plain())


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
    assert str(errors["node_1"]).startswith("node_0 (stage 0) failed: its script raised ")


def test_a_module_with_complex_parameters_is_said_on_all_nodes_before_they_train(cluster):
    _, errors = cluster.run_to_the_end(script(), lambda name: {"model": Phases(32, 5)} if name == "node_2" else {})
    assert sorted(errors) == cluster.names
    assert all('parameter "phases" is complex64' in str(error) for error in errors.values()), errors
    assert not (cluster.folder / "losses.txt").exists()


def test_the_weights_of_one_cluster_are_the_latest(alone):
    def play(make):
        with make(criterion=criterion, labels=loaders()[0]) as node:
            before = {name: tensor.clone() for name, tensor in node.state_dict().items()}
            node.get_latest_weights()
            return all(torch.equal(before[name], tensor) for name, tensor in node.state_dict().items())

    assert alone.run(play)["node_0"]


def test_names_come_from_outside_too(monkeypatch, tmp_path):
    monkeypatch.setattr("sys.argv", ["train.py", "--node", "node_9"])
    with pytest.raises(ravnest.Error, match="node_data"):
        ravnest.Node(node_data=tmp_path / "node_data")
    monkeypatch.setattr("sys.argv", ["train.py"])
    monkeypatch.delenv("RAVNEST_NODE", raising=False)
    with pytest.raises(ValueError, match="which node is this"):
        ravnest.Node(node_data=tmp_path / "node_data")
