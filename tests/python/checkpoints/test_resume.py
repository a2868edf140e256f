"""Runs that go on from a checkpoint: with the numbers of a run that was never ended."""

import shutil
from pathlib import Path

import pytest
import torch
from support.nodes import Cluster, plan_graph, wait_for
from support.pools import write_local_pool
from support.small_net import criterion, loaders, make_net
from torch import nn
from torch.utils.data import DataLoader

import ravnest
from ravnest import Trainer

pytestmark = pytest.mark.slow


class Dropping(nn.Module):
    """The small network with dropout, whose masks are keyed by the step."""

    def __init__(self):
        super().__init__()
        self.net = make_net()
        self.net.body.insert(3, nn.Dropout(0.25))

    def forward(self, x):
        return self.net(x)


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    path = tmp_path_factory.mktemp("graph") / "net.pt2"
    torch.manual_seed(0)
    return ravnest.load(ravnest.capture(Dropping(), (torch.randn(20, 12),), path=path))


def planned(folder: Path, graph, nodes: int) -> Cluster:
    folder.mkdir(parents=True, exist_ok=True)
    write_local_pool(folder / "node_data", nodes)
    plan_graph(graph, folder / "node_data", min_cluster_size=nodes)
    return Cluster(folder, nodes)


class Stopped(Exception):
    """The end of a run in the middle of it."""


class Ending(DataLoader):
    """A loader that ends the run after so many batches, when there is a checkpoint."""

    def __init__(self, loader: DataLoader, folder: Path, after: int):
        super().__init__(loader.dataset, loader.batch_size, sampler=loader.sampler)
        self.folder, self.left = folder, after

    def __iter__(self):
        for item in super().__iter__():
            if self.left == 0:
                wait_for(lambda: list(self.folder.glob("*/manifest.json")), "there is no checkpoint")
                raise Stopped("here")
            self.left -= 1
            yield item


def run(cluster: Cluster, epochs: int, stop_at: int | None = None, node=None, **options) -> dict:
    """name -> the stage's weights by name; of a run that the root's loader ends after so many batches, nothing."""
    train, val = loaders()
    checkpoints = cluster.folder / "checkpoints"

    def script(make):
        with make(
            optimizer=torch.optim.Adam,
            criterion=criterion,
            labels=train,
            test_labels=val,
            progress=False,
            **(node or {}),
        ) as own:
            fed = train if stop_at is None else Ending(train, checkpoints, stop_at)
            Trainer(
                node=own,
                train_loader=fed,
                val_loader=val,
                epochs=epochs,
                checkpoint=checkpoints,
                shard=False,
                **options,
            ).train()
            return dict(own.named_parameters()) | dict(own.named_buffers())

    ravnest.set_seed(42)
    if stop_at is not None:
        with pytest.raises(Stopped, match="here"):
            cluster.run(script)
        return {}
    return cluster.run(script)


def weights_of(results: dict) -> dict[str, torch.Tensor]:
    return {name: tensor for stage in results.values() for name, tensor in stage.items()}


SCHEDULE = {
    "lr_scheduler": torch.optim.lr_scheduler.OneCycleLR,
    "lr_scheduler_params": {"max_lr": 0.01, "total_steps": 100},
    "lr_step_on_epoch_change": False,
}


@pytest.mark.parametrize(
    ("schedule", "every", "stop_at", "rates", "val_freq"),
    [
        ("sync", "epoch", 17, {}, 1),
        ("sync", "5 updates", 17, SCHEDULE, 1),
        ("sync", "3 updates", 10, {"update_frequency": 2}, 3),
        (
            "gpipe",
            "3 updates",
            10,
            {"lr_scheduler": torch.optim.lr_scheduler.StepLR, "lr_scheduler_params": {"step_size": 1}},
            1,
        ),
    ],
)
def test_on_the_same_plan_the_bits_are_those_of_a_run_that_was_never_ended(
    tmp_path, graph, monkeypatch, schedule, every, stop_at, rates, val_freq
):
    node = {"schedule": schedule, **rates} | ({"microbatches": 2} if schedule == "gpipe" else {})
    folders = {name: tmp_path / name for name in ("whole", "ended")}
    whole = planned(folders["whole"], graph, 3)
    monkeypatch.chdir(whole.folder)
    expected = weights_of(run(whole, 3, node=node, checkpoint_every=every, val_freq=val_freq))
    ended = planned(folders["ended"], graph, 3)
    monkeypatch.chdir(ended.folder)
    run(ended, 3, stop_at, node=node, checkpoint_every=every, val_freq=val_freq)
    again = weights_of(run(ended, 3, node=node, checkpoint_every=every, val_freq=val_freq, resume=True))
    assert again.keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(again[name], tensor), name
    for file in ("losses.txt", "val_accuracies.txt"):
        assert (ended.folder / file).read_text() == (whole.folder / file).read_text(), file
    assert not (ended.folder / "losses.txt.1").exists()


@pytest.mark.parametrize("nodes", [1, 2, 4])
def test_on_another_number_of_nodes_the_losses_go_on_as_they_would_have(tmp_path, graph, monkeypatch, nodes):
    node = {"schedule": "sync"}
    whole = planned(tmp_path / "whole", graph, 3)
    monkeypatch.chdir(whole.folder)
    expected = weights_of(run(whole, 3, node=node))
    other = planned(tmp_path / "other", graph, nodes)
    monkeypatch.chdir(other.folder)
    first = planned(tmp_path / "first", graph, 3)
    monkeypatch.chdir(first.folder)
    run(first, 3, 17, node=node)
    shutil.copytree(first.folder / "checkpoints", other.folder / "checkpoints")
    shutil.copy(first.folder / "losses.txt", other.folder)
    monkeypatch.chdir(other.folder)
    again = weights_of(run(other, 3, node=node, resume=True))
    for name, tensor in expected.items():
        torch.testing.assert_close(again[name], tensor, rtol=1e-6, atol=1e-6, msg=name)
    losses = [
        [float(line) for line in (folder / "losses.txt").read_text().split()] for folder in (whole.folder, other.folder)
    ]
    assert losses[0] == pytest.approx(losses[1], abs=1e-4)
