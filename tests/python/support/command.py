"""The command `ravnest` for tests that run it; RAVNEST_COMMAND names another than the installed one."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

COMMAND = (
    os.environ.get("RAVNEST_COMMAND")
    or shutil.which("ravnest", path=str(Path(sys.executable).parent))
    or shutil.which("ravnest")
)


def run(*arguments, cwd: Path, timeout_s: float = 60) -> subprocess.CompletedProcess:
    """The command to its end, in `cwd`."""
    return subprocess.run(
        [COMMAND, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, timeout=timeout_s, check=False
    )


def interruptible() -> None:
    """For a new process: signals end it, even where the tests run in the background or under nohup."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def start(*arguments, cwd: Path, prepare=None, to=subprocess.PIPE) -> subprocess.Popen:
    """The command as a process of its own, with one thread for what it computes; `prepare` is called in it first.

    What it says goes to `to`: a file, where there is much of it before anybody reads it.
    """

    def begin() -> None:
        interruptible()
        if prepare is not None:
            prepare()

    return subprocess.Popen(
        [COMMAND, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        stdout=to,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=begin,
    )
