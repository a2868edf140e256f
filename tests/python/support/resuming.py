"""Runs that are ended in their middle, for tests of how they go on."""

from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

import ravnest
from ravnest import Trainer
from support.nodes import Cluster, plan_net, wait_for
from support.small_net import criterion, loaders, make_dropping


def planned(folder: Path, nodes: int, size: int, model=make_dropping) -> Cluster:
    """Nodes, in clusters of so many, of the small network with dropout, whose masks are keyed by the step."""
    folder.mkdir(parents=True, exist_ok=True)
    plan = plan_net(folder, nodes, model=model, min_cluster_size=size)
    assert [len(cluster.nodes) for cluster in plan.clusters] == [size] * (nodes // size)
    return Cluster(folder, nodes)


ONE_CYCLE = {
    "lr_scheduler": torch.optim.lr_scheduler.OneCycleLR,
    "lr_scheduler_params": {"max_lr": 0.01, "total_steps": 100},
    "lr_step_on_epoch_change": False,
}


def tensors_of(results: dict) -> dict[str, torch.Tensor]:
    """Those of all stages, of what `run` gives."""
    return {name: tensor for stage in results.values() for name, tensor in stage.items()}


class _Stopped(Exception):
    """The end of a run in its middle."""


class _Ending(Dataset):
    """Samples that end the run after so many, when there is a checkpoint."""

    def __init__(self, samples: Dataset, checkpoints: Path, left: int):
        self.samples, self.checkpoints, self.left = samples, checkpoints, left

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        if self.left == 0:
            wait_for(lambda: list(self.checkpoints.glob("*/manifest.json")), "there is no checkpoint")
            raise _Stopped("here")
        self.left -= 1
        return self.samples[index]


def _ending(loader: DataLoader, checkpoints: Path, batches: int) -> DataLoader:
    """The same loader, of a run that it ends after so many batches, when there is a checkpoint in that folder."""
    samples = _Ending(loader.dataset, checkpoints, batches * loader.batch_size)
    return DataLoader(samples, loader.batch_size, shuffle=True)


def run(
    cluster: Cluster, epochs: int, stop_at: int | None = None, batch: int = 20, trainer: dict | None = None, **node
) -> dict:
    """name -> the stage's tensors by name; of a run that the roots end after so many batches, nothing."""
    checkpoints = cluster.folder / "checkpoints"

    def script(make):
        train, val = loaders(batch=batch)
        with make(
            **{"optimizer": torch.optim.Adam, "criterion": criterion} | node, labels=train, test_labels=val
        ) as own:
            fed = _ending(train, checkpoints, stop_at) if stop_at is not None and own.is_root else train
            Trainer(
                node=own,
                train_loader=fed,
                val_loader=val,
                epochs=epochs,
                **{"checkpoint": checkpoints} | (trainer or {}),
            ).train()
            return dict(own.named_parameters()) | dict(own.named_buffers())

    ravnest.set_seed(42)
    if stop_at is None:
        return cluster.run(script)
    with pytest.raises(_Stopped, match="here"):
        cluster.run(script)
    return {}
