"""Runs whose nodes are all killed at once, again and again, at random moments, and that go on each time.

Of synchronous ones, weights and losses are those of a run that nothing happened to, to the bit. Of asynchronous ones
the loss of each update has its line once.
"""

import os
import random
import re
import shutil
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

import ravnest
from support import command, npy_run
from support.nodes import end, outcomes, plan_net, start
from support.places import SCRIPTS
from support.s3_peers import rclone

PATIENCE_S = 300
_TABLE = '\n[checkpoint]\nfolder = "{place}"\nevery = "3 updates"\nresume = true\n'


@dataclass
class Way:
    """What is run, by how many nodes in how many clusters."""

    name: str
    nodes: int = 3
    clusters: int = 1
    loop: str = "trainer"  # "own": one that a user writes; "toml": without Python
    schedule: str = "sync"
    epochs: int = 8
    delay_s: float = 0.01  # per batch of a script's, so that a run lasts longer than its nodes take to start
    place: str = "checkpoints"  # or in object storage

    def prepare(self, folder: Path) -> None:
        """The run's folder, with a plan."""
        plan_net(folder, nodes=self.nodes, min_cluster_size=self.nodes // self.clusters)
        if self.loop == "toml":
            more, shard = ('average = "drain"\nreduce_factor = 2', "shard = true") if self.clusters > 1 else ("", "")
            table = _TABLE.format(place=self.place)
            npy_run.write_files(
                folder, epochs=self.epochs, schedule=self.schedule, more=more, shard=shard, tables=table
            )

    def start(self, folder: Path) -> dict:
        """name -> the node's process."""
        names = [f"node_{i}" for i in range(self.nodes)]
        if self.loop == "toml":
            return {name: command.start("node", name, cwd=folder) for name in names}
        arguments = (self.loop, self.schedule, str(self.epochs), str(self.delay_s))
        return {name: start(SCRIPTS / "kills_script.py", name, folder, *arguments) for name in names}

    @contextmanager
    def served(self, folder: Path):
        """What the run needs beside its nodes, in this folder."""
        if self.place == "checkpoints":
            yield
            return
        before = dict(os.environ)
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            del os.environ[name]
        try:
            with rclone(folder / "served") as variables:
                os.environ.update(variables, RAVNEST_CACHE=str(folder / "cache"))
                yield
        finally:
            os.environ.clear()
            os.environ.update(before)


@dataclass
class Outcome:
    """What a run left."""

    weights: list[dict[str, torch.Tensor]]  # by cluster
    losses: list[str]
    accuracy: float | None
    took_s: float  # the last time that it was started


def run(way: Way, folder: Path, kills: list[float]) -> Outcome:
    """Killed after so many seconds each time, then to its end. From object storage it goes on as on other machines."""
    way.prepare(folder)
    with way.served(folder):
        for after_s in kills:
            processes = way.start(folder)
            time.sleep(after_s)
            end(processes.values())
            for process in processes.values():
                process.communicate(timeout=PATIENCE_S)
            shutil.rmtree(folder / "cache", ignore_errors=True)
        began = time.monotonic()
        processes = way.start(folder)
        try:
            ended = outcomes(processes, PATIENCE_S)
        finally:
            end(processes.values())
    assert all(status == 0 for status, _ in ended.values()), ended
    accuracy = re.findall(r"^accuracy ([0-9.]+)$", ended["node_0"][1], re.MULTILINE)
    files = ["losses.txt", *(f"losses_cluster_{i}.txt" for i in range(1, way.clusters))]
    return Outcome(
        weights=[
            torch.load(ravnest.model_fusion(cluster_id=cluster, trained=folder / "trained"), weights_only=True)
            for cluster in range(way.clusters)
        ],
        losses=[(folder / file).read_text() for file in files],
        accuracy=float(accuracy[-1]) if accuracy else None,
        took_s=time.monotonic() - began,
    )


def moments(expected: Outcome, number: int) -> list[float]:
    """When to kill."""
    return [random.uniform(0, expected.took_s) for _ in range(number)]


def compare(way: Way, found: Outcome, expected: Outcome) -> None:
    """What is promised of this way."""
    for own, other in zip(found.losses, expected.losses, strict=True):
        assert len(own.splitlines()) == len(other.splitlines()), f"{way.name}: lines of losses"
    if way.schedule != "sync":
        return
    assert found.losses == expected.losses, f"{way.name}: other losses"
    for own, other in zip(found.weights, expected.weights, strict=True):
        for name, tensor in other.items():
            assert torch.equal(own[name], tensor), f"{way.name}: {name} is another"
