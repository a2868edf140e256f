"""What users write, for ranks that make checkpoints: checkpointing_rank.py EPOCHS EVERY [RESUME [BATCH [NAME]]].

Leaves in NAME.pt, by rank 0, what the run has come to. The network has dropout and batch norm where NAME is "noisy".
"""

import sys

import torch
from support.small_net import criterion, loaders, make_dropping, make_plain

from ravnest import Node, Trainer, set_seed

epochs, every = int(sys.argv[1]), sys.argv[2]
resume, batch, name = (*sys.argv[3:], *("", "20", "plain")[len(sys.argv) - 3 :])

set_seed(42)
torch.set_num_threads(1)
train, val = loaders(batch=int(batch))
noisy = name == "noisy"
rates = {
    "lr_scheduler": torch.optim.lr_scheduler.OneCycleLR,
    "lr_scheduler_params": {"max_lr": 0.01, "total_steps": 100},
    "lr_step_on_epoch_change": False,
    "update_frequency": 2,
}

with Node(
    strategy="ddp",
    model=make_dropping() if noisy else make_plain(),
    example_args=(torch.rand(20, 12),),
    optimizer=torch.optim.AdamW,
    criterion=criterion,
    labels=train,
    test_labels=val,
    **(rates if noisy else {}),
) as node:
    Trainer(
        node=node,
        train_loader=train,
        val_loader=val,
        epochs=epochs,
        checkpoint="checkpoints",
        checkpoint_every=every,
        checkpoint_keep=0,
        resume=resume or None,
    ).train()
    if node.rank == 0:
        torch.save({key: tensor.detach().clone() for key, tensor in node.state_dict().items()}, f"{name}.pt")
