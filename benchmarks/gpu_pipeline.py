"""ViT-B/32 as four stages in one process on one GPU, against the whole model, in one run.

    python benchmarks/gpu_pipeline.py [--batch 384] [--steps 60] [--repeats 3]

Prints lines of: name value unit ratio-to-the-whole-model target. Both train in bfloat16 with fused AdamW; the whole
model runs through the same executor, and once more through PyTorch eager.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "python"))
from support.models import ViT

import ravnest
from ravnest import LocalCluster

CUTS = ["blocks.3", "blocks.6", "blocks.9"]
OPTIONS = {"lr": 1e-3, "fused": True}


def loss_of(outputs, targets):
    return cross_entropy(outputs.float(), targets)


def synchronized(run) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    run()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def in_stages(stages, inputs, targets, steps: int) -> float:
    with LocalCluster(stages, loss_of, "AdamW", OPTIONS) as cluster:

        def run(count):
            for _ in range(count):
                cluster.train(inputs, targets)
            cluster.drain()

        run(10)
        return synchronized(lambda: run(steps))


def whole(call, parameters, inputs, targets, steps: int) -> float:
    optimizer = torch.optim.AdamW(parameters, **OPTIONS)

    def run(count):
        for _ in range(count):
            optimizer.zero_grad()
            loss_of(call(inputs), targets).backward()
            optimizer.step()

    run(10)
    return synchronized(lambda: run(steps))


def main(batch: int, steps: int, repeats: int) -> None:
    torch.manual_seed(0)
    model = ViT().to(torch.bfloat16)
    example = torch.rand(8, 3, 224, 224, dtype=torch.bfloat16)
    with tempfile.TemporaryDirectory() as folder:
        path = ravnest.capture(model, (example,), {}, Path(folder) / "vit.pt2")
        graph, sliced = ravnest.load(path).to("cuda"), ravnest.load(path).to("cuda")
    stages = sliced.slice(CUTS)
    model = model.cuda().train()
    inputs = torch.rand(batch, 3, 224, 224, dtype=torch.bfloat16, device="cuda")
    targets = torch.randint(0, 10, (batch,), device="cuda")
    own = [parameter for parameter in graph.parameters() if parameter.requires_grad]
    rates = {"stages": [], "whole": [], "eager": []}
    for _ in range(repeats):
        rates["stages"].append(steps * batch / in_stages(stages, inputs, targets, steps))
        rates["whole"].append(steps * batch / whole(graph, own, inputs, targets, steps))
        rates["eager"].append(steps * batch / whole(model, model.parameters(), inputs, targets, steps))
    median = {name: statistics.median(values) for name, values in rates.items()}
    for name, target in (("stages", ">=0.95"), ("whole", "-"), ("eager", "-")):
        print(f"vit_b32_{name}_batch_{batch} {median[name]:.0f} img/s {median[name] / median['whole']:.3f} {target}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=384)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("there is no GPU")
    main(given.batch, given.steps, given.repeats)
