"""What users write: checkpointing_script.py EPOCHS EVERY RESUME [SECONDS_PER_BATCH]; nodes have a folder each.

Where the plan has several clusters, each trains on its share, and they drain for rounds.
With --cuda as the last word they compute on the GPU.
"""

import os
import sys

import torch
from support.small_net import criterion, loaders, slow_criterion

from ravnest import Node, Trainer, set_seed

ON_GPU = sys.argv[-1] == "--cuda"
if ON_GPU:
    sys.argv.pop()
epochs, every, resume = int(sys.argv[1]), sys.argv[2], sys.argv[3] == "resume"
delay_s = float(sys.argv[4]) if len(sys.argv) > 4 else 0.0

set_seed(42)
train, val = loaders()

with Node(
    optimizer=torch.optim.Adam,
    criterion=slow_criterion(delay_s) if delay_s else criterion,
    labels=train,
    test_labels=val,
    device="cuda" if ON_GPU else "cpu",
    schedule="sync",
    average="drain",
    reduce_factor=2,
) as node:
    Trainer(
        node=node,
        train_loader=train,
        val_loader=val,
        epochs=epochs,
        save=True,
        shard=True,
        checkpoint=f"checkpoints/{os.environ['RAVNEST_NODE']}",
        checkpoint_every=every,
        resume=resume,
    ).train()
    print("trained", flush=True)
