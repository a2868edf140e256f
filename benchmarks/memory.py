"""The memory that a plan states for each node, against the most that its process takes.

    python benchmarks/memory.py [--only mlp] [--steps 12] [--process 0.27]

A perceptron of 63 million parameters on three nodes of 1 GB, cut by RAM, and the models of the tests on three nodes;
each node a Python process that trains with Adam. The peak is the kernel's VmHWM: all that was resident at once,
libraries included. --process is what a process takes without a model here, in GB, as `ravnest benchmark` measures it;
the plan has a default. Prints lines of: name value unit ratio-to-the-plan's-figure target.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "python"))

import torch
from support.models import ARCHITECTURES, Case, rows
from support.passes import loss_of
from support.pools import write_local_pool
from torch import nn

import ravnest

LAYERS, WIDTH = 15, 2048


def perceptron() -> nn.Module:
    return nn.Sequential(*(layer for _ in range(LAYERS) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())))


CASES = {case.name: case for case in [Case("mlp", perceptron, rows(WIDTH), batch=64), *ARCHITECTURES]}


def peak_bytes(pid: int | str = "self") -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1))


class Steps(ravnest.Trainer):
    """Passes over the same example, with its positional and keyword inputs."""

    def train(self):
        self.prelim_checks()
        if self.node.is_root:
            for args, kwargs in self.train_loader:
                self.node.forward_compute(args, **kwargs)
        self.node.wait_for_backwards()


def train(name: str, steps: int) -> None:
    """As a node: trains so many steps, and says the most that it took."""
    case = CASES[name]
    example = case.example()
    options = {"optimizer": torch.optim.Adam, "criterion": lambda outputs, _: loss_of(outputs), "progress": False}
    with ravnest.Node(labels=[example] * steps, **options) as node:
        Steps(node=node, train_loader=[example] * steps).train()
    print(json.dumps({"peak": peak_bytes()}), flush=True)


def planned(case: Case, folder: Path, ram: float, **benchmarks: float) -> ravnest.Plan:
    write_local_pool(folder / "node_data", 3, ram=ram, **benchmarks)
    args, kwargs = case.example()
    return ravnest.clusterize(case.model(), args, kwargs, node_data=folder / "node_data")


def peaks(command: list[str], names: list[str], folder: Path) -> dict[str, int]:
    """Node -> the most that its process took."""
    started = {}
    for name in names:
        environment = {**os.environ, "RAVNEST_NODE": name, "OMP_NUM_THREADS": "1"}
        started[name] = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        printed = {name: process.communicate(timeout=600)[0] for name, process in started.items()}
    finally:
        for process in started.values():
            process.kill()
    return {name: json.loads(text.strip().splitlines()[-1])["peak"] for name, text in printed.items()}


def report(name: str, plan: ravnest.Plan, measured: dict[str, int]) -> None:
    for node in plan.nodes:
        peak = measured[node.name]
        print(f"{name}_{node.role} {peak / 1e6:.0f} MB {peak / node.memory['total']:.3f} 0.9..1.1", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=CASES, help="one model")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--process", type=float, help="GB")
    parser.add_argument("--trains", choices=CASES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.trains:
        train(options.trains, options.steps)
        return
    share = {} if options.process is None else {"process": options.process}
    print("# name peak unit ratio-to-the-plan's-figure target")
    for name in [options.only] if options.only else CASES:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            sys.stdout.flush()
            quiet = os.dup(1)
            with open(os.devnull, "w") as null:
                os.dup2(null.fileno(), 1)
                plan = planned(CASES[name], folder, 1 if name == "mlp" else 8, **share)
                sys.stdout.flush()
                os.dup2(quiet, 1)
            os.close(quiet)
            command = [sys.executable, __file__, "--trains", name, "--steps", str(options.steps)]
            report(name, plan, peaks(command, [node.name for node in plan.nodes], folder))


if __name__ == "__main__":
    main()
