"""Runs that go on from a checkpoint: with the numbers of a run that was never ended."""

import shutil

import pytest
import torch
from support.resuming import ONE_CYCLE, planned, run, tensors_of

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("schedule", "every", "stop_at", "rates", "val_freq"),
    [
        ("sync", "epoch", 17, {}, 1),
        ("sync", "5 updates", 17, ONE_CYCLE, 1),
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
    trainer = {"checkpoint_every": every, "val_freq": val_freq}
    folders = {name: tmp_path / name for name in ("whole", "ended")}
    whole = planned(folders["whole"], 3, 3)
    monkeypatch.chdir(whole.folder)
    expected = tensors_of(run(whole, 3, trainer=trainer, **node))
    ended = planned(folders["ended"], 3, 3)
    monkeypatch.chdir(ended.folder)
    run(ended, 3, stop_at, trainer=trainer, **node)
    again = tensors_of(run(ended, 3, trainer=trainer | {"resume": True}, **node))
    assert again.keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(again[name], tensor), name
    for file in ("losses.txt", "val_accuracies.txt"):
        assert (ended.folder / file).read_text() == (whole.folder / file).read_text(), file
    assert not (ended.folder / "losses.txt.1").exists()


@pytest.mark.parametrize("nodes", [1, 2, 4])
def test_on_another_number_of_nodes_the_losses_go_on_as_they_would_have(tmp_path, monkeypatch, nodes):
    whole = planned(tmp_path / "whole", 3, 3)
    monkeypatch.chdir(whole.folder)
    expected = tensors_of(run(whole, 3, schedule="sync"))
    other = planned(tmp_path / "other", nodes, nodes)
    monkeypatch.chdir(other.folder)
    first = planned(tmp_path / "first", 3, 3)
    monkeypatch.chdir(first.folder)
    run(first, 3, 17, schedule="sync")
    shutil.copytree(first.folder / "checkpoints", other.folder / "checkpoints")
    shutil.copy(first.folder / "losses.txt", other.folder)
    monkeypatch.chdir(other.folder)
    again = tensors_of(run(other, 3, trainer={"resume": True}, schedule="sync"))
    for name, tensor in expected.items():
        torch.testing.assert_close(again[name], tensor, rtol=1e-6, atol=1e-6, msg=name)
    losses = [
        [float(line) for line in (folder / "losses.txt").read_text().split()] for folder in (whole.folder, other.folder)
    ]
    assert losses[0] == pytest.approx(losses[1], abs=1e-4)
