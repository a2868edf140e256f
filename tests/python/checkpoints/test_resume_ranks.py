"""Ranks that go on from a checkpoint, theirs or a pipeline's, and pipelines from theirs; and that are told to end."""

import json
import signal
import sys
from pathlib import Path

import pytest
import torch
from support import command, npy_run
from support.nodes import Cluster, outcomes, plan_graph, wait_for
from support.places import SCRIPTS
from support.pools import write_local_pool
from support.ports import free_ports
from support.ranks import environment_of, launch, start_process, write_run
from support.small_net import criterion, loaders, make_dropping, make_plain

import ravnest
from ravnest import Trainer

pytestmark = pytest.mark.slow

SCRIPT = SCRIPTS / "checkpointing_rank.py"
BATCHES = 7  # in an epoch of 140 samples, 20 in a step


def checkpoints(folder: Path) -> dict[int, dict]:
    """update -> the manifest."""
    manifests = [json.loads(path.read_text()) for path in sorted(folder.glob("checkpoints/*/manifest.json"))]
    return {manifest["updates"]: manifest for manifest in manifests}


def losses(folder: Path) -> list[float]:
    return [float(line) for line in (folder / "losses.txt").read_text().split()]


def test_a_script_s_ranks_go_on_to_the_bit_in_the_middle_of_an_epoch(tmp_path):
    ravnest.capture(make_dropping(), (torch.randn(20, 12),), path=tmp_path / "noisy.pt2")
    said = launch(SCRIPT, 2, tmp_path, 3, "6 updates", ",6", 10, "noisy")
    assert said.count("goes on from the checkpoint of update 6 in checkpoints") == 1, said
    middle = checkpoints(tmp_path)[6]
    assert middle["strategy"] == "ddp" and middle["world"] == 2
    assert middle["position"]["index"] == 12 - BATCHES and middle["position"]["samples"] == 20 * (12 - BATCHES)
    whole, again = (torch.load(tmp_path / f"noisy_{number}.pt") for number in (0, 1))
    for name, tensor in whole["state"].items():
        assert torch.equal(again["state"][name], tensor), name
    assert again["losses"] == whole["losses"]
    assert not (tmp_path / "losses.txt.1").exists()
    exported = command.run("checkpoint", "export", "-o", "last", cwd=tmp_path)
    assert exported.returncode == 0, exported.stderr
    for name, tensor in torch.load(tmp_path / "last.pt", weights_only=True).items():
        assert torch.equal(tensor, whole["state"][name]), name


@pytest.fixture
def plain(tmp_path, monkeypatch):
    """A folder with the network, in which this process works."""
    ravnest.capture(make_plain(), (torch.randn(20, 12),), path=tmp_path / "plain.pt2")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_pipeline(folder: Path, epochs: int, resume=None) -> dict[str, torch.Tensor]:
    """What the small network comes to on three nodes."""
    if not (folder / "node_data").exists():
        write_local_pool(folder / "node_data", 3)
        plan_graph(ravnest.load(folder / "plain.pt2"), folder / "node_data", min_cluster_size=3)
    train, val = loaders()

    def script(make):
        with make(
            optimizer=torch.optim.AdamW, criterion=criterion, labels=train, test_labels=val, schedule="sync"
        ) as own:
            Trainer(
                node=own,
                train_loader=train,
                val_loader=val,
                epochs=epochs,
                checkpoint=folder / "checkpoints",
                checkpoint_every="4 updates",
                checkpoint_keep=0,
                resume=resume,
            ).train()
            return dict(own.named_parameters())

    ravnest.set_seed(42)
    ended = Cluster(folder, 3).run(script)
    return {name: tensor.detach().clone() for stage in ended.values() for name, tensor in stage.items()}


def test_a_pipeline_goes_on_as_two_ranks_and_those_as_a_pipeline(plain):
    expected = run_pipeline(plain, 3)
    undisturbed = losses(plain)
    # From update 4, in the middle of the first epoch, to the end of the second.
    said = launch(SCRIPT, 2, plain, 2, "10 updates", 4, 10)
    assert "goes on from the checkpoint of update 4 in checkpoints" in said
    made = {update: manifest["strategy"] for update, manifest in checkpoints(plain).items()}
    assert made == {4: "pipeline", 10: "ddp", 2 * BATCHES: "ddp"}
    assert losses(plain) == pytest.approx(undisturbed[: 2 * BATCHES], abs=2e-4)
    # From update 10, in the middle of the second.
    again = run_pipeline(plain, 3, resume=10)
    assert losses(plain) == pytest.approx(undisturbed, abs=2e-4)
    for name, tensor in expected.items():
        torch.testing.assert_close(again[name], tensor, rtol=1e-6, atol=1e-6, msg=name)


CHECKPOINT = '\n[checkpoint]\nfolder = "checkpoints"\nevery = "1000 min"\n'


def written(folder: Path) -> Path:
    """What `ravnest train` takes, in a new folder."""
    folder.mkdir()
    write_run(folder)
    npy_run.write_files(folder, epochs=1_000_000, schedule=None, tables=CHECKPOINT)
    return folder


def of_epochs(epochs: int) -> list:
    return [command.COMMAND, "train", "model.pt2", "--strategy", "ddp", "--devices", 2, "--epochs", epochs]


def to_the_end(words: list, folder: Path, started: list, more=None) -> str:
    started.append(start_process(words, folder, more))
    ((status, said),) = outcomes({"run": started[-1]}).values()
    assert status == 0, said
    return said


def test_what_a_machine_sends_before_it_goes_ends_all_ranks_well_and_they_go_on(tmp_path, started):
    folder = written(tmp_path / "ended")
    started.append(start_process(of_epochs(1_000_000), folder))
    wait_for((folder / "losses.txt").exists, "nothing is trained")
    started[0].send_signal(signal.SIGTERM)
    ((status, said),) = outcomes({"run": started[0]}).values()
    assert status == 0, said
    (last,) = checkpoints(folder)
    assert len(losses(folder)) == last
    assert said.count(f"got SIGTERM: the run ends after the checkpoint of update {last}; --resume") == 2, said

    epochs = checkpoints(folder)[last]["position"]["epoch"] + 2
    said = to_the_end(of_epochs(epochs), folder, started, {"RAVNEST_RESUME": "1"})
    assert f"goes on from the checkpoint of update {last} in checkpoints" in said
    whole = written(tmp_path / "whole")
    to_the_end(of_epochs(epochs), whole, started)
    assert (folder / "losses.txt").read_text() == (whole / "losses.txt").read_text()
    states = [torch.load(each / "trained/trained_state_dict.pt", weights_only=True) for each in (folder, whole)]
    for name, tensor in states[1].items():
        assert torch.equal(states[0][name], tensor), name


def test_a_signal_to_one_rank_of_a_script_ends_all_of_them(plain, started):
    (port,) = free_ports(1)
    words = [sys.executable, SCRIPT, 1_000_000, "1000 min", "", 10]
    processes = {f"rank_{rank}": start_process(words, plain, environment_of(rank, 2, port)) for rank in (0, 1)}
    started.extend(processes.values())
    wait_for((plain / "losses.txt").exists, "nothing is trained")
    processes["rank_1"].send_signal(signal.SIGUSR1)
    ended = outcomes(processes)
    (last,) = checkpoints(plain)
    for status, said in ended.values():
        assert status == 0, ended
        assert said.splitlines()[-1].startswith(
            f"ravnest: rank_1 got SIGUSR1: the run ends after the checkpoint of update {last}; resume=True"
        )
        assert "Traceback" not in said
