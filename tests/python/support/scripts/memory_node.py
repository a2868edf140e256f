"""A perceptron that takes some memory: memory_node.py LAYERS [alone]. Trains as a node, or alone with plain PyTorch."""

import re
import sys
from pathlib import Path

import torch
from torch import nn

WIDTH, BATCH, STEPS = 2048, 8, 6


def make_model(layers: int) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(*(layer for _ in range(layers) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())))


def batches() -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(torch.randn(BATCH, WIDTH), torch.randn(BATCH, WIDTH)) for _ in range(STEPS)]


def train_alone() -> None:
    model = make_model(int(sys.argv[1]))
    optimizer = torch.optim.Adam(model.parameters())
    for inputs, targets in batches():
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()


def train_as_node() -> None:
    from ravnest import Node, Trainer, set_seed

    set_seed(42)
    items = batches()
    criterion = lambda outputs, targets: nn.functional.mse_loss(outputs, targets[1])  # noqa: E731
    with Node(optimizer=torch.optim.Adam, criterion=criterion, labels=items, progress=False) as node:
        Trainer(node=node, train_loader=items).train()


if __name__ == "__main__":
    (train_alone if "alone" in sys.argv[1:] else train_as_node)()
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text()).group(1)
    print("peak", 1024 * int(peak), flush=True)
