"""Clusters as processes: slow ones, ones that are killed, and ones that come back."""

import os
import re
import signal

import pytest
import torch
from support.nodes import end, outcomes, plan_net, start, wait_for_line
from support.places import SCRIPTS
from support.soaked import soaked

import ravnest

pytestmark = pytest.mark.slow

SCRIPT = SCRIPTS / "cluster_script.py"


class Clusters:
    """Two clusters of two nodes, which the test starts and ends."""

    def __init__(self, folder):
        self.folder, self.processes = folder, {}
        made = plan_net(folder, nodes=4)
        self.names = [[node.name for node in cluster.nodes] for cluster in made.clusters]
        assert [len(names) for names in self.names] == [2, 2]

    def start(self, cluster: int, epochs: int, delay_s: float, *more: str) -> None:
        for name in self.names[cluster]:
            self.processes[name] = start(SCRIPT, name, self.folder, str(epochs), str(delay_s), *more)

    def leaf(self, cluster: int):
        return self.processes[self.names[cluster][-1]]

    def wait_for_rounds(self) -> None:
        """Until both have averaged: without a round they could not train on so many batches."""
        for cluster in (0, 1):
            for _ in range(12):
                wait_for_line(self.leaf(cluster), "training")

    def ended(self, cluster: int, within_s: float = 60) -> dict:
        return outcomes({name: self.processes[name] for name in self.names[cluster]}, within_s)

    def fused(self, cluster: int) -> dict:
        path = ravnest.model_fusion(cluster_id=cluster, trained=self.folder / "trained")
        return torch.load(path, weights_only=True)


@pytest.fixture
def clusters(tmp_path):
    made = Clusters(tmp_path)
    yield made
    end(made.processes.values())


def assert_well(ended: dict) -> float:
    """All nodes ended well, with one accuracy."""
    for status, output in ended.values():
        assert status == 0, output
    accuracies = {re.findall(r"^accuracy ([0-9.]+)$", output, re.MULTILINE)[-1] for _, output in ended.values()}
    assert len(accuracies) == 1, ended
    return float(accuracies.pop())


def assert_alike(first: dict, second: dict) -> None:
    for name, tensor in first.items():
        assert not tensor.is_floating_point() or torch.equal(tensor, second[name]), name


def test_a_slow_cluster_and_a_fast_one_end_alike(clusters):
    clusters.start(0, 6, 0)
    clusters.start(1, 6, 0.02)
    assert assert_well(clusters.ended(0)) == assert_well(clusters.ended(1))
    assert_alike(clusters.fused(0), clusters.fused(1))


@pytest.mark.parametrize("victim", [0, *soaked(1)], ids=["the first", "the second"])
def test_a_cluster_goes_on_when_another_is_killed(clusters, victim):
    clusters.start(0, 40, 0.02)
    clusters.start(1, 40, 0.02)
    clusters.wait_for_rounds()
    for name in clusters.names[victim]:
        os.kill(clusters.processes[name].pid, signal.SIGKILL)
    ended = clusters.ended(1 - victim)
    assert assert_well(ended) > 40
    assert f"cluster {victim} (" in ended[clusters.names[1 - victim][0]][1]


def test_a_cluster_that_comes_back_takes_the_weights_over(clusters):
    clusters.start(0, 60, 0.05)
    clusters.start(1, 60, 0.05)
    clusters.wait_for_rounds()
    for name in clusters.names[1]:
        os.kill(clusters.processes[name].pid, signal.SIGKILL)
        clusters.processes[name].communicate()
    wait_for_line(clusters.processes[clusters.names[0][0]], "cluster 1 (")
    clusters.start(1, 3, 0, "latest")
    wait_for_line(clusters.processes[clusters.names[1][0]], "has the latest weights")
    assert assert_well(clusters.ended(1)) == assert_well(clusters.ended(0)) > 40
    assert_alike(clusters.fused(0), clusters.fused(1))
