"""`ravnest launch` with real processes: who the ranks are told to be, and one end for all of them."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from support import command
from support.nodes import end, on_this_machine, outcomes, wait_for, wait_for_line
from support.ports import free_addresses
from support.sleepers import DEAF_SLEEPER, SLEEPER, is_running, lines_of, script, start_sleepers

DEADLINE_S = 60
RANKS = ["rank_0", "rank_1", "rank_2", "rank_3"]
TOKEN = "3kq8w2z5m9x7c4v6b1n0j8h5g2f7d4s9"
TWO_MACHINES = ["--nodes", "2", "--node-rank", "0", "--master", "127.0.0.1:29500"]

# As people write them for torchrun; each line in one piece, since torchrun's ranks write into each other's.
ALL_REDUCE = """
import os, sys
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
value = torch.tensor([10.0 ** dist.get_rank()])
dist.all_reduce(value)
told = [os.environ[name] for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE")]
sys.stdout.write(f"{dist.get_rank()} {dist.get_world_size()} {' '.join(told)} {dist.is_torchelastic_launched()} "
                 f"{value.item()}\\n")
dist.destroy_process_group()
"""


@pytest.fixture(autouse=True)
def quiet_environment(monkeypatch):
    """Nothing of another launcher, nor what the launcher would leave as it is."""
    for name in ("RAVNEST_TOKEN", "MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS", "PYTHONUNBUFFERED"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def started():
    processes = []
    yield processes
    end(processes)


@pytest.fixture
def sleeping(tmp_path, started):
    """`launch` with four sleepers: its process, and their pids."""
    return lambda text=SLEEPER: start_sleepers(tmp_path, started, RANKS, "launch", "--devices", "4", text=text)


def run(folder, *arguments) -> subprocess.CompletedProcess:
    return command.run("launch", *arguments, cwd=folder, timeout_s=DEADLINE_S)


def told(folder, *arguments) -> dict[str, dict[str, str]]:
    """rank -> the environment that it is started with."""
    result = run(folder, *arguments, *script(folder, "import json, os; print(json.dumps(dict(os.environ)))"))
    assert result.returncode == 0, result.stdout + result.stderr
    names = sorted({line.split(" | ")[0] for line in result.stdout.splitlines()})
    return {name: json.loads(lines_of(result, name)[0]) for name in names}


def test_ranks_are_told_who_they_are_and_where_they_meet(tmp_path):
    ranks = told(tmp_path, "--devices", "4")
    assert list(ranks) == RANKS
    for rank, variables in enumerate(ranks.values()):
        assert variables["RANK"] == variables["LOCAL_RANK"] == str(rank)
        assert variables["WORLD_SIZE"] == variables["LOCAL_WORLD_SIZE"] == "4"
        assert variables["MASTER_ADDR"] == "127.0.0.1"
        assert variables["OMP_NUM_THREADS"] == str(max(1, (os.cpu_count() or 1) // 4))
    for shared in ("MASTER_PORT", "TORCHELASTIC_RUN_ID", "RAVNEST_TOKEN"):
        values = {variables[shared] for variables in ranks.values()}
        assert len(values) == 1 and values != {""}, shared


def test_the_second_machine_has_the_next_ranks(tmp_path, monkeypatch):
    monkeypatch.setenv("RAVNEST_TOKEN", TOKEN)
    ranks = told(tmp_path, "--devices", "2", "--nodes", "3", "--node-rank", "1", "--master", "10.0.0.1:29501")
    assert list(ranks) == ["rank_2", "rank_3"]
    assert [variables["LOCAL_RANK"] for variables in ranks.values()] == ["0", "1"]
    for variables in ranks.values():
        assert (variables["WORLD_SIZE"], variables["GROUP_RANK"]) == ("6", "1")
        assert (variables["MASTER_ADDR"], variables["MASTER_PORT"]) == ("10.0.0.1", "29501")
        assert variables["RAVNEST_TOKEN"] == TOKEN


def test_what_the_environment_says_of_the_run_is_kept(tmp_path, monkeypatch):
    for name, value in {"OMP_NUM_THREADS": "3", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29501"}.items():
        monkeypatch.setenv(name, value)
    for variables in told(tmp_path, "--devices", "2").values():
        assert (variables["OMP_NUM_THREADS"], variables["MASTER_ADDR"], variables["MASTER_PORT"]) == (
            "3",
            "10.0.0.1",
            "29501",
        )


def test_flags_go_before_the_environment(tmp_path, monkeypatch):
    for name, value in {"NODE_RANK": "0", "MASTER_ADDR": "10.0.0.9", "RAVNEST_TOKEN": "0123456789" * 4}.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    ranks = told(tmp_path, "--nodes", "2", "--node-rank", "1", "--master", "10.0.0.1:29501", "--token-file", "token")
    assert list(ranks) == ["rank_1"]
    assert ranks["rank_1"]["MASTER_ADDR"] == "10.0.0.1"
    assert ranks["rank_1"]["RAVNEST_TOKEN"] == TOKEN


def test_a_script_for_torchrun_runs_unchanged(tmp_path):
    file = tmp_path / "all_reduce.py"
    file.write_text(ALL_REDUCE)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", file]
    expected = subprocess.run(torchrun, capture_output=True, text=True, timeout=DEADLINE_S, check=True)
    result = run(tmp_path, "--devices", "2", "--", sys.executable, file)
    assert result.returncode == 0, result.stdout + result.stderr
    assert lines_of(result, "rank_0") + lines_of(result, "rank_1") == sorted(expected.stdout.splitlines())


def test_two_launchers_are_two_machines_of_one_run(tmp_path, monkeypatch, processes):
    monkeypatch.setenv("RAVNEST_TOKEN", TOKEN)
    file = tmp_path / "all_reduce.py"
    file.write_text(ALL_REDUCE)
    place = ["--devices", "2", "--nodes", "2", "--master", *free_addresses(1)]
    for node in (1, 0):
        processes[node] = command.start("launch", *place, "--node-rank", node, "--", sys.executable, file, cwd=tmp_path)
    ended = outcomes(processes, DEADLINE_S)
    lines = [line for _, output in ended.values() for line in output.splitlines()]
    assert [status for status, _ in ended.values()] == [0, 0], lines
    assert sorted(lines) == [f"rank_{rank} | {rank} 4 {rank % 2} 2 {rank // 2} 2 True 1111.0" for rank in range(4)]


def test_the_first_failure_ends_all_and_is_the_last_line(tmp_path):
    text = "import os, sys\nif os.environ['RANK'] == '2': print('no such file'); sys.exit(7)\n" + SLEEPER
    began = time.monotonic()
    result = run(tmp_path, "--devices", "4", *script(tmp_path, text))
    assert result.returncode == 7
    assert result.stderr.splitlines()[-1] == "ravnest: rank_2 failed: no such file"
    assert time.monotonic() - began < on_this_machine(10)
    assert not any(is_running(int(pid)) for file in tmp_path.glob("*.pids") for pid in file.read_text().split())


def test_an_interruption_by_the_launcher_is_not_the_reason_of_a_failure(tmp_path):
    text = """
import os, sys, time
if os.environ["RANK"] == "1": sys.exit("out of memory")
try: time.sleep(600)
except KeyboardInterrupt:
    print("ravnest: rank 0 was interrupted", file=sys.stderr)
    sys.exit(130)
"""
    result = run(tmp_path, "--devices", "2", *script(tmp_path, text))
    assert result.returncode == 1
    assert result.stderr.splitlines() == ["ravnest: rank_1 failed: out of memory"]


def test_an_interrupted_rank_gives_the_status_though_the_others_end_before_it(tmp_path, started):
    text = """
import os, pathlib, signal, sys, time
other = pathlib.Path("rank_0.pid")
def interrupted(number, frame):
    pid = int(other.read_text())
    pathlib.Path("told").touch()
    while os.path.exists(f"/proc/{pid}"): time.sleep(0.01)
    sys.exit(130)
if os.environ["RANK"] == "0":
    other.with_suffix(".new").write_text(str(os.getpid()))
    other.with_suffix(".new").rename(other)
    while not os.path.exists("told"): time.sleep(0.01)
    sys.exit("rank 1 was interrupted")
signal.signal(signal.SIGINT, interrupted)
while not other.exists(): time.sleep(0.01)
os.kill(os.getpid(), signal.SIGINT)
"""
    result = run(tmp_path, "--devices", "2", *script(tmp_path, text))
    assert result.returncode == 130, result.stdout + result.stderr


def test_a_line_is_shown_when_it_is_written(tmp_path, started):
    process = command.start("launch", "--devices", "1", *script(tmp_path, "print('begun')\n" + SLEEPER), cwd=tmp_path)
    started.append(process)
    assert wait_for_line(process, "begun") == ["rank_0 | begun\n"]


def to_all(process, number) -> None:
    os.killpg(process.pid, number)


def to_the_launcher(process, number) -> None:
    process.send_signal(number)


@pytest.mark.parametrize(
    ("send", "number"),
    [
        (to_all, signal.SIGINT),
        (to_the_launcher, signal.SIGINT),
        (to_the_launcher, signal.SIGTERM),
        (to_the_launcher, signal.SIGHUP),
    ],
)
def test_a_signal_ends_all_ranks(sleeping, send, number):
    process, pids = sleeping()
    send(process, number)
    output, _ = process.communicate(timeout=on_this_machine(2))
    assert process.returncode == 130, output
    assert output.splitlines()[-1] == "ravnest: the run was interrupted"
    assert not any(map(is_running, pids))


def test_ranks_that_ignore_ctrl_c_are_killed(sleeping):
    process, pids = sleeping(DEAF_SLEEPER)
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "ravnest: ending all ranks; Ctrl-C again kills them\n"
    process.communicate(timeout=on_this_machine(10))
    assert process.returncode == 130
    assert not any(map(is_running, pids))


def test_when_the_launcher_is_killed_its_ranks_go_too(sleeping):
    process, pids = sleeping()
    os.kill(process.pid, signal.SIGKILL)
    wait_for(lambda: not any(map(is_running, pids[::2])), "ranks were left behind")
    for pid in pids[1::2]:  # children of theirs are nobody's; they end with the test
        os.kill(pid, signal.SIGKILL)


def test_a_program_that_is_not_there(tmp_path):
    result = run(tmp_path, "--devices", "2", "--", "no-such-program")
    assert result.returncode == 127
    assert result.stderr.endswith("failed: cannot start no-such-program: No such file or directory\n")


@pytest.mark.parametrize(
    ("arguments", "environment", "sentence"),
    [
        ([], {}, "what is every rank to run? Give the command after --"),
        (["--devices", "0"], {}, "--devices: has to be at least 1, not 0"),
        (["--nodes", "2", "--node-rank", "2"], {}, "machine 2 is beyond the 2 that there are: --node-rank"),
        (["--nodes", "2", "--node-rank", "0"], {}, "or give --master HOST:PORT"),
        (["--nodes", "2"], {}, "Set NODE_RANK, or give --node-rank"),
        (["--master", "10.0.0.1"], {}, "expected HOST:PORT"),
        (TWO_MACHINES, {}, "make one with `ravnest token`"),
        (TWO_MACHINES, {"RAVNEST_TOKEN": "short"}, "RAVNEST_TOKEN"),
        (["--token-file", "no-such-file"], {}, "no-such-file: No such file or directory"),
        (
            ["--devices", "4"],
            {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}
            | {"OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"},
            "this process is rank 1 of 2 already, as Open MPI says: run the command itself, without `ravnest launch`",
        ),
        (["--devices", "4"], {"LOCAL_RANK": "1"}, "torchrun has set LOCAL_RANK, and not"),
        (
            ["--devices", "4"],
            {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"},
            "rank 1 of 2 already, as RANK says: run the command itself, without `ravnest launch`; where RANK counts "
            "machines, set NODE_RANK in its place",
        ),
    ],
)
def test_what_cannot_be_launched_is_refused_with_what_to_do(tmp_path, monkeypatch, arguments, environment, sentence):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    begun = ["--", "touch", "begun"] if arguments else []
    result = run(tmp_path, *arguments, *begun)
    assert result.returncode != 0 and sentence in result.stderr, result.stderr
    assert len(result.stderr.splitlines()) <= 2 and not (tmp_path / "begun").exists()
