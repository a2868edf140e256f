"""Pipelines of processes on this machine, beside what users would run instead, in one run.

    python benchmarks/pipeline.py [digits] [transformer] [--repeats N]

Prints lines of: name value unit ratio-to-peer target. One thread per process. The peers are plain PyTorch on one thread
and torch.distributed.pipelining over Gloo, with the same stages, microbatches and updates. The bound is what the
slowest stage computes when it runs alone; on two cores the sum of all stages, halved, is one too.
"""

import argparse
import itertools
import json
import os
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
import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as mp  # noqa: E402
from digits import make_model  # noqa: E402
from support import stage_processes  # noqa: E402
from torch import nn  # noqa: E402

import ravnest  # noqa: E402

MICROBATCHES = 4
CORES = min(2, os.cpu_count() or 1)


def transformer() -> nn.Module:
    layers = [nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True, norm_first=True) for _ in range(6)]
    return nn.Sequential(*layers)


class Case:
    """A model, where it is cut, and data of one microbatch."""

    def __init__(self, name, make, cuts, inputs, targets, batch, steps):
        self.name, self.make, self.cuts, self.batch, self.steps = name, make, cuts, batch, steps
        self._inputs, self._targets = inputs, targets

    def data(self, microbatches: int) -> tuple[torch.Tensor, torch.Tensor]:
        rows = self.batch * microbatches
        return torch.rand(rows, *self._inputs), torch.rand(rows, *self._targets)

    def stages(self) -> list[nn.Module]:
        """The model's children, as the cuts divide them."""
        children = list(self.make().train().named_children())
        starts = [0] + [[name for name, _ in children].index(cut) for cut in self.cuts] + [len(children)]
        return [nn.Sequential(*(child for _, child in children[a:b])) for a, b in itertools.pairwise(starts)]


CASES = {
    "digits": Case("digits", make_model, ["dense_1", "bn_3"], (1, 8, 8), (10,), 64, 600),
    "transformer": Case("transformer", transformer, ["2", "4"], (64, 256), (64, 256), 4, 16),
}


def tell(name, value, unit, ratio="-", target="-"):
    shown = ratio if isinstance(ratio, str) else f"{ratio:.2f}"
    print(f"{name} {value:.3f} {unit} {shown} {target}", flush=True)


def plain(case: Case, microbatches: int, steps: int) -> tuple[float, float]:
    """Seconds, and CPU seconds, of a step of the whole model on one thread."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = case.make().train()
    optimizer = torch.optim.Adam(model.parameters())
    inputs, targets = case.data(microbatches)

    def step():
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()

    step()
    start, cpu = time.perf_counter(), time.process_time()
    for _ in range(steps):
        step()
    return (time.perf_counter() - start) / steps, (time.process_time() - cpu) / steps


def _pipelining(rank, world, store, out, name, schedule):
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

    case = CASES[name]
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=world)
    own = case.stages()[rank]
    stage = PipelineStage(own, rank, world, torch.device("cpu"))
    kind = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}[schedule]
    runner = kind(stage, MICROBATCHES, loss_fn=nn.functional.mse_loss)
    optimizer = torch.optim.Adam(own.parameters())
    inputs, targets = case.data(MICROBATCHES)
    arguments = [(inputs,)] + [()] * (world - 1)

    def step():
        optimizer.zero_grad()
        last = {"target": targets, "losses": []} if rank == world - 1 else {}
        runner.step(*arguments[rank], **last)
        optimizer.step()

    for _ in range(2):
        step()
    dist.barrier()
    steps = max(case.steps // MICROBATCHES, 4)
    start = time.perf_counter()
    for _ in range(steps):
        step()
    if rank == 0:
        Path(out).write_text(str((time.perf_counter() - start) / steps))
    dist.barrier()
    dist.destroy_process_group()


def pipelining(case: Case, schedule: str) -> float:
    """Seconds of a step of torch.distributed.pipelining."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out")
        store = f"file://{folder}/store"
        mp.spawn(_pipelining, (len(case.cuts) + 1, store, out, case.name, schedule), len(case.cuts) + 1)
        return float(Path(out).read_text())


