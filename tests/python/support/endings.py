"""Runs of several processes that train, one of which is killed or interrupted, and how all of them have to end then."""

import os
import random
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from support.nodes import end, outcomes

INTERRUPTED = 130
# What is done to a process: what the others say of it, and within how many seconds all have to be over.
ENDINGS = {signal.SIGKILL: ("was lost", 10), signal.SIGINT: ("was interrupted", 2)}


@dataclass(frozen=True)
class Run:
    """How a run is started, and what its processes are called.

    Attributes:
        names: Of the processes.
        start: Fills a dict with them, by name, and returns when they train; they would go on for hours.
        shown: How the others name one of them in their sentences.
    """

    names: Sequence[str]
    start: Callable[[dict[str, subprocess.Popen]], None]
    shown: Callable[[str], str]


def last_line(output: str) -> str:
    return (output.strip().splitlines() or [""])[-1]


def left_behind(processes: Iterable[subprocess.Popen]) -> list[str]:
    """What still runs of the sessions that these processes began, but for zombies."""
    sessions = {process.pid for process in processes}
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            state = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            if int(state[3]) in sessions and state[0] != "Z":
                found.append((entry / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


def end_one(run: Run, victim: str, by: signal.Signals, after_s: float) -> dict[str, tuple[int, str]]:
    """Kills or interrupts one of them so long after all train: name -> (status, output), which are as promised."""
    words, within_s = ENDINGS[by]
    processes: dict[str, subprocess.Popen] = {}
    try:
        run.start(processes)
        time.sleep(after_s)
        processes[victim].send_signal(by)
        ended = outcomes(processes, within_s)
        assert left_behind(processes.values()) == []
    finally:
        end(processes.values())
    others = {name: output for name, (_, output) in ended.items() if name != victim}
    sentences = {last_line(output) for output in others.values()}
    assert len(sentences) == 1, others
    assert sentences.pop().startswith(f"ravnest: {run.shown(victim)} {words}"), others
    assert all(status not in (0, -signal.SIGKILL) for name, (status, _) in ended.items() if name != victim), ended
    assert ended[victim][0] == (INTERRUPTED if by == signal.SIGINT else -by), ended[victim]
    return ended


def interrupt_all(run: Run, after_s: float) -> None:
    """Ctrl-C to all of them at once."""
    processes: dict[str, subprocess.Popen] = {}
    try:
        run.start(processes)
        time.sleep(after_s)
        for process in processes.values():
            os.kill(process.pid, signal.SIGINT)
        ended = outcomes(processes, ENDINGS[signal.SIGINT][1])
        assert left_behind(processes.values()) == []
    finally:
        end(processes.values())
    for name, (status, output) in ended.items():
        assert status == INTERRUPTED, (name, output)
        assert last_line(output).startswith("ravnest: ") and last_line(output).endswith("was interrupted"), output


def end_again_and_again(program: str, make: Callable[[Path], Sequence[Run]], times: int) -> None:
    """So many kills and as many interruptions, of each process in turn at random moments; the runs take turns too."""
    with tempfile.TemporaryDirectory() as folder:
        runs = make(Path(folder))
        for i in range(times):
            run = runs[i % len(runs)]
            for by in ENDINGS:
                victim, after_s = run.names[i // len(runs) % len(run.names)], random.uniform(0, 1.5)
                end_one(run, victim, by, after_s)
                print(f"{program}: {i + 1} of {times}, {by.name} of {victim} after {after_s:.2f} s", flush=True)
    print(f"{program}: {times} times each, every process ended as promised")
