"""`ravnest cp` beside `aws s3 cp`, both against the same server on this machine.

    python benchmarks/object_store.py [--megabytes 350] [--repeats 5]

Needs AWS's own client (`aws`), which is no part of what `make` installs; the server is rclone's. Each copy is of an
object that is not there yet, and verified by its size at least; whole commands are timed, with the start of a process.
Prints lines of: name value unit ratio-to-peer target.
"""

import argparse
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests/python"))

from support.command import COMMAND  # noqa: E402
from support.s3_peers import rclone  # noqa: E402

TARGET = 0.8


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, default=350)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    if shutil.which("aws") is None:
        sys.exit("benchmarks/object_store.py needs AWS's own client: pip install awscli, or apt-get install awscli")
    megabytes = options.megabytes
    with tempfile.TemporaryDirectory() as name, rclone(Path(name) / "served") as variables:
        folder = Path(name)
        chance = random.Random(1)
        (folder / "a").write_bytes(b"".join(chance.randbytes(1_000_000) for _ in range(megabytes)))
        environment = {**os.environ, **variables, "AWS_DEFAULT_REGION": "us-east-1"}

        def rate(command: list, made: Path) -> float:
            start = time.perf_counter()
            subprocess.run(command, env=environment, cwd=folder, check=True, capture_output=True)
            seconds = time.perf_counter() - start
            assert made.stat().st_size == megabytes * 1_000_000
            return megabytes / seconds

        rates: dict[tuple, list[float]] = {}
        for i in range(options.repeats + 1):
            for who, cp in [("ravnest", [COMMAND, "cp"]), ("aws", ["aws", "s3", "cp", "--no-progress"])]:
                key = f"{who}-{i}"
                served = folder / "served" / "lab" / key
                up = rate([*cp, "a", f"s3://lab/{key}"], served)
                down = rate([*cp, f"s3://lab/{key}", "b"], folder / "b")
                served.unlink()
                (folder / "b").unlink()
                if i > 0:  # the first warms up
                    rates.setdefault((who, "up"), []).append(up)
                    rates.setdefault((who, "down"), []).append(down)
        for way in ("up", "down"):
            ours, theirs = (statistics.median(rates[who, way]) for who in ("ravnest", "aws"))
            print(f"object_store_{way} {ours:.0f} MB/s {ours / theirs:.2f} {TARGET}")


if __name__ == "__main__":
    main()
