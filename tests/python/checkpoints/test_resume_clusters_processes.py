"""Several clusters as processes that are killed, told to end or come back: what stays, and what is said."""

import json
import signal
from pathlib import Path

import pytest
import torch
from support.nodes import Cluster, end, outcomes, plan_net, start, wait_for, wait_for_line
from support.places import SCRIPTS
from support.small_net import criterion, loaders

import ravnest
from ravnest import Trainer

pytestmark = pytest.mark.slow

SCRIPT = SCRIPTS / "checkpointing_script.py"
LOSSES = ("losses.txt", "losses_cluster_1.txt")


class Clusters:
    """Two clusters of two nodes, which the test starts and ends."""

    def __init__(self, folder: Path):
        self.folder, self.processes = folder, {}
        made = plan_net(folder, nodes=4)
        self.names = [[node.name for node in cluster.nodes] for cluster in made.clusters]
        assert [len(names) for names in self.names] == [2, 2]

    def start(self, *arguments, clusters=(0, 1)) -> None:
        for name in [name for cluster in clusters for name in self.names[cluster]]:
            self.processes[name] = start(SCRIPT, name, self.folder, *map(str, arguments))

    def kill(self, *clusters) -> None:
        victims = [self.processes[name] for cluster in clusters for name in self.names[cluster]]
        for process in victims:
            process.kill()
        for process in victims:
            process.communicate()

    def ended_well(self) -> dict[str, str]:
        ended = outcomes(self.processes)
        assert all(status == 0 for status, _ in ended.values()), ended
        return {name: output for name, (_, output) in ended.items()}

    def manifests(self, name: str) -> list[dict]:
        """Those in the folder of that node, the oldest first."""
        paths = sorted((self.folder / "checkpoints" / name).glob("*/manifest.json"))
        return [json.loads(path.read_text()) for path in paths if path.exists()]


@pytest.fixture
def clusters(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    made = Clusters(folder)
    yield made
    end(made.processes.values())


def same(one: dict, other: dict) -> None:
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        assert torch.equal(tensor, other[name]), name


def undisturbed(folder: Path) -> Path:
    """Where a run of the script's settings is that nothing happened to, and that made no checkpoints."""
    plan_net(folder, nodes=4)
    train, val = loaders()

    def script(make):
        with make(
            optimizer=torch.optim.Adam,
            criterion=criterion,
            labels=train,
            test_labels=val,
            schedule="sync",
            average="drain",
            reduce_factor=2,
        ) as node:
            Trainer(node=node, train_loader=train, val_loader=val, epochs=3, save=True, shard=True).train()

    Cluster(folder, 4).run(script)
    return folder


def fused(folder: Path, cluster: int) -> dict[str, torch.Tensor]:
    path = ravnest.model_fusion(cluster_id=cluster, trained=folder / "trained")
    return torch.load(path, weights_only=True)


def test_after_all_are_killed_the_same_command_goes_on_with_a_folder_for_each_node(clusters, tmp_path):
    whole = undisturbed(tmp_path / "whole")
    clusters.start(3, "2 updates", "resume", 0.05)
    wait_for(lambda: all(clusters.manifests(name) for name in clusters.processes), "nodes have no checkpoint")
    clusters.kill(0, 1)
    clusters.start(3, "2 updates", "resume")
    said = clusters.ended_well()
    assert all("goes on from the checkpoint of update" in output for output in said.values()), said
    for cluster in (0, 1):
        same(fused(clusters.folder, cluster), fused(whole, cluster))
        assert (clusters.folder / LOSSES[cluster]).read_text() == (whole / LOSSES[cluster]).read_text()


@pytest.mark.parametrize(
    ("victim", "number"), [("node_3", signal.SIGTERM), pytest.param("node_0", signal.SIGUSR1, marks=pytest.mark.soak)]
)
def test_a_signal_to_any_node_ends_all_clusters_well_with_one_checkpoint(clusters, victim, number):
    clusters.start(100_000, "1000 min", "anew")
    for file in LOSSES:
        wait_for((clusters.folder / file).exists, "nothing is trained")
    clusters.processes[victim].send_signal(number)
    said = clusters.ended_well()
    last = [clusters.manifests(name)[-1] for name in clusters.processes]
    assert all(manifest["updates"] == last[0]["updates"] for manifest in last)
    sentence = (
        f"ravnest: {victim} got {number.name}: the run ends after the checkpoint of update {last[0]['updates']}; "
    )
    for output in said.values():
        assert output.splitlines()[-1].startswith(sentence), output
        assert "Traceback" not in output
    for file, position in zip(LOSSES, last[0]["positions"], strict=True):
        assert len((clusters.folder / file).read_text().splitlines()) == position["updates"]


@pytest.mark.soak
def test_a_cluster_that_is_killed_is_not_in_later_checkpoints_and_comes_back_to_its_own(clusters):
    clusters.start(400, "2 updates", "resume", 0.01)
    wait_for(lambda: all(clusters.manifests(name) for name in clusters.processes), "nodes have no checkpoint")
    clusters.kill(1)

    def alone() -> bool:
        return any({part["copy"] for part in each["parts"]} == {0} for each in clusters.manifests("node_0"))

    wait_for(alone, "the first cluster makes no checkpoint without the other")
    before = len((clusters.folder / LOSSES[1]).read_text().splitlines())
    clusters.start(400, "2 updates", "resume", 0.01, clusters=[1])
    said = wait_for_line(clusters.processes[clusters.names[1][0]], "goes on from the checkpoint of update")
    assert any("the other clusters train run" in line for line in said), said

    def together() -> bool:
        return {part["copy"] for part in clusters.manifests(clusters.names[1][0])[-1]["parts"]} == {0, 1}

    wait_for(together, "the cluster that came back makes no checkpoint with the other")
    assert len((clusters.folder / LOSSES[1]).read_text().splitlines()) > before // 2
    clusters.processes["node_0"].send_signal(signal.SIGTERM)
    clusters.ended_well()
