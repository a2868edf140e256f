"""How processes of nodes end: one sentence, last and once, and a status that tells; what was trained is not lost."""

import os
import resource
import signal
import subprocess
import time
from pathlib import Path

import pytest
from support import command, npy_run
from support.nodes import NAMES, outcomes, start, wait_for, wait_for_line
from support.places import SCRIPTS, TESTS
from support.soaked import soaked

pytestmark = pytest.mark.slow

HESITANT = """
import torch
from support.small_net import criterion, loaders
from ravnest import Node, Trainer

train, val = loaders()
with Node(optimizer=torch.optim.Adam, criterion=criterion, labels=train) as node:
    WORK
"""

# The signal comes while the core is made: it is looked at as soon as that returns, before anyone has the result.
LOADING = """
import os, signal, torch
from ravnest import Node, _core

class Loading(_core.Node):
    def __init__(self, options):
        super().__init__(options)
        os.kill(os.getpid(), signal.SIGINT)

_core.Node = Loading
with Node(optimizer=torch.optim.Adam) as node:
    pass
"""


def start_all(folder, processes, by, epochs) -> None:
    for name in NAMES:
        if by == "python":
            processes[name] = start(SCRIPTS / "node_script.py", name, folder, str(epochs))
        else:
            processes[name] = command.start("node", name, cwd=folder)


@pytest.mark.parametrize("by", ["python", "command"])
@pytest.mark.parametrize("number", [signal.SIGHUP, *soaked(signal.SIGINT, signal.SIGTERM)])
def test_a_signal_to_all_nodes_ends_each_with_its_sentence(folder, processes, by, number):
    npy_run.write_files(folder, epochs=1_000_000, schedule="async")
    start_all(folder, processes, by, 1_000_000)
    wait_for((folder / "losses.txt").exists, "nothing is trained")
    for each in (signal.SIGSTOP, number, signal.SIGCONT):  # none may hear of another's before it has its own
        for process in processes.values():
            process.send_signal(each)
    for name, (status, output) in outcomes(processes, 4).items():
        assert status == 130, (name, output)
        assert "Traceback" not in output
        assert output.strip().splitlines()[-1].endswith("was interrupted"), output
        assert output.count("was interrupted") == 1, output


def test_ctrl_c_while_the_stage_is_loaded_is_said_on_all(folder, processes):
    script = folder / "loading.py"
    script.write_text(f"import sys\nsys.path.append({str(TESTS)!r})\n" + LOADING)
    for name in ("node_0", "node_2"):
        processes[name] = start(SCRIPTS / "node_script.py", name, folder, "1")
        wait_for_line(processes[name], "waiting for")
    processes["node_1"] = start(script, "node_1", folder)
    for name, (status, output) in outcomes(processes).items():
        own = name == "node_1"
        assert status == (130 if own else 1), (name, output)
        assert output.strip().splitlines()[-1] == f"ravnest: node_1 {'' if own else '(stage 1) '}was interrupted", (
            output
        )
        assert "Traceback" not in output


@pytest.mark.parametrize("when", ["before its first call", "while it waits for the others"])
def test_ctrl_c_does_not_wait_for_nodes_that_were_never_started(folder, processes, when):
    """Whoever starts the only node and changes her mind gets the terminal back."""
    script = folder / "hesitant.py"
    # Not signal.pause(): a signal that comes just before it is noted, and looked at only when another one comes.
    pause = 'print("made", flush=True)\n    import time\n    while True:\n        time.sleep(0.01)'
    work = 'print("made", flush=True)\n    Trainer(node=node, train_loader=train, epochs=1).train()'
    script.write_text(
        f"import sys\nsys.path.append({str(TESTS)!r})\n"
        + HESITANT.replace("WORK", pause if when == "before its first call" else work)
    )
    processes["node_0"] = start(script, "node_0", folder)
    wait_for_line(processes["node_0"], "made")
    processes["node_0"].send_signal(signal.SIGINT)
    status, output = outcomes(processes, 3)["node_0"]
    assert status == 130 and output.strip().splitlines()[-1] == "ravnest: node_0 was interrupted", output


