"""The walk-through as users run it: three local nodes with TLS, digits, Python's Trainer.

    python benchmarks/walkthrough.py [--repeats N]

Prints lines of: name value unit ratio-to-peer target. Peers: plain PyTorch on one thread in the same run; the same
pipeline without Python (tests/pipeline/stage_node); and, for the Python ravnest, the figures that were measured of it
(264 samples/s and 86 CPU seconds for 10 epochs at its best).
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests/python"), str(ROOT / "examples/digits")]
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: E402
from digits import BATCH, load_data, make_model  # noqa: E402
from support import stage_processes  # noqa: E402
from support.pools import write_local_pool  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

import ravnest  # noqa: E402

CUTS = ["dense_1", "bn_3"]
EPOCHS = 60
TENSOR_BYTES = 2 * (32 + 256) * 4  # of a sample over both cuts, there and back
THE_PYTHON_RAVNEST = {"samples_per_s": 264.0, "cpu_s": 86.0}
LOSS = nn.MSELoss()


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Timed(ravnest.Trainer):
    """A first batch by itself, then epochs without validation, each with its own clock."""

    def train(self):
        self.node.forward_compute(next(iter(self.train_loader))[0])
        self.node.wait_for_backwards()
        first = time.monotonic()
        super().train()
        return first, time.monotonic() - first


def loader() -> DataLoader:
    (x, y), _ = load_data()
    return DataLoader(TensorDataset(x, y), batch_size=BATCH, shuffle=True)


def play(name: str) -> None:
    """What one node does; the line that it prints is for `measure`."""
    torch.set_num_threads(1)
    ravnest.set_seed(42)
    train = loader()
    list(train)
    imported = time.monotonic()
    cpu = cpu_seconds()
    with ravnest.Node(
        name=name,
        optimizer=torch.optim.Adam,
        criterion=lambda outputs, targets: LOSS(outputs, targets[1]),
        labels=train,
        progress=False,
        threads=1,
    ) as node:
        result = Timed(node=node, train_loader=train, epochs=EPOCHS).train()
        facts = {"cpu_s": cpu_seconds() - cpu, "imported": imported}
        if result:
            first, seconds = result
            facts |= {"first": first, "seconds": seconds}
        facts["bytes"] = node._core.bytes_sent()
    print(json.dumps(facts))


def measure(folder: Path) -> dict:
    nodes = [
        subprocess.Popen(
            [sys.executable, __file__, "--node", f"node_{i}"], cwd=folder, stdout=subprocess.PIPE, text=True
        )
        for i in range(3)
    ]
    facts = [json.loads(node.communicate(timeout=300)[0].splitlines()[-1]) for node in nodes]
    samples = EPOCHS * 1078
    return {
        "samples_per_s": samples / facts[0]["seconds"],
        "cpu_s": sum(each["cpu_s"] for each in facts) * 10 / EPOCHS,
        "start_s": facts[0]["first"] - max(each["imported"] for each in facts),
        "overhead": sum(each["bytes"] for each in facts) / ((samples + BATCH) * TENSOR_BYTES) - 1,
    }


def without_python(folder: Path) -> float:
    """Samples per second of the same stages and batches, fed by C++."""
    graph = ravnest.load(ravnest.capture(make_model(), (torch.rand(BATCH, 1, 8, 8),), path=folder / "model.pt2"))
    (x, y), _ = load_data()
    steps = EPOCHS * len(x) // BATCH
    run = stage_processes.write_run(
        folder / "run", graph.slice(CUTS), x[: 16 * BATCH], y[: 16 * BATCH], batch=BATCH, steps=steps, warm_up=20,
        optimizer="Adam", tls=True,
    )  # fmt: skip
    root = stage_processes.run(run, 3)[0]
    return root["steps"] * BATCH / root["elapsed_s"]


def plain() -> tuple[float, float]:
    """Samples per second and CPU seconds for 10 epochs of PyTorch alone."""
    torch.set_num_threads(1)
    model, train = make_model(), loader()
    optimizer = torch.optim.Adam(model.parameters())
    begin, cpu, epochs = time.monotonic(), cpu_seconds(), 10
    for _ in range(epochs):
        for x, y in train:
            optimizer.zero_grad()
            LOSS(model(x), y).backward()
            optimizer.step()
    return epochs * 1078 / (time.monotonic() - begin), cpu_seconds() - cpu


def show(name: str, value: float, unit: str, ratio: float | None, target: str) -> None:
    print(f"{name} {value:.4g} {unit} {'-' if ratio is None else f'{ratio:.3g}'} {target}", flush=True)


def compare(repeats: int) -> None:
    runs, cores, alone = [], [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_local_pool(folder / "node_data", 3)
        ravnest.clusterize(make_model(), (torch.rand(BATCH, 1, 8, 8),), node_data=folder / "node_data")
        for _ in range(repeats):
            runs.append(measure(folder))
            cores.append(without_python(folder))
            alone.append(plain())
    middle = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
    rate, cpu = statistics.median(a for a, _ in alone), statistics.median(b for _, b in alone)
    core = statistics.median(cores)
    own = middle["samples_per_s"]
    show("walkthrough_vs_plain", own, "samples/s", own / rate, ">=1.3")
    show("walkthrough_vs_core", own, "samples/s", own / core, ">=0.95")
    show("walkthrough_vs_python_ravnest", own, "samples/s", own / THE_PYTHON_RAVNEST["samples_per_s"], ">=80")
    show("walkthrough_cpu_10_epochs", middle["cpu_s"], "s", middle["cpu_s"] / THE_PYTHON_RAVNEST["cpu_s"], "<=0.01")
    show("walkthrough_cpu_vs_plain", middle["cpu_s"], "s", middle["cpu_s"] / cpu, "<=1.25")
    show("walkthrough_start_to_first_batch", middle["start_s"], "s", None, "<=1")
    show("walkthrough_protocol_bytes", 100 * middle["overhead"], "%", None, "<=1")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--node", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.node:
        play(options.node)
    else:
        compare(options.repeats)


if __name__ == "__main__":
    main()
