"""Nodes as processes that are killed, told to end, or find what they should not: what stays, and what is said."""

import json
import os
import shutil
import signal
from pathlib import Path

import pytest
import torch
from support import command, npy_run
from support.nodes import end, outcomes, plan_net, start, wait_for
from support.places import SCRIPTS
from support.soaked import soaked

import ravnest

pytestmark = pytest.mark.slow

NAMES = ["node_0", "node_1", "node_2"]
SCRIPT = SCRIPTS / "checkpointing_script.py"


@pytest.fixture
def folder(tmp_path):
    plan_net(tmp_path, 3)
    return tmp_path


@pytest.fixture
def processes():
    started = {}
    yield started
    end(started.values())


def start_scripts(processes, folder: Path, *arguments) -> None:
    processes.update({name: start(SCRIPT, name, folder, *map(str, arguments)) for name in NAMES})


def start_commands(processes, folder: Path, *arguments) -> None:
    processes.update({name: command.start("node", name, *arguments, cwd=folder) for name in NAMES})


def ended_well(processes) -> dict[str, str]:
    ended = outcomes(processes)
    assert all(status == 0 for status, _ in ended.values()), ended
    return {name: output for name, (_, output) in ended.items()}


def checkpoints(folder: Path) -> list[Path]:
    return sorted(path.parent for path in folder.glob("checkpoints/**/manifest.json"))


def fused(folder: Path) -> dict[str, torch.Tensor]:
    return torch.load(ravnest.model_fusion(trained=folder / "trained"), weights_only=True)


def same(one: dict, other: dict) -> None:
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        assert torch.equal(tensor, other[name]), name


@pytest.mark.parametrize("victim", soaked("node_0", "node_1", "node_2"))
def test_after_a_kill_the_same_command_goes_on_with_a_folder_for_each_node(folder, processes, victim):
    start_scripts(processes, folder, 3, "2 updates", "resume")
    expected = ended_well(processes)
    assert "there is no checkpoint in checkpoints/node_0 to go on from: the run begins anew" in expected["node_0"]
    weights, losses = fused(folder), (folder / "losses.txt").read_text()
    for name in ("checkpoints", "trained"):
        shutil.rmtree(folder / name)
    (folder / "losses.txt").unlink()
    (folder / "val_accuracies.txt").unlink()

    start_scripts(processes, folder, 3, "2 updates", "resume", 0.05)
    wait_for(lambda: len({path.parent.name for path in checkpoints(folder)}) == 3, "nodes have no checkpoint")
    processes[victim].kill()
    outcomes(processes)
    (folder / f"checkpoints/{victim}/update_000000099").mkdir()  # what no manifest speaks of is no checkpoint
    start_scripts(processes, folder, 3, "2 updates", "resume")
    said = ended_well(processes)
    assert all("goes on from the checkpoint of update" in output for output in said.values()), said
    same(fused(folder), weights)
    assert (folder / "losses.txt").read_text() == losses
    assert not (folder / "losses.txt.1").exists()


CHECKPOINT = '\n[checkpoint]\nfolder = "checkpoints"\nevery = "2 updates"\n'


@pytest.mark.parametrize("number", [signal.SIGTERM, *soaked(signal.SIGUSR1)])
@pytest.mark.parametrize("by", ["command", "python"])
def test_what_machines_send_before_they_go_ends_a_run_well_with_a_checkpoint(folder, processes, by, number):
    npy_run.write_files(folder, epochs=100_000, tables=CHECKPOINT)
    if by == "command":
        start_commands(processes, folder)
    else:
        start_scripts(processes, folder, 100_000, "1000 min", "anew")
    wait_for((folder / "losses.txt").exists, "nothing is trained")
    processes["node_1"].send_signal(number)
    said = ended_well(processes)
    last = max(int(path.name.removeprefix("update_")) for path in checkpoints(folder))
    sentence = f"ravnest: node_1 got {number.name}: the run ends after the checkpoint of update {last}; "
    for output in said.values():
        assert output.splitlines()[-1].startswith(sentence), output
        assert "Traceback" not in output
    assert len((folder / "losses.txt").read_text().splitlines()) == last


def test_up_passes_on_to_its_nodes_what_a_machine_sends_before_it_goes(folder, processes):
    npy_run.write_files(folder, epochs=100_000, tables=CHECKPOINT)
    processes["up"] = command.start("up", cwd=folder)
    wait_for((folder / "losses.txt").exists, "nothing is trained")
    processes["up"].send_signal(signal.SIGUSR1)
    said = ended_well(processes)["up"]
    last = max(int(path.name.removeprefix("update_")) for path in checkpoints(folder))
    assert said.count(f"got SIGUSR1: the run ends after the checkpoint of update {last}; --resume") == 3, said


