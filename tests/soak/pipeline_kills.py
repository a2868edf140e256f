"""Kill -9 of each stage of a pipeline over TLS, at random moments, again and again.

python tests/soak/pipeline_kills.py [TIMES]
"""

import random
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests/python"))

from support.digits_stages import digits_stages, kill_one, prepare  # noqa: E402


def main(times: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        stages = digits_stages(Path(name))
        for time in range(times):
            folder = prepare(Path(name) / str(time), stages, seconds=600, watch=True)
            victim, after_s = time % len(stages), random.uniform(0, 2)
            kill_one(folder, victim, after_s)
            print(f"pipeline_kills: {time + 1} of {times}, stage {victim} after {after_s:.2f} s", flush=True)
    print(f"pipeline_kills: {times} times, every survivor ended with the same sentence")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50)
