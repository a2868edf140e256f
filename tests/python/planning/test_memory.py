"""What a plan says of memory is what processes take: nodes train under limits that kill one process alone."""

import contextlib
import json
import signal
import subprocess
import sys

import pytest
import torch
from support import command
from support.control_groups import MemoryLimit
from support.models import ARCHITECTURES
from support.nodes import end, outcomes, start
from support.places import ROOT, SCRIPTS
from support.pools import write_local_pool
from support.scripts.memory_node import BATCH, WIDTH, make_model

import ravnest

pytestmark = pytest.mark.slow

SCRIPT = SCRIPTS / "memory_node.py"
LAYERS, RAM_GB = 6, 0.23  # of a node, beside what its process takes
# 63 million parameters
LARGE = (15, 0.61)


@pytest.fixture(scope="module")
def process_gb(tmp_path_factory) -> float:
    """What a process takes without a model: it differs by a quarter from one processor, or kernel, to another."""
    measured = command.run("benchmark", "--bandwidth", 1000, cwd=tmp_path_factory.mktemp("benchmark"))
    assert measured.returncode == 0, measured.stderr
    return json.loads(measured.stdout[measured.stdout.index("{") :])["benchmarks"]["process"]


def plan_for(layers: int, ram_gb: float, folder, **benchmarks) -> ravnest.Plan:
    write_local_pool(folder / "node_data", 3, ram=ram_gb, **benchmarks)
    return ravnest.clusterize(make_model(layers), (torch.randn(BATCH, WIDTH),), node_data=folder / "node_data")


@contextlib.contextmanager
def limited(ram_gb: float):
    """name -> a command's begin, under the limit of a node; all limits go when the processes have."""
    limits = {}
    try:
        for name in ("alone", "node_0", "node_1", "node_2"):
            limits[name] = MemoryLimit(int(ram_gb * 1e9), name)
    except RuntimeError as error:
        pytest.skip(str(error))
    try:
        yield {name: limit.within for name, limit in limits.items()}
    finally:
        for limit in limits.values():
            limit.__exit__()


def trained_by_nodes(layers: int, planned: ravnest.Plan, folder, within=None) -> None:
    """All nodes have trained, and none has taken anything else than the plan says."""
    processes = {}
    try:
        for node in planned.nodes:
            processes[node.name] = start(SCRIPT, node.name, folder, within=(within or {}).get(node.name, ()))
        results = outcomes(processes)
    finally:
        end(processes.values())
    for node in planned.nodes:
        status, output = results[node.name]
        assert status == 0, f"{node.name}: {output}"
        peak = int(output.split("peak")[1].split()[0])
        assert 0.9 < peak / node.memory["total"] < 1.1, f"{node.name} took {peak}, planned {node.memory}"


def test_nodes_take_what_the_plan_says(process_gb, tmp_path):
    planned = plan_for(LAYERS, RAM_GB + process_gb, tmp_path, process=process_gb)
    trained_by_nodes(LAYERS, planned, tmp_path)


@pytest.mark.parametrize(("layers", "ram_gb"), [(LAYERS, RAM_GB), pytest.param(*LARGE, marks=pytest.mark.soak)])
def test_three_nodes_train_what_kills_one_process(layers, ram_gb, process_gb, tmp_path):
    ram_gb += process_gb
    planned = plan_for(layers, ram_gb, tmp_path, process=process_gb)
    with limited(ram_gb) as within:
        words = [*within["alone"], sys.executable, SCRIPT, str(layers), "alone"]
        alone = subprocess.run(words, capture_output=True, timeout=120, check=False)
        assert alone.returncode == -signal.SIGKILL, alone
        trained_by_nodes(layers, planned, tmp_path, within)


@pytest.mark.soak
@pytest.mark.parametrize("case", ARCHITECTURES, ids=lambda case: case.name)
def test_nodes_of_any_model_take_what_the_plan_says(case, process_gb):
    words = [sys.executable, ROOT / "benchmarks/memory.py", "--only", case.name, "--process", str(process_gb)]
    measured = subprocess.run(words, capture_output=True, text=True, timeout=600, check=True).stdout
    ratios = {line.split()[0]: float(line.split()[3]) for line in measured.splitlines() if line.endswith("0.9..1.1")}
    assert len(ratios) == 3 and all(0.9 < ratio < 1.1 for ratio in ratios.values()), ratios


def test_what_a_process_takes_is_part_of_the_plan(tmp_path):
    planned = plan_for(LAYERS, 0.52, tmp_path)
    assert planned.clusters[0].window == 3, "where RAM is short, no more passes than stages"
    for node in planned.nodes:
        assert node.memory["process"] == 290_000_000
        assert node.memory["total"] == sum(size for part, size in node.memory.items() if part != "total")
        assert node.memory["total"] <= node.ram * 1e9


def test_ram_that_is_less_than_a_process_takes_is_told_with_both_numbers(tmp_path):
    write_local_pool(tmp_path, 2, ram=0.2)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8))
    with pytest.raises(ValueError, match=r"400 MB of RAM, but .* of which 580 MB the process"):
        ravnest.clusterize(model, (torch.rand(4, 8),), node_data=tmp_path)
    write_local_pool(tmp_path, 2, ram=0.2, process=0.1)
    plan = ravnest.clusterize(model, (torch.rand(4, 8),), node_data=tmp_path)
    assert {node.memory["process"] for node in plan.nodes} == {100_000_000}
