import random

import pytest
from support.s3_command import S3Command
from support.s3_server import S3Server


@pytest.fixture
def server(tmp_path):
    """A server with the bucket `lab`."""
    with S3Server(tmp_path / "server") as running:
        running.bucket("lab")
        yield running


@pytest.fixture
def s3(tmp_path, server):
    """The command, which that server serves, in a folder of its own."""
    return S3Command(tmp_path, server.environment())


@pytest.fixture
def some_bytes():
    """size -> bytes that differ everywhere."""
    return lambda size, seed=1: random.Random(seed).randbytes(size)
