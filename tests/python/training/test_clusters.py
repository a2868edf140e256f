"""Several clusters that average their weights, over real sockets with TLS, beside one process of plain PyTorch."""

import pytest
import torch
from support.nodes import Cluster, plan_net
from support.small_net import criterion, make_data, make_net
from torch.utils.data import DataLoader, TensorDataset

import ravnest
from ravnest import Trainer

LR = 0.05


def data_of(cluster: int, samples: int = 60):
    """What a cluster trains on: its own part of the samples, in order."""
    x, y = make_data(300)
    part = slice(100 * cluster, 100 * cluster + samples)
    return DataLoader(TensorDataset(x[part], y[part]), batch_size=20)


def validation():
    x, y = make_data(400)
    return DataLoader(TensorDataset(x[300:], y[300:]), batch_size=50)


def clusters(folder, nodes: int, sizes: list[int], **options):
    """Nodes in clusters of these sizes."""
    made = plan_net(folder, nodes=nodes, **options)
    found = sorted(len(cluster.nodes) for cluster in made.clusters)
    assert found == sorted(sizes), found
    return Cluster(folder, nodes)


def script(epochs=2, samples=lambda cluster: 60, trainer_class=Trainer, **options):
    def play(make):
        node = make(
            **{
                "optimizer": torch.optim.SGD,
                "optimizer_params": {"lr": LR},
                "criterion": criterion,
                "schedule": "sync",
                "average": "drain",
                "reduce_factor": 1,
                "test_labels": validation(),
                **options,
            }
        )
        with node:
            train = data_of(node.cluster_id, samples(node.cluster_id))
            node.labels = train
            own_epochs = epochs(node.cluster_id) if callable(epochs) else epochs
            trainer = trainer_class(
                node=node, train_loader=train, val_loader=validation(), epochs=own_epochs, save=True, shard=False
            )
            trainer.train()
            state = node.optimizer.state_dict()["state"]
            return {"accuracy": trainer.evaluate(), "place": (node.cluster_id, node.stage), "state": state}

    return play


def fused(folder, cluster: int) -> dict:
    path = ravnest.model_fusion(cluster_id=cluster, trained=folder / "trained")
    return torch.load(path, weights_only=True)


def assert_all_alike(folder, clusters: int) -> dict:
    """All clusters have the same weights and statistics, to the bit; counters of batches are each cluster's own."""
    first = fused(folder, 0)
    for other in range(1, clusters):
        for name, tensor in fused(folder, other).items():
            assert not tensor.is_floating_point() or torch.equal(tensor, first[name]), name
    return first


def accumulated(count: int, epochs: int = 2) -> torch.nn.Module:
    """One process that takes a batch of each cluster at a time: the mean of their gradients, and of the statistics."""
    model = make_net().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    for _ in range(epochs):
        for batches in zip(*(data_of(cluster) for cluster in range(count)), strict=True):
            before = {name: buffer.clone() for name, buffer in model.named_buffers()}
            sums = {name: torch.zeros_like(buffer) for name, buffer in before.items() if buffer.is_floating_point()}
            for batch in batches:
                for name, buffer in model.named_buffers():
                    buffer.copy_(before[name])
                (criterion(model(batch[0]), batch) / count).backward()
                for name in sums:
                    sums[name] += model.get_buffer(name) / count
            for name, total in sums.items():
                model.get_buffer(name).copy_(total)
            optimizer.step()
            optimizer.zero_grad()
    return model


@pytest.mark.parametrize(
    ("nodes", "sizes", "options"),
    [
        (6, [3, 3], {"min_cluster_size": 3}),
        (5, [2, 3], {"compute": [30] * 2 + [20] * 3}),
        (10, [2, 3, 5], {"compute": [30] * 2 + [10] * 3 + [4] * 5}),
    ],
    ids=["3 and 3 stages", "2 and 3 stages", "2, 3 and 5 stages"],
)
def test_clusters_that_drain_are_one_process_that_accumulates(tmp_path, nodes, sizes, options):
    run = clusters(tmp_path, nodes, sizes, **options)
    run.run(script())
    expected = accumulated(len(sizes)).state_dict()
    first = assert_all_alike(tmp_path, len(sizes))
    for name, tensor in expected.items():
        assert torch.allclose(first[name].double(), tensor.double(), atol=1e-6), name


def test_clusters_that_train_on_while_they_average_end_alike(tmp_path):
    run = clusters(tmp_path, 4, [2, 2])
    rates = {"lr": LR, "momentum": 0.9}
    results = run.run(script(epochs=40, average="overlap", schedule="async", optimizer_params=rates))
    accuracies = {result["accuracy"] for result in results.values()}
    assert len(accuracies) == 1
    make_net().load_state_dict(assert_all_alike(tmp_path, 2), strict=True)
    assert accuracies.pop() > 60


def test_a_round_per_epoch_by_default(tmp_path):
    run = clusters(tmp_path, 4, [2, 2])
    run.run(script(epochs=3, average="overlap", reduce_factor=None))
    assert_all_alike(tmp_path, 2)


