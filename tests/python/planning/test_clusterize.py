"""clusterize: the plan, its prints, its files and its errors, on real models."""

import json
import pickle
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from support import models
from support.chain import one_name_each, run_chain
from support.nodes import plan_graph
from support.passes import assert_equal, assert_same, assert_same_outputs, flat_inputs, loss_of, named
from support.places import TESTS
from support.pools import write_pool
from support.soaked import soaked

import ravnest
from ravnest.operations.utils import clusterize

FIXED_BLOCKS = """Node(0, Cluster(0)) 
self.IP(0.0.0.0:8080) 
Ring IDs({0: 'L__self___conv2d_1.weight'}) 
Address2Param({'0.0.0.0:8080': 'L__self___conv2d_1.weight'})


Node(1, Cluster(0)) 
self.IP(0.0.0.0:8081) 
Ring IDs({1: 'L__self___dense_1.weight'}) 
Address2Param({'0.0.0.0:8081': 'L__self___dense_1.weight'})


Node(2, Cluster(0)) 
self.IP(0.0.0.0:8082) 
Ring IDs({2: 'L__self___bn_3.weight'}) 
Address2Param({'0.0.0.0:8082': 'L__self___bn_3.weight'})
"""  # noqa: W291

DIGITS = models.ARCHITECTURES[0]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def plan_archive(path, node_data, **options):
    return plan_graph(ravnest.load(path), node_data, **options)._core


