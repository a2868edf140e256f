"""How much of a data-parallel step's communication is hidden behind its compute, over a link of 1 Gbit/s.

    python benchmarks/strategies_overlap.py [--batches 4 16] [--mbps 1000] [--repeats 5] [--quick]

The 6-layer transformer of strategies.py on two ranks with TLS and a thread each, one relay between them. Prints lines
of: name value unit ratio-to-the-larger-one target, where a step is held against the larger of two others. Compute: the
same step of two processes that know nothing of each other. Communication: an all-reduce of as many floats as the model
has weights, in the clear, through relays of the same rate. All three in turns; medians.

The first gradients are there after the forward pass: with batches of 4 both are about equally long, and no step can be
shorter than a forward pass (a third of compute) and the communication. Batches of 16 leave room to hide it all.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import strategies
from allreduce import Members
from relays import Relays
from strategies import CASES, ROOT, rank_command, tell
from support.command import COMMAND
from support.ports import free_ports
from support.ranks import clean_environment, environment_of

CASE = "transformer"
TARGET = 1.15
LIMIT_S = 600
ALL_REDUCES = 10  # of a turn
MEMBER = ROOT / "build/release/benchmarks/collective/allreduce_member"


def seconds_of(environments: list[dict[str, str]], batch: int, steps: int) -> float:
    """Of a step, where rank 0 of them or any that is alone says: the mean of those who do."""
    with tempfile.TemporaryDirectory() as name:
        folders = [Path(name) / str(i) for i in range(len(environments))]
        for folder in folders:
            folder.mkdir()
        processes = [
            subprocess.Popen(rank_command(CASE, batch, steps, folder / "out"), env=environment, cwd=folder)
            for folder, environment in zip(folders, environments, strict=True)
        ]
        try:
            if any(process.wait(LIMIT_S) for process in processes):
                sys.exit("a rank has failed")
        finally:
            for process in processes:
                process.kill()
                process.wait()
        return statistics.mean(float(out.read_text()) for out in Path(name).glob("*/out"))


def compute(batch: int, steps: int) -> float:
    return seconds_of([clean_environment()] * 2, batch, steps)


def communication(floats: int, count: int, rate: list[str]) -> float:
    """Seconds of an all-reduce of two members, each with a relay before it, since either may dial the other."""
    ports = free_ports(2)
    with Relays(ports, *rate) as relays:
        behind = relays.ports()
        lists = [ports[0], behind[1]], [behind[0], ports[1]]
        members = Members(
            [[str(MEMBER), str(i), str(floats), "0", *map(str, lists[i])] for i in range(2)],
        )
        try:
            seconds, _ = members.measure(count)
        finally:
            members.close()
        check_went_through(relays, floats, count)
        return seconds


def together(floats: int, batch: int, steps: int, rate: list[str]) -> float:
    """Seconds of a step of two ranks, of which rank 1 finds rank 0 behind a relay."""
    token = subprocess.run([COMMAND, "token"], check=True, capture_output=True, text=True).stdout.strip()
    (port,) = free_ports(1)
    with Relays([port], *rate) as relays:
        masters = [port, *relays.ports()]
        ranks = [environment_of(rank, 2, master) | {"RAVNEST_TOKEN": token} for rank, master in enumerate(masters)]
        seconds = seconds_of([clean_environment(rank) for rank in ranks], batch, steps)
        check_went_through(relays, floats, 2 * steps)
        return seconds


def check_went_through(relays: Relays, floats: int, sums: int) -> None:
    """That the two sides did not find a way around the relay: each sends all it has, once."""
    carried, expected = relays.close(), 2 * 4 * floats * sums
    if carried < expected:
        sys.exit(f"{carried} bytes came through the relay, of {expected}: the ranks have found a way around it")


def measure(batch: int, steps: int, repeats: int, rate: list[str]) -> None:
    floats = sum(parameter.numel() for parameter in CASES[CASE].make().parameters())
    turns = []
    for _ in range(repeats):
        parts = compute(batch, steps), communication(floats, min(steps, ALL_REDUCES), rate)
        turns.append((*parts, together(floats, batch, steps, rate)))
    alone, exchange, step = (statistics.median(each) for each in zip(*turns, strict=True))
    ratio = statistics.median(both / max(parts) for *parts, both in turns)
    name = f"ddp_overlap_{CASE}_batch_{batch}"
    tell(f"{name}_compute", 1e3 * alone, "ms/step")
    tell(f"{name}_communication", 1e3 * exchange, "ms/step")
    tell(name, 1e3 * step, "ms/step", ratio, f"<={TARGET}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, nargs="+", default=[4, 16])
    parser.add_argument("--mbps", type=float, default=1000, help="of the link, each way")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a turn of few steps of the first batches")
    given = parser.parse_args()
    print("# name value unit ratio-to-the-larger-one target")
    steps = strategies.QUICK_STEPS if given.quick else CASES[CASE].steps
    for batch in given.batches[:1] if given.quick else given.batches:
        measure(batch, steps, 1 if given.quick else given.repeats, ["--mbps", str(given.mbps)])


if __name__ == "__main__":
    main()
