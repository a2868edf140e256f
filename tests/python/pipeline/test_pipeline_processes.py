"""A pipeline of processes over TLS: the same numbers as in one process, and an end for everyone when one dies."""

import random

import pytest
from support import stage_processes
from support.digits_model import digits_data
from support.digits_stages import digits_stages, kill_one, prepare
from support.nodes import wait_for
from support.soaked import soaked
from torch.nn.functional import mse_loss

from ravnest import LocalCluster

pytestmark = pytest.mark.slow

STEPS = 20


@pytest.fixture(scope="module")
def stages(tmp_path_factory):
    return digits_stages(tmp_path_factory.mktemp("digits"))


@pytest.mark.parametrize("tls", [False, True])
def test_processes_compute_what_threads_do(tmp_path, stages, tls):
    folder = prepare(tmp_path, stages, tls=tls, schedule="sync", microbatches=4, steps=STEPS)
    results = stage_processes.run(folder, len(stages), timeout_s=60)
    assert [result["status"] for result in results] == [0, 0, 0], results

    (images, targets), _ = digits_data()
    batches = len(images) // 64
    with LocalCluster(stages, mse_loss, "Adam", schedule="sync", microbatches=4, seed=42) as cluster:
        for step in range(STEPS):
            rows = slice(step % batches * 64, step % batches * 64 + 64)
            cluster.train(images[rows], targets[rows])
        losses = [report["loss"] for report in cluster.drain(60)]
    assert results[0]["losses"] == losses


def test_stages_may_start_in_any_order(tmp_path, stages):
    folder = prepare(tmp_path, stages, steps=5, watch=True)
    processes = {}
    try:
        for stage in (2, 0, 1):
            processes[stage] = stage_processes.start(folder, stage)
            wait_for((folder / f"memory_{stage}.txt").exists, f"stage {stage} did not start")
        results = [stage_processes.result_of(processes[stage], 60) for stage in range(3)]
    finally:
        for process in processes.values():
            process.kill()
            process.wait()
    assert [result["status"] for result in results] == [0, 0, 0], results


@pytest.mark.parametrize("victim", [1, *soaked(0, 2)])
def test_a_killed_stage_ends_the_run_for_all(tmp_path, stages, victim):
    folder = prepare(tmp_path, stages, seconds=600, watch=True)
    kill_one(folder, victim, random.uniform(0, 0.5))
