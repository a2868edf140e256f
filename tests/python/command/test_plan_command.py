"""`ravnest plan`, `explain`, `pack`, `unpack` and `simulate` as processes."""

import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from support import models
from support.pools import write_pool

import ravnest

COMMAND = shutil.which("ravnest", path=str(Path(sys.executable).parent)) or shutil.which("ravnest")
DIGITS = models.ARCHITECTURES[0]


def run(*arguments, cwd, **options):
    return subprocess.run(
        [COMMAND, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, timeout=60, **options
    )


@pytest.fixture
def planned(archive, tmp_path):
    """A working directory with a plan of the digits model on three nodes, and what the command printed."""
    write_pool(tmp_path / "node_data", [{"ram": 8, "bandwidth": 10}] * 3)
    result = run("plan", archive(DIGITS), "--seed", 42, "--svg", "plan.svg", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    return tmp_path, result.stdout


def test_plan_prints_the_blocks_and_writes_the_plan(planned):
    folder, printed = planned
    assert printed.startswith("Model Memory:  ")
    assert "Ring IDs({1: 'L__self___dense_1.weight'}) \n" in printed
    assert "node_1" in printed and "Predicted: " in printed and "limited: " in printed
    assert [node.trainable for node in ravnest.Plan.read(folder / "node_data").nodes] == [4896, 8448, 3082]
    assert (folder / "plan.svg").read_text().lstrip().startswith("<")


def test_by_time_a_node_that_slows_the_pool_is_a_spare_that_cannot_be_started(archive, tmp_path):
    node_data = tmp_path / "node_data"
    write_pool(node_data, [{"ram": 8, "bandwidth": 1000, "compute": compute} for compute in (100, 100, 0.01, 100)])
    result = run("plan", archive(DIGITS), cwd=tmp_path)
    assert "node_2 (0.0.0.0:8082) is a spare: without it the pool trains " in result.stdout, result.stderr
    assert "is a spare" in run("explain", cwd=tmp_path).stdout
    plan = ravnest.Plan.read(node_data)
    assert plan.spares == plan.unused == (2,)
    assert [node.node for node in plan.nodes] == [0, 1, 3]
    assert not (node_data / "nodes" / "node_2.json").exists()
    result = run("pack", "node_2", cwd=tmp_path)
    assert result.returncode == 1 and "node_2 (0.0.0.0:8082) is a spare of this plan" in result.stderr
    with pytest.raises(Exception, match=r"is a spare of this plan.*use_all=True"):
        ravnest.Node(name="node_2", node_data=node_data, optimizer=torch.optim.SGD).start()
    result = run("plan", archive(DIGITS), "--use-all", cwd=tmp_path)
    assert "without node_2 (0.0.0.0:8082) the pool would train " in result.stdout, result.stderr
    assert len(ravnest.Plan.read(node_data).nodes) == 4


def test_a_dry_run_writes_nothing(planned, archive):
    folder, _ = planned
    before = (folder / "node_data" / "plan.json").read_bytes()
    result = run("plan", archive(DIGITS), "--dry-run", cwd=folder)
    assert result.returncode == 0 and "nothing was written" in result.stdout
    assert (folder / "node_data" / "plan.json").read_bytes() == before


def test_explain_shows_the_plan_that_is_there(planned):
    folder, printed = planned
    result = run("explain", cwd=folder)
    assert result.returncode == 0 and result.stdout in printed


def test_explain_without_a_plan_says_how_to_make_one(tmp_path):
    result = run("explain", cwd=tmp_path)
    assert result.returncode == 1 and "ravnest plan MODEL.pt2" in result.stderr


def test_a_packed_node_unpacks_on_another_machine(planned):
    folder, _ = planned
    assert run("pack", "node_1", cwd=folder).returncode == 0
    assert run("pack", "node_1", cwd=folder).returncode == 1  # it exists already
    assert (folder / "node_1.ravnest").stat().st_mode & 0o077 == 0
    other = folder / "other"
    other.mkdir()
    result = run("unpack", "../node_1.ravnest", cwd=other)
    assert result.returncode == 0, result.stderr
    here = Path("cluster_0/0.0.0.0:8081")
    for name in ("submod.pt", "identity.key", "submod_1_input.pkl"):
        assert (other / "node_data" / here / name).read_bytes() == (folder / "node_data" / here / name).read_bytes()
    assert not (other / "node_data" / "authority").exists()
    assert not (other / "node_data" / "cluster_0" / "0.0.0.0:8080").exists()
    assert run("explain", cwd=other).returncode == 0


def test_a_changed_package_is_refused_and_nothing_is_written(planned):
    folder, _ = planned
    assert run("pack", "node_2", cwd=folder).returncode == 0
    package = bytearray((folder / "node_2.ravnest").read_bytes())
    package[len(package) // 2] ^= 1
    (folder / "bad.ravnest").write_bytes(package)
    other = folder / "other"
    other.mkdir()
    assert run("unpack", "../bad.ravnest", cwd=other).returncode == 1
    assert not (other / "node_data" / "plan.json").exists()


def test_errors_are_one_sentence_and_leave_the_earlier_plan(planned, archive):
    folder, _ = planned
    before = (folder / "node_data" / "plan.json").read_bytes()
    cases = [
        (["plan", "nowhere.pt2"], "nowhere.pt2"),
        (["plan", archive(DIGITS), "--balance", "speed"], '"params", "time" or "memory"'),
        (["plan", archive(DIGITS), "--pool", "nowhere.json"], "nowhere.json"),
        (
            ["plan", archive(DIGITS), "--min-cluster-size", "50"],
            "at least 50 nodes (min_cluster_size), but the pool has 3",
        ),
        (["plan", archive(DIGITS), "--optimizer-state", "1e30"], "must be from 0 to 100 bytes per byte of weights"),
        (["plan", folder / "node_data/cluster_0/0.0.0.0:8081/submod.pt"], "is a stage of a model"),
    ]
    for arguments, part in cases:
        result = run(*arguments, cwd=folder)
        assert result.returncode == 1 and part in result.stderr, (arguments, result)
        assert result.stderr.startswith("ravnest: ") and len(result.stderr.strip().split("\n")) == 1
        assert (folder / "node_data" / "plan.json").read_bytes() == before


def test_a_file_limit_or_a_full_disk_leaves_the_earlier_plan(planned, archive):
    folder, _ = planned
    before = (folder / "node_data" / "plan.json").read_bytes()

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    result = subprocess.run(
        [COMMAND, "plan", archive(DIGITS)], cwd=folder, capture_output=True, text=True, timeout=60, preexec_fn=limit
    )
    assert result.returncode != 0
    assert (folder / "node_data" / "plan.json").read_bytes() == before
    assert run("explain", cwd=folder).returncode == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_read_only_node_data_is_refused_by_name(planned, archive):
    folder, _ = planned
    nobody = 65534
    for path in (folder, *folder.parents):
        if path != Path("/"):
            path.chmod(path.stat().st_mode | 0o055)
    model = folder / "model.pt2"
    shutil.copy(archive(DIGITS), model)
    before = (folder / "node_data" / "plan.json").read_bytes()
    result = run("plan", model, cwd=folder, user=nobody, group=nobody)
    if "error while loading" in result.stderr or "cannot execute" in result.stderr:
        pytest.skip("another user cannot run the command here")
    assert result.returncode == 1 and "node_data" in result.stderr, result
    assert (folder / "node_data" / "plan.json").read_bytes() == before


def test_simulate_compares_the_kept_plan_with_a_new_one(archive, tmp_path):
    scenario = {
        "nodes": [{"count": 6, "ram": 8, "bandwidth": 100, "compute": 100}],
        "events": [
            {"join": {"count": 2, "ram": 8, "bandwidth": 100, "compute": 100}},
            {"link": {"nodes": [0], "bandwidth": 1}},
        ],
    }
    (tmp_path / "scenario.json").write_text(json.dumps(scenario))
    result = run("simulate", archive(DIGITS), "scenario.json", "--svg", "plot.svg", "--json", "out.json", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "kept" in result.stdout and "anew" in result.stdout
    assert "<svg" in (tmp_path / "plot.svg").read_text()
    assert len(json.loads((tmp_path / "out.json").read_text())["steps"]) == 3


@pytest.mark.parametrize("command", ["plan", "explain", "pack", "unpack", "simulate", "benchmark"])
def test_help_has_an_example(command, tmp_path):
    result = run(command, "--help", cwd=tmp_path)
    assert result.returncode == 0 and f"ravnest {command}" in result.stdout
