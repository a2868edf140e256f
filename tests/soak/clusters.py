"""Clusters of the digits network of which one is slow, ends early or is killed: the other is as good as in a clean run.

    python tests/soak/clusters.py [SEEDS]

Two clusters of two processes each, and of three, over sockets with TLS; the second has fewer samples. The accuracy of
the first one's fused model, mean of the seeds, is at most half a point below that of a run in which nothing happens.
Needs root, for CPU quotas.
"""

import statistics
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests/python"))

from support.digits_clusters import accuracy, run  # noqa: E402
from support.nodes import wait_for  # noqa: E402

SAMPLES = ("800", "278")
EPOCHS = 100
POINTS = 0.5  # by which a disturbed run may be worse


def kill_half_way(folder: Path):
    """Kills the second cluster when it has gone through half of its batches."""

    def kill(clusters: list) -> None:
        batches = EPOCHS * (int(SAMPLES[1]) // 64 + 1)
        losses = folder / "losses_cluster_1.txt"

        def is_half_way() -> bool:
            return losses.exists() and losses.read_text().count("\n") > batches / 2

        wait_for(is_half_way, "the second cluster is not half-way", within_s=300)
        for process in clusters[1]:
            process.kill()

    return kill


def train(way: str, size: int, seed: int) -> float:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        results = run(
            folder,
            [size] * 2,
            [0.6, 0.2] if way == "three times slower" else [0.6, 0.6],
            *("--epochs", str(EPOCHS), str(EPOCHS // 2 if way == "ends early" else EPOCHS)),
            *("--samples", *SAMPLES, "--reduce-factor", "20", "--seed", str(seed)),
            meanwhile=kill_half_way(folder) if way == "killed" else lambda clusters: None,
        )
        assert results[0] is not None, f"the first cluster failed, where the other is {way}"
        assert (results[1] is None) == (way == "killed"), f"of the second cluster, {way}"
        return accuracy(folder)


def main(seeds: int) -> None:
    for size in (2, 3):
        clean = 0.0
        for way in ("as the first", "three times slower", "ends early", "killed"):
            accuracies = [train(way, size, seed) for seed in range(seeds)]
            mean = statistics.mean(accuracies)
            clean = clean or mean
            print(f"clusters: 2 x {size} nodes, the second {way}: {mean:.2f} % ({mean - clean:+.2f})", flush=True)
            assert mean >= clean - POINTS, accuracies
    print(f"clusters: {seeds} seeds, the first cluster was within {POINTS} points each time")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
