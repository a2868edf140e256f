"""Optimizer steps against torch.optim's, in one run, one thread.

    python benchmarks/optimizers.py [--rounds 9] [--only Adam ...] [--check]

Prints one line per measurement: name, value, unit, ratio to torch, target. `small` is the digits CNN's parameters,
`large` ten million elements in ten tensors. Ours without `fused` is held against torch's default and against foreach,
whichever is faster; `fused` against torch's fused; LAMB, which torch does not have, against fused Adam. The sides take
turns; the value is our median step, the ratio the median over the rounds of ours / theirs within the round. The target
is 1.0, and 0.5 for small tensors, where torch mostly pays for Python. LAMB has none.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "python"))
from support.models import Digits

from ravnest import _core

FUSED = ("SGD", "Adam", "AdamW", "Adagrad")
OPTIONS = {"SGD": {"momentum": 0.9}, "RMSprop": {"momentum": 0.9}}
ROUND_SECONDS = 0.05


def shapes(size):
    if size == "large":
        return [(1000, 1000)] * 10
    return [parameter.shape for parameter in Digits().parameters()]


def tensors(size):
    torch.manual_seed(0)
    return [torch.randn(shape) for shape in shapes(size)]


def ours(name, size, fused):
    parameters, gradients = tensors(size), tensors(size)
    optimizer = _core.Optimizer(name, OPTIONS.get(name, {}) | ({"fused": True} if fused else {}))
    return lambda: optimizer.step(parameters, gradients)


def theirs(name, size, **way):
    parameters = [torch.nn.Parameter(tensor) for tensor in tensors(size)]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    return getattr(torch.optim, name)(parameters, **OPTIONS.get(name, {}), **way).step


def seconds(step, count):
    start = time.perf_counter()
    for _ in range(count):
        step()
    return (time.perf_counter() - start) / count


def measure(own, peers, rounds):
    """Our median seconds, and the median ratio to the faster of the peers."""
    for step in (own, *peers):
        seconds(step, 3)
    count = max(1, int(ROUND_SECONDS / seconds(own, 1)))
    times = [[seconds(step, count) for step in (own, *peers)] for _ in range(rounds)]
    fastest = min(range(1, len(times[0])), key=lambda i: statistics.median(row[i] for row in times))
    return statistics.median(row[0] for row in times), statistics.median(row[0] / row[fastest] for row in times)


def cases(only):
    for name in _core.optimizer_names():
        if only and name not in only:
            continue
        for size in ("small", "large"):
            if name == "LAMB":
                yield f"LAMB_{size}", ours(name, size, False), [theirs("Adam", size, fused=True)], None
                continue
            peers = [theirs(name, size, foreach=False), theirs(name, size, foreach=True)]
            target = 0.5 if size == "small" else 1.0
            yield f"{name}_{size}", ours(name, size, False), peers, target
            if name in FUSED:
                yield f"{name}_fused_{size}", ours(name, size, True), [theirs(name, size, fused=True)], target


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", nargs="*", default=[], help="names of optimizers")
    parser.add_argument("--check", action="store_true", help="fail where a target is missed")
    options = parser.parse_args()
    torch.set_num_threads(1)
    reached = True
    print("# name value unit ratio-to-torch target")
    for name, own, peers, target in cases(options.only):
        value, ratio = measure(own, peers, options.rounds)
        reached &= target is None or ratio <= target
        print(f"{name} {value * 1e6:.1f} us {ratio:.3f} {'-' if target is None else f'{target:.2f}'}", flush=True)
    sys.exit(1 if options.check and not reached else 0)


if __name__ == "__main__":
    main()
