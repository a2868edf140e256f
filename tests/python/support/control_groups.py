"""Limits for some processes by the kernel's control groups: of memory, and of this machine's cores. They need root."""

import os
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")  # the groups themselves in version 2, a folder for each controller in version 1
PERIOD_US = 10_000


class ControlGroup:
    """A group of processes under a controller, "memory" or "cpu"; to be used with `with`."""

    def __init__(self, controller: str, name: str):
        self._first = (ROOT / controller).is_dir()  # of the two versions of control groups
        self._group = (ROOT / controller if self._first else ROOT) / f"ravnest_{controller}_{os.getpid()}_{name}"
        try:
            self._group.mkdir()
        except OSError as error:
            raise RuntimeError("limits need root, and control groups that can be written to") from error

    def _write(self, file: str, value: object) -> None:
        (self._group / file).write_text(str(value))

    def add(self, pid: int) -> None:
        self._write("cgroup.procs", pid)

    @property
    def within(self) -> list[str]:
        """The begin of a command: what follows it runs under the limit from its first byte on."""
        return ["sh", "-c", f'echo $$ > {self._group}/cgroup.procs && exec "$@"', "sh"]

    def __enter__(self) -> "ControlGroup":
        return self

    def __exit__(self, *_) -> None:
        """Once all its processes are over."""
        self._group.rmdir()


class MemoryLimit(ControlGroup):
    """At most so many bytes, without swap: who needs more is killed."""

    def __init__(self, size: int, name: str):
        super().__init__("memory", name)
        self._write("memory.limit_in_bytes" if self._first else "memory.max", size)
        swap = "memory.swappiness" if self._first else "memory.swap.max"
        if (self._group / swap).exists():
            self._write(swap, 0)


class CpuQuota(ControlGroup):
    """At most so many cores, fractions too."""

    def __init__(self, cores: float, name: str):
        super().__init__("cpu", name)
        quota = int(cores * PERIOD_US)
        if self._first:
            self._write("cpu.cfs_period_us", PERIOD_US)
            self._write("cpu.cfs_quota_us", quota)
        else:
            self._write("cpu.max", f"{quota} {PERIOD_US}")
