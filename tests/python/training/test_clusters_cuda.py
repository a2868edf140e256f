"""Clusters on a GPU: their weights travel through pinned memory, and come out as on the CPU."""

import pytest
import torch
from support.nodes import Cluster, plan
from test_clusters import accumulated, assert_all_alike, clusters, data_of, script
from torch import nn

from ravnest import Trainer

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def test_clusters_that_drain_are_one_process_that_accumulates(tmp_path):
    run = clusters(tmp_path, 5, [2, 3], compute=[30] * 2 + [20] * 3)
    run.run(script(device="cuda"))
    first = assert_all_alike(tmp_path, 2)
    for name, tensor in accumulated(2).state_dict().items():
        assert torch.allclose(first[name].cpu().double(), tensor.double(), atol=1e-5), name


def test_clusters_that_train_on_while_they_average_end_alike(tmp_path):
    run = clusters(tmp_path, 4, [2, 2])
    adam = {"optimizer": torch.optim.Adam, "optimizer_params": {"lr": 0.01}, "average_optim": True}
    run.run(script(epochs=4, average="overlap", schedule="async", device="cuda", **adam))
    assert_all_alike(tmp_path, 2)


def test_weights_of_more_than_a_block_and_weights_in_other_orders_arrive_whole(tmp_path):
    model = nn.Sequential(
        nn.Unflatten(1, (3, 2, 2)),
        nn.Conv2d(3, 8, 2).to(memory_format=torch.channels_last),
        nn.Flatten(),
        nn.Linear(8, 4200),
        nn.Linear(4200, 4200, bias=False),  # 17.6 million, where a block has 16.8
        nn.Linear(4200, 5),
    )
    results = {}
    for device in ("cpu", "cuda"):
        folder = tmp_path / device
        folder.mkdir()
        plan(folder, model, (torch.randn(20, 12),), nodes=2, min_cluster_size=1)

        def play(make, device=device):
            with make(
                optimizer=torch.optim.SGD,
                optimizer_params={"lr": 0.01},
                criterion=lambda outputs, item: nn.functional.cross_entropy(outputs, item[1]),
                average="drain",
                reduce_factor=1,
                schedule="sync",
                device=device,
            ) as node:
                node.labels = data_of(node.cluster_id)
                Trainer(node=node, train_loader=node.labels, save=True, shard=False).train()

        Cluster(folder, 2).run(play)
        results[device] = assert_all_alike(folder, 2)
    for name, tensor in results["cpu"].items():
        assert torch.allclose(results["cuda"][name].cpu(), tensor, atol=1e-4), name
