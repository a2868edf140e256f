"""Pipelines on a GPU: the same training as on the whole model there, by reference and over sockets."""

import pytest
import torch
from support.digits_model import digits_data, digits_model
from support.ports import free_addresses
from torch.nn.functional import mse_loss

import ravnest
from ravnest import LocalCluster

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

STEPS = 30


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    torch.manual_seed(0)
    (images, _), _ = digits_data()
    return ravnest.capture(digits_model(), (images[:64],), {}, tmp_path_factory.mktemp("digits") / "digits.pt2")


def batches():
    (images, targets), _ = digits_data()
    for step in range(STEPS):
        rows = slice(step % 16 * 64, step % 16 * 64 + 64)
        yield images[rows].cuda(), targets[rows].cuda()


def whole_losses(archive) -> list[float]:
    graph = ravnest.load(archive).to("cuda")
    graph.seed = 42
    optimizer = torch.optim.Adam([each for each in graph.parameters() if each.requires_grad], fused=True)
    losses = []
    for x, y in batches():
        optimizer.zero_grad()
        loss = mse_loss(graph(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("sockets", [False, True])
@pytest.mark.parametrize("recompute", [False, True])
def test_stages_on_a_gpu_train_as_the_whole_model_does(archive, sockets, recompute):
    stages = ravnest.load(archive).to("cuda").slice(["dense_1", "bn_3"])
    addresses = free_addresses(3) if sockets else []
    cluster = LocalCluster(
        stages, mse_loss, "Adam", {"fused": True}, schedule="sync", seed=42, addresses=addresses, recompute=recompute
    )
    with cluster:
        for x, y in batches():
            cluster.train(x, y)
        losses = [report["loss"] for report in cluster.drain(120)]
    torch.testing.assert_close(losses, whole_losses(archive), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("compression", ["none", "int8"])
def test_asynchronous_stages_on_a_gpu_learn(archive, compression):
    stages = ravnest.load(archive).to("cuda").slice(["dense_1", "bn_3"])
    with LocalCluster(stages, mse_loss, "Adam", {"fused": True}, compression=compression) as cluster:
        for _ in range(4):
            for x, y in batches():
                cluster.train(x, y)
        losses = [report["loss"] for report in cluster.drain(120)]
    assert sum(losses[-10:]) < 0.7 * sum(losses[:10])
