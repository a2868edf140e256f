"""Data parallelism on this machine, beside PyTorch's DistributedDataParallel over Gloo, in one run.

    python benchmarks/strategies.py [digits] [transformer] [--repeats N] [--world 2]

Prints lines of: name value unit ratio-to-peer target. A process for each rank with one thread, a step of one batch on
each rank with Adam. Ours is what users run: `ravnest launch`, TLS between the ranks, Node(strategy="ddp") and Trainer.
The peer's processes talk in the clear. Sides take turns; the median of the repeats counts.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "examples/digits")]
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as mp  # noqa: E402
from digits import make_model  # noqa: E402
from torch import nn  # noqa: E402

import ravnest  # noqa: E402


def transformer() -> nn.Module:
    layers = [nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True, norm_first=True) for _ in range(6)]
    return nn.Sequential(*layers)


# name: model, batch of inputs, batch of targets, steps, target of the ratio
CASES = {
    "digits": (make_model, (64, 1, 8, 8), (64, 10), 300, 0.6),
    "transformer": (transformer, (4, 64, 256), (4, 64, 256), 12, 0.95),
}


def tell(name, value, unit, ratio="-", target="-"):
    shown = ratio if isinstance(ratio, str) else f"{ratio:.2f}"
    print(f"{name} {value:.3f} {unit} {shown} {target}", flush=True)


def batches(name: str) -> list[tuple[torch.Tensor, torch.Tensor]]:
    _, inputs, targets, steps, _ = CASES[name]
    return [(torch.rand(*inputs), torch.rand(*targets))] * steps


def run_rank(name: str, out: str) -> None:
    """This process as a rank of ours; rank 0 writes the seconds of a step to `out`."""
    ravnest.set_seed(0)
    data = batches(name)
    with ravnest.Node(
        strategy="ddp",
        model=CASES[name][0](),
        example_args=(data[0][0],),
        optimizer=torch.optim.Adam,
        criterion=lambda outputs, item: nn.functional.mse_loss(outputs, item[1]),
        labels=data,
        progress=False,
        loss_filename=os.path.join(os.path.dirname(out), "losses.txt"),
    ) as node:
        trainer = ravnest.Trainer(node=node, train_loader=data, shard=False)
        trainer.train()  # to warm up
        start = time.perf_counter()
        trainer.train()
        if node.rank == 0:
            Path(out).write_text(str((time.perf_counter() - start) / len(data)))


def ours(name: str, world: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out")
        ravnest_command = os.path.join(os.path.dirname(sys.executable), "ravnest")
        script = [sys.executable, __file__, name, "--as-rank", out]
        command = [ravnest_command, "launch", "--devices", str(world), "--", *script]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"})
        return float(Path(out).read_text())


def _ddp(rank: int, world: int, store: str, out: str, name: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=world)
    model = nn.parallel.DistributedDataParallel(CASES[name][0]().train())
    optimizer = torch.optim.Adam(model.parameters())
    data = batches(name)

    def epoch():
        for inputs, targets in data:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(inputs), targets).backward()
            optimizer.step()

    epoch()
    dist.barrier()
    start = time.perf_counter()
    epoch()
    if rank == 0:
        Path(out).write_text(str((time.perf_counter() - start) / len(data)))
    dist.barrier()
    dist.destroy_process_group()


def torch_ddp(name: str, world: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out")
        mp.spawn(_ddp, (world, f"file://{folder}/store", out, name), world)
        return float(Path(out).read_text())


def measure(name: str, world: int, repeats: int) -> None:
    sides: dict[str, list[float]] = {"ravnest": [], "torch DDP": []}
    for _ in range(repeats):
        sides["torch DDP"].append(torch_ddp(name, world))
        sides["ravnest"].append(ours(name, world))
    own, peer = statistics.median(sides["ravnest"]), statistics.median(sides["torch DDP"])
    tell(f"ddp-step-torch-gloo-{name}-{world}-ranks", 1e3 * peer, "ms")
    tell(f"ddp-step-{name}-{world}-ranks", 1e3 * own, "ms", own / peer, CASES[name][4])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", default=[], help=f"of {', '.join(CASES)}; by default all")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--world", type=int, default=2)
    parser.add_argument("--as-rank", metavar="FILE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.as_rank:
        run_rank(options.cases[0], options.as_rank)
        return
    for name in options.cases or CASES:
        measure(name, options.world, options.repeats)


if __name__ == "__main__":
    main()
