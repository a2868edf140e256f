"""Checkpoints in object storage: brought there beside training, gone on from on machines that have nothing."""

import json
import os
import re
import shutil
import signal
from pathlib import Path

import pytest
import torch
from support import command, npy_run
from support.nodes import Cluster, end, outcomes, plan_net, wait_for
from support.s3_server import Fault, S3Server
from support.small_net import criterion, loaders

import ravnest

pytestmark = pytest.mark.slow

NAMES = ["node_0", "node_1", "node_2"]
TABLE = '\n[checkpoint]\nfolder = "s3://lab/run"\nevery = "{every}"\n{more}\n'
ENDLESS = 100_000


@pytest.fixture
def folder(tmp_path):
    plan_net(tmp_path / "here", 3)
    return tmp_path / "here"


@pytest.fixture
def processes():
    started = {}
    yield started
    end(started.values())


def start(processes, folder: Path, *arguments, epochs=2, every="2 updates", more="", names=NAMES) -> None:
    npy_run.write_files(folder, epochs=epochs, tables=TABLE.format(every=every, more=more))
    processes.clear()
    processes.update({name: command.start("node", name, *arguments, cwd=folder) for name in names})


def over(processes, status=0) -> dict[str, str]:
    """What each has said."""
    ended = outcomes(processes)
    assert all(each == status for each, _ in ended.values()), ended
    return {name: output for name, (_, output) in ended.items()}


def fused(folder: Path) -> dict[str, torch.Tensor]:
    return torch.load(ravnest.model_fusion(trained=folder / "trained"), weights_only=True)


def same(one: dict, other: dict) -> None:
    assert one.keys() == other.keys()
    assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def checkpoint(*arguments, cwd: Path, status=0) -> str:
    done = command.run("checkpoint", *arguments, "--folder", "s3://lab/run", cwd=cwd)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def manifests(server: S3Server) -> list[int]:
    """Updates of the checkpoints that are there."""
    return [int(re.search(r"update_(\d+)", key)[1]) for key in server.keys("lab") if key.endswith("manifest.json")]


def test_a_run_goes_on_elsewhere_from_what_is_in_the_bucket_alone(folder, served, processes, tmp_path, tell):
    whole = tmp_path / "whole"
    shutil.copytree(folder, whole)
    npy_run.write_files(whole, epochs=4)
    processes.update({name: command.start("node", name, cwd=whole) for name in NAMES})
    over(processes)

    start(processes, folder, "--resume", more="keep = 3")
    assert "there is no checkpoint in s3://lab/run to go on from: the run begins anew" in over(processes)["node_0"]
    there = [str(int(path.name.removeprefix("update_"))) for path in sorted((served / "run").iterdir())]
    assert there[-1] == "12" and len(there) in (2, 3), "as many as there was time for"
    listed = [line.split()[0] for line in checkpoint("list", cwd=folder).splitlines()[1:]]
    assert listed == there[::-1]
    assert json.loads(checkpoint("show", "--json", cwd=folder))["folder"] == "s3://lab/run/update_000000012"
    assert "all is well (3 parts" in checkpoint("verify", cwd=folder)
    assert checkpoint("verify", "--all", "--quick", cwd=folder).count("all is well") == len(there)
    checkpoint("export", "-o", "exported", "--optimizer", cwd=folder)
    same(torch.load(folder / "exported.pt", weights_only=True), fused(folder))
    assert "is the newest checkpoint" in checkpoint("remove", "12", cwd=folder, status=1)
    checkpoint("remove", there[0], cwd=folder)
    assert [line.split()[0] for line in checkpoint("list", cwd=folder).splitlines()[1:]] == there[:0:-1]
    assert [path for path in (tmp_path / "cache").glob("checkpoints/*/command/**/*") if path.is_file()] == []

    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(folder, elsewhere, ignore=shutil.ignore_patterns("trained"))
    tell(
        {
            **{name: value for name, value in os.environ.items() if name.startswith("AWS_")},
            "RAVNEST_CACHE": tmp_path / "other_cache",
        }
    )
    start(processes, elsewhere, "--resume=s3://lab/run/last", epochs=4)
    said = over(processes)
    assert "goes on from the checkpoint of update 12 in s3://lab/run" in said["node_0"]
    same(fused(elsewhere), fused(whole))
    assert (elsewhere / "losses.txt").read_text() == (whole / "losses.txt").read_text()
    kept = {path.parents[1].name: path.name for path in (tmp_path / "other_cache").rglob("stage_*.safetensors")}
    assert kept == {name: f"stage_{i}.safetensors" for i, name in enumerate(NAMES)}, "each fetches its own part"


