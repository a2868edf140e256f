"""Clusters that average: what the ways of averaging cost in loss, time and bytes.

    python benchmarks/averaging.py loss [--epochs 60] [--seeds 3]
    python benchmarks/averaging.py stall [--epochs 40] [--every 20]

`loss`: the digits CNN on two clusters of two nodes, each with its half of the data: validation loss of the fused model
after equal samples, mean of the seeds, beside another way of averaging in the same run; and the bytes of the rounds.
`stall`: samples/s with overlapped rounds beside the same run with one round alone, at its end.
Prints lines of: name value unit ratio-to-peer target.
"""

import argparse
import os
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests/python"), str(ROOT / "examples/digits")]
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: E402
from digits import load_data, make_model  # noqa: E402
from nodes import Cluster, plan  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

import ravnest  # noqa: E402

BATCH = 32


def quietly(function, *args, **options):
    with open(os.devnull, "w") as nowhere:
        kept, sys.stdout = sys.stdout, nowhere
        try:
            return function(*args, **options)
        finally:
            sys.stdout = kept


def train(nodes: int, seed: int, epochs: int, **options) -> dict:
    """Validation loss, seconds, samples/s of all clusters, and each node's rounds."""
    (images, targets), (checked, wanted) = load_data()
    results, lock = {"rounds": {}}, threading.Lock()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ravnest.set_seed(seed)
        made = quietly(plan, folder, make_model(), (torch.rand(BATCH, 1, 8, 8),), nodes=nodes)
        results["clusters"] = len(made.clusters)

        def script(make):
            loader = DataLoader(TensorDataset(images, targets), batch_size=BATCH, shuffle=True)
            with make(
                optimizer=torch.optim.Adam,
                criterion=lambda outputs, item: nn.functional.mse_loss(outputs, item[1]),
                labels=loader,
                seed=seed,
                **options,
            ) as node:
                trainer = ravnest.Trainer(node=node, train_loader=loader, epochs=epochs, save=True, shard=True)
                start = time.monotonic()
                trainer.train()
                with lock:
                    results["seconds"] = time.monotonic() - start
                    results["rounds"][node.name] = node._core.rounds()

        Cluster(folder, nodes).run(script)
        results["samples_per_s"] = epochs * len(images) / results["seconds"]
        fused = quietly(ravnest.model_fusion, trained=folder / "trained")
        model = make_model()
        model.load_state_dict(torch.load(fused, weights_only=True))
        with torch.no_grad():
            results["loss"] = nn.functional.mse_loss(model.eval()(checked), wanted).item()
    return results


def measure_loss(epochs: int, seeds: int) -> None:
    ways = {
        "every_update_drain": {"reduce_factor": 1, "average": "drain"},
        "every_update_overlap": {"reduce_factor": 1, "average": "overlap"},
        "every_50_nesterov_int8": {"reduce_factor": 50, "outer": "nesterov", "compression": "int8"},
    }
    beside = {"every_update_overlap": 1.01, "every_50_nesterov_int8": 1.02}
    runs = {way: [train(4, seed, epochs, **options) for seed in range(seeds)] for way, options in ways.items()}
    loss = {way: statistics.mean(run["loss"] for run in each) for way, each in runs.items()}
    moved = {
        way: statistics.mean(sum(node["bytes"] for node in run["rounds"].values()) for run in each)
        for way, each in runs.items()
    }
    for way in ways:
        ratio = f"{loss[way] / loss['every_update_drain']:.3f} <={beside[way]}" if way in beside else "- -"
        print(f"loss_{way} {loss[way]:.5f} mse {ratio}", flush=True)
        print(f"bytes_{way} {moved[way] / 1e6:.2f} MB {moved[way] / moved['every_update_drain']:.4f} -", flush=True)


def measure_stall(epochs: int, every: int, repeats: int = 3) -> None:
    pairs = [
        tuple(train(4, seed, epochs, reduce_factor=factor)["samples_per_s"] for factor in (every, 10**9))
        for seed in range(repeats)
    ]
    ratio = statistics.median(averaging / alone for averaging, alone in pairs)
    rate = statistics.median(averaging for averaging, _ in pairs)
    print(f"samples_per_s_round_every_{every} {rate:.0f} 1/s {ratio:.3f} >=0.97", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["loss", "stall"])
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--every", type=int, default=20)
    options = parser.parse_args()
    if options.what == "loss":
        measure_loss(options.epochs, options.seeds)
    else:
        measure_stall(options.epochs, options.every)


if __name__ == "__main__":
    main()
