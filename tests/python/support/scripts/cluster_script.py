"""What users write for several clusters: cluster_script.py EPOCHS SECONDS_PER_BATCH [latest]. Says when it trains."""

import sys

import torch
from support.small_net import loaders, slow_criterion

from ravnest import Node, Trainer, set_seed

epochs, delay_s = int(sys.argv[1]), float(sys.argv[2])

set_seed(42)
train, val = loaders()


with Node(
    optimizer=torch.optim.SGD,
    optimizer_params={"lr": 0.05, "momentum": 0.9},
    criterion=slow_criterion(delay_s),
    labels=train,
    test_labels=val,
    reduce_factor=4,
) as node:
    trainer = Trainer(node=node, train_loader=train, val_loader=val, epochs=epochs, save=True, shard=True)
    if "latest" in sys.argv:
        node.get_latest_weights()
        print("has the latest weights", flush=True)
    trainer.train()
    print("accuracy", trainer.evaluate(), flush=True)
