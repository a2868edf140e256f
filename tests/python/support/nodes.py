"""Whole clusters of Nodes: as threads of this process, over real sockets with TLS, or as processes."""

import functools
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import nn

import ravnest
from ravnest import _core
from support.command import interruptible
from support.places import SCRIPTS, TESTS
from support.pools import write_local_pool
from support.small_net import make_net

PATIENCE_S = 120
NAMES = ["node_0", "node_1", "node_2"]


def plan(folder: Path, model: nn.Module, example, nodes: int = 3, kwargs=None, compute=None, **options) -> ravnest.Plan:
    """A plan for so many nodes on free ports of this machine, in `folder`/node_data."""
    node_data = folder / "node_data"
    write_local_pool(node_data, nodes, compute)
    return ravnest.clusterize(model, example, kwargs, node_data=node_data, **options)


def plan_graph(graph: ravnest.Graph, node_data: Path, **options) -> ravnest.Plan:
    """A plan of a model that is captured already, for the pool in `node_data`."""
    defaults = {
        "balance": None,
        "min_cluster_size": 2,
        "optimizer_state": 2.0,
        "average_every": 100,
        "pool_file": "",
        "seed": 0,
    }
    return ravnest.Plan(_core.clusterize(graph._core, None, node_data=str(node_data), **(defaults | options)))


def plan_net(folder: Path, nodes: int = 3, compute=None, model=make_net, **options) -> ravnest.Plan:
    """`plan` with the small network, or another one for its inputs, each of which is captured once in this process."""
    torch.manual_seed(0)
    write_local_pool(folder / "node_data", nodes, compute)
    return plan_graph(_captured(model), folder / "node_data", **options)


@functools.cache
def _captured(make: Callable[[], nn.Module]) -> ravnest.Graph:
    with tempfile.TemporaryDirectory() as folder:
        return ravnest.load(ravnest.capture(make(), (torch.randn(20, 12),), path=f"{folder}/net.pt2"))


class Cluster:
    """Nodes of a plan as threads: `run(script)` calls `script(make)` on each; `make(**options)` gives its Node."""

    def __init__(self, folder: Path, nodes: int = 3):
        self.folder, self.names = folder, [f"node_{i}" for i in range(nodes)]

    def run(self, script, options_of=lambda name: {}) -> dict:
        """name -> what its script returned. Raises what the root's raised, else the first of the others."""
        results, errors = self.run_to_the_end(script, options_of)
        for name in self.names:
            if name in errors:
                raise errors[name]
        return results

    def run_to_the_end(self, script, options_of=lambda name: {}) -> tuple[dict, dict]:
        """name -> what its script returned, and name -> what it raised."""
        results, errors = {}, {}

        def play(name):
            def make(**options):
                options = {
                    "node_data": self.folder / "node_data",
                    "trained": self.folder / "trained",
                    "loss_filename": str(self.folder / "losses.txt"),
                    "threads": 1,
                    "progress": False,
                    "seed": 42,
                    **options,
                    **options_of(name),
                }
                return ravnest.Node(name=name, **options)

            try:
                results[name] = script(make)
            except BaseException as error:
                errors[name] = error

        threads = [threading.Thread(target=play, args=(name,), daemon=True) for name in self.names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert not any(thread.is_alive() for thread in threads), "a node hangs"
        return results, errors

    def losses(self) -> list[float]:
        return [float(line) for line in (self.folder / "losses.txt").read_text().splitlines()]

    def accuracies(self) -> list[float]:
        return [float(line) for line in (self.folder / "val_accuracies.txt").read_text().splitlines()]

    def fused(self) -> dict:
        path = ravnest.model_fusion(trained=self.folder / "trained")
        return torch.load(path, weights_only=True)


def start(script: Path, name: str, folder: Path, *arguments: str, within: Sequence[str] = ()) -> subprocess.Popen:
    """The script as a process of its own, in `folder`, as that node; `within` is a command that runs commands."""
    python_path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.Popen(
        [*within, sys.executable, script, *arguments],
        cwd=folder,
        env={**os.environ, "RAVNEST_NODE": name, "OMP_NUM_THREADS": "1", "PYTHONPATH": python_path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=interruptible,
    )


def end(processes) -> None:
    """Whatever still runs of them does not any more."""
    for process in processes:
        process.kill()
        process.wait()


def wait_for(fact: Callable, otherwise: str, within_s: float = 60):
    """What `fact` gives, as soon as it is true; `otherwise` is what is wrong when it never is."""
    deadline = time.monotonic() + within_s
    while not (result := fact()):
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.01)
    return result


def wait_for_line(process, line: str, within_s: float = 60) -> list[str]:
    """Everything up to the first line that has `line` in it. A process that has not written it by then is killed."""
    lines = []
    timer = threading.Timer(within_s, process.kill)
    timer.start()
    try:
        for each in iter(process.stdout.readline, ""):
            lines.append(each)
            if line in each:
                return lines
    finally:
        timer.cancel()
    raise AssertionError(f"{line!r} is not in what it wrote:\n{''.join(lines)}")


def on_this_machine(seconds: float) -> float:
    """So long on a quiet machine; one with other work, now or in the last minute, takes as much longer."""
    running = int(Path("/proc/loadavg").read_text().split()[3].split("/")[0])
    return seconds * max(1.0, max(os.getloadavg()[0], running) / (os.cpu_count() or 1))


def outcomes(processes, within_s: float = 60) -> dict:
    """name -> (exit status, output), of processes that have to be over soon, as it goes on this machine."""
    within_s = on_this_machine(within_s)
    deadline = time.monotonic() + within_s
    result = {}
    for name, process in processes.items():
        try:
            output, _ = process.communicate(timeout=max(deadline - time.monotonic(), 0.01))
        except subprocess.TimeoutExpired as error:
            raise AssertionError(f"{name} still runs after {within_s} s") from error
        result[name] = (process.returncode, output)
    return result


def train_for_long(folder: Path, processes: dict) -> None:
    """Three nodes as processes, which train and would go on for hours."""
    for name in NAMES:
        processes[name] = start(SCRIPTS / "node_script.py", name, folder, "10000", "0.01")
    wait_for_line(processes["node_2"], "training")
