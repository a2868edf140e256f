"""All-reduces between processes of this machine over loopback, beside Gloo's, in one run.

    python benchmarks/allreduce.py [--repeats N] [--members 2 4] [--mebibytes 1 64] [--chunk BYTES] [--build release]

Prints lines of: name value unit ratio-to-peer target. The rate is the bus bandwidth: the bytes that each member has to
send, 2(n-1)/n of the values, over the time of the slowest. Both sides have their processes up all the time, without
TLS, and are measured in turns. The bytes on the wire are held against what has to be sent.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests/python"))

from support.ports import free_ports  # noqa: E402


class Members:
    """Processes that all-reduce together: told how often, each says how long it took and what it sent."""

    def __init__(self, commands: list[list[str]]):
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        self.processes = [
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, env=environment
            )
            for command in commands
        ]

    def measure(self, count: int) -> tuple[float, int]:
        """Seconds of one all-reduce for the slowest member, and the bytes that all sent in one."""
        for process in self.processes:
            process.stdin.write(f"{count}\n")
        answers = [process.stdout.readline().split() for process in self.processes]
        if not all(answers):
            sys.exit("a member has failed")
        return max(float(seconds) for seconds, _ in answers) / count, sum(int(sent) for _, sent in answers) / count

    def close(self):
        for process in self.processes:
            process.stdin.close()
        for process in self.processes:
            process.wait()


def ours(members: int, floats: int, chunk: int, build: str) -> Members:
    ports = [str(port) for port in free_ports(members)]
    program = ROOT / "build" / build / "benchmarks/collective/allreduce_member"
    return Members([[str(program), str(i), str(floats), str(chunk), *ports] for i in range(members)])


def gloo(members: int, floats: int, store: Path) -> Members:
    return Members(
        [[sys.executable, __file__, "--gloo", str(i), str(members), str(floats), str(store)] for i in range(members)]
    )


def be_gloo_member(rank: int, members: int, floats: int, store: str) -> None:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=members)
    values = torch.ones(floats)
    dist.all_reduce(values)
    for line in sys.stdin:
        count = int(line)
        dist.barrier()
        start = time.perf_counter()
        for _ in range(count):
            dist.all_reduce(values)
        print(time.perf_counter() - start, 0, flush=True)
    dist.destroy_process_group()


def compare(members: int, mebibytes: int, repeats: int, chunk: int, build: str) -> None:
    size = mebibytes << 20
    bound = 2 * (members - 1) / members * size
    count = max(2, 40 // mebibytes)
    with tempfile.TemporaryDirectory() as folder:
        own, peer = ours(members, size // 4, chunk, build), gloo(members, size // 4, Path(folder) / "store")
        rates, ratios, shares = [], [], []
        for turn in range(repeats + 1):
            seconds, sent = own.measure(count)
            peer_seconds, _ = peer.measure(count)
            if turn == 0:  # warms up
                continue
            rates.append(bound / seconds / 1e9)
            ratios.append(peer_seconds / seconds)
            shares.append(sent / (members * bound))
        own.close()
        peer.close()
    name = f"allreduce_{members}x{mebibytes}MiB"
    print(f"{name} {statistics.median(rates):.3f} GB/s {statistics.median(ratios):.2f} >=1", flush=True)
    print(f"{name}_wire {statistics.median(shares):.4f} of-bound - <=1.02", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--gloo"]:
        be_gloo_member(*(int(number) for number in sys.argv[2:5]), sys.argv[5])
        sys.exit()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--members", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--mebibytes", type=int, nargs="+", default=[1, 64])
    parser.add_argument("--chunk", type=int, default=0, help="bytes; 0: as a group has them by itself")
    parser.add_argument("--build", default="release", help="the folder under build/")
    given = parser.parse_args()
    print(f"# name value unit ratio-to-peer target; the peer: Gloo; {given.repeats} repeats, in turns")
    for member_count in given.members:
        for mebi in given.mebibytes:
            compare(member_count, mebi, given.repeats, given.chunk, given.build)
