"""What a command starts for nodes or ranks: small scripts, and processes that sleep, to see how all of them end."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from support import command
from support.nodes import wait_for

SLEEPER = """
import os, pathlib, subprocess, sys, time
child = subprocess.Popen(["sleep", "600"])
name = os.environ.get("RAVNEST_NODE") or f"rank_{os.environ['RANK']}"
pathlib.Path(f"{name}.new").write_text(f"{os.getpid()} {child.pid}")
os.rename(f"{name}.new", f"{name}.pids")
time.sleep(600)
"""
DEAF_SLEEPER = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + SLEEPER
# Says that it was interrupted, as nodes and ranks do, and is still at it when it is killed.
SLOW_TO_END = """
import os, signal

def on_interrupt(*_):
    name = os.environ.get("RAVNEST_NODE") or f"rank_{os.environ['RANK']}"
    print(f"ravnest: {name} was interrupted", flush=True)

signal.signal(signal.SIGINT, on_interrupt)
""" + SLEEPER.replace("time.sleep(600)", "while True:\n    time.sleep(600)")


def script(folder: Path, text: str) -> list:
    """The end of a command line: what runs `text` in Python."""
    path = folder / "script.py"
    path.write_text(text)
    return ["--", sys.executable, "-S", path]


def lines_of(result: subprocess.CompletedProcess, name: str) -> list[str]:
    """What that node or rank has written, without its name in front."""
    return [line.removeprefix(f"{name} | ") for line in result.stdout.splitlines() if line.startswith(f"{name} | ")]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def start_sleepers(
    folder: Path, started: list, names: Sequence[str], *arguments, text: str = SLEEPER
) -> tuple[subprocess.Popen, list[int]]:
    """The command with a sleeper and its child for each name: the command's process, which `started` gets too, and the
    pids, two for each name."""
    for old in folder.glob("*.pids"):
        old.unlink()
    process = command.start(*arguments, *script(folder, text), cwd=folder)
    started.append(process)
    files = [folder / f"{name}.pids" for name in names]
    wait_for(lambda: all(file.exists() for file in files), "not all were started")
    return process, [int(pid) for file in files for pid in file.read_text().split()]
