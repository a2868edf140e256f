"""A limit of memory for some processes, by the kernel's control groups: who needs more is killed. Needs root."""

import os
from pathlib import Path

FIRST, SECOND = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")  # of the two versions of control groups


class MemoryLimit:
    """At most so many bytes, without swap, for whoever is started by `within`; to be used with `with`."""

    def __init__(self, size: int, name: str):
        first = FIRST.is_dir()
        self._group = (FIRST if first else SECOND) / f"ravnest_{os.getpid()}_{name}"
        try:
            self._group.mkdir()
            (self._group / ("memory.limit_in_bytes" if first else "memory.max")).write_text(str(size))
        except OSError as error:
            raise RuntimeError("limits of memory need root, and control groups that can be written to") from error
        swap = self._group / ("memory.swappiness" if first else "memory.swap.max")
        if swap.exists():
            swap.write_text("0")

    @property
    def within(self) -> list[str]:
        """The begin of a command: what follows it runs under the limit from its first byte on."""
        return ["sh", "-c", f'echo $$ > {self._group}/cgroup.procs && exec "$@"', "sh"]

    def __enter__(self) -> "MemoryLimit":
        return self

    def __exit__(self, *_) -> None:
        """Once all its processes are over."""
        self._group.rmdir()
