"""`ravnest up` with real processes: one view of all nodes, one end for all, nothing left behind."""

import os
import signal
import subprocess
import time

import pytest
from support import command, npy_run
from support.nodes import Cluster, end, on_this_machine, plan_net, wait_for
from support.sleepers import DEAF_SLEEPER, SLEEPER, SLOW_TO_END, is_running, lines_of, script, start_sleepers
from support.small_net import make_net

DEADLINE_S = 60
NAMES = ["node_0", "node_1", "node_2"]


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    """A folder with a plan, for tests that do not train."""
    folder = tmp_path_factory.mktemp("planned")
    plan_net(folder)
    return folder


@pytest.fixture
def started():
    processes = []
    yield processes
    end(processes)


def run(folder, *arguments) -> subprocess.CompletedProcess:
    return command.run("up", *arguments, cwd=folder, timeout_s=DEADLINE_S)


def test_it_trains_all_nodes_of_this_machine(tmp_path):
    plan_net(tmp_path)
    npy_run.write_files(tmp_path)
    result = run(tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    assert len(Cluster(tmp_path).losses()) == 18
    assert any("epoch 3/3: loss" in line for line in lines_of(result, "node_0"))
    make_net().load_state_dict(Cluster(tmp_path).fused(), strict=True)


def test_a_command_runs_once_per_node_and_knows_its_name(planned):
    result = run(
        planned, *script(planned, "import os, sys; print(os.environ['RAVNEST_NODE'], sys.argv[1:])"), "--epochs", 3
    )
    assert result.returncode == 0, result.stderr
    for name in NAMES:
        assert lines_of(result, name) == [f"{name} ['--epochs', '3']"]


def test_output_without_an_end_and_errors_are_shown_too(planned):
    text = "import sys; print('one', flush=True); print('two', file=sys.stderr, flush=True); print('three', end='')"
    assert lines_of(run(planned, *script(planned, text)), "node_1") == ["one", "two", "three"]


def test_the_status_is_that_of_the_one_that_failed(planned):
    text = "import os, sys; sys.exit(7 if os.environ['RAVNEST_NODE'] == 'node_1' else 0)"
    result = run(planned, *script(planned, text))
    assert result.returncode == 7
    assert lines_of(result, "node_1") == ["(ended with the status 7)"]
    assert lines_of(result, "node_0") == []
    assert result.stderr.splitlines()[-1] == "ravnest: node_1 failed without a word"


def test_nodes_that_all_fail_by_themselves_leave_one_last_line(planned):
    result = run(planned, *script(planned, "raise TypeError('no such option')"))
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1].endswith(" failed: TypeError: no such option")
    assert len([line for line in result.stderr.splitlines() if line.startswith("ravnest: ")]) == 1


def test_a_program_that_is_not_there(planned):
    result = run(planned, "--", "no-such-program")
    assert result.returncode == 127
    assert lines_of(result, "node_2")[0] == "cannot start no-such-program: No such file or directory"


def test_without_a_plan_it_says_how_to_make_one(tmp_path):
    result = run(tmp_path)
    assert result.returncode == 1 and result.stderr.startswith("ravnest: ") and "plan" in result.stderr


@pytest.fixture
def sleeping(planned, started):
    """`up` with sleepers as nodes: its process, and their pids."""

    return lambda text=SLEEPER: start_sleepers(planned, started, NAMES, "up", text=text)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_all_of_them(sleeping, number):
    process, pids = sleeping()
    process.send_signal(number)
    output, _ = process.communicate(timeout=on_this_machine(4))
    assert process.returncode == 130, output
    assert not any(map(is_running, pids))


def test_those_that_ignore_ctrl_c_are_killed(sleeping):
    process, pids = sleeping(DEAF_SLEEPER)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130
    assert 4.5 < time.monotonic() - began < on_this_machine(15)
    assert not any(map(is_running, pids))


def test_those_that_are_killed_while_they_end_have_nothing_to_add(sleeping):
    process, pids = sleeping(SLOW_TO_END)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130
    assert output.splitlines()[-1] == "ravnest: the run was interrupted"
    assert not any(is_running(pid) for pid in pids)


def test_a_second_ctrl_c_does_not_wait(sleeping):
    process, pids = sleeping(DEAF_SLEEPER)
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "ravnest: ending all nodes; Ctrl-C again kills them\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=on_this_machine(4))
    assert not any(map(is_running, pids))


def test_when_it_is_killed_its_nodes_go_too(sleeping):
    process, pids = sleeping()
    os.kill(process.pid, signal.SIGKILL)
    own = pids[::2]
    wait_for(lambda: not any(map(is_running, own)), "nodes were left behind")
    for pid in pids[1::2]:  # children of theirs are nobody's; they end with the test
        os.kill(pid, signal.SIGKILL)


def test_ctrl_c_ends_a_training(tmp_path, started):
    plan_net(tmp_path)
    npy_run.write_files(tmp_path, epochs=1_000_000, schedule="async")
    process = command.start("up", cwd=tmp_path)
    started.append(process)
    wait_for((tmp_path / "losses.txt").exists, "nothing is trained")
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=on_this_machine(4))
    assert process.returncode == 130
    assert "was interrupted" in output
