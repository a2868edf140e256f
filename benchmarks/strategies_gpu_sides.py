"""What benchmarks/strategies_gpu.py measures: one piece of work, and those who do it, each in a process of its own."""

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy, interpolate
from torch.utils.data import DataLoader

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/python"))
from support.models import ViT

import ravnest

OPTIONS = {"lr": 1e-4, "fused": True}
SMALL = {"image": 32, "patch": 16, "dim": 32, "depth": 2, "heads": 2}
INPUTS = ("float32", "uint8")


class Resized(Sequence):
    """Batches of small images in bytes, each of which is made what the model takes when it is asked for."""

    def __init__(self, batches: list[tuple[torch.Tensor, torch.Tensor]], size: int):
        self._batches, self._size = batches, size

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, i):
        images, targets = self._batches[i]
        return interpolate(images.float().div_(255), size=self._size, mode="bilinear"), targets


@dataclass(frozen=True)
class Work:
    """What every side does; `seconds_of` has how it is timed."""

    batch: int
    steps: int
    precision: str
    quick: bool
    input: str = "float32"  # what lies on the device: images as the model takes them, or small ones in bytes

    @property
    def device(self) -> str:
        return "cuda" if torch.cuda.is_available() else "cpu"

    def model(self) -> torch.nn.Module:
        return ViT(**SMALL if self.quick else {})

    @property
    def size(self) -> int:
        return SMALL["image"] if self.quick else 224

    def images(self, count: int) -> torch.Tensor:
        return torch.rand(count, 3, self.size, self.size)

    def data(self) -> Sequence[tuple[torch.Tensor, torch.Tensor]]:
        """The batches of an epoch, all the same one, whose images are on the device."""
        targets = torch.randint(0, 10, (self.batch,))
        if self.input == "float32":
            return [(self.images(self.batch).to(self.device), targets)] * self.steps
        images = torch.randint(0, 256, (self.batch, 3, 32, 32), dtype=torch.uint8, device=self.device)
        return Resized([(images, targets)] * self.steps, self.size)

    def autocast(self):
        return torch.autocast(self.device, torch.bfloat16, enabled=self.precision == "bf16")

    def synchronize(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()

    def seconds_of(self, epoch: Callable[[], None]) -> float:
        """Of the second one."""
        epoch()
        self.synchronize()
        start = time.perf_counter()
        epoch()
        self.synchronize()
        return time.perf_counter() - start


def loss_of(outputs, targets):
    return cross_entropy(outputs.float(), targets)


def ours(work: Work) -> float:
    batches = work.data()
    with ravnest.Node(
        strategy="ddp",
        model=work.model(),
        example_args=(work.images(4),),
        precision=work.precision,
        optimizer=torch.optim.AdamW,
        optimizer_params=OPTIONS,
        criterion=loss_of,
        labels=[batches[0][1]] * len(batches),
        device=work.device,
        progress=False,
    ) as node:
        return work.seconds_of(ravnest.Trainer(node=node, train_loader=batches, shard=False).train)


def engine(work: Work) -> float:
    dtype = torch.bfloat16 if work.precision == "bf16" else torch.float32
    graph = ravnest.load(ravnest.capture(work.model().to(dtype), (work.images(4).to(dtype),))).to(work.device)
    weights = [parameter for parameter in graph.parameters() if parameter.requires_grad]
    masters = weights if dtype == torch.float32 else [weight.detach().float() for weight in weights]
    gradients = [torch.empty_like(master) for master in masters]
    optimizer = torch.optim.AdamW(masters, **OPTIONS)
    batches = work.data()

    def update() -> None:
        if masters is weights:
            optimizer.step()
        else:
            torch._foreach_copy_(gradients, [weight.grad for weight in weights])
            for master, gradient in zip(masters, gradients, strict=True):
                master.grad = gradient
            optimizer.step()
            with torch.no_grad():
                torch._foreach_copy_(weights, masters)
        for weight in weights:
            weight.grad = None

    def epoch() -> None:
        for inputs, targets in batches:
            loss_of(graph(inputs.to(dtype)), targets.to(work.device)).backward()
            update()

    return work.seconds_of(epoch)


def torch_ddp(work: Work) -> float:
    backend = "nccl" if work.device == "cuda" else "gloo"
    dist.init_process_group(backend, init_method=f"file://{os.getcwd()}/store", rank=0, world_size=1)
    model = torch.nn.parallel.DistributedDataParallel(work.model().to(work.device))
    optimizer = torch.optim.AdamW(model.parameters(), **OPTIONS)
    batches = work.data()

    def epoch() -> None:
        for inputs, targets in batches:
            optimizer.zero_grad()
            with work.autocast():
                outputs = model(inputs)
            loss_of(outputs, targets.to(work.device)).backward()
            optimizer.step()

    seconds = work.seconds_of(epoch)
    dist.destroy_process_group()
    return seconds


def lightning_ddp(work: Work) -> float:
    try:
        import lightning
    except ModuleNotFoundError:
        import pytorch_lightning as lightning  # the same under its older name

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = work.model()

        def training_step(self, batch, _):
            return loss_of(self.model(batch[0]), batch[1])

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), **OPTIONS)

    class Clock(lightning.Callback):
        """When each epoch began and ended."""

        def __init__(self):
            self.times = []

        def on_train_epoch_start(self, *_):
            work.synchronize()
            self.times.append(time.perf_counter())

        on_train_epoch_end = on_train_epoch_start

    clock = Clock()
    trainer = lightning.Trainer(
        strategy="ddp",
        accelerator=work.device,
        devices=1,
        precision="bf16-mixed" if work.precision == "bf16" else "32-true",
        max_epochs=2,
        callbacks=[clock],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
    )
    trainer.fit(Module(), DataLoader(work.data(), batch_size=None))
    return clock.times[-1] - clock.times[-2]


SIDES = {"torch_ddp": torch_ddp, "lightning_ddp": lightning_ddp, "engine": engine, "ravnest": ours}
