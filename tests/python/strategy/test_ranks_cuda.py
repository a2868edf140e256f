"""Data-parallel runs on a GPU, by NCCL. Needs a GPU; one is enough for several ranks, see `start`.

How fast several ranks of one GPU are says nothing: they share it, and NCCL takes its path over the network.
"""

import random
import signal
import subprocess
import sys

import pytest
import torch
from support import models
from support.endings import Run, end_one, interrupt_all
from support.nodes import wait_for
from support.passes import assert_equal, assert_same, flat_inputs, loss_of
from support.places import SCRIPTS
from support.ports import free_ports
from support.rank_cases import (
    CASES,
    CURVES,
    In16Bits,
    OneProcess,
    RankCase,
    assert_parameters_of,
    losses_of_updates,
)
from support.ranks import environment_of, start_process
from support.small_net import criterion, loaders, make_net

import ravnest
from ravnest import Node, Trainer, _core

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")]
SEED, STEP = 7, 3


def start(world: int, rank: int, port: int, folder, script: str, *arguments) -> subprocess.Popen:
    """NCCL refuses two ranks of one host on one GPU, and so do we: each has a host of its own, as both are told."""
    environment = environment_of(rank, world, port, local_world=1)
    environment |= {"NCCL_HOSTID": str(rank), "NCCL_SOCKET_IFNAME": "lo"}
    return start_process([sys.executable, SCRIPTS / script, *arguments], folder, environment)


@pytest.fixture(scope="module")
def ran(tmp_path_factory, archive):
    """(world, cases) -> the folder of a run of all those cases, which is made once."""
    folders = {}

    def run(world: int, cases: list[RankCase]):
        key = (world, cases[0].name)
        if key in folders:
            return folders[key]
        folder = folders[key] = tmp_path_factory.mktemp(f"world_{world}")
        archives = next(iter({archive(case.model) for case in cases})).rpartition("/")[0]
        (port,) = free_ports(1)
        names = [case.name for case in cases]
        words = ["rank_numbers.py", world, archives, "--cuda", *names]
        ranks = [start(world, rank, port, folder, *words) for rank in range(world)]
        try:
            for rank in ranks:
                output, _ = rank.communicate(timeout=480)
                assert rank.returncode == 0, output
        finally:
            for rank in ranks:
                rank.kill()
        return folder

    return run


@pytest.fixture(autouse=True)
def exact():
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.allow_tf32 = False


@pytest.mark.parametrize("case", models.ALL, ids=lambda case: case.name)
def test_a_chain_gives_the_numbers_of_the_uncut_graph(case, archive):
    path = archive(case)
    args, kwargs = case.example()
    inputs = [each.cuda() if isinstance(each, torch.Tensor) else each for each in flat_inputs(args, kwargs)]

    def step(cuts):
        core = _core.load(path)
        core.to("cuda")
        criterion_of = lambda outputs: loss_of([each for each in outputs if isinstance(each, torch.Tensor)])  # noqa: E731
        loss, gradients = _core.chain_step(core, cuts, inputs, criterion_of, seed=SEED, step=STEP)
        return loss.detach(), gradients, core.buffers()

    loss, gradients, buffers = step([])
    core = _core.load(path)
    for cuts in (_core.unit_cuts(core, most_units=4, least_bytes=1), _core.unit_cuts(core, blocks=True)):
        own, found, changed = step(cuts)
        assert_equal(own, loss, f"cuts {cuts}: loss")
        assert_same(found, gradients, f"cuts {cuts}: gradient of")
        for name, buffer in changed.items():
            assert_equal(buffer, buffers[name], f"cuts {cuts}: buffer {name}")


@pytest.mark.parametrize("world", [1, 2, 4])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_ranks_have_the_numbers_of_one_process(ran, archive, case, world):
    folder = ran(world, CASES) / case.name
    one = OneProcess(case, ravnest.load(archive(case.model)), world, "cuda")
    losses = one.run()
    states = [torch.load(folder / f"rank_{rank}.pt") for rank in range(world)]
    for name, parameter in one.module.named_parameters():
        assert all(torch.equal(state[name], states[0][name]) for state in states), name
        if world <= 2:
            assert torch.equal(states[0][name], parameter.detach().cpu()), name
    assert losses_of_updates(folder, case, world) == pytest.approx(losses[:-1], rel=1e-6)
    assert_parameters_of(one, states[0])


@pytest.mark.parametrize("world", [1, 2, 4])
@pytest.mark.parametrize("case", CURVES, ids=lambda case: case.name)
def test_losses_in_16_bits_are_those_of_the_policy_by_hand(ran, archive, case, world):
    folder = ran(world, CURVES) / case.name
    losses = In16Bits(case, ravnest.load(archive(case.model)), world, "cuda").run()
    written = [float(line) for line in (folder / "losses.txt").read_text().splitlines()]
    assert len(written) == case.steps
    assert written == pytest.approx(losses, rel=0.01, abs=1e-4)


@pytest.fixture(scope="module")
def long(tmp_path_factory) -> Run:
    """A run of two ranks that goes on for hours."""
    folder = tmp_path_factory.mktemp("long")

    def begin(processes: dict) -> None:
        losses = folder / "losses.txt"
        losses.unlink(missing_ok=True)
        (port,) = free_ports(1)
        processes.update(
            {f"rank_{i}": start(2, i, port, folder, "rank_script.py", "long", 0, "--cuda") for i in (0, 1)}
        )
        wait_for(losses.exists, "nothing is trained")

    return Run(["rank_0", "rank_1"], begin, lambda name: f"rank {name[-1]} (127.0.0.1)")


@pytest.mark.parametrize("victim", ["rank_0", "rank_1"])
@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGINT], ids=lambda by: by.name)
def test_a_rank_that_is_gone_ends_all_that_nccl_connects(long, victim, by):
    ended = end_one(long, victim, by, after_s=random.uniform(0, 1))
    assert "exchange their gradients by NCCL" in ended["rank_0"][1]


def test_ctrl_c_to_all_that_nccl_connects_ends_each_with_its_sentence(long):
    interrupt_all(long, after_s=0.2)


def test_tf32_is_another_multiplication_than_exact_float32(tmp_path):
    def trained(float32):
        loader, _ = loaders(shuffle=False)
        with Node(
            strategy="ddp",
            model=make_net(),
            example_args=(torch.rand(20, 12),),
            optimizer=torch.optim.SGD,
            optimizer_params={"lr": 0.1},
            criterion=criterion,
            labels=loader,
            device="cuda",
            float32=float32,
            loss_filename=str(tmp_path / "losses.txt"),
            progress=False,
        ) as node:
            Trainer(node=node, train_loader=loader, epochs=1).train()
            return [parameter.detach().cpu() for parameter in node.parameters()]

    exact, again, tf32 = trained("exact"), trained("exact"), trained("tf32")
    assert all(map(torch.equal, exact, again))
    assert not all(map(torch.equal, exact, tf32))
    for parameter, other in zip(exact, tf32, strict=True):
        torch.testing.assert_close(parameter, other, rtol=0.02, atol=0.02)
