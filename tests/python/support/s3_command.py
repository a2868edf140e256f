"""`ravnest cp` and `ls` against a server, for tests."""

import os
import signal
import subprocess
import time
from pathlib import Path

from support.command import COMMAND, interruptible


class S3Command:
    """The command with an environment in which nothing but `variables` says where objects are."""

    def __init__(self, folder: Path, variables: dict):
        self.folder, self.variables = folder, variables

    def _options(self, variables: dict) -> dict:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        return {"cwd": self.folder, "env": {**kept, "HOME": str(home), **self.variables, **variables}, "text": True}

    def run(self, *arguments, timeout_s: float = 60, prefix=(), prepare=None, **variables):
        return subprocess.run(
            [*prefix, COMMAND, *map(str, arguments)],
            capture_output=True,
            timeout=timeout_s,
            check=False,
            preexec_fn=prepare,
            **self._options(variables),
        )

    def ok(self, *arguments, **options) -> str:
        """What it says, where it must not fail."""
        done = self.run(*arguments, **options)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def fails(self, *arguments, **options) -> str:
        """The one sentence that it ends with."""
        done = self.run(*arguments, **options)
        assert done.returncode == 1, (done.returncode, done.stdout, done.stderr)
        assert done.stderr.startswith("ravnest: ") and done.stderr.count("\n") == 1, done.stderr
        return done.stderr

    def start(self, *arguments, stderr=subprocess.STDOUT, **variables) -> subprocess.Popen:
        return subprocess.Popen(
            [COMMAND, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=stderr,
            preexec_fn=interruptible,
            **self._options(variables),
        )


def wait_until(reached, what: str, timeout_s: float = 60) -> None:
    end = time.monotonic() + timeout_s
    while not reached():
        assert time.monotonic() < end, f"{what} did not happen within {timeout_s} s"
        time.sleep(0.005)


def kill(process: subprocess.Popen) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)
