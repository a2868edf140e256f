"""A node of clusters that train the digits network; prints what came of it as a line of JSON.

digits_node.py --epochs N... [--samples N...] [--reduce-factor N] [--seed N]

A number for each cluster, the last one for those that follow: of its epochs, after one more that is not timed, and of
the samples that are its own; without, all share the same ones by shard=True.
"""

import argparse
import json
import sys
import time
from itertools import accumulate
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[4] / "examples/digits"))

import torch
from digits import BATCH, load_data
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from ravnest import Node, Trainer, set_seed

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, nargs="+", required=True)
parser.add_argument("--samples", type=int, nargs="+")
parser.add_argument("--reduce-factor", type=int)
parser.add_argument("--seed", type=int, default=42)
options = parser.parse_args()


def of_cluster(numbers: list[int], cluster: int) -> int:
    return numbers[min(cluster, len(numbers) - 1)]


set_seed(options.seed)
images, targets = load_data()[0]
with Node(
    optimizer=torch.optim.Adam,
    criterion=lambda outputs, item: nn.functional.mse_loss(outputs, item[1]),
    reduce_factor=options.reduce_factor,
    threads=1,
    progress=False,
    seed=options.seed,
) as node:
    if options.samples:
        end = list(accumulate(options.samples))[node.cluster_id]
        own = slice(end - options.samples[node.cluster_id], end)
        images, targets = images[own], targets[own]
    loader = DataLoader(TensorDataset(images, targets), batch_size=BATCH, shuffle=True)
    node.labels = loader
    trainer = Trainer(node=node, train_loader=loader, epochs=1, save=True, shard=not options.samples)
    trainer.train()  # after which all clusters are there
    trainer.epochs = of_cluster(options.epochs, node.cluster_id)
    before, start = node._core.samples_trained(), time.monotonic()
    trainer.train()
    seconds, samples = time.monotonic() - start, node._core.samples_trained() - before
    print(json.dumps({"samples": samples, "seconds": seconds, "rounds": node._core.rounds()}), flush=True)
