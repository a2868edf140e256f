"""Runs that go on from a checkpoint: with the numbers of a run that was never ended."""

import shutil

import pytest
import torch
from support.nodes import Cluster
from support.resuming import Stopped, ending, planned
from support.small_net import criterion, loaders

import ravnest
from ravnest import Trainer

pytestmark = pytest.mark.slow


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
            fed = train if stop_at is None else ending(train, checkpoints, stop_at)
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
    tmp_path, monkeypatch, schedule, every, stop_at, rates, val_freq
):
    node = {"schedule": schedule, **rates} | ({"microbatches": 2} if schedule == "gpipe" else {})
    folders = {name: tmp_path / name for name in ("whole", "ended")}
    whole = planned(folders["whole"], 3, 3)
    monkeypatch.chdir(whole.folder)
    expected = weights_of(run(whole, 3, node=node, checkpoint_every=every, val_freq=val_freq))
    ended = planned(folders["ended"], 3, 3)
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
def test_on_another_number_of_nodes_the_losses_go_on_as_they_would_have(tmp_path, monkeypatch, nodes):
    node = {"schedule": "sync"}
    whole = planned(tmp_path / "whole", 3, 3)
    monkeypatch.chdir(whole.folder)
    expected = weights_of(run(whole, 3, node=node))
    other = planned(tmp_path / "other", nodes, nodes)
    monkeypatch.chdir(other.folder)
    first = planned(tmp_path / "first", 3, 3)
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