def test_the_fixed_example_gives_its_plan_and_its_output(folder, capsys):
    write_pool(folder / "node_data", [{"ram": 8, "bandwidth": 10}] * 3)
    ravnest.set_seed(42)
    plan = clusterize(DIGITS.build(), example_args=(torch.rand(64, 1, 8, 8),))
    printed = capsys.readouterr().out
    assert FIXED_BLOCKS in printed
    assert printed.startswith("Model Memory:  ")
    assert int(printed.split("\n")[0].split("  ")[1]) == -(-plan.memory_bytes // 10**6)
    assert len(plan.clusters) == 1
    assert [node.node for node in plan.clusters[0].nodes] == [0, 1, 2]
    assert [node.trainable for node in plan.nodes] == [4896, 8448, 3082]
    assert [node.module for node in plan.nodes] == ["conv2d_1", "dense_1", "bn_3"]
    assert [node.role for node in plan.nodes] == ["root", "stem", "leaf"]
    assert "Predicted: " in plan.explain()


@pytest.mark.parametrize("seeds", [10, *soaked(200)])
def test_the_fixed_example_is_the_same_for_all_seeds(archive, tmp_path, seeds):
    write_pool(tmp_path, [{"ram": 8, "bandwidth": 10}] * 3)
    path = archive(DIGITS)
    for seed in range(seeds):
        plan = plan_archive(path, tmp_path, seed=seed)
        assert plan.node_blocks() + "\n" == FIXED_BLOCKS
        assert [stage["trainable"] for stage in plan.clusters()[0]["stages"]] == [4896, 8448, 3082]


def test_the_older_example_needs_no_example_inputs(folder):
    write_pool(
        folder / "node_data",
        [{"ram": 128, "bandwidth": 20}, {"ram": 128, "bandwidth": 20}, {"ram": 64, "bandwidth": 40}],
    )
    plan = ravnest.clusterize(model=DIGITS.build())
    assert [[node.node for node in cluster.nodes] for cluster in plan.clusters] == [[0, 1, 2]]


def test_the_files_are_those_of_the_contract(folder):
    write_pool(folder / "node_data", [{"ram": 8, "bandwidth": 10}] * 3)
    plan = clusterize(DIGITS.build(), (torch.rand(64, 1, 8, 8),))
    for index, kind in enumerate(("root", "stem", "leaf")):
        node = json.loads(Path(f"node_data/nodes/node_{index}.json").read_text())
        assert node["node_id"] == index and node["node_type"] == kind
        assert node["local_host"] == "0.0.0.0" and node["local_port"] == 8080 + index
        assert node["template_path"] == f"node_data/cluster_0/0.0.0.0:{8080 + index}/"
        assert (node["rank"], node["ring_size"], node["cluster_length"]) == (0, 1, 3)
        assert node["forward_target_port"] == (8081 + index if index < 2 else None)
        assert node["backward_target_port"] == (8079 + index if index > 0 else None)
        own = plan.nodes[index]
        assert node["ring_ids"] == {str(ring): label for ring, label in own.ring_ids.items()}
        assert node["param_addresses"] == [own.param_addresses]
        here = Path(node["template_path"])
        assert (here / "identity.key").stat().st_mode & 0o777 == 0o600
        torch.export.load(str(here / "submod.pt"))
    first = Path("node_data/cluster_0/0.0.0.0:8080")
    last = Path("node_data/cluster_0/0.0.0.0:8082")
    assert pickle.loads((first / "model_inputs.pkl").read_bytes()) == {0: {"target": []}}
    assert pickle.loads((first / "submod_0_input.pkl").read_bytes()) == {0: {"model_inputs": 0}}
    assert pickle.loads((first / "submod_0_output.pkl").read_bytes()) == {0: {"target": [1]}}
    assert pickle.loads((last / "submod_2_input.pkl").read_bytes()) == {0: {1: 0}}
    assert pickle.loads((last / "submod_2_output.pkl").read_bytes()) == {0: {"target": []}}
    assert not (last / "model_inputs.pkl").exists()
    assert ravnest.Plan.read().explain() == plan.explain()


def stages_of(node_data, cluster):
    return [
        ravnest.load(node_data / f"cluster_{cluster['stages'][0]['cluster']}" / stage["address"] / "submod.pt")
        for stage in cluster["stages"]
    ]


def check_gradients(case, path, node_data, plan):
    """The chain of every cluster's stages, read from its files, gives the whole model's loss and gradients."""
    args, kwargs = case.example()
    whole = ravnest.load(path)
    outputs = whole(*args, **kwargs)
    loss = loss_of(outputs)
    loss.backward()
    expected = {}
    for name, parameter in whole.named_parameters(remove_duplicate=False):
        if parameter.grad is not None:
            expected.setdefault(id(parameter), (name, parameter.grad))
    seen = set()
    for cluster in plan.clusters():
        cuts = tuple(stage["begin"] for stage in cluster["stages"])
        if cuts in seen:
            continue
        seen.add(cuts)
        stages = stages_of(node_data, cluster)
        assert all(named(stage)[0] for stage in stages)
        chain_outputs, chain_loss, grads = run_chain(stages, flat_inputs(args, kwargs))
        assert_same_outputs(chain_outputs, outputs, f"cuts {cuts}: output")
        assert_equal(chain_loss.detach(), loss.detach(), f"cuts {cuts}: loss")
        grads = one_name_each(grads, named(whole)[0])
        assert grads.keys() == dict(expected.values()).keys()
        for name, gradient in expected.values():
            # Where stages of several branches read one tensor, its gradients are added in another order. What that
            # makes of a batch norm's bias, a sum over all pixels, is rounding: in double precision it is 3e-14.
            tolerance = 1e-4 * gradient.abs().max().item()
            difference = (grads[name] - gradient).abs().max().item()
            assert difference <= tolerance, f"cuts {cuts}: gradient of {name} differs by {difference}"


@pytest.mark.parametrize("nodes", [3, *soaked(2, 5, 8)])
@pytest.mark.parametrize("case", models.ARCHITECTURES, ids=lambda case: case.name)
def test_every_architecture_on_so_many_nodes_keeps_its_gradients(case, nodes, archive, tmp_path):
    path = archive(case)
    write_pool(tmp_path, [{"ram": 4 + i % 3, "bandwidth": 100, "compute": 50 * (1 + i % 2)} for i in range(nodes)])
    for options in ({}, {"min_cluster_size": nodes}, {"min_cluster_size": nodes, "balance": "params"}):
        try:
            plan = plan_archive(path, tmp_path, **options)
        except ValueError as error:
            # A model with fewer places to cut than nodes; then smaller clusters must do.
            assert "min_cluster_size" in options and "can be cut into at most" in str(error)
            continue
        used = sorted(stage["node"] for cluster in plan.clusters() for stage in cluster["stages"])
        assert sorted(used + list(plan.unused)) == list(range(nodes))
        for cluster in plan.clusters():
            for stage in cluster["stages"]:
                assert stage["end"] > stage["begin"] and stage["parameters"] > 0
                assert stage["memory"]["total"] <= stage["ram"] * 1e9
        check_gradients(case, path, tmp_path, plan)


def test_a_scripted_module_and_an_exported_program_are_planned_too(folder):
    write_pool(folder / "node_data", [{"ram": 8, "bandwidth": 10}] * 3)
    model = DIGITS.build()
    example = (torch.rand(64, 1, 8, 8),)
    scripted = clusterize(torch.jit.script(model), example)
    exported = clusterize(torch.export.export(model, example))
    for plan in (scripted, exported):
        assert [node.trainable for node in plan.nodes] == [4896, 8448, 3082]


def test_memory_can_be_measured_by_a_pass(folder):
    write_pool(folder / "node_data", [{"ram": 8, "bandwidth": 10}] * 3)
    model = DIGITS.build()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    measured = clusterize(model, (torch.rand(64, 1, 8, 8),), pass_data=True)
    estimated = clusterize(model, (torch.rand(64, 1, 8, 8),))
    assert 0.5 < measured.memory_bytes / estimated.memory_bytes < 2
    assert_same(model.state_dict(), before, "state of")


def test_the_seed_of_set_seed_is_the_plans(folder):
    write_pool(folder / "node_data", [{"ram": 1 + i, "bandwidth": 10 + i} for i in range(7)])
    seeds = []
    for seed in (3, 4):
        ravnest.set_seed(seed)
        clusterize(DIGITS.build(), (torch.rand(64, 1, 8, 8),))
        seeds.append(json.loads(Path("node_data/plan.json").read_text())["seed"])
    assert seeds == [3, 4]


def test_too_little_ram_is_a_value_error_with_both_numbers(folder):
    write_pool(folder / "node_data", [{"ram": 0.0002, "bandwidth": 10}] * 3)
    with pytest.raises(ValueError, match=r"3 nodes have 600 kB of RAM in all, but training this model takes [\d.]+ MB"):
        clusterize(DIGITS.build(), (torch.rand(64, 1, 8, 8),))
    assert [entry.name for entry in Path("node_data").iterdir()] == ["node_configs.json"]


def test_a_bad_pool_file_is_told_before_anything_else(folder):
    node_data = folder / "node_data"
    with pytest.raises(FileNotFoundError, match=r"node_configs\.json"):
        clusterize(None)
    write_pool(node_data, [{"ram": 8, "bandwidth": 10}, {"ram": 0, "bandwidth": 10}])
    with pytest.raises(
        ValueError, match=r"node_configs.json.1.benchmarks.ram: expected a positive number \(GB\), got 0"
    ):
        clusterize(None)
    assert [entry.name for entry in node_data.iterdir()] == ["node_configs.json"]


def test_a_bad_balance_is_a_value_error(folder):
    write_pool(folder / "node_data", [{"ram": 8, "bandwidth": 10}] * 3)
    with pytest.raises(ValueError, match='"params", "time" or "memory", not "speed"'):
        clusterize(DIGITS.build(), (torch.rand(64, 1, 8, 8),), balance="speed")


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ({"average_every": 0}, "averagings must be from 1 to"),
        ({"optimizer_state": -1.0}, "state must be from 0 to 100"),
        ({"optimizer_state": 1e30}, "state must be from 0 to 100"),
        ({"optimizer_state": float("nan")}, "state must be from 0 to 100"),
        ({"min_cluster_size": 0}, "min_cluster_size must be from 1"),
        ({"min_cluster_size": 50}, r"at least 50 nodes \(min_cluster_size\), but the pool has 3"),
    ],
)
def test_a_bad_number_is_a_value_error(option, sentence, archive, tmp_path):
    write_pool(tmp_path, [{"ram": 8, "bandwidth": 10}] * 3)
    with pytest.raises(ValueError, match=sentence):
        plan_archive(archive(DIGITS), tmp_path, **option)
    assert not (tmp_path / "plan.json").exists()