@pytest.mark.parametrize("by", ["python", "command"])
@pytest.mark.parametrize("number", [signal.SIGTERM, *soaked(signal.SIGINT)])
def test_a_signal_while_nodes_save_or_end_kills_none_and_costs_no_weights(folder, processes, by, number):
    npy_run.write_files(folder, epochs=1)
    start_all(folder, processes, by, 1)
    lines = wait_for_line(processes["node_1"], "saved trained/cluster_0/node_1.safetensors")
    for process in processes.values():
        process.send_signal(number)
    for name, (status, output) in outcomes(processes, 4).items():
        output = "".join(lines) + output if name == "node_1" else output
        assert (folder / f"trained/cluster_0/{name}.safetensors").exists(), output
        if status == 0:  # it was past its last work, and has said all that a run without a signal says
            assert ("Trained 1 epoch" if name == "node_0" else f"saved trained/cluster_0/{name}") in output
            assert "interrupted" not in output, output
        else:
            assert status == 130 and "was interrupted" in output.strip().splitlines()[-1], (name, status, output)


ENDS = [signal.SIGINT, *soaked(signal.SIGTERM, signal.SIGHUP)]
THROUGH = """
import atexit, os, time

def wait(words):
    print(words, flush=True)
    while not os.path.exists("go_on"):
        time.sleep(0.01)

AT_EXIT
LEARNS
AFTER_ALL
"""


@pytest.mark.parametrize("number", ENDS)
@pytest.mark.parametrize(
    ("place", "call", "expected"),
    [("AFTER_ALL", 'wait("all is over")', 130), ("AT_EXIT", 'atexit.register(wait, "all is over")', 0)],
)
def test_a_signal_counts_as_long_as_the_script_runs(alone_folder, processes, number, place, call, expected):
    """Also where all is saved; what comes when nothing is left to do but to end changes nothing."""
    script, go_on = alone_folder / "through.py", alone_folder / "go_on"
    go_on.unlink(missing_ok=True)
    work = "Trainer(node=node, train_loader=train, epochs=1, save=True).train()"
    play = THROUGH.replace("LEARNS", HESITANT.replace("WORK", work)).replace(place, call)
    play = play.replace("AT_EXIT", "").replace("AFTER_ALL", "")
    script.write_text(f"import sys\nsys.path.append({str(TESTS)!r})\n" + play)
    processes["node_0"] = start(script, "node_0", alone_folder)
    wait_for_line(processes["node_0"], "all is over")
    processes["node_0"].send_signal(number)
    if expected == 0:  # otherwise the signal itself ends the wait
        go_on.touch()
    status, output = outcomes(processes, 4)["node_0"]
    assert status == expected, output
    assert ("ravnest: node_0 was interrupted" in output) == (expected == 130), output


