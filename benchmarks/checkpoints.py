"""What checkpoints cost: three local nodes, Python's Trainer, with one every 10 seconds and without, in turns.

    python benchmarks/checkpoints.py [digits] [transformer] [--seconds 30] [--repeats 3] [--s3]

Prints lines of: name value unit ratio-to-peer target. The peer is the same training without checkpoints. Each turn
trains for so many seconds, in processes of its own; the ratio is the median of the turns'. At the end, the time from
the start of a resumed run's call to its first batch. With --s3 checkpoints go to rclone's server on this machine, which
takes its share of the processors.
"""

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests/python"), str(ROOT / "examples/digits")]
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: E402
from digits import make_model  # noqa: E402
from support.pools import write_local_pool  # noqa: E402
from support.s3_peers import rclone  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

import ravnest  # noqa: E402

NODES = 3


def transformer() -> nn.Module:
    """Six layers of 256 on 64 tokens."""
    layers = [nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True, norm_first=True) for _ in range(6)]
    return nn.Sequential(*layers)


MODELS = {
    "digits": (make_model, lambda: (torch.rand(6400, 1, 8, 8), torch.rand(6400, 10)), 64),
    "transformer": (transformer, lambda: (torch.rand(32, 64, 256), torch.rand(32, 64, 256)), 4),
}


class UntilThen:
    """A loader's batches again and again, for so many seconds; it notes when the first one was taken."""

    def __init__(self, loader: DataLoader, seconds: float):
        self.loader, self.seconds, self.begun, self.samples = loader, seconds, None, 0

    def __iter__(self):
        while True:
            for item in self.loader:
                self.begun = self.begun or time.monotonic()
                if time.monotonic() - self.begun > self.seconds:
                    return
                self.samples += len(item[0])
                yield item


def play(model: str, seconds: float, checkpoint: bool, resume: bool) -> None:
    """One node; the root prints what it did."""
    ravnest.set_seed(42)
    _, data, batch = MODELS[model]
    batches = DataLoader(TensorDataset(*data()), batch_size=batch)
    loader = UntilThen(batches, seconds)
    labels = UntilThen(batches, 2 * seconds + 60)  # the leaf takes its first before the root does
    with ravnest.Node(
        optimizer=torch.optim.Adam, criterion=lambda outputs, _: outputs.square().mean(), labels=labels, progress=False
    ) as node:
        place = os.environ.get("CHECKPOINTS", "checkpoints")
        options = {"checkpoint": place, "checkpoint_every": "10 s", "resume": resume} if checkpoint else {}
        begun = time.monotonic()
        trainer = ravnest.Trainer(node=node, train_loader=loader, epochs=1, **options)
        trainer.train()
        if node.is_root:
            rate = loader.samples / (time.monotonic() - (loader.begun or begun))
            print(json.dumps({"rate": rate, "first_s": (loader.begun or begun) - begun}))


def turn(folder: Path, model: str, seconds: float, checkpoint: bool, resume: bool = False) -> dict:
    """What the root has printed."""
    flags = [*(["--checkpoint"] if checkpoint else []), *(["--resume"] if resume else [])]
    words = [sys.executable, __file__, model, "--play", "--seconds", str(seconds), *flags]
    nodes = [
        subprocess.Popen(words, cwd=folder, env={**os.environ, "RAVNEST_NODE": f"node_{i}"}, stdout=subprocess.PIPE)
        for i in range(NODES)
    ]
    outputs = [node.communicate(timeout=seconds * 4 + 120)[0] for node in nodes]
    assert all(node.returncode == 0 for node in nodes)
    return json.loads(outputs[0].splitlines()[-1])


def begin_anew(folder: Path, places: list[Path]) -> None:
    (folder / "losses.txt").unlink(missing_ok=True)
    for place in places:
        shutil.rmtree(place, ignore_errors=True)


@contextlib.contextmanager
def stored(folder: Path, s3: bool):
    """Where checkpoints go for as long as this lasts, and what has to be removed for there to be none."""
    if not s3:
        yield [folder / "checkpoints"]
        return
    with rclone(folder / "served") as environment:
        os.environ.update(environment, CHECKPOINTS="s3://lab/run", RAVNEST_CACHE=str(folder / "cache"))
        yield [folder / "served/lab/run", folder / "cache"]


def measure(model: str, seconds: float, repeats: int, s3: bool) -> None:
    """Turns with and without, beginning with the other side each time."""
    make, data, batch = MODELS[model]
    with tempfile.TemporaryDirectory() as name, stored(Path(name), s3) as places:
        folder = Path(name)
        write_local_pool(folder / "node_data", NODES)
        ravnest.clusterize(make(), (data()[0][:batch],), node_data=folder / "node_data", min_cluster_size=NODES)
        ratios, rates = [], []
        for i in range(repeats):
            rate = {}
            for checkpoint in (True, False) if i % 2 else (False, True):
                begin_anew(folder, places)
                rate[checkpoint] = turn(folder, model, seconds, checkpoint)["rate"]
            ratios.append(rate[True] / rate[False])
            rates.append(rate[True])
        kept = statistics.median(ratios)
        title, target = ("checkpoints_s3", 0.98) if s3 else ("checkpoints", 0.99)
        print(f"{title}_{model} {statistics.median(rates):.0f} samples/s {kept:.3f} >={target}", flush=True)
        begin_anew(folder, places)
        turn(folder, model, 2, True)
        again = turn(folder, model, 2, True, resume=True)["first_s"]
        print(f"resume_{model} {again:.2f} s - -", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(MODELS)}; by default all")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--s3", action="store_true", help="to object storage")
    for flag in ("--play", "--checkpoint", "--resume"):
        parser.add_argument(flag, action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.play:
        play(options.models[0], options.seconds, options.checkpoint, options.resume)
        return
    for model in options.models or MODELS:
        measure(model, options.seconds, options.repeats, options.s3)


if __name__ == "__main__":
    main()
