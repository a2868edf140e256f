"""Checkpoints of several clusters in object storage: there when the parts of all are, for any number of clusters."""

import json
import re
import shutil
import signal
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from support import command, npy_run
from support.nodes import end, outcomes, plan_net, wait_for
from support.s3_server import Fault, S3Server

import ravnest

pytestmark = pytest.mark.slow

MORE = 'average = "drain"\nreduce_factor = 1'
TABLE = '\n[checkpoint]\nfolder = "s3://lab/run"\nevery = "{every}"\nkeep = {keep}\n'
LOSSES = ("losses.txt", "losses_cluster_1.txt")
ENDLESS = 100_000


class Clusters:
    """A plan of so many nodes, in clusters of so many, which the test starts and ends."""

    def __init__(self, folder: Path, nodes: int = 4, size: int = 2):
        self.folder, self.processes = folder, {}
        folder.mkdir()
        plan = plan_net(folder, nodes=nodes, min_cluster_size=size)
        self.names = [[node.name for node in cluster.nodes] for cluster in plan.clusters]
        assert [len(names) for names in self.names] == [size] * (nodes // size)

    def start(self, *arguments, epochs=2, every="2 updates", keep=2, checkpoints=True) -> None:
        npy_run.write_files(
            self.folder,
            epochs=epochs,
            more=MORE,
            shard="shard = true",
            tables=TABLE.format(every=every, keep=keep) if checkpoints else "",
        )
        for cluster in range(len(self.names)):
            self.start_one(cluster, *arguments)

    def start_one(self, cluster: int, *arguments) -> None:
        """With the files that are there, which others may be reading."""
        for name in self.names[cluster]:
            with open(self.folder / f"{name}.said", "w") as said:
                self.processes[name] = command.start("node", name, *arguments, cwd=self.folder, to=said)

    def over(self) -> dict[str, str]:
        """What each has said, all of whom have ended well."""
        statuses = {status for status, _ in outcomes(self.processes).values()}
        said = {name: (self.folder / f"{name}.said").read_text() for name in self.processes}
        assert statuses == {0}, said
        return said

    def kill(self, cluster: int) -> None:
        for name in self.names[cluster]:
            self.processes[name].kill()
            self.processes[name].wait()

    def fused(self, cluster: int) -> dict[str, torch.Tensor]:
        path = ravnest.model_fusion(cluster_id=cluster, trained=self.folder / "trained")
        return torch.load(path, weights_only=True)


@pytest.fixture
def made(tmp_path):
    """name -> clusters in a folder of that name."""
    all_made = []

    def make(name: str, **options) -> Clusters:
        all_made.append(Clusters(tmp_path / name, **options))
        return all_made[-1]

    yield make
    for clusters in all_made:
        end(clusters.processes.values())


def same(one: dict, other: dict) -> None:
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        assert torch.equal(tensor, other[name]), name


def copies(manifest: dict) -> list[int]:
    return sorted({part["copy"] for part in manifest["parts"]})


def manifests(server: S3Server) -> dict[int, dict]:
    """update -> what there is of it."""
    there = {}
    for key in server.keys("lab"):
        if key.endswith("manifest.json"):
            with suppress(FileNotFoundError, ValueError):  # it is outdated by now, or not whole yet
                there[int(re.search(r"update_(\d+)", key)[1])] = json.loads(server.get("lab", key))
    return there


def test_any_number_of_clusters_goes_on_elsewhere_from_what_is_in_the_bucket_alone(made, served, tmp_path, monkeypatch):
    whole = made("whole")
    whole.start(epochs=4, checkpoints=False)
    whole.over()
    here = made("here")
    here.start("--resume")
    said = here.over()
    assert "there is no checkpoint in s3://lab/run to go on from: the run begins anew" in said["node_0"]
    last = max(served.glob("run/*/manifest.json"))
    manifest = json.loads(last.read_text())
    assert copies(manifest) == [0, 1] and len(manifest["positions"]) == 2
    assert {path.name for path in last.parent.glob("cluster_*")} == {part["file"] for part in manifest["parts"]}
    verified = command.run("checkpoint", "verify", "--folder", "s3://lab/run", cwd=here.folder)
    assert "all is well (4 parts" in verified.stdout, verified

    elsewhere = made("elsewhere")
    shutil.rmtree(elsewhere.folder / "node_data")
    shutil.copytree(here.folder / "node_data", elsewhere.folder / "node_data")
    for file in LOSSES:
        shutil.copy(here.folder / file, elsewhere.folder)
    monkeypatch.setenv("RAVNEST_CACHE", str(tmp_path / "other_cache"))
    elsewhere.start("--resume=s3://lab/run/last", epochs=4, keep=0)
    said = elsewhere.over()
    assert all(f"goes on from the checkpoint of update {manifest['updates']} in s3" in each for each in said.values())
    for cluster in (0, 1):
        same(elsewhere.fused(cluster), whole.fused(cluster))
        assert (elsewhere.folder / LOSSES[cluster]).read_text() == (whole.folder / LOSSES[cluster]).read_text()

    # One cluster, and three, of no more epochs than are over: their weights are the checkpoint's, and the mean of three
    # of them that.
    for number, (nodes, size) in enumerate([(3, 3), (3, 1)]):
        monkeypatch.setenv("RAVNEST_CACHE", str(tmp_path / f"cache_{number}"))
        other = made(f"other_{number}", nodes=nodes, size=size)
        other.start(f"--resume=s3://lab/run/{last.parent.name}", epochs=2, every="1000 updates")
        other.over()
        for cluster in range(nodes // size):
            for name, tensor in here.fused(0).items():
                torch.testing.assert_close(other.fused(cluster)[name], tensor, rtol=1e-6, atol=1e-7, msg=name)


def test_a_cluster_that_is_lost_while_it_uploads_costs_that_checkpoint_alone_and_comes_back(made, server, tmp_path):
    clusters = made("run")
    held = []

    def fault(seen):
        """Parts of the second cluster's do not get there, once there is a checkpoint of both."""
        if seen.method != "PUT" or "/cluster_1" not in seen.key or not manifests(server):
            return None
        held.append(seen.key)
        return Fault(hang=True)

    server.fault = fault
    # All stay: what the cluster goes on from when it comes back is not outdated before it has it.
    clusters.start("--resume", epochs=ENDLESS, every="300 updates", keep=0)
    wait_for(lambda: held, "nothing is held")
    folder = held[0].split("/")[-2]
    wait_for(lambda: list(tmp_path.glob(f"cache/checkpoints/*/*/{folder}/manifest.json")), "it is not on the nodes")
    clusters.kill(1)
    wait_for(lambda: any(copies(each) == [0] for each in manifests(server).values()), "the first makes none alone")
    alone = max(manifests(server))
    server.fault = lambda seen: None
    clusters.start_one(1, "--resume")
    wait_for(
        lambda: any(update > alone and copies(each) == [0, 1] for update, each in manifests(server).items()),
        "both make none together again",
    )
    clusters.processes["node_0"].send_signal(signal.SIGTERM)
    said = clusters.over()[clusters.names[0][0]]
    lost = int(folder.removeprefix("update_"))
    name = clusters.names[1][0]
    assert (
        f"the checkpoint of update {lost} is on the nodes, but not in s3://lab/run: cluster 1 ({name}) was lost before "
        "its parts were there"
    ) in said, said
    assert lost not in manifests(server)
    assert f"the run ends after the checkpoint of update {max(manifests(server))}; " in said.splitlines()[-1]


def test_a_signal_ends_all_clusters_when_their_last_checkpoint_is_in_the_bucket(made, server):
    clusters = made("run")
    clusters.start(epochs=ENDLESS, every="1000 min")
    for file in LOSSES:
        wait_for((clusters.folder / file).exists, "nothing is trained")
    last_name = clusters.names[1][-1]
    seen_parts = []

    def fault(seen):
        """The first try of each part fails."""
        if seen.method != "PUT" or "/cluster_" not in seen.key:
            return None
        seen_parts.append(seen.key)
        return Fault(status=500) if seen_parts.count(seen.key) == 1 else None

    server.fault = fault
    clusters.processes[last_name].send_signal(signal.SIGTERM)
    said = clusters.over()
    last = max(manifests(server))
    assert copies(manifests(server)[last]) == [0, 1]
    for output in said.values():
        assert output.splitlines()[-1].startswith(
            f"ravnest: {last_name} got SIGTERM: the run ends after the checkpoint of update {last}; "
        ), output


def test_a_part_that_cannot_be_put_is_a_line_with_the_command_that_makes_up_for_it(made, server, monkeypatch):
    clusters = made("run")
    server.fault = lambda seen: (
        Fault(status=500) if seen.method == "PUT" and re.search(r"02/cluster_1_stage_1", seen.key) else None
    )
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    clusters.start(epochs=2, keep=0)
    said = clusters.over()
    assert 2 not in manifests(server) and max(manifests(server)) > 2
    lines = [(name, line) for name, each in said.items() for line in each.splitlines() if "but not in s3" in line]
    ((name, line),) = lines
    assert name == clusters.names[0][0]
    start_of = f"the checkpoint of update 2 is on the nodes, but not in s3://lab/run: {clusters.names[1][1]}: "
    assert start_of in line and "the server says 500" in line
    server.fault = lambda seen: None
    done = command.run(*re.search(r"`ravnest (.*)`", line)[1].split(), cwd=clusters.folder)
    assert done.returncode == 0, done.stderr
    verified = command.run("checkpoint", "verify", "2", "--folder", "s3://lab/run", cwd=clusters.folder)
    assert "update_000000002: all is well" in verified.stdout, verified
