"""`ravnest train` as two people start it on two machines: network namespaces, which share nothing but a cable."""

import numpy
import pytest
import torch
from support import command
from support.machines import listening_ports, within
from support.nodes import outcomes, wait_for_line
from support.ports import free_ports
from support.ranks import end_run, start_process
from support.small_net import make_data, make_net

import ravnest

pytestmark = pytest.mark.slow

TOKEN = "3kq8w2z5m9x7c4v6b1n0j8h5g2f7d4s9"
FILES = ("losses.txt", "val_accuracies.txt")
FLAGS = ("--strategy", "ddp", "--batch-size", "5", "--epochs", "2")
CONFIG = """
epochs = 100
seed = 42
loss = "cross_entropy"
save = true
[optimizer]
name = "Adam"
lr = 0.01
[data]
format = "npy"
inputs = "x.npy"
targets = "y.npy"
rows = [0, 140]
[validation]
format = "npy"
inputs = "x.npy"
targets = "y.npy"
rows = [140, 200]
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "net.pt2"
    ravnest.capture(make_net(), (torch.randn(20, 12),), path=path)
    return path


def write_files(folder):
    x, y = make_data()
    folder.mkdir()
    numpy.save(folder / "x.npy", x.numpy())
    numpy.save(folder / "y.npy", y.numpy())
    (folder / "some.toml").write_text(CONFIG)
    return folder


def words(model, *flags) -> list:
    return [command.COMMAND, "train", model, "--config", "some.toml", *FLAGS, *flags]


def result_in(folder) -> tuple:
    saved = torch.load(folder / "trained/trained_state_dict.pt", weights_only=True)
    return {name: tensor.tolist() for name, tensor in saved.items()}, [(folder / name).read_text() for name in FILES]


def test_two_machines_train_what_one_does(machines, model, tmp_path):
    one, first, second = (write_files(tmp_path / name) for name in ("one", "first", "second"))
    shared = {"MASTER_ADDR": "10.77.0.1", "MASTER_PORT": "29501", "WORLD_SIZE": "2", "RAVNEST_TOKEN": TOKEN}
    flags = ("--devices", 2, "--nodes", 2, "--ports", "40000-40001")
    started = {}
    try:
        # The second machine first: while its ranks wait for rank 0, all its ports are those that it was given.
        for number, folder in ((1, second), (0, first)):
            command_line = [*within(machines[number]), *words(model, *flags)]
            started[number] = start_process(command_line, folder, {**shared, "NODE_RANK": str(number)})
            if number == 1:
                wait_for_line(started[1], "waiting for rank 0 at 10.77.0.1:29501")
                assert listening_ports(machines[1]) == {40000, 40001}
        ended = outcomes(started)
    finally:
        end_run(started.values())
    assert [status for status, _ in ended.values()] == [0, 0], ended
    assert "4 ranks exchange their gradients by the ring over TLS" in ended[0][1]
    assert not (second / "trained").exists() and not (second / "losses.txt").exists(), "rank 0 writes"

    alone = start_process(words(model, "--devices", 4), one)
    output, _ = alone.communicate(timeout=60)
    assert alone.returncode == 0, output
    assert result_in(first) == result_in(one)
    assert len((one / "losses.txt").read_text().splitlines()) == 14


def test_a_rank_says_for_which_name_it_waits_while_no_name_service_answers(machines, model, tmp_path):
    """The cable between the two leads to none."""
    said = {"MASTER_ADDR": "train-0.train", "MASTER_PORT": "29501", "NODE_RANK": "1", "RAVNEST_TOKEN": TOKEN}
    command_line = [*within(machines[1]), *words(model, "--devices", 1, "--nodes", 2)]
    process = start_process(command_line, write_files(tmp_path / "one"), said)
    try:
        wait_for_line(process, "waiting for MASTER_ADDR train-0.train to have an address (")
    finally:
        end_run([process])


def test_two_ranks_need_two_ports(model, tmp_path):
    (port,) = free_ports(1)
    process = start_process(words(model, "--devices", 3, "--ports", f"{port}-{port}"), write_files(tmp_path / "one"))
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert f"all ports from {port} to {port} are taken on the machine of rank" in output
    assert "give more of them by --ports" in output.splitlines()[-1]
