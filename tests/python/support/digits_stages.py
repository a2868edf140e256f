"""The digits network in three stages, each a process of its own."""

import signal
import time
from pathlib import Path

import torch

import ravnest
from support import stage_processes
from support.digits_model import digits_data, digits_model
from support.nodes import on_this_machine, wait_for


def digits_stages(folder: Path) -> list[ravnest.Stage]:
    torch.manual_seed(0)
    (images, _), _ = digits_data()
    path = ravnest.capture(digits_model(), (images[:64],), {}, folder / "digits.pt2")
    return ravnest.load(path).slice(["dense_1", "bn_3"])


def prepare(folder, stages, **settings):
    (images, targets), _ = digits_data()
    return stage_processes.write_run(folder, stages, images, targets, warm_up=0, seed=42, **settings)


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
        results = [stage_processes.result_of(processes[stage], 120) for stage in survivors]
        ended_after_s = time.monotonic() - killed_at
    finally:
        for process in processes:
            process.kill()
            process.wait()
    sentences = {result.get("failure") for result in results}
    assert sentences == {f"node_{victim} (stage {victim}) was lost"}, (victim, after_s, results)
    assert all(result["status"] == 1 for result in results), results
    # A killed peer is known to be lost after 3 s.
    assert ended_after_s < on_this_machine(10), (victim, after_s, ended_after_s)


def wait_until_training(folder) -> None:
    """Each stage writes a line a second of its memory as soon as it runs; a few mean that all of them do."""
    files = [folder / f"memory_{stage}.txt" for stage in range(3)]
    wait_for(
        lambda: all(file.exists() and file.read_text().count("\n") >= 2 for file in files),
        "the stages did not start",
    )
