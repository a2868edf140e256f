"""Checkpoints of runs on a GPU, and runs that go on from them: with the numbers of a run that was never ended."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from support.nodes import Cluster, end, outcomes, plan_graph, plan_net, start, wait_for
from support.places import SCRIPTS
from support.pools import write_local_pool
from support.ports import free_ports
from support.ranks import environment_of, start_process
from support.resuming import ONE_CYCLE, planned, run, tensors_of
from support.small_net import criterion, loaders, make_plain

import ravnest
from ravnest import Trainer

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")]

NODES = ["node_0", "node_1", "node_2"]


@pytest.fixture
def started():
    processes: dict[str, subprocess.Popen] = {}
    yield processes
    end(processes.values())


def ended_well(processes) -> dict[str, str]:
    ended = outcomes(processes, within_s=240)
    assert all(status == 0 for status, _ in ended.values()), ended
    return {name: output for name, (_, output) in ended.items()}


def start_ranks(processes: dict, world: int, folder: Path, **options) -> None:
    """Several of them by NCCL, each as on a host of its own: it refuses two ranks of one host on one GPU."""
    folder.mkdir(exist_ok=True)
    (port,) = free_ports(1)
    words = [sys.executable, SCRIPTS / "checkpointing_gpu_rank.py", json.dumps(options)]
    for rank in range(world):
        place = {} if world == 1 else environment_of(rank, world, port, local_world=1)
        own = place | {"NCCL_HOSTID": str(rank), "NCCL_SOCKET_IFNAME": "lo"}
        processes[f"rank_{rank}"] = start_process(words, folder, own)


def manifests(folder: Path) -> list[Path]:
    return sorted(folder.glob("checkpoints/**/manifest.json"))


def text_of_losses(folder: Path) -> str:
    return (folder / "losses.txt").read_text()


def same(one: dict, other: dict) -> None:
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        assert torch.equal(tensor.cpu(), other[name].cpu()), name


@pytest.mark.parametrize(
    ("world", "by", "options"),
    [
        (1, signal.SIGKILL, {}),
        (1, signal.SIGKILL, {"precision": "bf16", "optimizer": {"lr": 0.01}}),
        (1, signal.SIGTERM, {"precision": "fp16"}),
        (1, signal.SIGKILL, {"model": "large", "every": "2 updates", "epochs": 3}),
        (1, signal.SIGKILL, {"model": "large", "every": "2 updates", "epochs": 3, "precision": "bf16"}),
        (2, signal.SIGKILL, {"epochs": 8}),
        (2, signal.SIGTERM, {"epochs": 8, "precision": "bf16"}),
        (2, signal.SIGKILL, {"epochs": 8, "precision": "fp16"}),
        (2, signal.SIGKILL, {"epochs": 6, "model": "large", "every": "2 updates"}),
    ],
    ids=lambda value: (
        "_".join(str(each) for each in value.values() if isinstance(each, str | int))
        if isinstance(value, dict)
        else str(value)
    ),
)
def test_ranks_that_are_ended_go_on_to_the_bit(tmp_path, started, world, by, options):
    whole, ended = tmp_path / "whole", tmp_path / "ended"
    start_ranks(started, world, whole, **options)
    ended_well(started)
    start_ranks(started, world, ended, **options, delay_s=0.3 if options.get("model") == "large" else 0.05)
    wait_for(lambda: len(manifests(ended)) >= 3, "there are no checkpoints", within_s=240)
    started[f"rank_{world - 1}"].send_signal(by)
    before = outcomes(started, within_s=60)
    assert all((status == 0) == (by == signal.SIGTERM) for status, _ in before.values()), before
    assert len(text_of_losses(ended)) < len(text_of_losses(whole)), "it came to its end"
    start_ranks(started, world, ended, **options, resume=True)
    assert "goes on from the checkpoint of update" in ended_well(started)["rank_0"]
    assert text_of_losses(ended) == text_of_losses(whole)
    for rank in range(world):
        same(torch.load(ended / f"rank_{rank}.pt"), torch.load(whole / f"rank_{rank}.pt"))


def test_each_checkpoint_of_a_run_that_does_not_wait_for_them_leads_to_its_end(tmp_path, started):
    options = {"model": "large", "every": "1 updates", "epochs": 2, "precision": "bf16"}
    whole = tmp_path / "whole"
    start_ranks(started, 1, whole, **options)
    ended_well(started)
    updates = [json.loads(path.read_text())["updates"] for path in manifests(whole)]
    assert len(updates) >= 2, updates
    for update in updates[:-1][:4]:
        other = tmp_path / f"from_{update}"
        shutil.copytree(whole / "checkpoints", other / "checkpoints")
        shutil.copy(whole / "losses.txt", other)
        shutil.copy(whole / "val_accuracies.txt", other)
        start_ranks(started, 1, other, **options, resume=update)
        ended_well(started)
        assert text_of_losses(other) == text_of_losses(whole), update
        same(torch.load(other / "rank_0.pt"), torch.load(whole / "rank_0.pt"))


@pytest.mark.parametrize(
    ("node", "every", "stop_at"),
    [
        ({"schedule": "sync"}, "epoch", 17),
        ({"schedule": "sync", "optimizer_params": {"fused": True}, **ONE_CYCLE}, "5 updates", 17),
        ({"schedule": "sync", "update_frequency": 2, "recompute": True}, "3 updates", 10),
        ({"schedule": "gpipe", "microbatches": 2}, "3 updates", 10),
    ],
    ids=["sync", "fused_schedule", "accumulating_recompute", "gpipe"],
)
def test_pipelines_go_on_to_the_bit(tmp_path, monkeypatch, node, every, stop_at):
    node, keeping = node | {"device": "cuda"}, {"checkpoint_every": every}
    whole, ended = (planned(tmp_path / name, 2, 2) for name in ("whole", "ended"))
    monkeypatch.chdir(whole.folder)
    expected = tensors_of(run(whole, 3, trainer=keeping, **node))
    monkeypatch.chdir(ended.folder)
    run(ended, 3, stop_at, trainer=keeping, **node)
    again = tensors_of(run(ended, 3, trainer=keeping | {"resume": True}, **node))
    assert all(tensor.is_cuda for tensor in expected.values())
    same(again, expected)
    for file in ("losses.txt", "val_accuracies.txt"):
        assert (ended.folder / file).read_text() == (whole.folder / file).read_text(), file


def test_clusters_that_drain_go_on_to_the_bit(tmp_path, monkeypatch):
    rounds = {"average": "drain", "reduce_factor": 2, "outer": "nesterov", "compression": "int8"}
    node = {"device": "cuda", "schedule": "sync", "update_frequency": 2, **rounds}
    keeping = {"checkpoint_every": "4 updates", "shard": True}
    whole, ended = (planned(tmp_path / name, 4, 2) for name in ("whole", "ended"))
    monkeypatch.chdir(whole.folder)
    expected = run(whole, 3, batch=10, trainer=keeping, **node)
    monkeypatch.chdir(ended.folder)
    run(ended, 3, 12, batch=10, trainer=keeping, **node)
    again = run(ended, 3, batch=10, trainer=keeping | {"resume": True}, **node)
    for name, tensors in expected.items():
        same(again[name], tensors)


def test_nodes_of_a_pipeline_that_are_killed_go_on_to_the_bit(tmp_path, started):
    plan_net(tmp_path, 3)
    script = SCRIPTS / "checkpointing_script.py"

    def run_nodes(*arguments) -> None:
        started.update({name: start(script, name, tmp_path, *map(str, arguments), "--cuda") for name in NODES})

    run_nodes(3, "2 updates", "anew")
    ended_well(started)
    weights = torch.load(ravnest.model_fusion(trained=tmp_path / "trained"), weights_only=True)
    losses = text_of_losses(tmp_path)
    for folder in ("checkpoints", "trained"):
        shutil.rmtree(tmp_path / folder)
    run_nodes(3, "2 updates", "anew", 0.1)
    wait_for(lambda: len({path.parent.parent.name for path in manifests(tmp_path)}) == 3, "none", within_s=240)
    started["node_1"].kill()
    outcomes(started)
    run_nodes(3, "2 updates", "resume")
    assert all("goes on from the checkpoint of update" in output for output in ended_well(started).values())
    same(torch.load(ravnest.model_fusion(trained=tmp_path / "trained"), weights_only=True), weights)
    assert text_of_losses(tmp_path) == losses


def test_a_pipeline_goes_on_as_ranks_by_nccl_and_those_as_a_pipeline_also_on_the_cpu(tmp_path, started, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ravnest.capture(make_plain(), (torch.randn(20, 12),), path=tmp_path / "plain.pt2")
    write_local_pool(tmp_path / "node_data", 2)
    plan_graph(ravnest.load(tmp_path / "plain.pt2"), tmp_path / "node_data", min_cluster_size=2)
    train, val = loaders()

    def pipeline(epochs: int, device: str, resume=None) -> dict:
        def script(make):
            options = {"optimizer": torch.optim.AdamW, "criterion": criterion, "schedule": "sync", "device": device}
            with make(labels=train, test_labels=val, **options) as own:
                keeping = {"checkpoint": "checkpoints", "checkpoint_every": "4 updates", "checkpoint_keep": 0}
                Trainer(node=own, train_loader=train, val_loader=val, epochs=epochs, **keeping, resume=resume).train()
                return dict(own.named_parameters())

        ravnest.set_seed(42)
        stages = Cluster(tmp_path, 2).run(script)
        return {name: tensor.detach().cpu() for stage in stages.values() for name, tensor in stage.items()}

    def numbers() -> list[float]:
        return [float(line) for line in text_of_losses(tmp_path).split()]

    expected = pipeline(3, "cuda")
    undisturbed = numbers()
    start_ranks(started, 2, tmp_path, model="plain.pt2", epochs=2, every="10 updates", resume=4, batch=10, optimizer={})
    assert "goes on from the checkpoint of update 4 in checkpoints" in ended_well(started)["rank_0"]
    assert numbers() == pytest.approx(undisturbed[:14], abs=2e-4)
    shutil.copytree(tmp_path / "checkpoints", tmp_path / "kept")
    of_ranks = text_of_losses(tmp_path)
    for device in ("cuda", "cpu"):
        shutil.rmtree(tmp_path / "checkpoints")
        shutil.copytree(tmp_path / "kept", tmp_path / "checkpoints")
        (tmp_path / "losses.txt").write_text(of_ranks)
        again = pipeline(3, device, resume=10)
        assert numbers() == pytest.approx(undisturbed, abs=2e-4), device
        for name, tensor in expected.items():
            torch.testing.assert_close(again[name], tensor, rtol=1e-4, atol=1e-5, msg=f"{device} {name}")
