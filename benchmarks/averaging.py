"""Clusters that average: what the ways of averaging cost in loss and bytes.

    python benchmarks/averaging.py [--epochs 60] [--seeds 8]

The digits CNN on two clusters of two nodes, each with its half of the data: validation loss of the fused model
after equal samples, mean of the seeds, beside another way of averaging in the same run; and the bytes of the rounds.
Prints lines of: name value unit ratio-to-peer target.
"""

import argparse
import os
import statistics
import sys
import tempfile
import threading
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests/python"), str(ROOT / "examples/digits")]
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: E402
from digits import load_data, make_model  # noqa: E402
from support.digits_clusters import quiet, validation_outputs  # noqa: E402
from support.nodes import Cluster, plan  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

import ravnest  # noqa: E402

BATCH = 32


def train(nodes: int, seed: int, epochs: int, **options) -> dict:
    """Validation loss, and each node's rounds."""
    images, targets = load_data()[0]
    results, lock = {"rounds": {}}, threading.Lock()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ravnest.set_seed(seed)
        with quiet():
            made = plan(folder, make_model(), (torch.rand(BATCH, 1, 8, 8),), nodes=nodes)
        assert len(made.clusters) == 2

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
                trainer.train()
                with lock:
                    results["rounds"][node.name] = node._core.rounds()

        Cluster(folder, nodes).run(script)
        results["loss"] = nn.functional.mse_loss(*validation_outputs(folder)).item()
    return results


def measure(epochs: int, seeds: int) -> None:
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=8)
    options = parser.parse_args()
    measure(options.epochs, options.seeds)


if __name__ == "__main__":
    main()
