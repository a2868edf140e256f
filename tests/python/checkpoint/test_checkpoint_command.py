"""`ravnest checkpoint list|show|verify|remove` over folders as runs leave them, whole and broken."""

import json

import pytest
import torch
from support.checkpoints import write_checkpoint
from support.command import run
from torch import nn


@pytest.fixture
def folder(tmp_path):
    """Three checkpoints of a run: of updates 80, 120 and 160."""
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for updates in (80, 120, 160):
        keys = list(model.state_dict())
        checkpoint = write_checkpoint(tmp_path / "checkpoints", model, optimizer, [keys[:2], keys[2:]], updates)
        change_manifest(checkpoint, val_accuracy=99.0 if updates == 120 else 90.0)
    return tmp_path


def change_manifest(checkpoint, **facts):
    file = checkpoint / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | facts))


def of(folder, updates):
    return folder / "checkpoints" / f"update_{updates:09}"


def command(folder, *arguments, status=0):
    done = run("checkpoint", *arguments, cwd=folder)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def words(shown):
    """Without the columns."""
    return " ".join(shown.split())


def test_list_shows_the_newest_first_and_marks_the_best(folder):
    lines = command(folder, "list").splitlines()
    assert lines[0].split() == ["update", "epoch", "batch", "accuracy", "size", "parts", "written", "folder"]
    assert [line.split()[0] for line in lines[1:]] == ["160", "120", "80"]
    assert ["(best)" in line for line in lines[1:]] == [False, True, False]
    assert "update_000000160" in lines[1]


def test_list_as_json_has_the_same(folder):
    (of(folder, 80) / "manifest.json").write_text("{")
    listed = json.loads(command(folder, "list", "--json"))
    assert [each["updates"] for each in listed["checkpoints"]] == [160, 120]
    assert listed["checkpoints"][1]["val_accuracy"] == 99.0
    assert listed["checkpoints"][0]["folder"] == "checkpoints/update_000000160"
    assert "manifest.json" in listed["unreadable"][0]["why"]


def test_what_cannot_be_read_stands_below_the_list(folder):
    (of(folder, 80) / "manifest.json").write_text("{")
    assert "cannot be read: checkpoints/update_000000080/manifest.json: " in command(folder, "list")


def test_what_is_unfinished_is_not_listed(folder):
    (of(folder, 160) / "manifest.json").unlink()
    assert "160" not in command(folder, "list")
    assert "update 120" in words(command(folder, "show"))


def test_show_has_the_run_the_parts_and_the_settings(folder):
    change_manifest(of(folder, 120), settings={"seed": "42"})
    shown = words(command(folder, "show", "best"))
    assert "update 120" in shown
    assert "accuracy 99.00 %" in shown
    assert "stage_1" in shown and "node_1" in shown
    assert "seed = 42" in shown
    document = json.loads(command(folder, "show", "120", "--json"))
    assert document["manifest"]["updates"] == 120
    assert len(document["manifest"]["parts"]) == 2


def test_verify_says_that_all_is_well(folder):
    assert command(folder, "verify").startswith("update_000000160: all is well (2 parts, ")
    assert command(folder, "verify", "--all").count("all is well") == 3
    assert "all is well (1 part, " in command(folder, "verify", "80", "--part", "stage_1")


def test_verify_names_the_torn_file_and_fails(folder):
    torn = of(folder, 120) / "stage_0.safetensors"
    torn.write_bytes(torn.read_bytes()[:-3])
    assert "checkpoints/update_000000120/stage_0.safetensors is torn" in command(folder, "verify", "120", status=1)
    said = command(folder, "verify", "--all", status=1)
    assert said.count("all is well") == 2
    assert "all is well" in command(folder, "verify", "120", "--part", "stage_1")


def test_verify_finds_one_changed_bit_unless_it_is_to_be_quick(folder):
    changed = of(folder, 160) / "stage_1.safetensors"
    content = bytearray(changed.read_bytes())
    content[-1] ^= 1
    changed.write_bytes(content)
    assert "stage_1.safetensors is damaged: its SHA-256 is" in command(folder, "verify", status=1)
    assert "all is well" in command(folder, "verify", "--quick")


def test_verify_of_a_missing_part_names_its_writer(folder):
    (of(folder, 160) / "stage_1.safetensors").unlink()
    assert "stage_1.safetensors is not there; node_1 has written it" in command(folder, "verify", status=1)


def test_verify_of_a_part_that_the_checkpoint_has_not_says_what_it_has(folder):
    assert "has no part stage_9; it has stage_0, stage_1" in command(folder, "verify", "--part", "stage_9", status=1)


def test_remove_takes_older_ones_and_refuses_the_newest(folder):
    said = command(folder, "remove", "80", "newest", status=1)
    assert "update_000000160 is the newest checkpoint" in said
    assert of(folder, 80).exists(), "nothing is removed where one is refused"
    command(folder, "remove", "80", "120")
    assert sorted(path.name for path in (folder / "checkpoints").iterdir()) == ["update_000000160"]
    command(folder, "remove", "newest", "--force")
    assert "there is no complete checkpoint in checkpoints" in command(folder, "list")


def test_remove_leaves_what_is_not_of_the_checkpoint(folder):
    (of(folder, 80) / "notes.txt").write_text("mine")
    command(folder, "remove", "80")
    assert [path.name for path in of(folder, 80).iterdir()] == ["notes.txt"]


def test_an_update_that_is_not_there_is_answered_with_those_that_are(folder):
    said = command(folder, "show", "130", status=1)
    assert "no checkpoint of update 130 in checkpoints: there are those of updates 160, 120, 80" in said


def test_a_folder_that_is_not_there_is_named(tmp_path):
    assert "there is no folder checkpoints; --folder names" in command(tmp_path, "list", status=1)
    assert "no checkpoint in elsewhere: there is none" in command(tmp_path, "show", "--folder", "elsewhere", status=1)


def test_a_checkpoint_of_a_later_version_is_refused_with_both(folder):
    change_manifest(of(folder, 160), version=2)
    said = command(folder, "show", "160", status=1)
    assert "format version 2; this release of ravnest reads version 1" in said
    assert "format version 2" in command(folder, "list")


@pytest.mark.parametrize("action", ["list", "show", "verify", "remove", "export"])
def test_help_of_every_action_has_examples(tmp_path, action):
    said = command(tmp_path, action, "--help")
    assert f"  ravnest checkpoint {action}" in said


def test_without_an_action_the_command_says_which_there_are(tmp_path):
    said = command(tmp_path, status=1)
    assert all(action in said for action in ("list", "show", "verify", "remove", "export"))