class Ours:
    """The case's stages in a folder, ready to run as processes."""

    def __init__(self, case: Case, folder: Path, cuts: list[str] | None = None):
        torch.manual_seed(0)
        self.case, self.folder = case, folder
        inputs, self.targets = case.data(MICROBATCHES)
        path = ravnest.capture(case.make(), (inputs[: case.batch],), {}, folder / "model.pt2")
        self.graph = ravnest.load(path)
        self.stages = self.graph.slice(cuts or case.cuts)
        self.inputs = inputs

    def run(self, **settings) -> list[dict]:
        settings = {"warm_up": 8, "optimizer": "Adam", "optimizer_options": {"fused": True}, **settings}
        stage_processes.write_run(self.folder, self.stages, self.inputs, self.targets, **settings)
        results = stage_processes.run(self.folder, len(self.stages))
        failures = [result["failure"] for result in results if "failure" in result]
        if failures:
            raise RuntimeError(f"{self.case.name}: {failures}")
        return results

    def alone(self, at_once: int = 1, **settings) -> list[float]:
        """Seconds that each stage computes per pass, in `at_once` processes that do the same at the same time."""
        stage_processes.write_run(self.folder, self.stages, self.inputs, self.targets, **settings)
        command = [stage_processes.PROGRAM, "alone", self.folder]
        processes = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(at_once)]
        answers = [json.loads(process.communicate()[0])["seconds"] for process in processes]
        return [statistics.mean(each) for each in zip(*answers, strict=True)]


def step_s(results: list[dict]) -> float:
    return results[0]["elapsed_s"] / results[0]["steps"]


def busiest(results: list[dict]) -> float:
    return max(result["busy_s"] / result["running_s"] for result in results)


def compare(case: Case, repeats: int) -> None:
    """Asynchronous passes against plain PyTorch and the slowest stage; microbatched ones against torch's pipelines."""
    with tempfile.TemporaryDirectory() as name:
        ours = Ours(case, Path(name))
        batch = {"batch": case.batch, "steps": case.steps}
        for tls in (False, True):
            samples = [_against_plain(ours, tls, batch) for _ in range(repeats)]
            speed, of_bound, busy, cpu = (statistics.median(each) for each in zip(*samples, strict=True))
            label = f"pipeline_{case.name}{'_tls' if tls else ''}"
            digits = case.name == "digits"
            tell(f"{label}_against_plain", speed, "times", speed, ">=1.3" if digits else "-")
            tell(f"{label}_of_bound", of_bound, "share", of_bound, ">=0.9")
            tell(f"{label}_busy", busy * 100, "%", "-", ">=95")
            tell(f"{label}_cpu", cpu, "times", cpu, "<=1.25")
        parts = {
            "batch": case.batch * MICROBATCHES,
            "microbatches": MICROBATCHES,
            "steps": max(case.steps // MICROBATCHES, 4),
        }
        for schedule in ("gpipe", "1f1b"):
            ratios = [pipelining(case, schedule) / step_s(ours.run(tls=False, **parts)) for _ in range(repeats)]
            target = ">=2" if case.name == "digits" else ">=1.15"
            ratio = statistics.median(ratios)
            tell(f"pipeline_{case.name}_against_{schedule}", ratio, "times", ratio, target)


def _against_plain(ours: Ours, tls: bool, batch: dict) -> tuple[float, float, float, float]:
    plain_s, plain_cpu_s = plain(ours.case, 1, ours.case.steps)
    alone = ours.alone(**batch)
    bound_s = max(*alone, sum(alone) / CORES)
    results = ours.run(tls=tls, **batch)
    cpu_s = sum(result["cpu_s"] for result in results) / results[0]["steps"]
    return plain_s / step_s(results), bound_s / step_s(results), busiest(results), cpu_s / plain_cpu_s


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=[])
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    for name in options.cases or CASES:
        compare(CASES[name], options.repeats)
