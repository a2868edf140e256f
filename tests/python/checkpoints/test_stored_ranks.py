"""Ranks whose checkpoints are in object storage: they go on from there elsewhere, and end with one under torchrun."""

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
import torch
from support import command, npy_run
from support.nodes import outcomes, wait_for
from support.places import SCRIPTS
from support.ports import free_ports
from support.ranks import TOKEN, launch, start_process, write_run
from support.small_net import make_plain

import ravnest

pytestmark = pytest.mark.slow

TABLE = '\n[checkpoint]\nfolder = "s3://lab/run"\nevery = "2 updates"\nkeep = 3\n'


def ended(started: list, words: list, folder: Path, more: dict, status=0) -> str:
    """What such a run has said."""
    started.append(start_process(words, folder, {name: str(value) for name, value in more.items()}))
    ((own, said),) = outcomes({"run": started[-1]}).values()
    assert own == status, said
    return said


def train(strategy: str, *arguments) -> list:
    devices = ["--devices", 2] if strategy == "ddp" else []
    return [command.COMMAND, "train", "model.pt2", "--strategy", strategy, *devices, *arguments]


def written(folder: Path, tables=TABLE) -> Path:
    folder.mkdir()
    write_run(folder)
    npy_run.write_files(folder, epochs=2, schedule=None, tables=tables)
    return folder


def saved(folder: Path) -> dict[str, torch.Tensor]:
    return torch.load(folder / "trained/trained_state_dict.pt", weights_only=True)


def same(one: dict, other: dict) -> None:
    assert one.keys() == other.keys()
    assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())


@pytest.mark.parametrize("strategy", ["single", "ddp"])
def test_ranks_go_on_elsewhere_from_what_is_in_the_bucket_alone(tmp_path, served, started, strategy):
    whole = written(tmp_path / "whole", tables="")
    ended(started, train(strategy, "--epochs", 4), whole, {})
    folder = written(tmp_path / "here")
    own = {"RAVNEST_CACHE": tmp_path / "cache"}
    said = ended(started, train(strategy, "--resume"), folder, own)
    assert "there is no checkpoint in s3://lab/run to go on from: the run begins anew" in said
    last = len((folder / "losses.txt").read_text().splitlines())
    there = json.loads((served / f"run/update_{last:09}/manifest.json").read_text())
    assert there["strategy"] == strategy and [part["holder"] for part in there["parts"]] == ["rank_0"]

    elsewhere = written(tmp_path / "elsewhere")
    shutil.copy(folder / "losses.txt", elsewhere)
    other = {"RAVNEST_CACHE": tmp_path / "other_cache"}
    said = ended(started, train(strategy, "--resume=s3://lab/run/last", "--epochs", 4), elsewhere, other)
    assert f"goes on from the checkpoint of update {last} in s3://lab/run" in said
    same(saved(elsewhere), saved(whole))
    assert (elsewhere / "losses.txt").read_text() == (whole / "losses.txt").read_text()
    holders = {path.parents[1].name for path in (tmp_path / "other_cache").rglob("manifest.json")}
    assert holders == {"rank_0"}, "the other ranks need no keys and no room"


def test_what_rank_0_cannot_reach_all_ranks_end_with(tmp_path, served, started, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    folder = written(tmp_path / "here")
    said = ended(started, train("ddp"), folder, {"RAVNEST_CACHE": tmp_path / "cache"}, status=1)
    assert "the server says 403" in said
    assert not (folder / "losses.txt").exists()


def test_under_torchrun_a_signal_ends_ranks_with_a_checkpoint_in_the_bucket_and_they_go_on(tmp_path, served, started):
    """torchrun passes SIGTERM on to its ranks, and gives them half a minute."""
    ravnest.capture(make_plain(), (torch.randn(20, 12),), path=tmp_path / "plain.pt2")
    script = SCRIPTS / "checkpointing_rank.py"
    variables = {"RAVNEST_TOKEN": TOKEN, "RAVNEST_CACHE": str(tmp_path / "cache")}

    def words(epochs: int) -> list:
        (port,) = free_ports(1)
        torchrun = [Path(sys.executable).parent / "torchrun", "--nproc-per-node", 2, "--master-port", port]
        return [*torchrun, script, epochs, "1000 min", "", 10, "plain", "s3://lab/run"]

    started.append(start_process(words(1_000_000), tmp_path, variables))
    wait_for((tmp_path / "losses.txt").exists, "nothing is trained")
    started[0].send_signal(signal.SIGTERM)
    ((_, said),) = outcomes({"run": started[0]}).values()
    (manifest,) = (json.loads(path.read_text()) for path in served.glob("run/*/manifest.json"))
    last = manifest["updates"]
    assert len((tmp_path / "losses.txt").read_text().splitlines()) == last
    assert said.count(f"got SIGTERM: the run ends after the checkpoint of update {last}; ") == 2, said

    epochs = manifest["position"]["epoch"] + 2
    said = ended(started, words(epochs), tmp_path, {**variables, "RAVNEST_RESUME": "s3://lab/run/last"})
    assert f"goes on from the checkpoint of update {last} in s3://lab/run" in said
    whole = tmp_path / "whole"
    whole.mkdir()
    os.link(tmp_path / "plain.pt2", whole / "plain.pt2")
    launch(script, 2, whole, epochs, "1000 min", "", 10)
    own, expected = (torch.load(folder / "plain_0.pt") for folder in (tmp_path, whole))
    same(own["state"], expected["state"])
    assert own["losses"] == expected["losses"]
