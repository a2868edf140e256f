"""How the ranks of a data-parallel run end: real processes over TLS, and one sentence for all of them."""

import json
import os
import random
import re
import signal

import pytest
from support import command
from support.endings import INTERRUPTED, end_one, interrupt_all, last_line, left_behind
from support.nodes import end, on_this_machine, outcomes, wait_for, wait_for_line
from support.ports import free_ports
from support.ranks import LAUNCHED, long_runs, pid_of_rank, python_rank, start_process, start_ranks, write_run
from support.soaked import soaked

pytestmark = pytest.mark.slow

SIGNALS = [signal.SIGKILL, signal.SIGINT]
TO_DO = r"every rank has to do the same, with as many batches; Trainer.train\(\) sees to that by itself"
# What goes wrong on rank 1 of two: what every rank says, and where the words differ what rank 1 says.
WRONG = {
    "criterion raises": r"Error: rank 1 \(127.0.0.1\) failed: the criterion raised ValueError: no such class "
    r"\(rank_script.py, line \d+, in criterion\)",
    "loader raises": (
        r"Error: rank 1 \(127.0.0.1\) failed: its script raised OSError: the disk is gone \(rank_script.py, line \d+, "
        r"in __getitem__\)",
        r"OSError: the disk is gone",
    ),
    "out of memory": r"Error: rank 1 \(127.0.0.1\) failed: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a "
    r"total capacity of 4.00 GiB of which 1.50 GiB is free. What helps: a smaller batch_size, .* or precision = .bf16.",
    "stop at nan": r"Error: the loss that rank_1 computed in step 3 \(epoch 1, batch 3\) is nan, and stop_at_nan ends "
    "the run there",
    "few samples": r"ValueError: there are 1 samples for 2 ranks, which is less than one sample for each: take fewer "
    "ranks, or more data",
    "leaves early": (
        r"Error: rank 1 \(127.0.0.1\) ended its script with the status 0",
        "SystemExit: 0",
    ),
    "returns early": (
        r"Error: rank 1 \(127.0.0.1\) left at step 0, while others still needed it",
        "went well",
    ),
    "leaves its loop early": f"Error: one rank feeds a batch while one rank has ended its call: {TO_DO}",
    "more epochs": "Error: epochs is 2 on rank_0 and 3 on rank_1: start the same script on every rank",
    "evaluates": r"Error: rank_0 runs train\(\) while rank_1 runs evaluate\(\): start the same script on every rank",
    "other clip_norm": "Error: clip_norm is 0 on rank_0 and 0.5 on rank_1: start the same script on every rank",
    "other units": r"Error: rank 1 \(127.0.0.1\) was started with units blocks, and rank 0 with size: start all ranks "
    "with the same",
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Of `ravnest train`, and of a script."""
    return long_runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def wrong_plays(tmp_path_factory):
    """what goes wrong -> what each of two ranks has come to; the same two processes play all of them."""
    folder = tmp_path_factory.mktemp("plays")
    plays = [f"{what}:{port}" for what, port in zip([*WRONG, "nan"], free_ports(len(WRONG) + 1), strict=True)]
    processes = start_ranks(python_rank(*plays), 2, folder)
    try:
        ended = outcomes(processes, 300)  # a play after the other
    finally:
        end(processes.values())
    results = {}
    for status, output in ended.values():
        assert status == 0, output
        for line in output.splitlines():
            if line.startswith('{"what"'):
                play = json.loads(line)
                results.setdefault(play["what"], []).append(play)
    results["output"] = [output for _, output in ended.values()]
    return results


@pytest.mark.parametrize("what", WRONG)
def test_what_goes_wrong_on_one_rank_is_the_sentence_of_all(wrong_plays, what):
    expected = WRONG[what] if isinstance(WRONG[what], tuple) else (WRONG[what], WRONG[what])
    plays = wrong_plays[what]
    assert len(plays) == 2
    for play, words in zip(plays, expected, strict=True):
        assert re.fullmatch(words, play["ended"]), play
        assert play["seconds"] < on_this_machine(10), play


def test_a_loss_that_is_no_number_is_said_with_its_rank_and_step_and_training_goes_on(wrong_plays):
    assert [play["ended"] for play in wrong_plays["nan"]] == ["went well", "went well"]
    said = "the loss that rank_1 computed in step 3 (epoch 1, batch 3) is nan"
    assert [output.count(said) for output in wrong_plays["output"]] == [2, 1], "and once where the run ended there"


@pytest.mark.parametrize("by", SIGNALS, ids=lambda by: by.name)
def test_the_ranks_of_a_script_end_together(runs, by):
    end_one(runs[1], "rank_1", by, after_s=0.3)


@pytest.mark.parametrize("by", SIGNALS, ids=lambda by: by.name)
@pytest.mark.parametrize("time", range(5))
def test_one_rank_that_is_gone_at_a_random_moment_ends_all(runs, by, time):
    end_one(runs[0], f"rank_{time % 3}", by, after_s=random.uniform(0, 1))


@pytest.mark.parametrize("kind", [0, *soaked(1)], ids=["command", "script"])
def test_ctrl_c_to_all_ranks_ends_each_with_its_sentence(runs, kind):
    interrupt_all(runs[kind], after_s=0.2)


def test_a_failure_has_its_traceback_where_it_happened_and_is_one_line_elsewhere(tmp_path, processes):
    processes.update(start_ranks(python_rank("criterion raises", 1), 2, tmp_path))
    sentence = re.compile(WRONG["criterion raises"].removeprefix("Error: "))
    for name, (status, output) in outcomes(processes, 20).items():
        own = name == "rank_1"
        assert status == 1, output
        assert last_line(output).startswith("ravnest.Error: rank 1" if own else "ravnest: rank 1"), output
        assert len(sentence.findall(output)) == 1, output
        assert ("Traceback" in output) == own, output


@pytest.fixture
def launched(tmp_path):
    """(which) -> the launcher of ranks that train for long."""
    started = []

    def start(which):
        if which == "command":
            write_run(tmp_path)
        started.append(start_process(LAUNCHED[which], tmp_path))
        wait_for((tmp_path / "losses.txt").exists, "nothing is trained")
        return started[-1]

    yield start
    end(started)


@pytest.mark.parametrize("which", LAUNCHED)
def test_ctrl_c_ends_launched_ranks_with_their_launcher(launched, which):
    launcher = launched(which)
    launcher.send_signal(signal.SIGINT)
    output, _ = launcher.communicate(timeout=on_this_machine(2))
    assert launcher.returncode == INTERRUPTED, output
    assert last_line(output) == "ravnest: the run was interrupted", output
    assert left_behind([launcher]) == []


@pytest.mark.parametrize("which", ["command", *soaked("script")])
def test_a_launched_rank_that_is_killed_ends_all_with_one_last_line(launched, which):
    launcher = launched(which)
    os.kill(pid_of_rank(launcher, 1), signal.SIGKILL)
    output, _ = launcher.communicate(timeout=on_this_machine(10))
    assert launcher.returncode == 128 + signal.SIGKILL, output
    assert re.fullmatch(r"ravnest: rank 1 \(127.0.0.1\) was lost at step \d+", last_line(output)), output
    assert output.count("was lost at step") == 1, output
    assert left_behind([launcher]) == []


def test_a_rank_in_a_long_step_does_not_keep_the_others(tmp_path):
    launcher = start_process([command.COMMAND, "launch", "--devices", 2, "--", *python_rank("long step", 0)], tmp_path)
    try:
        wait_for_line(launcher, "rank_0 | training")
        os.kill(pid_of_rank(launcher, 1), signal.SIGKILL)
        output, _ = launcher.communicate(timeout=on_this_machine(10))
    finally:
        end([launcher])
    assert launcher.returncode == 128 + signal.SIGKILL, output
    assert left_behind([launcher]) == []
