"""Nodes of a run that trains, killed or interrupted at random moments, each role in turn, again and again.

python tests/soak/node_endings.py [TIMES]
"""

import random
import signal
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests/python"))

from support.nodes import NAMES, end, outcomes, plan_net, train_for_long  # noqa: E402

# What is done to a node: what the others say of it, and within how many seconds all have to be over.
ENDINGS = {signal.SIGKILL: ("was lost", 10), signal.SIGINT: ("was interrupted", 2)}


def end_one(folder: Path, victim: str, by: signal.Signals, after_s: float) -> None:
    words, within_s = ENDINGS[by]
    processes = {}
    try:
        train_for_long(folder, processes)
        time.sleep(after_s)
        processes[victim].send_signal(by)
        for name, (status, output) in outcomes(processes, within_s).items():
            assert status != 0, (name, output)
            assert name == victim or f"{victim} (stage {victim[-1]}) {words}" in output, (name, output)
    finally:
        end(processes.values())


def main(times: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        plan_net(Path(name))
        for i in range(times):
            for by in ENDINGS:
                victim, after_s = NAMES[i % len(NAMES)], random.uniform(0, 1.5)
                end_one(Path(name), victim, by, after_s)
                print(f"node_endings: {i + 1} of {times}, {by.name} of {victim} after {after_s:.2f} s", flush=True)
    print(f"node_endings: {times} times each, every node ended as promised")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50)