def test_without_python_a_run_goes_on_by_the_command_line(folder, processes):
    npy_run.write_files(folder, epochs=2, tables=CHECKPOINT)
    start_commands(processes, folder)
    ended_well(processes)
    npy_run.write_files(folder, epochs=4, tables=CHECKPOINT)
    up = command.run("up", "--resume", cwd=folder)
    assert up.returncode == 0, up.stdout + up.stderr
    weights, losses = fused(folder), (folder / "losses.txt").read_text()
    shutil.rmtree(folder / "checkpoints")
    start_commands(processes, folder)
    ended_well(processes)
    same(fused(folder), weights)
    assert (folder / "losses.txt").read_text() == losses


@pytest.fixture(scope="module")
def ended_run(tmp_path_factory):
    """A run of 3 epochs with a folder for all, whose two newest checkpoints stay."""
    folder = tmp_path_factory.mktemp("ended")
    plan_net(folder, 3)
    npy_run.write_files(folder, epochs=3, tables=CHECKPOINT)
    processes = {name: command.start("node", name, cwd=folder) for name in NAMES}
    try:
        ended_well(processes)
    finally:
        end(processes.values())
    return folder


def resumed(ended_run, folder: Path, *arguments, config=None) -> str:
    """What all nodes say in the end that go on from the run after `folder` was changed."""
    npy_run.write_files(folder, epochs=4, tables=CHECKPOINT, **(config or {}))
    processes = {name: command.start("node", name, *arguments, cwd=folder) for name in NAMES}
    try:
        ended = outcomes(processes)
    finally:
        end(processes.values())
    assert all(status == 1 for status, _ in ended.values()), ended
    last = {output.strip().splitlines()[-1] for _, output in ended.values()}
    assert len(last) == 1, ended
    return last.pop()


@pytest.fixture
def copy(ended_run, tmp_path):
    shutil.copytree(ended_run, tmp_path / "copy")
    return tmp_path / "copy"


def test_another_optimizer_is_refused(ended_run, copy):
    said = resumed(ended_run, copy, "--resume", config={"optimizer": "SGD"})
    assert "the checkpoint is of a run with the optimizer Adam, this one has SGD: go on with the same" in said


def test_another_seed_in_the_middle_of_an_epoch_is_refused(ended_run, copy):
    update = int(checkpoints(copy)[0].name[7:])  # 16, or 17 where that of 15 took its time
    said = resumed(ended_run, copy, f"--resume={update}", config={"seed": 43})
    assert f"seed was 42 in the checkpoint of update {update} and is 43 here, which may not change in the" in said


def test_with_another_batch_size_a_run_goes_on_at_its_sample_and_says_which_come_twice(copy):
    update = int(checkpoints(copy)[0].name[7:])
    at = json.loads((checkpoints(copy)[0] / "manifest.json").read_text())["position"]
    npy_run.write_files(copy, epochs=3, batch=35, tables=CHECKPOINT)
    said = ended_well({name: command.start("node", name, f"--resume={update}", cwd=copy) for name in NAMES})
    assert "since the checkpoint batch_size from 25 to 35" in said["node_0"]
    steps, left_out = 4, at["samples"] // 35
    if at["samples"] < 140:  # 25, 50, ... samples, and no step of 35 ends there
        assert (
            f"the checkpoint is {at['samples']} samples into epoch {at['epoch'] + 1}, and a step takes 35 now, where "
            f"it took 25: the run goes on with the step of samples {left_out * 35 + 1} to {left_out * 35 + 35}, of "
            f"which the first {at['samples'] - left_out * 35} were trained on before" in said["node_0"]
        )
    lines = len((copy / "losses.txt").read_text().splitlines())
    assert lines == update + steps - left_out + steps * (2 - at["epoch"])


def test_settings_that_changed_are_named_and_the_optimizer_s_stay(copy):
    npy_run.write_files(copy, epochs=4, schedule="gpipe", lr=0.1, tables=CHECKPOINT)
    said = ended_well({name: command.start("node", name, "--resume", cwd=copy) for name in NAMES})
    assert (
        "since the checkpoint epochs from 3 to 4, schedule from sync to gpipe changed; "
        "the optimizer keeps the checkpoint's lr 0.01 (0.1 here)" in said["node_0"]
    )
    assert "changed" not in said["node_1"]


