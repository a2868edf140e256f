"""ViT-B/32, data-parallel on the GPUs of this machine, beside PyTorch's DistributedDataParallel over NCCL, in one run.

    python benchmarks/strategies_gpu.py [--batches 64 384 2048] [--precision autocast float32] [--repeats 3]

Prints lines of: name value unit ratio-to-peer target. One rank: both sides have the whole GPU, and exchange nothing.
Fused AdamW, images of 224 px on the GPU, ten classes. With autocast the forward runs in bfloat16; ours has it in the
captured model.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "python"))
from support.models import ViT

import ravnest

OPTIONS = {"lr": 1e-4, "fused": True}
TARGETS = {64: 1.3, 384: 1.1, 2048: 1.1}


def loss_of(outputs, targets):
    return cross_entropy(outputs.float(), targets)


def tell(name, value, unit, ratio="-", target="-"):
    shown = ratio if isinstance(ratio, str) else f"{ratio:.2f}"
    print(f"{name} {value:.1f} {unit} {shown} {target}", flush=True)


def data(batch: int, steps: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(torch.rand(batch, 3, 224, 224, device="cuda"), torch.randint(0, 10, (batch,)))] * steps


def autocast(precision: str):
    return torch.autocast("cuda", torch.bfloat16, enabled=precision == "autocast")


def ours(batch: int, steps: int, precision: str) -> float:
    """Images per second."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "vit.pt2")
        with autocast(precision):
            ravnest.capture(ViT().cuda(), (torch.rand(4, 3, 224, 224, device="cuda"),), path=path)
        batches = data(batch, steps)
        with ravnest.Node(
            strategy="ddp",
            model=path,
            optimizer=torch.optim.AdamW,
            optimizer_params=OPTIONS,
            criterion=lambda outputs, item: loss_of(outputs, item[1]),
            labels=batches,
            device="cuda",
            progress=False,
            loss_filename=os.path.join(folder, "losses.txt"),
        ) as node:
            trainer = ravnest.Trainer(node=node, train_loader=batches, shard=False)
            trainer.train()
            torch.cuda.synchronize()
            start = time.perf_counter()
            trainer.train()
            torch.cuda.synchronize()
            return batch * steps / (time.perf_counter() - start)


def torch_ddp(batch: int, steps: int, precision: str) -> float:
    model = torch.nn.parallel.DistributedDataParallel(ViT().cuda(), device_ids=[0])
    optimizer = torch.optim.AdamW(model.parameters(), **OPTIONS)
    batches = data(batch, steps)

    def epoch():
        for inputs, targets in batches:
            optimizer.zero_grad()
            with autocast(precision):
                outputs = model(inputs)
            loss_of(outputs, targets.cuda()).backward()
            optimizer.step()
        torch.cuda.synchronize()

    epoch()
    start = time.perf_counter()
    epoch()
    return batch * steps / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, nargs="+", default=list(TARGETS))
    parser.add_argument("--precision", nargs="+", default=["autocast", "float32"])
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group("nccl", init_method=f"file://{folder}/store", rank=0, world_size=1)
        for precision in options.precision:
            for batch in options.batches:
                sides: dict[str, list[float]] = {"torch": [], "ravnest": []}
                for _ in range(options.repeats):
                    sides["torch"].append(torch_ddp(batch, options.steps, precision))
                    sides["ravnest"].append(ours(batch, options.steps, precision))
                    torch.cuda.empty_cache()
                own, peer = statistics.median(sides["ravnest"]), statistics.median(sides["torch"])
                tell(f"vit-torch-ddp-{precision}-{batch}", peer, "images/s")
                target = TARGETS.get(batch, "-") if precision == "autocast" else "-"
                tell(f"vit-ddp-{precision}-{batch}", own, "images/s", own / peer, target)
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