def test_on_another_plan_all_parts_are_fetched(folder, served, processes, tmp_path, tell):
    start(processes, folder)
    over(processes)
    first = min(path.name for path in (served / "run").iterdir())
    other = tmp_path / "other"
    plan_net(other, 2)
    shutil.copy(folder / "losses.txt", other)
    start(processes, other, f"--resume=s3://lab/run/{first}", names=NAMES[:2])
    assert f"goes on from the checkpoint of update {int(first[7:])} in s3://lab/run" in over(processes)["node_0"]
    for name, tensor in fused(folder).items():
        torch.testing.assert_close(fused(other)[name], tensor, rtol=1e-5, atol=1e-6, msg=name)


REFUSALS = {
    "keys": (
        {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""},
        [],
        "there are no keys for object storage. Looked at: AWS_ACCESS_KEY_ID",
    ),
    "secret": ({"AWS_SECRET_ACCESS_KEY": "wrong"}, [], "the server says 403"),
    "bucket": ({}, ["--resume=s3://none/run"], "there is no bucket none at"),
    "nothing": ({}, ["--resume=s3://lab/other"], "no checkpoint in s3://lab/other: there is none"),
    "update": ({}, ["--resume=s3://lab/run/update_000000120"], "no checkpoint of update 120 in s3://lab/run"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_cannot_work_is_said_before_anything_is_trained(folder, served, processes, monkeypatch, case):
    variables, arguments, sentence = REFUSALS[case]
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    start(processes, folder, *arguments)
    said = over(processes, status=1)
    assert all(sentence in output for output in said.values()), said
    assert not (folder / "losses.txt").exists()


def test_a_server_that_comes_back_has_everything_in_the_end(folder, server, processes):
    start(processes, folder, epochs=ENDLESS, every="5 updates", more="keep = 1")
    wait_for(lambda: manifests(server), "there is no checkpoint")
    server.stop()
    before = len((folder / "losses.txt").read_text().splitlines())
    wait_for(lambda: len((folder / "losses.txt").read_text().splitlines()) > before + 20, "it does not train without")
    server.start()
    last = max(manifests(server))
    wait_for(lambda: max(manifests(server), default=0) > last, "there is no further checkpoint")
    processes["node_2"].send_signal(signal.SIGTERM)
    said = over(processes)
    assert "but not in s3" not in "".join(said.values()), said
    updates = len((folder / "losses.txt").read_text().splitlines())
    assert manifests(server) == [updates]
    assert f"the run ends after the checkpoint of update {updates}" in said["node_0"]


def test_an_upload_that_fails_is_a_line_with_the_command_that_makes_up_for_it(folder, server, processes, monkeypatch):
    """node_1's and node_2's parts of one checkpoint cannot be put; the run goes on, and so do later checkpoints."""
    server.fault = lambda seen: (
        Fault(status=500) if seen.method == "PUT" and re.search(r"02/stage_[12]", seen.key) else None
    )
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    start(processes, folder, epochs=1, more="keep = 0")
    said = over(processes)["node_0"]
    assert 2 not in manifests(server) and 6 in manifests(server)
    lines = [line for line in said.splitlines() if "but not in s3" in line]
    start_of = "the checkpoint of update 2 is on the nodes, but not in s3://lab/run: node_"
    assert len(lines) == 2 and all(start_of in line and "the server says 500" in line for line in lines), said
    server.fault = lambda seen: None
    for line in lines:
        words = re.search(r"`ravnest (.*)`", line)[1].split()
        done = command.run(*words, cwd=folder)
        assert done.returncode == 0, done.stderr
    assert "update_000000002: all is well" in checkpoint("verify", "2", cwd=folder)


def test_a_kill_in_the_middle_of_an_upload_leaves_the_one_before(folder, server, processes, tmp_path):
    start(processes, folder, epochs=1)
    over(processes)
    weights, losses = fused(folder), (folder / "losses.txt").read_text()
    for path in server.bucket("lab").iterdir():
        path.unlink()
    for path in (folder / "trained", tmp_path / "cache"):
        shutil.rmtree(path)
    (folder / "losses.txt").unlink()

    begun = []  # checkpoints of which node_1 sends its part: the first one gets there, and the next one does not

    def fault(seen):
        if seen.method != "PUT" or "/stage_1" not in seen.key:
            return None
        checkpoint = seen.key.split("/")[-2]
        if checkpoint not in begun:
            begun.append(checkpoint)
        return None if checkpoint == begun[0] else Fault(hang=True)

    server.fault = fault
    start(processes, folder, epochs=1)
    wait_for(lambda: len(begun) > 1 and manifests(server), "nothing is held")
    for process in processes.values():
        process.kill()
    outcomes(processes)
    shutil.rmtree(tmp_path / "cache")
    server.fault = lambda seen: None
    last = max(manifests(server))
    assert begun[0].endswith(f"{last:09}")
    start(processes, folder, "--resume", epochs=1)
    assert f"goes on from the checkpoint of update {last} in s3://lab/run" in over(processes)["node_0"]
    same(fused(folder), weights)
    assert (folder / "losses.txt").read_text() == losses


def test_nodes_that_have_not_the_same_place_are_told(folder, served, processes):
    npy_run.write_files(folder, tables='\n[checkpoint]\nfolder = "checkpoints"\nevery = "2 updates"\n')
    (folder / "train.toml").rename(folder / "local.toml")
    start(processes, folder, names=["node_0", "node_2"])
    processes["node_1"] = command.start("node", "node_1", "--config", "local.toml", cwd=folder)
    said = over(processes, status=1)
    sentence = "the object storage of checkpoints is s3://lab/run on node_0 and none on node_1"
    assert all(sentence in output for output in said.values()), said


def test_a_script_goes_on_from_a_bucket_into_a_folder(folder, served, monkeypatch):
    cluster, (train, _) = Cluster(folder), loaders()
    monkeypatch.chdir(folder)

    def trained(epochs: int, place=None) -> dict:
        def script(make):
            with make(optimizer=torch.optim.Adam, criterion=criterion, schedule="sync", labels=train) as node:
                ravnest.Trainer(node=node, train_loader=train, epochs=epochs, checkpoint=place).train()
                return dict(node.named_parameters())

        return {name: tensor for stage in cluster.run(script).values() for name, tensor in stage.items()}

    expected = trained(2)
    trained(1, "s3://lab/run")
    monkeypatch.setenv("RAVNEST_RESUME", "s3://lab/run/last")
    same(trained(2, "checkpoints"), expected)
    assert len(list((folder / "checkpoints").glob("*/manifest.json"))) == 1
    assert len(list((served / "run").glob("*/manifest.json"))) == 1


def test_python_takes_a_url_and_nothing_that_looks_like_one():
    with pytest.raises(ValueError, match="checkpoints go into a folder, or to s3://BUCKET/FOLDER"):
        ravnest.Trainer(checkpoint="gs://lab/run")
    with pytest.raises(ValueError, match="is a path: give s3://BUCKET/FOLDER as a str"):
        ravnest.Trainer(checkpoint=Path("s3://lab/run"))