def test_fewer_epochs_than_are_trained_already_train_nothing_and_say_so(copy):
    npy_run.write_files(copy, epochs=2, tables=CHECKPOINT)
    said = ended_well({name: command.start("node", name, "--resume", cwd=copy) for name in NAMES})
    assert "nothing is trained: all 2 epochs that it was asked for lie before the checkpoint" in said["node_0"]


def test_a_node_whose_folder_is_none_ends_all_soon_with_its_sentence(ended_run, copy):
    shutil.move(copy / "checkpoints", copy / "aside")
    (copy / "checkpoints").write_text("a file")
    said = resumed(ended_run, copy, "--resume")
    assert "checkpoints" in said and "directory" in said, said


def test_a_checkpoint_that_is_not_there_is_named(ended_run, copy):
    assert "12345" in resumed(ended_run, copy, "--resume=12345")


def test_a_torn_part_is_passed_over_for_the_checkpoint_before(ended_run, copy):
    newest = checkpoints(copy)[-1]
    part = newest / "stage_1.safetensors"
    part.write_bytes(part.read_bytes()[:-4096])
    npy_run.write_files(copy, epochs=4, tables=CHECKPOINT)
    processes = {name: command.start("node", name, "--resume", cwd=copy) for name in NAMES}
    said = ended_well(processes)
    assert f"the checkpoint of update {int(newest.name[7:])} is passed over" in said["node_1"]
    assert "stage_1.safetensors" in said["node_1"]
    assert "goes on from the checkpoint of update" in said["node_0"]


def test_nodes_that_have_no_checkpoint_in_common_are_told_who_has_which(ended_run, copy):
    first, second = checkpoints(copy)
    (first / "stage_0.safetensors").unlink()
    (second / "stage_2.safetensors").unlink()
    said = resumed(ended_run, copy, "--resume")
    assert "no checkpoint can be read by all nodes: node_0 can go on from that of update" in said, said
    assert "node_1 can go on from those of updates" in said


def test_where_a_kill_came_before_all_had_the_manifest_nodes_are_told_to_copy_it(ended_run, tmp_path):
    """Each has a folder of its own, as on machines of their own, with its own part; the root alone has the manifest."""
    for stage, name in enumerate(NAMES):
        folder = tmp_path / name
        shutil.copytree(ended_run, folder)
        first, only = checkpoints(folder)
        shutil.rmtree(first)
        for path in only.iterdir():
            if path.name != f"stage_{stage}.safetensors" and (stage > 0 or path.name.startswith("stage_")):
                path.unlink()
        npy_run.write_files(folder, epochs=4, tables=CHECKPOINT)

    def run() -> dict:
        started = {name: command.start("node", name, "--resume", cwd=tmp_path / name) for name in NAMES}
        try:
            return outcomes(started)
        finally:
            end(started.values())

    update = int(only.name[7:])
    for status, said in run().values():
        assert status == 1
        assert (
            f"no checkpoint can be read by all nodes: node_0 can go on from that of update {update}; node_1 can go on "
            "from none; node_2 can go on from none. Copy what is missing to those nodes' folders: their parts, or, "
            "where a kill came before they had these, manifest.json and model.safetensors.index.json from a node that "
            "has them; or begin anew without resume, in other folders"
        ) in said, said
    for name in NAMES[1:]:
        for file in ("manifest.json", "model.safetensors.index.json"):
            shutil.copy(
                tmp_path / f"node_0/checkpoints/{only.name}/{file}", tmp_path / name / "checkpoints" / only.name
            )
    for status, said in run().values():
        assert status == 0 and f"goes on from the checkpoint of update {update} in checkpoints" in said, said


def test_a_folder_with_another_run_s_checkpoints_is_not_written_to(ended_run, copy):
    said = resumed(ended_run, copy)
    assert json.loads((checkpoints(copy)[-1] / "manifest.json").read_text())["run"] in said


@pytest.mark.skipif(os.geteuid() != 0, reason="a disk is mounted")
def test_a_full_disk_costs_the_checkpoint_and_not_the_run(folder, processes, tmp_path):
    disk = folder / "checkpoints"
    disk.mkdir()
    mounted = command.subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", disk], check=False)
    if mounted.returncode != 0:
        pytest.skip("no disk can be mounted")
    try:
        npy_run.write_files(folder, epochs=2, tables=CHECKPOINT)
        start_commands(processes, folder)
        said = ended_well(processes)
        assert "no checkpoint of update 2: node_" in said["node_0"] and "No space left on device" in said["node_0"]
        assert (folder / "trained/cluster_0/node_0.safetensors").exists()
    finally:
        command.subprocess.run(["umount", disk], check=True)
