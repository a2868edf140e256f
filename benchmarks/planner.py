"""How long planning takes, and what cutting by time gains on unequal machines.

    python benchmarks/planner.py [--rounds 5]

Prints one line per measurement: name, value, unit, ratio, target. One thread. Plans a GPT of 48 blocks; every machine
of a pool differs. `decide` is the search alone, `files` what writing everything for the nodes adds (median of the
rounds; 1000 nodes once). The ratio of `time_cutting` is predicted samples/s over those of equal shares on machines
of 4:2:1.
"""

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "python"))
from support.models import GPT

import ravnest
from ravnest import _core


def pool(count, seed):
    draw = random.Random(seed)
    return [
        {
            "ram": draw.uniform(1, 16),
            "bandwidth": draw.uniform(20, 1000),
            "compute": draw.uniform(20, 400),
            "latency": draw.uniform(0, 20),
        }
        for _ in range(count)
    ]


def write_pool(folder, benchmarks):
    nodes = {
        str(i): {"IP": f"10.0.{i // 250}.{i % 250}:8080", "benchmarks": entry} for i, entry in enumerate(benchmarks)
    }
    (folder / "node_configs.json").write_text(json.dumps(nodes))


def plan(graph, folder, **options):
    """The plan, and the seconds that it took."""
    begun = time.perf_counter()
    defaults = {"balance": None, "min_cluster_size": 2, "optimizer_state": 2.0, "average_every": 100, "pool_file": ""}
    made = _core.clusterize(graph._core, None, seed=1, node_data=str(folder), **(defaults | options))
    return made, time.perf_counter() - begun


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        example = (torch.randint(0, 60, (4, 12)),)
        graph = ravnest.load(ravnest.capture(GPT(60, 16, 32, depth=48, heads=4), example, path=folder / "gpt.pt2"))
        for count, target, repeats in ((12, 1, rounds), (100, None, 1), (1000, 10, 1)):
            searches, files = [], []
            for seed in range(repeats):
                write_pool(folder, pool(count, seed))
                searches.append(plan(graph, folder, write=False)[1])
                files.append(plan(graph, folder)[1] - searches[-1])
            value = statistics.median(searches)
            print(f"planner/{count}_nodes/decide {value:.2f} s - {f'<{target}' if target else '-'}", flush=True)
            print(f"planner/{count}_nodes/files {statistics.median(files):.2f} s - -", flush=True)
        write_pool(folder, [{"ram": 8, "bandwidth": 1000, "compute": gflops} for gflops in (400, 200, 100)])
        by_time, _ = plan(graph, folder)
        by_shares, _ = plan(graph, folder, balance="params")
        ratio = by_time.samples_per_s / by_shares.samples_per_s
        print(f"planner/time_cutting {by_time.samples_per_s:.0f} samples/s {ratio:.2f} >=1.5")


if __name__ == "__main__":
    main()
