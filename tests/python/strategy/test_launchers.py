"""Every launcher that the docs name, with its real programs, starts the same run, and it has the same numbers."""

import fcntl
import json
import os
import sys
from pathlib import Path

import pytest
import torch
from support import launchers, models
from support.launchers import WORLD
from support.nodes import outcomes
from support.places import SCRIPTS
from support.ports import free_ports
from support.ranks import end_run, start_process
from support.slurm import slurm
from support.small_net import Net
from support.soaked import soaked, soaked_all

pytestmark = pytest.mark.slow

TOKEN = "3kq8w2z5m9x7c4v6b1n0j8h5g2f7d4s9"
NET = models.Case("net", Net, models.rows(12))
FILES = ("losses.txt", "val_accuracies.txt")


def run(launcher, archive, folder: Path, more: dict[str, str]) -> dict:
    """What the run has come to, once all is over, and under "launchers" who has started its ranks."""
    (port,) = free_ports(1)
    commands = launcher([sys.executable, SCRIPTS / "launched_rank.py", archive(NET)], port)
    shared = {"RAVNEST_TOKEN": TOKEN, **more}
    started = {i: start_process(words, folder, {**shared, **own}) for i, (words, own) in enumerate(commands)}
    try:
        ended = outcomes(started, 60)
    finally:
        end_run(started.values())
    said = "".join(output for _, output in ended.values())
    assert [status for status, _ in ended.values()] == [0] * len(commands), said
    assert f"{WORLD} ranks exchange their gradients by the ring over TLS" in said
    told = [json.loads((folder / f"rank_{rank}.json").read_text()) for rank in range(WORLD)]
    assert [each["world"] for each in told] == [WORLD] * WORLD
    saved = torch.load(folder / "trained/trained_state_dict.pt", weights_only=True)
    return {
        "launchers": {each["launcher"] for each in told},
        "losses": [each["losses"] for each in told],
        "parameters": [each["parameters"] for each in told],
        "saved": {name: tensor.tolist() for name, tensor in saved.items()},
        "files": {name: (folder / name).read_text() for name in FILES},
    }


@pytest.fixture(scope="module")
def expected(tmp_path_factory, archive) -> dict:
    """By `ravnest launch` on two machines; made once for all workers."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    folder /= "launched"
    folder.mkdir(exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "expected.json").exists():
            result = run(launchers.launch, archive, folder, {})
            assert result.pop("launchers") == {"torchrun"}, "whose variables `ravnest launch` gives its ranks"
            (folder / "expected.json").write_text(json.dumps(result))
    return json.loads((folder / "expected.json").read_text())


@pytest.fixture(scope="module")
def cluster_of_slurm():
    launchers.need("munged", "slurmctld", "slurmd", "srun")
    with slurm() as variables:
        yield variables


def test_every_rank_has_batches_of_its_own_and_the_parameters_of_all(expected):
    assert len(expected["files"]["losses.txt"].splitlines()) == 14
    assert [len(losses) for losses in expected["losses"]] == [14] * WORLD
    assert len(set(expected["parameters"])) == 1
    assert len({tuple(losses) for losses in expected["losses"]}) == WORLD


@pytest.mark.parametrize(
    ("launcher", "reads"),
    [
        (launchers.kubernetes, "torchrun"),
        (launchers.variables_of_ranks, "RANK"),
        (launchers.torchrun, "torchrun"),
        (launchers.mpirun, "Open MPI"),
        *soaked_all((launchers.torchrun_with_c10d, "torchrun"), (launchers.variables_of_machines, "torchrun")),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_the_losses_are_those_of_ravnest_launch_to_the_bit(expected, archive, tmp_path, launcher, reads):
    result = run(launcher, archive, tmp_path, {})
    assert result.pop("launchers") == {reads}
    assert result == expected


def test_open_mpi_gives_them_on_two_machines_too(expected, archive, tmp_path, machines):
    result = run(launchers.mpirun_between(machines, tmp_path), archive, tmp_path, {})
    assert result.pop("launchers") == {"Open MPI"}
    assert result == expected


@pytest.mark.parametrize("launcher", [launchers.srun, *soaked(launchers.sbatch)], ids=lambda each: each.__name__)
def test_slurm_gives_the_losses_of_ravnest_launch_to_the_bit(expected, archive, tmp_path, launcher, cluster_of_slurm):
    result = run(launcher, archive, tmp_path, cluster_of_slurm)
    assert result.pop("launchers") == {"Slurm"}
    assert result == expected
