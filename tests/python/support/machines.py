"""Two machines: network namespaces with a cable between them."""

import contextlib
import os
import subprocess
import uuid
from collections.abc import Iterator

import pytest

HOSTS = ("10.77.0.1", "10.77.0.2")


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, timeout=20, capture_output=True)


def connect(machines: list[str], cables: list[str]) -> None:
    ip("link", "add", cables[0], "type", "veth", "peer", "name", cables[1])
    for name, cable, host in zip(machines, cables, HOSTS, strict=True):
        ip("link", "set", cable, "netns", name)
        ip("-n", name, "addr", "add", f"{host}/24", "dev", cable)
        ip("-n", name, "link", "set", cable, "up")
        ip("-n", name, "link", "set", "lo", "up")


@contextlib.contextmanager
def two_machines() -> Iterator[list[str]]:
    """Names of two namespaces, 10.77.0.1 and 10.77.0.2. The test is skipped where there are none for us."""
    if os.geteuid() != 0:
        pytest.skip("only root makes network namespaces")
    key = uuid.uuid4().hex[:6]
    names = [f"rav{key}{side}" for side in "ab"]
    cables = [f"rv{key}{side}" for side in "ab"]
    made = []
    try:
        try:
            for name in names:
                ip("netns", "add", name)
                made.append(name)
            connect(names, cables)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"this machine has no network namespaces for us: {error.stderr.decode().strip()}")
        yield names
    finally:
        for name in made:
            ip("netns", "del", name)


def within(machine: str) -> list[str]:
    """The begin of a command that runs there."""
    return ["ip", "netns", "exec", machine]


def listening_ports(machine: str) -> set[int]:
    """The TCP ports that somebody there listens on."""
    command = [*within(machine), "ss", "--tcp", "--listening", "--numeric", "--no-header"]
    lines = subprocess.run(command, check=True, timeout=20, capture_output=True, text=True).stdout.splitlines()
    return {int(line.split()[3].rpartition(":")[2]) for line in lines}
