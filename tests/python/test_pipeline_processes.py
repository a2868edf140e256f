"""A pipeline of processes over TLS: the same numbers as in one process, and an end for everyone when one dies."""

import random
import signal
import time

import pytest
import stage_processes
import torch
from digits_model import digits_data, digits_model
from nodes import wait_for
from soaked import soaked
from torch.nn.functional import mse_loss

import ravnest
from ravnest.local import LocalCluster

STEPS = 20
CUTS = ["dense_1", "bn_3"]
# A killed peer is known to be lost after 3 s; busy machines need longer for everything.
ENDS_WITHIN_S = 10


@pytest.fixture(scope="module")
def stages(tmp_path_factory):
    torch.manual_seed(0)
    (images, _), _ = digits_data()
    path = ravnest.capture(digits_model(), (images[:64],), {}, tmp_path_factory.mktemp("digits") / "digits.pt2")
    return ravnest.load(path).slice(CUTS)


def prepare(folder, stages, **settings):
    (images, targets), _ = digits_data()
    return stage_processes.write_run(folder, stages, images, targets, warm_up=0, seed=42, **settings)


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


def kill_one(folder, victim: int, after_s: float) -> None:
    """Kill a stage in the middle of training; all others must end with the same sentence, which names it."""
    processes = [stage_processes.start(folder, stage) for stage in range(3)]
    try:
        wait_until_training(folder)
        time.sleep(after_s)  # the moment is what is random here
        assert all(process.poll() is None for process in processes), [p.communicate() for p in processes]
        processes[victim].send_signal(signal.SIGKILL)
        killed_at = time.monotonic()
        survivors = [stage for stage in range(3) if stage != victim]
        results = [stage_processes.result_of(processes[stage], 30) for stage in survivors]
        ended_after_s = time.monotonic() - killed_at
    finally:
        for process in processes:
            process.kill()
            process.wait()
    sentences = {result.get("failure") for result in results}
    assert sentences == {f"node_{victim} (stage {victim}) was lost"}, (victim, after_s, results)
    assert all(result["status"] == 1 for result in results), results
    assert ended_after_s < ENDS_WITHIN_S, (victim, after_s, ended_after_s)


def wait_until_training(folder) -> None:
    """Each stage writes a line a second of its memory as soon as it runs; a few mean that all of them do."""
    files = [folder / f"memory_{stage}.txt" for stage in range(3)]
    wait_for(
        lambda: all(file.exists() and file.read_text().count("\n") >= 2 for file in files),
        "the stages did not start",
    )


@pytest.mark.parametrize("victim", [1, *soaked(0, 2)])
def test_a_killed_stage_ends_the_run_for_all(tmp_path, stages, victim):
    folder = prepare(tmp_path, stages, seconds=600, watch=True)
    kill_one(folder, victim, random.uniform(0, 0.5))
