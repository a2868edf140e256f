"""Ranks of a data-parallel run, killed or interrupted at random moments, each in turn, again and again.

python tests/soak/rank_endings.py [TIMES]

First ranks that train, started one by one, so that each is heard; then launched ones, at any moment from their start.
"""

import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests/python"))

from support.endings import INTERRUPTED, end_again_and_again, last_line, left_behind  # noqa: E402
from support.nodes import end, on_this_machine, wait_for  # noqa: E402
from support.ranks import LAUNCHED, long_runs, pid_of_rank, start_process, write_run  # noqa: E402

STATUSES = {signal.SIGKILL: 128 + signal.SIGKILL, signal.SIGINT: INTERRUPTED}
WITHIN_S = 10
LONGEST_START_S = 4.0


def end_launched(folder: Path, which: str, rank: int, by: signal.Signals, after_s: float) -> str:
    """What the launcher said last."""
    launcher = start_process(LAUNCHED[which], folder)
    try:
        pid = wait_for(lambda: pid_of_rank(launcher, rank), f"rank {rank} is not started")
        time.sleep(after_s)
        os.kill(pid, by)
        output, _ = launcher.communicate(timeout=on_this_machine(WITHIN_S))
        assert left_behind([launcher]) == []
    finally:
        end([launcher])
    assert launcher.returncode == STATUSES[by], output
    assert last_line(output).startswith("ravnest: "), output
    return last_line(output)


def main(times: int) -> None:
    end_again_and_again("rank_endings", long_runs, times)
    with tempfile.TemporaryDirectory() as name:
        write_run(Path(name))
        for i in range(times):
            for by in STATUSES:
                which, rank, after_s = [*LAUNCHED][i % 2], i // 2 % 2, random.uniform(0, LONGEST_START_S)
                said = end_launched(Path(name), which, rank, by, after_s)
                print(f"rank_endings: {i + 1} of {times} launched, {which}, {by.name} of rank {rank} ", end="")
                print(f"after {after_s:.2f} s: {said}", flush=True)
    print(f"rank_endings: {times} times each, every launched run ended as promised")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50)
