"""What users write, for ranks that make checkpoints.

    checkpointing_rank.py EPOCHS EVERY [RESUMES [BATCH [NAME [PLACE]]]]

Trains NAME.pt2, once for each of RESUMES with commas between; checkpoints go to PLACE. Rank 0 leaves in NAME_I.pt what
the I-th has come to.
"""

import sys
from pathlib import Path

import torch
from support.small_net import criterion, loaders

from ravnest import Node, Trainer, set_seed

epochs, every = int(sys.argv[1]), sys.argv[2]
resumes, batch, name, place = (*sys.argv[3:], *("", "20", "plain", "checkpoints")[len(sys.argv) - 3 :])

set_seed(42)
torch.set_num_threads(1)
train, val = loaders(batch=int(batch))
rates = {
    "lr_scheduler": torch.optim.lr_scheduler.OneCycleLR,
    "lr_scheduler_params": {"max_lr": 0.01, "total_steps": 100},
    "lr_step_on_epoch_change": False,
    "update_frequency": 2,
}

for number, resume in enumerate(resumes.split(",")):
    with Node(
        strategy="ddp",
        model=f"{name}.pt2",
        optimizer=torch.optim.AdamW,
        criterion=criterion,
        labels=train,
        test_labels=val,
        **(rates if name == "noisy" else {}),
    ) as node:
        Trainer(
            node=node,
            train_loader=train,
            val_loader=val,
            epochs=epochs,
            checkpoint=place,
            checkpoint_every=every,
            checkpoint_keep=0,
            resume=resume or None,
        ).train()
        if node.rank == 0:
            state = {key: tensor.detach().clone() for key, tensor in node.state_dict().items()}
            losses = Path("losses.txt").read_text()
            torch.save({"state": state, "losses": losses}, f"{name}_{number}.pt")
