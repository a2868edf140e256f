"""Clusters of processes that train the digits network, each cluster with a share of the cores of its own."""

import json
import sys
from collections.abc import Callable
from contextlib import ExitStack, contextmanager, redirect_stdout
from os import devnull
from pathlib import Path

import torch

from support.control_groups import CpuQuota
from support.nodes import end, outcomes, plan, start
from support.places import EXAMPLES, SCRIPTS

sys.path.insert(0, str(EXAMPLES / "digits"))

from digits import BATCH, load_data, make_model

import ravnest

SCRIPT = SCRIPTS / "digits_node.py"


def run(
    folder: Path,
    sizes: list[int],
    cores: list[float],
    *arguments: str,
    meanwhile: Callable = lambda clusters: None,
    within_s: float = 600,
) -> list[list[dict] | None]:
    """What the nodes of each cluster print, by cluster; None for one that did not end well.

    `meanwhile` is called with the processes of each cluster once all are started.
    """
    ravnest.set_seed(0)
    with quiet():
        made = plan(folder, make_model(), (torch.rand(BATCH, 1, 8, 8),), nodes=sum(sizes), min_cluster_size=min(sizes))
    names = [[node.name for node in cluster.nodes] for cluster in made.clusters]
    assert [len(each) for each in names] == sizes, names
    processes: dict = {}
    with ExitStack() as stack:
        quotas = [stack.enter_context(CpuQuota(each, str(i))) for i, each in enumerate(cores)]
        stack.callback(lambda: end(processes.values()))
        for quota, cluster in zip(quotas, names, strict=True):
            for name in cluster:
                processes[name] = start(SCRIPT, name, folder, *arguments)
                quota.add(processes[name].pid)
        meanwhile([[processes[name] for name in cluster] for cluster in names])
        ended = outcomes(processes, within_s)
    return [_of_cluster([ended[name] for name in cluster]) for cluster in names]


def _of_cluster(ended: list[tuple[int, str]]) -> list[dict] | None:
    if any(status != 0 for status, _ in ended):
        return None
    return [json.loads(output.splitlines()[-1]) for _, output in ended]


@contextmanager
def quiet():
    """Without what is printed within."""
    with open(devnull, "w") as nowhere, redirect_stdout(nowhere):
        yield


def validation_outputs(folder: Path) -> tuple[torch.Tensor, torch.Tensor]:
    """What the first cluster's fused model makes of the validation set, by plain PyTorch, and the targets."""
    with quiet():
        fused = ravnest.model_fusion(trained=folder / "trained")
    model = make_model()
    model.load_state_dict(torch.load(fused, weights_only=True))
    images, targets = load_data()[1]
    with torch.no_grad():
        return model.eval()(images), targets


def accuracy(folder: Path) -> float:
    """Of the first cluster's fused model, in percent."""
    outputs, targets = validation_outputs(folder)
    return 100 * (outputs.argmax(1) == targets.argmax(1)).float().mean().item()
