"""Object storage on this machine, and processes that end with their test."""

import os

import pytest
from support.ranks import end_run
from support.s3_peers import rclone
from support.s3_server import S3Server


@pytest.fixture
def tell(monkeypatch):
    """Sets variables for the processes to come, and takes all others of AWS away."""

    def told(variables: dict) -> None:
        for name in [name for name in os.environ if name.startswith(("AWS_", "RAVNEST_CACHE"))]:
            monkeypatch.delenv(name)
        for name, value in variables.items():
            monkeypatch.setenv(name, str(value))

    return told


@pytest.fixture
def served(tmp_path, tell):
    """rclone's server, with the bucket `lab`: its folder."""
    with rclone(tmp_path / "served") as environment:
        tell({**environment, "RAVNEST_CACHE": tmp_path / "cache"})
        yield tmp_path / "served" / "lab"


@pytest.fixture
def server(tmp_path, tell):
    """A server that fails as it is told to."""
    with S3Server(tmp_path / "server") as running:
        running.bucket("lab")
        tell(running.environment(RAVNEST_CACHE=str(tmp_path / "cache")))
        yield running


@pytest.fixture
def started():
    """Processes of ranks and their launchers, for the test to fill."""
    processes = []
    yield processes
    end_run(processes)
