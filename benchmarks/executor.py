"""Training step (forward, loss, backward, SGD) of the executor against Python eager, in one run on one machine.

    python benchmarks/executor.py [--device cuda] [--only digits ...] [--rounds 11] [--check]

Prints one line per measurement: name, value, unit, ratio to eager, target. The two sides run in processes of their own,
so that neither's memory settings help the other, and take turns, so that both see the same machine. The value is the
executor's median step; the ratio is the median over the rounds of executor / eager within the round. The target is 1.0,
and 0.85 where an eager step takes less than 5 ms.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "python"))
from support import models
from support.models import GPT, Bert, Digits, ResNet50, ViT

ROUND_SECONDS = 0.5


@dataclass(frozen=True)
class Workload:
    """A model with its inputs, and what its loss is. `targets(inputs)` are made once, outside the step."""

    build: Callable[[], torch.nn.Module]
    inputs: Callable[[int], tuple[tuple, dict]]
    targets: Callable[[int], torch.Tensor | None]
    loss: Callable[..., torch.Tensor]
    batches: tuple[int, ...]


def classes(count):
    return lambda batch: torch.randint(0, count, (batch,))


def digits_loss(outputs, targets):
    return F.mse_loss(outputs, F.one_hot(targets, 10).to(outputs.dtype))


def token_loss(outputs, targets):
    return F.cross_entropy(outputs.flatten(0, 1), targets.flatten())


def bert_loss(outputs, targets):
    return outputs["hidden"].square().mean() + outputs["pooled"].square().mean()


def class_loss(outputs, targets):
    return F.cross_entropy(outputs.float(), targets)


ON_CPU = {
    "digits": Workload(Digits, models.images(8, 1), classes(10), digits_loss, (64,)),
    "resnet50_64px": Workload(ResNet50, models.images(64), classes(1000), class_loss, (8,)),
    "gpt": Workload(GPT, models.tokens(256, 64), lambda n: torch.randint(0, 256, (n, 64)), token_loss, (16,)),
    "bert": Workload(Bert, models.bert_inputs(1000, 64), lambda n: None, bert_loss, (16,)),
}
ON_CUDA = {
    "vit_b32": Workload(ViT, models.images(224), classes(10), class_loss, (8, 64)),
    "resnet50": Workload(ResNet50, models.images(224), classes(1000), class_loss, (8, 64)),
}
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def example(workload, batch, dtype):
    torch.manual_seed(0)
    args, kwargs = workload.inputs(batch)
    return tuple(_as(leaf, dtype) for leaf in args), {name: _as(leaf, dtype) for name, leaf in kwargs.items()}


def _as(tensor, dtype):
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


def make_model(workload, dtype):
    torch.manual_seed(0)
    return workload.build().to(dtype)


def serve(side: str, workload: Workload, batch: int, device: str, dtype: torch.dtype, archive: str) -> None:
    """One side: say `ready`, then for each line with a count do that many steps and answer with seconds per step."""
    if side == "eager":
        model = make_model(workload, dtype).to(device).train()
    else:
        import ravnest

        model = ravnest.load(archive).to(device)
    args, kwargs = example(workload, batch, dtype)
    args, kwargs = tuple(leaf.to(device) for leaf in args), {name: leaf.to(device) for name, leaf in kwargs.items()}
    targets = workload.targets(batch)
    targets = targets if targets is None else targets.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    finish = torch.cuda.synchronize if device == "cuda" else lambda: None

    def step():
        optimizer.zero_grad()
        workload.loss(model(*args, **kwargs), targets).backward()
        optimizer.step()

    for _ in range(5):
        step()
    finish()
    print("ready", flush=True)
    for line in sys.stdin:
        count = int(line)
        start = time.perf_counter()
        for _ in range(count):
            step()
        finish()
        print((time.perf_counter() - start) / count, flush=True)


class Side:
    """The other end of `serve`."""

    def __init__(self, arguments: list[str]):
        command = [sys.executable, __file__, "--serve", *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def wait(self) -> None:
        if self.process.stdout.readline().strip() != "ready":
            sys.exit("a side of the benchmark ended before it was ready")

    def step_seconds(self, count: int) -> float:
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def measure(arguments: list[str], rounds: int) -> tuple[float, float, float]:
    """Median step seconds of the executor and of eager, and the median of their ratios."""
    sides = [Side([side, *arguments]) for side in ("engine", "eager")]
    try:
        for side in sides:
            side.wait()
        engine, eager = sides
        count = max(1, int(ROUND_SECONDS / max(eager.step_seconds(2), engine.step_seconds(2))))
        times = [(engine.step_seconds(count), eager.step_seconds(count)) for _ in range(rounds)]
    finally:
        for side in sides:
            side.close()
    own, other = zip(*times, strict=True)
    return statistics.median(own), statistics.median(other), statistics.median(a / b for a, b in times)


def settings(device: str):
    """(dtype name, threads) that a device is measured with; 0 threads means torch's default."""
    return [("fp32", 0), ("bf16", 0)] if device == "cuda" else [("fp32", 1), ("fp32", 0)]


def capture(workload, dtype, path) -> str:
    import ravnest

    args, kwargs = example(workload, 2, dtype)
    return ravnest.capture(make_model(workload, dtype), args, kwargs, path)


def run(device: str, only: list[str], rounds: int) -> bool:
    """Measure and print everything asked for; whether every target was reached."""
    reached = True
    print("# name value unit ratio-to-eager target")
    with tempfile.TemporaryDirectory() as folder:
        for name, workload in (ON_CUDA if device == "cuda" else ON_CPU).items():
            if only and name not in only:
                continue
            archives = {}
            for dtype, threads in settings(device):
                path = f"{folder}/{name}_{dtype}.pt2"
                archives[dtype] = archives.get(dtype) or capture(workload, DTYPES[dtype], path)
                for batch in workload.batches:
                    arguments = [name, str(batch), device, dtype, str(threads), archives[dtype]]
                    own, other, ratio = measure(arguments, rounds)
                    target = 0.85 if other < 0.005 else 1.0
                    reached &= ratio <= target
                    suffix = dtype if device == "cuda" else f"{threads or 'default'}_threads"
                    print(f"{name}_b{batch}_{suffix} {own * 1e3:.3f} ms {ratio:.3f} {target:.2f}", flush=True)
    return reached


def main() -> None:
    if sys.argv[1:2] == ["--serve"]:
        side, name, batch, device, dtype, threads, archive = sys.argv[2:]
        if int(threads):
            torch.set_num_threads(int(threads))
        serve(side, (ON_CPU | ON_CUDA)[name], int(batch), device, DTYPES[dtype], archive)
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--only", nargs="*", default=[], help="names of workloads")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--check", action="store_true", help="fail where a target is missed")
    options = parser.parse_args()
    reached = run(options.device, options.only, options.rounds)
    sys.exit(1 if options.check and not reached else 0)


if __name__ == "__main__":
    main()
