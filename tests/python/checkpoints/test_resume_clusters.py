"""Several clusters that go on from a checkpoint: with the numbers of a run that was never ended."""

import json
import shutil
import time
from pathlib import Path

import pytest
import torch
from support import resuming
from support.checkpoints import read_safetensors
from support.nodes import Cluster
from support.resuming import planned
from support.small_net import criterion, loaders, make_dropping_in_16_bits

from ravnest import Trainer

pytestmark = pytest.mark.slow

BATCH = 10  # of 140 samples: seven batches of an epoch for each of two clusters
DEFAULTS = {
    "optimizer": torch.optim.Adam,
    "criterion": criterion,
    "schedule": "sync",
    "average": "drain",
    "reduce_factor": 2,
}


def run(cluster: Cluster, epochs: int, stop_at: int | None = None, trainer=None, **options) -> dict:
    """As resuming.run has it, of clusters that share the data out."""
    return resuming.run(cluster, epochs, stop_at, BATCH, {"shard": True} | (trainer or {}), **DEFAULTS | options)


FILES = ("losses.txt", "losses_cluster_1.txt", "val_accuracies.txt", "val_accuracies_cluster_1.txt")


def assert_same(one: dict, other: dict) -> None:
    """Each stage has the same tensors, to the bit."""
    assert one.keys() == other.keys()
    for node, tensors in one.items():
        for name, tensor in tensors.items():
            assert torch.equal(tensor, other[node][name]), (node, name)


@pytest.mark.parametrize(
    ("every", "stop_at", "options"),
    [
        ("epoch", 17, {}),
        ("3 updates", 12, {"schedule": "gpipe", "microbatches": 2, "reduce_factor": 1}),
        ("4 updates", 12, {"outer": "nesterov", "compression": "int8", "update_frequency": 2}),
        ("5 updates", 17, {"average_optim": True, "reduce_factor": None}),
    ],
    ids=["each epoch", "gpipe", "outer optimizer and compression", "a round per epoch"],
)
def test_clusters_that_drain_come_to_the_bits_of_a_run_that_was_never_ended(
    tmp_path, monkeypatch, every, stop_at, options
):
    options = dict(options)
    trainer = {"checkpoint_every": every} | {name: options.pop(name) for name in ("microbatches",) if name in options}
    whole = planned(tmp_path / "whole", 4, 2)
    monkeypatch.chdir(whole.folder)
    expected = run(whole, 3, trainer=trainer, **options)
    ended = planned(tmp_path / "ended", 4, 2)
    monkeypatch.chdir(ended.folder)
    run(ended, 3, stop_at, trainer=trainer, **options)
    losses = len((ended.folder / "losses.txt").read_text().splitlines())
    again = run(ended, 3, trainer=trainer | {"resume": True}, **options)
    assert_same(again, expected)
    for file in FILES:
        assert (ended.folder / file).read_text() == (whole.folder / file).read_text(), file
    assert losses < len((ended.folder / "losses.txt").read_text().splitlines())
    assert not (ended.folder / "losses.txt.1").exists()


def manifests(folder: Path) -> list[dict]:
    """Of all checkpoints, the newest last."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob("checkpoints/*/manifest.json"))]


@pytest.mark.parametrize("options", [{"outer": "nesterov"}, {"compression": "int8"}], ids=["outer", "compression"])
def test_weights_of_16_bits_go_on_from_what_all_clusters_hold_which_they_are_rounded_from(
    tmp_path, monkeypatch, options
):
    whole = planned(tmp_path, 4, 2, model=make_dropping_in_16_bits)
    monkeypatch.chdir(whole.folder)
    trainer = {"checkpoint_every": "3 updates", "checkpoint_keep": 0}
    expected = run(whole, 2, trainer=trainer, **options)
    middle = manifests(tmp_path)[0]["updates"]
    assert_same(run(whole, 2, trainer=trainer | {"resume": middle}, **options), expected)


def test_clusters_that_train_on_meanwhile_make_checkpoints_with_one_model_in_them(tmp_path, monkeypatch):
    cluster = planned(tmp_path, 4, 2)
    monkeypatch.chdir(tmp_path)
    options = {"schedule": "async", "average": "overlap", "reduce_factor": 3}
    trainer = {"checkpoint_every": "5 updates", "checkpoint_keep": 0, "resume": True}
    # Besides the one at its end a run makes those for which it had the time: it goes on until there is one.
    runs, deadline = 0, time.monotonic() + 60
    while len(manifests(tmp_path)) <= runs:
        assert time.monotonic() < deadline, "no checkpoint is made while they train"
        runs += 1
        expected = run(cluster, 3 * runs, trainer=trainer, **options)
    for manifest in manifests(tmp_path):
        assert sorted({part["copy"] for part in manifest["parts"]}) == [0, 1]
        assert len(manifest["positions"]) == 2
        first, second = weights(tmp_path, manifest, 0), weights(tmp_path, manifest, 1)
        for name, tensor in first.items():
            assert not tensor.is_floating_point() or torch.equal(tensor, second[name]), name
    # An accuracy goes to the first checkpoint after its validation.
    assert any(manifest.get("val_accuracy") is not None for manifest in manifests(tmp_path))
    assert_same(run(cluster, 3 * runs, trainer=trainer, **options), expected)


def weights(folder: Path, manifest: dict, copy: int) -> dict:
    """The model's tensors of one copy in a checkpoint."""
    path = folder / "checkpoints" / f"update_{manifest['updates']:09}"
    tensors = {}
    for part in manifest["parts"]:
        if part["copy"] == copy:
            tensors |= {
                name: value for name, value in read_safetensors(path / part["file"]).items() if name in part["tensors"]
            }
    return tensors


