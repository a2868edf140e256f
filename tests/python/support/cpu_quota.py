"""A share of this machine's cores for some processes, by the kernel's control groups. Needs root."""

import os
from pathlib import Path

FIRST, SECOND = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")  # of the two versions of control groups
PERIOD_US = 10_000


class CpuQuota:
    """At most so many cores, fractions too, for the processes that are added; to be used with `with`."""

    def __init__(self, cores: float, name: str):
        first = FIRST.is_dir()
        self._group = (FIRST if first else SECOND) / f"ravnest_{os.getpid()}_{name}"
        try:
            self._group.mkdir()
        except OSError as error:
            raise RuntimeError("CPU quotas need root, and control groups that can be written to") from error
        quota = int(cores * PERIOD_US)
        if first:
            (self._group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (self._group / "cpu.cfs_quota_us").write_text(str(quota))
        else:
            (self._group / "cpu.max").write_text(f"{quota} {PERIOD_US}")

    def add(self, pid: int) -> None:
        (self._group / "cgroup.procs").write_text(str(pid))

    def __enter__(self) -> "CpuQuota":
        return self

    def __exit__(self, *_) -> None:
        """Once all its processes are over."""
        self._group.rmdir()
