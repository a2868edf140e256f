"""ViT-B/32 on one GPU as a data-parallel run of one rank, beside those whom users would take instead, in one run.

    python benchmarks/strategies_gpu.py [--batches 64 384 2048] [--precision bf16 float32] [--input uint8]
        [--repeats 3] [--quick]

Figures need a GPU; --quick shows on any machine that all sides run. Prints lines of: name value unit ratio-to-peer
target. Fused AdamW, images of 224 px that are on the GPU already, ten classes; with one rank nothing is exchanged.
With --input uint8 the images there are bytes of 32 px, which all sides resize on the GPU.
The peers: PyTorch's DistributedDataParallel, under autocast for bf16; Lightning's, where it can be imported; and our
engine without a strategy, in a loop by hand, with the 16-bit copies of the weights by hand too. Each side is a process
of its own; they take turns. A value is the median of a side's turns, a ratio that of the turns' ratios.
"""

import argparse
import importlib.util
import statistics
import subprocess
import sys
import tempfile

import torch
from strategies_gpu_sides import INPUTS, SIDES, Work

BATCHES = [64, 384, 2048]
# Of bf16: peer and batch -> what our rate over the peer's has to be.
TARGETS = {("torch_ddp", 64): 1.3, ("torch_ddp", 384): 1.1, ("torch_ddp", 2048): 1.1, ("lightning_ddp", 384): 1.3}
TARGETS |= {("engine", batch): 0.98 for batch in BATCHES}


def be_side(name: str, work: Work) -> None:
    """Print the images per second as the last line. float32 is exact on all sides, and so are convolutions."""
    torch.manual_seed(0)
    torch.backends.cudnn.allow_tf32 = False
    print(work.batch * work.steps / SIDES[name](work))


def rate_of(name: str, work: Work) -> float:
    command = [sys.executable, __file__, "--side", name, "--steps", str(work.steps), "--batches", str(work.batch)]
    command += ["--input", work.input, "--precision", work.precision, *(["--quick"] if work.quick else [])]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True)
    return float(done.stdout.split()[-1])


def measure(sides: list[str], work: Work, repeats: int) -> None:
    turns = [{side: rate_of(side, work) for side in sides} for _ in range(repeats)]
    name = f"vit_{work.precision}_{work.batch}" + ("_uint8" if work.input == "uint8" else "")
    own = statistics.median(turn["ravnest"] for turn in turns)
    for peer in sides[:-1]:
        print(f"{name}_{peer} {statistics.median(turn[peer] for turn in turns):.1f} images/s - -")
        ratio = statistics.median(turn["ravnest"] / turn[peer] for turn in turns)
        target = TARGETS.get((peer, work.batch)) if work.precision == "bf16" else None
        print(f"{name}_against_{peer} {own:.1f} images/s {ratio:.2f} {f'>={target}' if target else '-'}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, nargs="+", default=BATCHES)
    parser.add_argument("--precision", choices=("bf16", "float32"), nargs="+", default=["bf16", "float32"])
    parser.add_argument("--input", choices=INPUTS, default="float32", help="what the images on the GPU are")
    parser.add_argument("--steps", type=int, default=30, help="of a turn; as many before them warm up")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a small model and one turn of two steps, CPU or GPU")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.quick:
        given.batches, given.steps, given.repeats = [4], 2, 1
    elif not torch.cuda.is_available():
        sys.exit("there is no GPU: only --quick runs without")
    if given.side:
        be_side(given.side, Work(given.batches[0], given.steps, given.precision[0], given.quick, given.input))
        return
    sides = list(SIDES)
    if not any(map(importlib.util.find_spec, ("lightning", "pytorch_lightning"))):
        sides.remove("lightning_ddp")
        print("# without Lightning: it is not installed")
    print("# name value unit ratio-to-peer target")
    for precision in given.precision:
        for batch in given.batches:
            measure(sides, Work(batch, given.steps, precision, given.quick, given.input), given.repeats)


if __name__ == "__main__":
    main()