@pytest.mark.parametrize("val_freq", [1, 3])
def test_the_last_accuracy_is_that_of_the_saved_weights(tmp_path, val_freq):
    def trainer_of(**options):
        return Trainer(val_freq=val_freq, **options)

    run = clusters(tmp_path, 4, [2, 2])
    run.run(script(epochs=3, average="overlap", reduce_factor=None, trainer_class=trainer_of))
    model = make_net()
    model.load_state_dict(assert_all_alike(tmp_path, 2))
    x, y = make_data(400)
    with torch.no_grad():
        accuracy = f"{100 * (model.eval()(x[300:]).argmax(1) == y[300:]).double().mean():.2f}"
    for file in ("val_accuracies.txt", "val_accuracies_cluster_1.txt"):
        lines = (tmp_path / file).read_text().split()
        assert lines[-1] == accuracy
        assert len(lines) == (3 if val_freq == 1 else 4)


def test_a_cluster_with_fewer_batches_goes_along(tmp_path):
    run = clusters(tmp_path, 4, [2, 2])
    run.run(script(epochs=3, average="overlap", samples=lambda cluster: 100 if cluster == 0 else 20))
    assert_all_alike(tmp_path, 2)


def test_a_cluster_that_has_nothing_to_train_on_goes_along(tmp_path):
    run = clusters(tmp_path, 4, [2, 2])
    run.run(script(epochs=lambda cluster: 3 if cluster == 0 else 0, average="overlap"))
    alike = assert_all_alike(tmp_path, 2)
    assert not torch.equal(alike["body.0.weight"], make_net().state_dict()["body.0.weight"])


class Saves(Trainer):
    """The first cluster saves after each epoch, the other never; all save at the end."""

    def train(self):
        self.prelim_checks()
        for _ in range(self.epochs):
            for item in self.train_loader:
                self.node.forward_compute(item[0])
            self.node.wait_for_backwards()
            if self.node.cluster_id == 0:
                self.node.trigger_save_submodel()


@pytest.mark.parametrize("average", ["drain", "overlap"])
def test_one_cluster_saves_in_the_middle_of_training(tmp_path, average):
    run = clusters(tmp_path, 4, [2, 2])
    run.run(script(epochs=4, trainer_class=Saves, average=average))
    first = fused(tmp_path, 0)
    assert not torch.equal(first["body.0.weight"], make_net().state_dict()["body.0.weight"])


def test_a_stage_of_ones_own_is_refused(tmp_path):
    clusters(tmp_path, 4, [2, 2])
    with pytest.raises(ravnest.Error, match="cannot be averaged with other clusters"):
        ravnest.Node(name="node_0", node_data=tmp_path / "node_data", model=torch.nn.Linear(12, 5), seed=42)


def test_clusters_write_files_of_their_own(tmp_path):
    run = clusters(tmp_path, 4, [2, 2])
    run.run(script())
    for file in ("losses.txt", "losses_cluster_1.txt"):
        assert len((tmp_path / file).read_text().splitlines()) == 6
    for file in ("val_accuracies.txt", "val_accuracies_cluster_1.txt"):
        assert len((tmp_path / file).read_text().splitlines()) == 2


@pytest.mark.parametrize("options", [{"outer": "nesterov"}, {"compression": "int8"}], ids=["nesterov", "int8"])
def test_differences_from_the_last_round(tmp_path, options):
    run = clusters(tmp_path, 4, [2, 2])
    run.run(script(epochs=4, average="overlap", reduce_factor=2, **options))
    assert_all_alike(tmp_path, 2)


@pytest.mark.parametrize("average", ["drain", "overlap"])
def test_what_the_optimizer_keeps_is_averaged_too(tmp_path, average):
    run = clusters(tmp_path, 4, [2, 2])
    options = {"optimizer": torch.optim.Adam, "optimizer_params": {"lr": 0.01}, "average": average}
    results = run.run(script(average_optim=True, **options))
    states = {result["place"]: result["state"] for result in results.values()}
    for stage in range(2):
        for index, kept in states[0, stage].items():
            assert kept["exp_avg"].abs().sum() > 0
            assert all(torch.equal(tensor, states[1, stage][index][name]) for name, tensor in kept.items())


def test_without_it_each_cluster_keeps_its_own(tmp_path):
    run = clusters(tmp_path, 4, [2, 2])
    results = run.run(script(optimizer=torch.optim.Adam, optimizer_params={"lr": 0.01}))
    states = {result["place"]: result["state"] for result in results.values()}
    assert not torch.equal(states[0, 0][0]["exp_avg"], states[1, 0][0]["exp_avg"])


def test_what_an_optimizer_of_ones_own_keeps_is_not_known(tmp_path):
    class Own(torch.optim.SGD):
        pass

    run = clusters(tmp_path, 4, [2, 2])
    _, errors = run.run_to_the_end(script(optimizer=Own, average_optim=True))
    assert all("average_optim=True needs an optimizer of torch.optim" in str(error) for error in errors.values())


def test_the_outer_optimizers_name_is_checked(tmp_path):
    with pytest.raises(ValueError, match="outer must be None or 'nesterov', not 'adam'"):
        ravnest.Node(name="node_0", node_data=tmp_path, outer="adam")
