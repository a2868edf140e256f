"""Data-parallel runs as processes: by `ravnest launch`, or rank by rank as a launcher would start them."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from support import command
from support.command import interruptible
from support.places import TESTS
from support.ports import free_ports

DEADLINE_S = 120
# What launchers leave in the environment of those who start tests.
LAUNCHERS = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_",
    "GROUP_",
    "MASTER_",
    "TORCHELASTIC_",
    "OMPI_",
    "PMI_",
    "SLURM_",
    "RAVNEST_",
)


def environment_of(rank: int, world: int, port: int, local_world: int | None = None) -> dict[str, str]:
    """The variables by which torchrun tells a rank who it is."""
    local = local_world or world
    numbers = {
        "RANK": rank,
        "WORLD_SIZE": world,
        "LOCAL_RANK": rank % local,
        "LOCAL_WORLD_SIZE": local,
        "GROUP_RANK": rank // local,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
    }
    return {name: str(value) for name, value in numbers.items()}


def clean_environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's, without what a launcher said; the tests' support can be imported."""
    path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    own = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
    return {**own, "OMP_NUM_THREADS": "1", "PYTHONPATH": path, **(more or {})}


def start_process(words: Sequence, folder: Path, more: Mapping[str, str] | None = None) -> subprocess.Popen:
    return subprocess.Popen(
        list(map(str, words)),
        cwd=folder,
        env=clean_environment(more),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=interruptible,
    )


def end_run(processes: Iterable[subprocess.Popen]) -> None:
    """Of launchers that `start_process` has started, and of their ranks, nothing runs any more."""
    for process in processes:
        if process.poll() is None:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def start_ranks(script: Path, world: int, folder: Path, *arguments, more: Mapping[str, str] | None = None) -> dict:
    """rank_K -> its process, each as a launcher would start it: what one of them does is seen on all of them."""
    (port,) = free_ports(1)
    return {
        f"rank_{rank}": start_process(
            [sys.executable, script, *arguments], folder, {**environment_of(rank, world, port), **(more or {})}
        )
        for rank in range(world)
    }


def start_launch(script: Path, world: int, folder: Path, *arguments, flags: Sequence = ()) -> subprocess.Popen:
    """`ravnest launch` with the script on every rank."""
    words = [command.COMMAND, "launch", "--devices", world, *flags, "--", sys.executable, script, *arguments]
    return start_process(words, folder)


def launch(script: Path, world: int, folder: Path, *arguments, within_s: float = DEADLINE_S) -> str:
    """The same to its end, which has to be a good one: what the ranks have written."""
    process = start_launch(script, world, folder, *arguments)
    try:
        output, _ = process.communicate(timeout=within_s)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, output
    return output