@pytest.mark.parametrize(
    ("option", "kind", "sentence"),
    [
        ({"min_cluster_size": 10**30}, ValueError, "min_cluster_size must be at most 1000000, not 1000000"),
        ({"average_every": 2.5}, TypeError, "average_every must be a whole number, not 2.5"),
        ({"optimizer_state": "2"}, TypeError, "optimizer_state must be a number, not '2'"),
    ],
)
def test_an_argument_that_is_no_such_number_is_told_before_the_model_is_captured(option, kind, sentence, folder):
    write_pool(folder / "node_data", [{"ram": 8, "bandwidth": 10}] * 3)
    with pytest.raises(kind, match=sentence):
        clusterize(None, **option)


def test_a_failed_plan_leaves_the_earlier_one(folder):
    node_data = folder / "node_data"
    write_pool(node_data, [{"ram": 8, "bandwidth": 10}] * 3)
    first = clusterize(DIGITS.build(), (torch.rand(64, 1, 8, 8),))
    write_pool(node_data, [{"ram": 0.0005, "bandwidth": 10}] * 3)
    with pytest.raises(ValueError, match="RAM"):
        clusterize(DIGITS.build(), (torch.rand(64, 1, 8, 8),))
    assert ravnest.Plan.read().id == first.id


@pytest.mark.parametrize("delay", [0.03, *soaked(0.0, 0.01, 0.06, 0.1)])
def test_a_plan_that_is_killed_half_way_leaves_the_earlier_or_the_new_one(archive, tmp_path, delay):
    path = archive(DIGITS)
    write_pool(tmp_path, [{"ram": 8, "bandwidth": 10}] * 3)
    plan_archive(path, tmp_path)
    script = f"""
import sys
sys.path.insert(0, {str(TESTS)!r})
import ravnest
from support.places import TESTS
from support.nodes import plan_graph
print("ready", flush=True)
while True:
    plan_graph(ravnest.load({str(path)!r}), {str(tmp_path)!r})
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.05 + delay)
        process.kill()
        process.wait(timeout=30)
    plan = ravnest.Plan.read(tmp_path)
    stages = stages_of(tmp_path, plan._core.clusters()[0])
    assert [sum(p.numel() for p in stage.parameters()) for stage in stages] == [4896, 8448, 3082]
    for node in plan.nodes:
        stored = tmp_path / "cluster_0" / node.address / "identity.crt"
        certificate = ssl.PEM_cert_to_DER_cert(stored.read_text())
        assert f"ravnest plan {plan.id}".encode() in certificate
