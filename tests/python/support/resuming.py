"""Runs that are ended in their middle, for tests of how they go on."""

from pathlib import Path

from torch.utils.data import DataLoader, Dataset

from support.nodes import Cluster, plan_net, wait_for
from support.small_net import make_dropping


def planned(folder: Path, nodes: int, size: int) -> Cluster:
    """Nodes, in clusters of so many, of the small network with dropout, whose masks are keyed by the step."""
    folder.mkdir(parents=True, exist_ok=True)
    plan = plan_net(folder, nodes, model=make_dropping, min_cluster_size=size)
    assert [len(cluster.nodes) for cluster in plan.clusters] == [size] * (nodes // size)
    return Cluster(folder, nodes)


class Stopped(Exception):
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
            raise Stopped("here")
        self.left -= 1
        return self.samples[index]


def ending(loader: DataLoader, checkpoints: Path, batches: int) -> DataLoader:
    """The same loader, of a run that it ends after so many batches, when there is a checkpoint in that folder."""
    samples = _Ending(loader.dataset, checkpoints, batches * loader.batch_size)
    return DataLoader(samples, loader.batch_size, shuffle=True)
