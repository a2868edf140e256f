"""The small network on this rank, trained once with each choice of options: rank_options.py.

Writes NAME/rank_K.pt, with the state and the losses of the run of that name.
"""

import sys
from pathlib import Path

import torch
from support.small_net import criterion, loaders, make_net

import ravnest
from ravnest import Node, Trainer

RUNS = {
    "plain": ({}, {}),
    "int8": ({"compression": "int8"}, {}),
    "own_buffers": ({"broadcast_buffers": False}, {}),
    "whole_loader": ({}, {"shard": False}),
}


def train(name: str) -> None:
    of_node, of_trainer = RUNS[name]
    loader, _ = loaders(shuffle=False)
    losses = []

    def noted(outputs, targets):
        loss = criterion(outputs, targets)
        losses.append(loss.item())
        return loss

    folder = Path(name)
    folder.mkdir(exist_ok=True)
    with Node(
        strategy="ddp",
        model=make_net(),
        example_args=(torch.rand(20, 12),),
        optimizer=torch.optim.SGD,
        optimizer_params={"lr": 0.1},
        criterion=noted,
        labels=loader,
        loss_filename=str(folder / "losses.txt"),
        progress=False,
        **of_node,
    ) as node:
        Trainer(node=node, train_loader=loader, epochs=5, **of_trainer).train()
        state = {key: tensor.detach().clone() for key, tensor in node.state_dict().items()}
        torch.save({"state": state, "losses": losses}, folder / f"rank_{node.rank}.pt")


ravnest.set_seed(0)
torch.set_num_threads(1)
for run in sys.argv[1:] or RUNS:
    train(run)
