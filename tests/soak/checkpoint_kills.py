"""Kill -9 of all nodes of a run at random moments, again and again: what is gone on from is what would have been.

    python tests/soak/checkpoint_kills.py [TIMES]

A pipeline of three nodes, two clusters of two, a training loop that a user writes, and train.toml without Python: each
is killed TIMES times, and resumed each time, in runs of a few kills. Of synchronous ones, weights and losses are those
of a run that nothing happened to, to the bit. Of asynchronous ones the loss of each update has its line once, and
the accuracy, mean of the runs, is at most half a point below.
"""

import random
import re
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import torch

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests/python"))

from support import command, npy_run  # noqa: E402
from support.nodes import end, outcomes, plan_net, start  # noqa: E402
from support.places import SCRIPTS  # noqa: E402

import ravnest  # noqa: E402

KILLS_PER_RUN = 5
EPOCHS = 8
DELAY_S = 0.01  # per batch, so that a run lasts longer than its nodes take to start
POINTS = 0.5
PATIENCE_S = 300
CHECKPOINT = '\n[checkpoint]\nfolder = "checkpoints"\nevery = "3 updates"\nresume = true\n'


@dataclass
class Way:
    """What is run, by how many nodes in how many clusters."""

    name: str
    nodes: int = 3
    clusters: int = 1
    loop: str = "trainer"  # "toml": without Python
    schedule: str = "sync"

    def prepare(self, folder: Path) -> None:
        """The run's folder, with a plan."""
        plan_net(folder, nodes=self.nodes)
        if self.loop == "toml":
            npy_run.write_files(folder, epochs=40, schedule=self.schedule, tables=CHECKPOINT)

    def start(self, folder: Path) -> dict:
        """name -> the node's process."""
        names = [f"node_{i}" for i in range(self.nodes)]
        if self.loop == "toml":
            return {name: command.start("node", name, cwd=folder) for name in names}
        arguments = (self.loop, self.schedule, str(EPOCHS), str(DELAY_S))
        return {name: start(SCRIPTS / "kills_script.py", name, folder, *arguments) for name in names}


WAYS = [
    Way("a pipeline of three"),
    Way("two clusters of two", nodes=4, clusters=2),
    Way("a loop of the user's", loop="own"),
    Way("train.toml", loop="toml"),
    Way("a pipeline of three, asynchronous", schedule="async"),
    Way("two clusters of two, asynchronous", nodes=4, clusters=2, schedule="async"),
]


def run(way: Way, folder: Path, kills: list[float]) -> str:
    """Killed after so many seconds each time, then to its end; what the first node said last."""
    for after_s in kills:
        processes = way.start(folder)
        time.sleep(after_s)
        end(processes.values())
        for process in processes.values():
            process.communicate()
    processes = way.start(folder)
    try:
        ended = outcomes(processes, PATIENCE_S)
    finally:
        end(processes.values())
    assert all(status == 0 for status, _ in ended.values()), ended
    return ended["node_0"][1]


@dataclass
class Outcome:
    """What a run left."""

    weights: list[dict[str, torch.Tensor]]  # by cluster
    losses: list[str]
    accuracy: float | None


def outcome(way: Way, folder: Path, said: str) -> Outcome:
    """Of a run that is over."""
    fused = [
        torch.load(ravnest.model_fusion(cluster_id=cluster, trained=folder / "trained"), weights_only=True)
        for cluster in range(way.clusters)
    ]
    files = ["losses.txt", *(f"losses_cluster_{i}.txt" for i in range(1, way.clusters))]
    accuracy = re.findall(r"^accuracy ([0-9.]+)$", said, re.MULTILINE)
    return Outcome(fused, [(folder / file).read_text() for file in files], float(accuracy[-1]) if accuracy else None)


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


def undisturbed(way: Way, folder: Path) -> tuple[Outcome, float]:
    """What it comes to, and how long that takes."""
    way.prepare(folder)
    began = time.monotonic()
    said = run(way, folder, [])
    return outcome(way, folder, said), time.monotonic() - began


def main(times: int) -> None:
    """Each way is killed so often."""
    for way in WAYS:
        with tempfile.TemporaryDirectory() as name:
            expected, takes_s = undisturbed(way, Path(name) / "whole")
            accuracies = []
            for first in range(0, times, KILLS_PER_RUN):
                folder = Path(name) / str(first)
                way.prepare(folder)
                kills = [random.uniform(0, takes_s) for _ in range(min(KILLS_PER_RUN, times - first))]
                found = outcome(way, folder, run(way, folder, kills))
                compare(way, found, expected)
                accuracies.append(found.accuracy)
                shutil.rmtree(folder)
                moments = ", ".join(f"{after_s:.2f}" for after_s in kills)
                print(f"checkpoint_kills: {way.name}, killed after {moments} s", flush=True)
            if way.schedule != "sync" and expected.accuracy is not None:
                mean = statistics.mean(accuracies)
                assert mean >= expected.accuracy - POINTS, (way.name, mean, expected.accuracy)
                print(f"checkpoint_kills: {way.name}: {mean:.2f} %, undisturbed {expected.accuracy:.2f} %", flush=True)
    print(f"checkpoint_kills: {len(WAYS)} ways, {times} kills each; every run came to what it would have")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 25)
