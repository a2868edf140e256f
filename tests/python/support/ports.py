"""Ports for tests, each given out once, whoever else tests on this machine."""

import fcntl
import os
import socket
import tempfile
from pathlib import Path

# Below those that the system gives out by itself, so that no connection takes one between the choice and the use.
FIRST, COUNT = 10_000, 20_000


def free_ports(count: int) -> list[int]:
    """The next ports that nobody listens on. Every process that asks takes from one row, which begins anew at its end.

    So a port that was given to a test comes to another one only after `COUNT` more were given out.
    """
    file = Path(tempfile.gettempdir()) / f"ravnest-test-ports-{os.getuid()}"
    with open(file, "a+") as row:
        fcntl.flock(row, fcntl.LOCK_EX)
        row.seek(0)
        taken = int(row.read() or 0)
        ports: list[int] = []
        for number in range(taken, taken + COUNT):
            if len(ports) == count:
                break
            taken = number + 1
            if _is_free(FIRST + number % COUNT):
                ports.append(FIRST + number % COUNT)
        row.truncate(0)
        row.write(str(taken))
    assert len(ports) == count, f"{count} free ports were asked for, but only {len(ports)} of {COUNT} are free"
    return ports


def free_addresses(count: int) -> list[str]:
    """The same on this machine's loopback."""
    return [f"127.0.0.1:{port}" for port in free_ports(count)]


def _is_free(port: int) -> bool:
    """On all addresses: some tests listen on 0.0.0.0."""
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
