"""Predicted against measured time of a training step on one machine, one thread.

    python benchmarks/predicted_steps.py [--only digits/64 ...]

Measures this machine as `ravnest benchmark` does, plans each model on it alone, and compares the plan's compute time
with a real step (forward, backward, Adam). Prints name, measured value, unit, predicted / measured, target.
"""

import argparse
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "python"))
from support import models
from support.models import GPT, Digits, ResNet50, UNet
from support.passes import loss_of

import ravnest
from ravnest import _core

CASES = [
    ("digits/64", Digits, lambda: ((torch.rand(64, 1, 8, 8),), {})),
    ("digits/256", Digits, lambda: ((torch.rand(256, 1, 8, 8),), {})),
    ("gpt/4", lambda: GPT(60, 64, 256, depth=6, heads=4), lambda: ((torch.randint(0, 60, (4, 64)),), {})),
    ("gpt/16", lambda: GPT(60, 64, 256, depth=6, heads=4), lambda: ((torch.randint(0, 60, (16, 64)),), {})),
    ("resnet50/4", lambda: ResNet50(width=32, classes=10), lambda: ((torch.rand(4, 3, 64, 64),), {})),
    ("unet/4", lambda: UNet(width=4), lambda: ((torch.rand(4, 3, 32, 32),), {})),
] + [(f"{c.name}/{c.batch}", c.model, c.example) for c in models.ARCHITECTURES if c.name in ("bert", "vit_b32")]


def gflops():
    command = shutil.which("ravnest", path=str(Path(sys.executable).parent))
    measure = [command, "benchmark", "--threads", "1"]
    printed = subprocess.run(measure, capture_output=True, text=True, check=True).stdout
    return float(re.search(r'"compute": ([\d.]+)', printed).group(1))


def measured(graph, args, kwargs):
    optimizer = torch.optim.Adam(graph.parameters())
    times = []
    for _ in range(21):
        begun = time.perf_counter()
        loss_of(graph(*args, **kwargs)).backward()
        optimizer.step()
        optimizer.zero_grad()
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], choices=[name for name, _, _ in CASES], metavar="MODEL")
    only = parser.parse_args().only
    torch.set_num_threads(1)
    rate = gflops()
    print(f"machine {rate:.0f} GFLOP/s - -")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        node = {"IP": "127.0.0.1:8080", "benchmarks": {"ram": 64, "bandwidth": 1000, "compute": rate}}
        (folder / "node_configs.json").write_text(json.dumps({"0": node}))
        for name, build, example in CASES:
            if only and name not in only:
                continue
            torch.manual_seed(0)
            args, kwargs = example()
            graph = ravnest.load(ravnest.capture(build(), args, kwargs, folder / "model.pt2"))
            plan = _core.clusterize(
                graph._core,
                None,
                balance=None,
                min_cluster_size=1,
                seed=0,
                optimizer_state=2.0,
                average_every=100,
                node_data=scratch,
                pool_file="",
                write=False,
            )
            predicted = plan.clusters()[0]["stages"][0]["compute_s"]
            seconds = measured(graph, args, kwargs)
            print(f"predicted_step/{name} {1000 * seconds:.2f} ms {predicted / seconds:.2f} -", flush=True)


if __name__ == "__main__":
    main()
