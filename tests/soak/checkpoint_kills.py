"""Kill -9 of all nodes of a run at random moments, again and again: what is gone on from is what would have been.

    python tests/soak/checkpoint_kills.py [TIMES]

A pipeline of three nodes, two clusters of two, a training loop that a user writes, train.toml without Python, and
checkpoints in object storage, of one cluster and of two: each is killed TIMES times, and resumed each time, in runs of
a few kills. Of synchronous ones, weights and losses are those of a run that nothing happened to, to the bit. Of
asynchronous ones the loss of each update has its line once, and the accuracy, mean of the runs, is at most half a point
below.
"""

import shutil
import statistics
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests/python"))

from support.kills import Way, compare, moments, run  # noqa: E402

KILLS_PER_RUN = 5
POINTS = 0.5

WAYS = [
    Way("a pipeline of three"),
    Way("two clusters of two", nodes=4, clusters=2),
    Way("a loop of the user's", loop="own"),
    Way("train.toml", loop="toml", epochs=40),
    Way("train.toml in object storage", loop="toml", epochs=40, place="s3://lab/run"),
    Way("two clusters in object storage", nodes=4, clusters=2, loop="toml", epochs=40, place="s3://lab/run"),
    Way("a pipeline of three, asynchronous", schedule="async"),
    Way("two clusters of two, asynchronous", nodes=4, clusters=2, schedule="async"),
]


def main(times: int) -> None:
    """Each way is killed so often."""
    for way in WAYS:
        with tempfile.TemporaryDirectory() as name:
            expected = run(way, Path(name) / "whole", [])
            accuracies = []
            for first in range(0, times, KILLS_PER_RUN):
                folder = Path(name) / str(first)
                kills = moments(expected, min(KILLS_PER_RUN, times - first))
                said = ", ".join(f"{after_s:.2f}" for after_s in kills)
                try:
                    found = run(way, folder, kills)
                    compare(way, found, expected)
                except AssertionError:
                    print(f"checkpoint_kills: {way.name}, killed after {said} s", flush=True)
                    raise
                accuracies.append(found.accuracy)
                shutil.rmtree(folder)
                print(f"checkpoint_kills: {way.name}, killed after {said} s", flush=True)
            if way.schedule != "sync" and expected.accuracy is not None:
                mean = statistics.mean(accuracies)
                assert mean >= expected.accuracy - POINTS, (way.name, mean, expected.accuracy)
                print(f"checkpoint_kills: {way.name}: {mean:.2f} %, undisturbed {expected.accuracy:.2f} %", flush=True)
    print(f"checkpoint_kills: {len(WAYS)} ways, {times} kills each; every run came to what it would have")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 25)
