"""Train the digits CNN on three processes for an hour, and see whether their resident memory grows.

    python tests/soak/pipeline_memory.py [SECONDS]

Prints each stage's memory and its slope after the first sixth of the time; fails above 1 MB an hour.
"""

import statistics
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests/python"), str(ROOT / "examples/digits")]

import torch  # noqa: E402
from digits import load_data, make_model  # noqa: E402
from support import stage_processes  # noqa: E402

import ravnest  # noqa: E402

MOST_MB_PER_HOUR = 1.0


def main(seconds: float) -> int:
    torch.manual_seed(0)
    (images, targets), _ = load_data()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        graph = ravnest.load(ravnest.capture(make_model(), (images[:64],), {}, folder / "digits.pt2"))
        stages = graph.slice(["dense_1", "bn_3"])
        stage_processes.write_run(folder, stages, images, targets, seconds=seconds, watch=True)
        results = stage_processes.run(folder, len(stages), timeout_s=seconds + 120)
        failures = [result["failure"] for result in results if "failure" in result]
        print(f"pipeline_memory: {results[0].get('steps', 0)} steps in {seconds:.0f} s {failures or ''}")
        grows = False
        for stage in range(len(stages)):
            lines = (folder / f"memory_{stage}.txt").read_text().split()
            resident = [float(line) for line in lines][len(lines) // 6 :]
            slope = statistics.linear_regression(range(len(resident)), resident).slope * 3600
            print(f"pipeline_memory: stage {stage} {resident[0]:.1f} to {resident[-1]:.1f} MB, {slope:+.2f} MB an hour")
            grows |= slope > MOST_MB_PER_HOUR
    return 1 if grows or failures else 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 3600))
