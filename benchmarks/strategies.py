"""Data parallelism on this machine, beside PyTorch's DistributedDataParallel over Gloo, in one run.

    python benchmarks/strategies.py [digits] [transformer] [--repeats 5] [--world 2] [--quick]

Prints lines of: name value unit ratio-to-peer target. A process for each rank with one thread to compute; a step is one
batch on each rank with Adam, and both sides have the same batches. Ours is what users run: `ravnest launch`, TLS
between the ranks, Node(strategy="ddp") and Trainer. The peer talks in the clear, and loops over the batches by hand.
Sides take turns, and change who begins. A value is the median of a side's turns, the ratio that of the turns' ratios.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests/python"), str(ROOT / "examples/digits")]

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as mp  # noqa: E402
from digits import make_model  # noqa: E402
from support.ranks import clean_environment  # noqa: E402
from torch import nn  # noqa: E402

import ravnest  # noqa: E402

Batch = tuple[torch.Tensor, torch.Tensor]


def transformer() -> nn.Module:
    layers = [nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True, norm_first=True) for _ in range(6)]
    return nn.Sequential(*layers)


@dataclass(frozen=True)
class Case:
    """A model, the shapes of a sample and its target, and the ratio of steps that is asked for."""

    make: Callable[[], nn.Module]
    sample: tuple[int, ...]
    target: tuple[int, ...]
    batch: int
    steps: int  # of a turn; as many before them warm up
    ratio: float

    def batches(self, rank: int, batch: int, steps: int) -> list[Batch]:
        numbers = torch.Generator().manual_seed(rank)
        shapes = (batch, *self.sample), (batch, *self.target)
        inputs, targets = (torch.rand(shape, generator=numbers) for shape in shapes)
        return [(inputs, targets)] * steps


CASES = {
    "digits": Case(make_model, (1, 8, 8), (10,), batch=64, steps=300, ratio=0.6),
    "transformer": Case(transformer, (64, 256), (64, 256), batch=4, steps=12, ratio=0.95),
}
QUICK_STEPS = 3


def tell(name, value, unit, ratio="-", target="-"):
    shown = ratio if isinstance(ratio, str) else f"{ratio:.2f}"
    print(f"{name} {value:.3f} {unit} {shown} {target}", flush=True)


def rank_command(name: str, batch: int, steps: int, out: Path) -> list[str]:
    """What a rank of ours runs. Rank 0 writes the seconds of a step to `out`."""
    return [sys.executable, __file__, name, "--as-rank", str(out), "--batch", str(batch), "--steps", str(steps)]


def be_rank(name: str, out: Path, batch: int, steps: int) -> None:
    ravnest.set_seed(0)
    case, rank = CASES[name], int(os.environ.get("RANK", "0"))
    data = case.batches(rank, batch, steps)
    with ravnest.Node(
        strategy="ddp",
        model=case.make(),
        example_args=(data[0][0],),
        optimizer=torch.optim.Adam,
        criterion=lambda outputs, item: nn.functional.mse_loss(outputs, item[1]),
        labels=data,
        progress=False,
        loss_filename=str(out.parent / f"losses_{rank}.txt"),
    ) as node:
        trainer = ravnest.Trainer(node=node, train_loader=data, shard=False)
        trainer.train()  # to warm up
        start = time.perf_counter()
        trainer.train()
        if rank == 0:
            out.write_text(str((time.perf_counter() - start) / steps))


def ours(name: str, world: int, batch: int, steps: int) -> float:
    """Seconds of a step."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        launch = [str(Path(sys.executable).parent / "ravnest"), "launch", "--devices", str(world), "--"]
        command = [*launch, *rank_command(name, batch, steps, out)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=clean_environment())
        return float(out.read_text())


def be_torch_rank(rank: int, world: int, store: str, out: Path, name: str, batch: int, steps: int) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=world)
    model = nn.parallel.DistributedDataParallel(CASES[name].make().train())
    optimizer = torch.optim.Adam(model.parameters())
    data = CASES[name].batches(rank, batch, steps)

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
        out.write_text(str((time.perf_counter() - start) / steps))
    dist.barrier()
    dist.destroy_process_group()


def torch_ddp(name: str, world: int, batch: int, steps: int) -> float:
    """Seconds of a step."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        mp.spawn(be_torch_rank, (world, f"file://{folder}/store", out, name, batch, steps), world)
        return float(out.read_text())


def measure(name: str, world: int, repeats: int, steps: int) -> None:
    sides = [torch_ddp, ours]
    turns = []
    for turn in range(repeats):
        order = sides if turn % 2 == 0 else sides[::-1]
        seconds = {side: side(name, world, CASES[name].batch, steps) for side in order}
        turns.append([seconds[side] for side in sides])
    peer, own = (statistics.median(each) for each in zip(*turns, strict=True))
    ratio = statistics.median(own / peer for peer, own in turns)
    tell(f"ddp_{name}_{world}_ranks_torch_gloo", 1e3 * peer, "ms/step")
    tell(f"ddp_{name}_{world}_ranks", 1e3 * own, "ms/step", ratio, f"<={CASES[name].ratio}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)}; by default all")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--world", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="a turn of few steps: shows that it runs, not how fast")
    parser.add_argument("--as-rank", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--batch", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--steps", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.as_rank:
        be_rank(given.cases[0], given.as_rank, given.batch, given.steps)
        return
    print("# name value unit ratio-to-peer target; the peer: PyTorch DDP over Gloo")
    for name in given.cases or CASES:
        steps = QUICK_STEPS if given.quick else CASES[name].steps
        measure(name, given.world, 1 if given.quick else given.repeats, steps)


if __name__ == "__main__":
    main()
