"""Kill -9 of each stage of a pipeline over TLS, at random moments, again and again.

python tests/soak/pipeline_kills.py [TIMES]
"""

import random
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests/python"))

import torch  # noqa: E402
from digits_model import digits_data, digits_model  # noqa: E402
from test_pipeline_processes import CUTS, kill_one, prepare  # noqa: E402

import ravnest  # noqa: E402


def main(times: int) -> None:
    torch.manual_seed(0)
    (images, _), _ = digits_data()
    with tempfile.TemporaryDirectory() as name:
        path = ravnest.capture(digits_model(), (images[:64],), {}, Path(name) / "digits.pt2")
        stages = ravnest.load(path).slice(CUTS)
        for time in range(times):
            folder = prepare(Path(name) / str(time), stages, seconds=600, watch=True)
            victim, after_s = time % len(stages), random.uniform(0, 2)
            kill_one(folder, victim, after_s)
            print(f"pipeline_kills: {time + 1} of {times}, stage {victim} after {after_s:.2f} s", flush=True)
    print(f"pipeline_kills: {times} times, every survivor ended with the same sentence")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50)