@pytest.fixture
def full_disk(tmp_path):
    """A folder on a disk that is full; where none can be mounted, what limits a process instead."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", disk], capture_output=True, check=False)
    if mounted.returncode != 0:
        yield disk, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))
        return
    (disk / "filler").write_bytes(bytes(4096))
    yield disk, None
    subprocess.run(["umount", disk], check=True)


@pytest.mark.parametrize("full", ["node_1", *soaked("node_0", "node_2")])
def test_a_full_disk_costs_nobody_else_its_weights(folder, processes, full_disk, full):
    disk, limit = full_disk
    npy_run.write_files(folder)
    for name in NAMES:
        own = ("--trained", disk) if name == full else ()
        processes[name] = command.start("node", name, *own, cwd=folder, prepare=limit if name == full else None)
    reason = "File too large" if limit else "No space left on device"
    others = [name for name in NAMES if name != full]
    sentence = (
        f"ravnest: {full} (stage {full[-1]}) failed: cannot write {disk}/cluster_0/{full}.safetensors: {reason}; "
        f"saved are the stages of {', '.join(others)}"
    )
    for name, (status, output) in outcomes(processes).items():
        assert status == 1 and output.strip().splitlines()[-1] == sentence, (name, output)
        saved = folder / f"trained/cluster_0/{name}.safetensors"
        assert saved.exists() == (name != full)
        assert (f"saved trained/cluster_0/{name}.safetensors" in output) == (name != full)
    assert not list(disk.glob("cluster_0/.*")), "what was begun is removed"


def test_what_a_killed_writer_left_is_removed_by_the_next_run(folder, processes):
    npy_run.write_files(folder, more="")
    left = folder / "trained/cluster_0/.node_1.safetensors.abcdefgh.tmp"
    left.parent.mkdir(parents=True)
    left.write_text("half of it")
    (folder / "train.toml").write_text((folder / "train.toml").read_text().replace("save = true", "save = false"))
    start_all(folder, processes, "command", 3)
    assert all(status == 0 for status, _ in outcomes(processes).values())
    assert not left.exists()


@pytest.mark.parametrize("file", ["train.toml", "x.npy", "node_data/plan.json", "submod.pt"])
def test_a_pipe_in_place_of_a_file_is_an_error(alone_folder, file):
    npy_run.write_files(alone_folder)
    (path,) = alone_folder.glob("node_data/cluster_0/*/submod.pt" if file == "submod.pt" else file)
    kept = path.rename(path.parent / "kept")
    os.mkfifo(path)
    result = command.run("node", "node_0", cwd=alone_folder)
    kept.rename(path)
    assert result.returncode == 1 and f"{path.name}: not a regular file" in result.stderr, result.stderr


def test_a_low_limit_of_open_files_is_an_error(folder, processes):
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8))

    npy_run.write_files(folder)
    for name in NAMES:
        processes[name] = command.start("node", name, cwd=folder, prepare=limit)
    for status, output in outcomes(processes).values():
        assert status == 1 and output.startswith("ravnest: ") and "Too many open files" in output, output


def catches(process, number) -> bool:
    status = Path(f"/proc/{process.pid}/status").read_text()
    return bool(int(status.split("SigCgt:")[1].split()[0], 16) >> (number - 1) & 1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_what_takes_long_without_nodes_ends_in_words_too(tmp_path, processes, number):
    arguments = ("--protocol", "pipeline", "--seeds", "1000000000")
    processes["command"] = command.start("simulate", *arguments, cwd=tmp_path)
    wait_for(lambda: catches(processes["command"], number), "it has no handler")
    processes["command"].send_signal(number)
    assert outcomes(processes)["command"] == (130, "ravnest: simulating was interrupted\n")


def start_damaged(folder, processes, by) -> str:
    """Its last line, as soon as that is there. Nobody else is: for some seconds it waits for someone to tell."""
    for stage in folder.glob("node_data/cluster_0/*/submod.pt"):
        stage.write_bytes(stage.read_bytes()[:1000])
    npy_run.write_files(folder)
    if by == "python":
        processes["node_1"] = start(SCRIPTS / "node_script.py", "node_1", folder, "1")
    else:
        processes["node_1"] = command.start("node", "node_1", cwd=folder)
    return wait_for_line(processes["node_1"], "ravnest.Error: " if by == "python" else "ravnest: ")[-1]


@pytest.mark.parametrize("by", ["python", "command"])
def test_a_damaged_stage_is_said_before_the_others_are_told(folder, processes, by):
    assert "submod.pt" in start_damaged(folder, processes, by)
    said = time.monotonic()
    status, output = outcomes(processes)["node_1"]
    assert status == 1 and output == "", "that was the last line"
    assert time.monotonic() - said > 1, "it was told to others first"


@pytest.mark.parametrize("by", ["python", "command"])
@pytest.mark.parametrize("number", [signal.SIGINT, *soaked(signal.SIGTERM, signal.SIGHUP)])
def test_a_signal_ends_the_wait_for_others_who_might_hear_of_a_failure(folder, processes, by, number):
    start_damaged(folder, processes, by)
    processes["node_1"].send_signal(number)
    status, output = outcomes(processes, 2)["node_1"]
    assert status == 1 and output == "", "it had failed, and said so"
