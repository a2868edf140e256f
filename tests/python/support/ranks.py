"""Data-parallel runs as processes: by `ravnest launch`, or rank by rank as a launcher would start them."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import torch

import ravnest
from support import command, npy_run
from support.command import interruptible
from support.endings import Run
from support.nodes import wait_for
from support.places import SCRIPTS, TESTS
from support.ports import free_ports
from support.small_net import make_net

DEADLINE_S = 600
TOKEN = "3kq8w2z5m9x7c4v6b1n0j8h5g2f7d4s9"
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
    """The variables by which torchrun tells a rank who it is, and the token that all ranks share."""
    local = local_world or world
    said = {
        "RAVNEST_TOKEN": TOKEN,
        "RANK": rank,
        "WORLD_SIZE": world,
        "LOCAL_RANK": rank % local,
        "LOCAL_WORLD_SIZE": local,
        "GROUP_RANK": rank // local,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
    }
    return {name: str(value) for name, value in said.items()}


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


def start_ranks(words: Sequence, world: int, folder: Path) -> dict[str, subprocess.Popen]:
    """rank_K -> its process, each started with these words as a launcher would: what each of them says is seen."""
    (port,) = free_ports(1)
    return {f"rank_{rank}": start_process(words, folder, environment_of(rank, world, port)) for rank in range(world)}


def python_rank(*arguments) -> list:
    """The words that start a rank of `rank_script.py`."""
    return [sys.executable, SCRIPTS / "rank_script.py", *arguments]


def command_rank(*flags) -> list:
    """The words that start a rank of `ravnest train`, in a folder with what `write_run` writes."""
    return [command.COMMAND, "train", "model.pt2", "--strategy", "ddp", *flags]


def write_run(folder: Path, epochs: int = 1_000_000) -> None:
    """The small network, its data and a train.toml, as `ravnest train` takes them."""
    npy_run.write_files(folder, epochs=epochs, schedule=None)
    ravnest.capture(make_net(), (torch.randn(20, 12),), path=folder / "model.pt2")


# Launchers of ranks that train for hours; the command in a folder with what `write_run` writes.
LAUNCHED = {
    "command": command_rank("--devices", 3),
    "script": [command.COMMAND, "launch", "--devices", 2, "--", *python_rank("long")],
}


def pid_of_rank(launcher: subprocess.Popen, rank: int) -> int | None:
    """The process of one of its ranks; None where there is none yet."""
    for entry in Path("/proc").iterdir():
        try:
            session = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[3])
            if session == launcher.pid and f"\0RANK={rank}\0" in f"\0{(entry / 'environ').read_text()}":
                return int(entry.name)
        except (OSError, ValueError):
            continue
    return None


def long_run(words: Sequence, world: int, folder: Path) -> Run:
    """So many ranks as processes, which train and would go on for hours."""

    def start(processes: dict) -> None:
        losses = folder / "losses.txt"
        losses.unlink(missing_ok=True)
        processes.update(start_ranks(words, world, folder))
        wait_for(losses.exists, "nothing is trained")

    return Run([f"rank_{rank}" for rank in range(world)], start, lambda name: f"rank {name[-1]} (127.0.0.1)")


def long_runs(folder: Path) -> list[Run]:
    """Runs that go on for hours: of three ranks of `ravnest train`, and of two of a script."""
    write_run(folder)
    return [long_run(command_rank(), 3, folder), long_run(python_rank("long"), 2, folder)]


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
