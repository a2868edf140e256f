"""The digits network on one machine: by ravnest's engine without any pipeline, and by plain PyTorch.

python engine.py [--epochs 100] [--seed 42]
"""

import argparse
import sys
import tempfile
import time

import torch
from digits import BATCH, load_data, make_model
from torch import nn

import ravnest


class Progress:
    """A bar on a terminal; a line now and then where there is none."""

    def __init__(self, label: str, epochs: int, samples: int):
        self.label, self.epochs, self.samples = label, epochs, samples
        self.terminal = sys.stdout.isatty()

    def show(self, epoch: int, loss: float, accuracy: float, seconds: float) -> None:
        rate = epoch * self.samples / seconds
        left = seconds / epoch * (self.epochs - epoch)
        facts = f"loss {loss:.4f}  accuracy {accuracy:.2%}  {rate:,.0f} samples/s  {left:.0f} s left"
        if self.terminal:
            filled = 24 * epoch // self.epochs
            bar = "█" * filled + "·" * (24 - filled)
            end = "\n" if epoch == self.epochs else ""
            print(f"\r\033[K{self.label} {bar} {epoch}/{self.epochs}  {facts}", end=end, flush=True)
        elif epoch % max(1, self.epochs // 10) == 0 or epoch == self.epochs:
            print(f"{self.label} epoch {epoch}/{self.epochs}  {facts}", flush=True)


def train(label, step_outputs, eval_outputs, parameters, train_data, val_data, epochs, seed) -> tuple[float, float]:
    """Train with Adam on the squared error; the seconds of training and the accuracy at the end."""
    optimizer = torch.optim.Adam(parameters)
    criterion = nn.MSELoss()
    order = torch.Generator().manual_seed(seed)
    x_train, y_train = train_data
    progress = Progress(label, epochs, len(x_train))
    seconds = 0.0
    for epoch in range(1, epochs + 1):
        start, total = time.perf_counter(), 0.0
        for rows in torch.randperm(len(x_train), generator=order).split(BATCH):
            optimizer.zero_grad()
            loss = criterion(step_outputs(x_train[rows]), y_train[rows])
            loss.backward()
            optimizer.step()
            total += loss.item() * len(rows)
        seconds += time.perf_counter() - start
        with torch.no_grad():
            correct = eval_outputs(val_data[0]).argmax(1) == val_data[1].argmax(1)
        accuracy = correct.float().mean().item()
        progress.show(epoch, total / len(x_train), accuracy, seconds)
    return seconds, accuracy


def train_by_engine(train_data, val_data, epochs, seed) -> tuple[float, float]:
    ravnest.set_seed(seed)
    model = make_model()
    with tempfile.TemporaryDirectory() as folder:
        path = ravnest.capture(model, (torch.rand(BATCH, 1, 8, 8),), path=f"{folder}/digits.pt2")
        graph = ravnest.load(path)
    parameters = list(graph.parameters())
    return train("ravnest", graph, lambda x: graph(x, train=False), parameters, train_data, val_data, epochs, seed)


def train_by_pytorch(train_data, val_data, epochs, seed) -> tuple[float, float]:
    ravnest.set_seed(seed)
    model = make_model()

    def outputs(x, training):
        return model.train(training)(x)

    steps, evaluation = (lambda x: outputs(x, True)), (lambda x: outputs(x, False))
    return train("PyTorch", steps, evaluation, model.parameters(), train_data, val_data, epochs, seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=42)
    options = parser.parse_args()
    # The network is small: more threads only wait for each other.
    torch.set_num_threads(1)
    data = load_data()
    own = train_by_engine(*data, options.epochs, options.seed)
    other = train_by_pytorch(*data, options.epochs, options.seed)
    for label, (seconds, accuracy) in (("ravnest", own), ("PyTorch", other)):
        print(f"{label}: {accuracy:.2%} of the validation set correct after {seconds:.1f} s of training")


if __name__ == "__main__":
    main()
