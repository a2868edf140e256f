"""350 MB to object storage and back, cut at random bytes, with the server and the command killed in between.

python tests/soak/object_store_kills.py [TIMES [MB [SEED]]]

What arrives has to be equal by hash, and the bytes on the way are counted: a cut may cost the part that it hits on
the way up and what lies in buffers on the way down, a kill the parts that are on their way. It says how much that was.
"""

import hashlib
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests/python"))

from support.s3_command import S3Command  # noqa: E402
from support.s3_server import Fault, S3Server  # noqa: E402

MIB = 1 << 20
PART, PARALLEL = 8 * MIB, 4


class Way:
    """One of the two ways: the command, run until it is through, and all that happens to it."""

    def __init__(self, folder: Path, arguments: list, upload: bool, size: int, times: int, chance: random.Random):
        self.folder, self.arguments, self.upload, self.size, self.chance = folder, arguments, upload, size, chance
        self.server = S3Server(folder / "server")
        self.server.bucket("lab")
        self.moved = 0
        self.left = times  # incidents to come
        self.cuts = self.kills = 0

    def run(self) -> None:
        self.server.start()
        self.server.fault = self.fault
        command = S3Command(self.folder, self.server.environment())
        process = command.start("cp", *self.arguments)
        while process.poll() is None:
            if self.left > 0 and self.chance.random() < 0.5:
                self.wait_for_bytes(process)
                self.left -= 1
                self.kills += 1
                if self.chance.random() < 0.5:
                    self.restart()
                else:
                    process.send_signal(self.chance.choice([signal.SIGKILL, signal.SIGINT, signal.SIGTERM]))
                    process.communicate(timeout=60)
                    process = command.start("cp", *self.arguments)
            else:
                self.left, cuts = self.left - min(self.left, 2), min(self.left, 2)
                self.pending = cuts
                self.wait_for_bytes(process)
        said, _ = process.communicate()
        assert process.returncode == 0, said
        self.count()
        self.server.stop()
        allowed = self.size + self.cuts * (PART if self.upload else 4 * MIB) + self.kills * PARALLEL * PART + MIB
        print(
            f"{'up' if self.upload else 'down'}: {self.size / 1e6:.0f} MB, {self.cuts} cuts, {self.kills} kills, "
            f"{self.moved / 1e6:.0f} MB moved, {allowed / 1e6:.0f} allowed",
            flush=True,
        )
        assert self.moved <= allowed, "more was sent again than what was lost"

    pending = 0

    def fault(self, seen):
        about_bytes = seen.method == "PUT" if self.upload else seen.method == "GET" and "range" in seen.headers
        if not about_bytes or self.pending == 0:
            return None
        self.pending -= 1
        self.cuts += 1
        at = self.chance.randrange(PART)
        return Fault(cut_received=at) if self.upload else Fault(cut_sent=at)

    def wait_for_bytes(self, process) -> None:
        """Until some more have moved, or it is over."""
        wanted = self.now() + self.chance.randrange(2 * PART)
        end = time.monotonic() + 60
        while process.poll() is None and self.now() < wanted:
            assert time.monotonic() < end, "nothing moves"
            time.sleep(0.002)

    def now(self) -> int:
        return self.server.received() if self.upload else self.server.sent()

    def count(self) -> None:
        self.moved += self.now()

    def restart(self) -> None:
        self.server.stop()
        self.count()
        self.server = S3Server(self.folder / "server", self.server.port)
        self.server.fault = self.fault
        self.server.start()


def main() -> None:
    times, megabytes, seed = (int(value) for value in (*sys.argv[1:], *["50", "350", "1"][len(sys.argv) - 1 :]))
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = b"".join(chance.randbytes(1_000_000) for _ in range(megabytes))
        (folder / "a").write_bytes(data)
        Way(folder, ["a", "s3://lab/a"], True, len(data), times, chance).run()
        Way(folder, ["s3://lab/a", "b"], False, len(data), times, chance).run()
        assert hashlib.sha256((folder / "b").read_bytes()).digest() == hashlib.sha256(data).digest()
    print(f"object_store_kills: equal after {2 * times} incidents, seed {seed}")


if __name__ == "__main__":
    main()
