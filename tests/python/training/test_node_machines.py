"""Two machines, each with its own part of the plan alone."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from support.machines import within
from support.nodes import end, start
from support.places import SCRIPTS
from support.small_net import make_net

import ravnest

pytestmark = pytest.mark.slow

SCRIPT = SCRIPTS / "node_script.py"
COMMAND = Path(sys.executable).parent / "ravnest"


def test_two_machines_train_one_model(machines, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    (first / "node_data").mkdir(parents=True)
    second.mkdir()
    hosts = ["10.77.0.1:9001", "10.77.0.2:9002", "10.77.0.1:9003"]
    pool = {i: {"IP": host, "benchmarks": {"ram": 8, "bandwidth": 1000}} for i, host in enumerate(hosts)}
    (first / "node_data/node_configs.json").write_text(json.dumps(pool))
    ravnest.clusterize(make_net(), (torch.randn(20, 12),), node_data=first / "node_data")
    subprocess.run([COMMAND, "pack", "node_1"], cwd=first, check=True, timeout=60, capture_output=True)
    package = next(first.glob("node_1*"))
    subprocess.run([COMMAND, "unpack", package], cwd=second, check=True, timeout=60, capture_output=True)

    where = {"node_0": (machines[0], first), "node_1": (machines[1], second), "node_2": (machines[0], first)}
    processes = {
        name: start(SCRIPT, name, folder, "3", within=within(machine)) for name, (machine, folder) in where.items()
    }
    try:
        outputs = {name: process.communicate(timeout=90)[0] for name, process in processes.items()}
    finally:
        end(processes.values())
    assert [process.returncode for process in processes.values()] == [0, 0, 0], outputs
    with pytest.raises(FileNotFoundError, match=r"node_1\.safetensors"):
        ravnest.model_fusion(trained=first / "trained")
    saved = Path("trained/cluster_0/node_1.safetensors")
    (first / saved).write_bytes((second / saved).read_bytes())
    path = ravnest.model_fusion(trained=first / "trained")
    make_net().load_state_dict(torch.load(path, weights_only=True), strict=True)
