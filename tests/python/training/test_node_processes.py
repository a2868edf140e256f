"""Nodes as processes: they start in any order, end by themselves, and end together when one of them does."""

import itertools
import os
import signal

import pytest
from support.nodes import NAMES, Cluster, outcomes, start, train_for_long, wait_for_line
from support.places import SCRIPTS
from support.small_net import make_net
from support.soaked import soaked

pytestmark = pytest.mark.slow

SCRIPT = SCRIPTS / "node_script.py"


*OTHERS, BACK = itertools.permutations(NAMES)


@pytest.mark.parametrize("order", [BACK, *soaked(*OTHERS)])
def test_start_order_does_not_matter(folder, processes, order):
    for name, following in itertools.zip_longest(order, order[1:]):
        processes[name] = start(SCRIPT, name, folder, "2")
        if following:
            wait_for_line(processes[name], "waiting for")
    outputs = {name: process.communicate(timeout=60)[0] for name, process in processes.items()}
    assert [process.returncode for process in processes.values()] == [0, 0, 0], outputs
    accuracies = {output.split("accuracy")[-1].strip() for output in outputs.values()}
    assert len(accuracies) == 1, outputs
    assert len(Cluster(folder).losses()) == 14
    make_net().load_state_dict(Cluster(folder).fused(), strict=True)


@pytest.mark.parametrize("name", ["node_0", *soaked("node_1", "node_2")])
def test_ctrl_c_on_any_node_ends_all_within_two_seconds(folder, processes, name):
    train_for_long(folder, processes)
    processes[name].send_signal(signal.SIGINT)
    ended = outcomes(processes, 2)
    for other, (status, output) in ended.items():
        last = output.strip().splitlines()[-1]
        if other == name:
            assert (status, last) == (130, f"ravnest: {name} was interrupted")
        else:
            assert (status, last) == (1, f"ravnest: {name} (stage {name[-1]}) was interrupted")
        assert "Traceback" not in output


@pytest.mark.parametrize("name", ["node_1", *soaked("node_0", "node_2")])
def test_a_killed_node_ends_all_within_ten_seconds(folder, processes, name):
    train_for_long(folder, processes)
    os.kill(processes[name].pid, signal.SIGKILL)
    ended = outcomes(processes, 10)
    for other, (status, output) in ended.items():
        assert status != 0
        if other != name:
            assert f"{name} (stage {name[-1]}) was lost" in output


def test_a_second_process_of_a_node_that_is_stopped_knows_that_it_is_one(folder, processes):
    """The first answers nobody, and must not be taken for another program that has its port."""
    processes["node_1"] = start(SCRIPT, "node_1", folder, "2")
    wait_for_line(processes["node_1"], "waiting for node_0")
    processes["node_1"].send_signal(signal.SIGSTOP)
    processes["second"] = start(SCRIPT, "node_1", folder, "2")
    status, output = outcomes({"second": processes["second"]})["second"]
    assert status == 1 and "node_1 runs already: it listens at " in output, output
    processes["node_1"].send_signal(signal.SIGCONT)


def test_ctrl_c_while_it_waits_for_others(folder, processes):
    processes["node_1"] = start(SCRIPT, "node_1", folder, "2")
    wait_for_line(processes["node_1"], "waiting for node_0")
    processes["node_1"].send_signal(signal.SIGINT)
    status, output = outcomes(processes, 2)["node_1"]
    assert status == 130
    assert output.strip().splitlines()[-1] == "ravnest: node_1 was interrupted"
