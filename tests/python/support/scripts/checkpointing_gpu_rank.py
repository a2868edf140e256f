"""What users write, for ranks on a GPU that make checkpoints: checkpointing_gpu_rank.py OPTIONS, as JSON."""

import json
import os
import sys

import torch
from support.small_net import criterion, loaders, make_dropping, slow_criterion
from torch import nn

from ravnest import Node, Trainer, set_seed

given = {"model": "dropping", "epochs": 4, "every": "3 updates", "precision": "float32", "resume": False, "delay_s": 0}
given |= {"batch": 20, "optimizer": {"lr": 0.01, "fused": True}} | json.loads(sys.argv[1])


def make_large() -> nn.Module:
    """Of a size whose snapshot is still being written when the next updates come."""
    torch.manual_seed(0)
    wide = [layer for _ in range(4) for layer in (nn.Linear(1500, 1500), nn.GELU(), nn.Dropout(0.1))]
    return nn.Sequential(nn.Linear(12, 1500), *wide, nn.Linear(1500, 5))


MODELS = {"dropping": make_dropping, "large": make_large}

set_seed(42)
torch.set_num_threads(1)
torch.backends.cudnn.deterministic = True
train, val = loaders(batch=given["batch"])
several = int(os.environ.get("WORLD_SIZE", "1")) > 1

with Node(
    strategy="ddp",
    model=MODELS[given["model"]]() if given["model"] in MODELS else given["model"],
    example_args=(torch.randn(20, 12),),
    optimizer=torch.optim.AdamW,
    optimizer_params=given["optimizer"],
    criterion=slow_criterion(given["delay_s"]) if given["delay_s"] else criterion,
    labels=train,
    test_labels=val,
    device="cuda",
    precision=given["precision"],
    backend="nccl" if several else "auto",
    trusted_network=several,
    progress=False,
) as node:
    Trainer(
        node=node,
        train_loader=train,
        val_loader=val,
        epochs=given["epochs"],
        checkpoint="checkpoints",
        checkpoint_every=given["every"],
        checkpoint_keep=0,
        resume=given["resume"],
    ).train()
    torch.save({name: tensor.detach().cpu() for name, tensor in node.state_dict().items()}, f"rank_{node.rank}.pt")
    print("trained", flush=True)
