"""What many tests begin with: archives of the test models, a planned cluster, processes that end with the test."""

import fcntl
import os
import sys
from pathlib import Path

import pytest
import torch
from support import models
from support.machines import two_machines
from support.nodes import Cluster, end, plan_net

import ravnest

# What only tests need (requirements-test.txt); behind all that .venv has.
sys.path.append(str(Path(__file__).parents[2] / ".venv-test"))

# The models are small: with more threads they only wait for each other, and on a busy machine for minutes.
torch.set_num_threads(1)


def pytest_addoption(parser):
    parser.addoption("--times", type=int, default=1, help="runs each test so often: for those that fail now and then")


def pytest_generate_tests(metafunc):
    times = metafunc.config.getoption("times")
    if times > 1:
        metafunc.fixturenames.append("time_number")
        metafunc.parametrize("time_number", range(1, times + 1))


@pytest.fixture(scope="session")
def archive(tmp_path_factory):
    """case -> path of its archive, captured with the case's own seed and example, once for all workers."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent

    def path_of(case: models.Case) -> str:
        path = folder / f"{case.name}.pt2"
        with open(path.with_suffix(".lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                args, kwargs = case.example()
                ravnest.capture(case.model(), args, kwargs, path)
        return str(path)

    return path_of


@pytest.fixture
def folder(tmp_path):
    """A folder with a plan of the small network for three nodes."""
    plan_net(tmp_path)
    return tmp_path


@pytest.fixture
def cluster(folder):
    """Three nodes with the small network."""
    return Cluster(folder)


@pytest.fixture
def alone(tmp_path):
    """One node with all of the small network."""
    plan_net(tmp_path, nodes=1, min_cluster_size=1)
    return Cluster(tmp_path, 1)


@pytest.fixture(scope="module")
def alone_folder(tmp_path_factory):
    """A folder with a plan for one node, who has nobody to tell of its failures; the tests of a module share it."""
    folder = tmp_path_factory.mktemp("alone")
    plan_net(folder, nodes=1, min_cluster_size=1)
    return folder


@pytest.fixture
def processes():
    """name -> process, for the test to fill."""
    started = {}
    yield started
    end(started.values())


@pytest.fixture
def machines():
    """Names of two network namespaces, 10.77.0.1 and 10.77.0.2."""
    with two_machines() as names:
        yield names