@pytest.mark.parametrize(("nodes", "size"), [(2, 2), (3, 3), (6, 3)])
def test_other_clusters_go_on_from_the_same_model_and_place(tmp_path, monkeypatch, nodes, size):
    first = planned(tmp_path / "first", 4, 2)
    monkeypatch.chdir(first.folder)
    run(first, 3, 10)
    manifest = manifests(first.folder)[-1]
    other = planned(tmp_path / "other", nodes, size)
    monkeypatch.chdir(other.folder)
    shutil.copytree(first.folder / "checkpoints", other.folder / "checkpoints")
    for file in FILES[:2]:
        shutil.copy(first.folder / file, other.folder)
    # A run of no more epochs than are over trains nothing: its weights are the checkpoint's.
    done = run(other, 1, trainer={"resume": True, "checkpoint_every": "1000 updates"})
    expected = weights(first.folder, manifest, 0)
    for tensors in done.values():
        for name, tensor in tensors.items():
            assert torch.equal(tensor, expected[name]), name
    run(other, 3, trainer={"resume": True})
    # Where each of two has trained on five batches of an epoch of seven, one has on ten of fourteen.
    position, clusters = manifest["positions"][0], nodes // size
    left = 3 * 14 // clusters - (7 * position["epoch"] + position["index"]) * 2 // clusters
    assert len((other.folder / "losses.txt").read_text().splitlines()) == position["updates"] + left


def test_one_cluster_s_checkpoint_is_gone_on_from_by_two(tmp_path, monkeypatch):
    first = planned(tmp_path / "first", 2, 2)
    monkeypatch.chdir(first.folder)
    run(first, 3, 20)
    manifest = manifests(first.folder)[-1]
    two = planned(tmp_path / "two", 4, 2)
    monkeypatch.chdir(two.folder)
    shutil.copytree(first.folder / "checkpoints", two.folder / "checkpoints")
    done = run(two, 1, trainer={"resume": True, "checkpoint_every": "1000 updates"})
    expected = weights(first.folder, manifest, 0)
    for tensors in done.values():
        for name, tensor in tensors.items():
            assert torch.equal(tensor, expected[name]), name
    run(two, 3, trainer={"resume": True})
    assert sorted({part["copy"] for part in manifests(two.folder)[-1]["parts"]}) == [0, 1]


def test_a_cluster_that_was_given_no_checkpoints_to_make_says_so(tmp_path, monkeypatch):
    cluster = planned(tmp_path, 4, 2)
    monkeypatch.chdir(tmp_path)

    def script(make):
        train, _ = loaders(batch=BATCH)
        with make(**DEFAULTS, labels=train) as own:
            checkpoint = tmp_path / "checkpoints" if own.cluster_id == 0 else None
            Trainer(node=own, train_loader=train, epochs=2, checkpoint=checkpoint, shard=True).train()

    results, errors = cluster.run_to_the_end(script)
    assert len(errors) == 2, errors
    for error in errors.values():
        assert "cluster 0 (node_0) makes checkpoints, and this node was given none to make" in str(error)
    assert [part["copy"] for part in manifests(tmp_path)[-1]["parts"]] == [0, 0]
    assert len(results) == 2
