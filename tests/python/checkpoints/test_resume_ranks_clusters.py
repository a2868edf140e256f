"""What several clusters have come to is gone on from by ranks, and the other way round, as by any other plan."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from support.nodes import Cluster, plan_graph
from support.places import SCRIPTS
from support.pools import write_local_pool
from support.ranks import launch
from support.small_net import criterion, loaders, make_plain

import ravnest
from ravnest import Trainer

pytestmark = pytest.mark.slow

BATCH = 10  # of each of two clusters or ranks; of 140 samples, so an epoch has seven steps of all
FILES = ("losses.txt", "losses_cluster_1.txt", "val_accuracies.txt", "val_accuracies_cluster_1.txt")


@pytest.fixture(scope="module")
def archive_of_net(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("net") / "plain.pt2"
    ravnest.capture(make_plain(), (torch.randn(20, 12),), path=path)
    return path


def copied(folder: Path, to: Path, archive: Path) -> Path:
    """A folder that goes on with what another one has come to."""
    to.mkdir()
    shutil.copy(archive, to)
    if folder.exists():
        shutil.copytree(folder / "checkpoints", to / "checkpoints")
        for file in FILES:
            if (folder / file).exists():
                shutil.copy(folder / file, to)
    return to


def run_nodes(
    folder: Path, monkeypatch, clusters: int, epochs: int, resume=None, every="11 updates"
) -> dict[str, torch.Tensor]:
    """What the network comes to, the same in all clusters, on two nodes for each."""
    write_local_pool(folder / "node_data", 2 * clusters)
    plan = plan_graph(ravnest.load(folder / "plain.pt2"), folder / "node_data", min_cluster_size=2)
    assert len(plan.clusters) == clusters
    train, val = loaders(batch=BATCH if clusters == 2 else 2 * BATCH)
    first = {node.name for node in plan.clusters[0].nodes}
    monkeypatch.chdir(folder)

    def script(make):
        options = {"optimizer": torch.optim.AdamW, "criterion": criterion, "schedule": "sync", "reduce_factor": 2}
        with make(**options, average="drain", labels=train, test_labels=val) as own:
            Trainer(
                node=own,
                train_loader=train,
                val_loader=val,
                epochs=epochs,
                shard=True,
                checkpoint="checkpoints",
                checkpoint_every=every,
                checkpoint_keep=0,
                resume=resume,
            ).train()
            return dict(own.named_parameters())

    ravnest.set_seed(42)
    ended = Cluster(folder, 2 * clusters).run(script)
    return {
        name: tensor.detach().clone()
        for node, stage in ended.items()
        if node in first
        for name, tensor in stage.items()
    }


def run_ranks(folder: Path, epochs: int, resume) -> dict[str, torch.Tensor]:
    """The same of two ranks."""
    said = launch(SCRIPTS / "checkpointing_rank.py", 2, folder, epochs, "11 updates", resume, BATCH)
    assert f"goes on from the checkpoint of update {resume} in checkpoints" in said
    return torch.load(folder / "plain_0.pt")["state"]


def checkpoints(folder: Path) -> dict[int, dict]:
    manifests = [json.loads(path.read_text()) for path in sorted(folder.glob("checkpoints/*/manifest.json"))]
    return {manifest["updates"]: manifest for manifest in manifests}


def losses(folder: Path, file="losses.txt") -> list[float]:
    return [float(line) for line in (folder / file).read_text().split()]


def close(one: dict, other: dict) -> None:
    assert one.keys() == other.keys()
    for name, tensor in other.items():
        torch.testing.assert_close(one[name], tensor, rtol=1e-6, atol=1e-6, msg=name)


def test_ranks_and_clusters_go_on_from_each_other_with_the_numbers_of_a_pipeline(tmp_path, archive_of_net, monkeypatch):
    two = copied(tmp_path / "none", tmp_path / "two", archive_of_net)
    run_nodes(two, monkeypatch, clusters=2, epochs=1, every="4 updates")
    middle = min(checkpoints(two))
    manifest = checkpoints(two)[middle]
    assert len(manifest["positions"]) == 2 and 0 < manifest["position"]["index"] < 7

    # From the middle of its first epoch to the end of the second.
    one, ranks = (copied(two, tmp_path / name, archive_of_net) for name in ("one", "ranks"))
    expected = run_nodes(one, monkeypatch, clusters=1, epochs=2, resume=middle)
    close(run_ranks(ranks, 2, middle), expected)
    assert len(losses(ranks)) == manifest["position"]["updates"] + 14 - manifest["position"]["index"]
    assert losses(ranks) == pytest.approx(losses(one), abs=2e-4)
    then = 11
    assert checkpoints(ranks)[then]["strategy"] == "ddp" and checkpoints(ranks)[then]["position"]["index"] == 4
    assert checkpoints(one)[then]["position"]["index"] == 4

    # And from the middle of the second, of which the file has the one model, to the end of the third.
    again, of_ranks = (copied(tmp_path / name, tmp_path / f"of_{name}", archive_of_net) for name in ("one", "ranks"))
    expected = run_nodes(again, monkeypatch, clusters=2, epochs=3, resume=then)
    close(run_nodes(of_ranks, monkeypatch, clusters=2, epochs=3, resume=then), expected)
    assert losses(of_ranks) == pytest.approx(losses(again), abs=2e-4)
    assert losses(of_ranks, FILES[1]) == pytest.approx(losses(again, FILES[1]), abs=2e-4)
    assert len(losses(of_ranks)) == then + 3 + 7
