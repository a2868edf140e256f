"""Step 2, on every node, each in a terminal of its own and in any order: train.

python train.py --node node_0 [--epochs 2] [--small]
python train.py --node node_1
python train.py --node node_2
"""

import argparse

import torch
from bert import make_loaders, masked_loss

from ravnest import Node, Trainer, set_seed

BATCHES_PER_UPDATE = 16

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--node", help="which node of the plan this is, such as node_0")
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--small", action="store_true", help="a smaller model and little text")
options = parser.parse_args()


class MaskedTextTrainer(Trainer):
    """A loop of its own: runs on the root, while the other nodes serve."""

    def train(self):
        self.prelim_checks()
        for epoch in range(1, self.epochs + 1):
            for batch in self.train_loader:
                self.node.forward_compute(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])
            self.node.wait_for_backwards()
            print(f"epoch {epoch} of {self.epochs}", flush=True)


set_seed(42)
train_loader, _ = make_loaders(options.small)
updates = options.epochs * len(train_loader) // BATCHES_PER_UPDATE


def warm_up_then_fall(update: int) -> float:
    """The share of the learning rate: up over the first tenth of the updates, then down to a tenth."""
    warm = max(1, updates // 10)
    return (update + 1) / warm if update < warm else max(0.1, 1 - (update - warm) / max(1, updates - warm))


with Node(
    name=options.node,
    optimizer="LAMB",
    optimizer_params={"lr": 1e-2, "weight_decay": 0.01},
    lr_scheduler=torch.optim.lr_scheduler.LambdaLR,
    lr_scheduler_params={"lr_lambda": warm_up_then_fall},
    lr_step_on_epoch_change=False,
    update_frequency=BATCHES_PER_UPDATE,
    # Gradients add up over the batches of an update: the mean is what one large batch would give.
    criterion=lambda outputs, batch: masked_loss(outputs, batch) / BATCHES_PER_UPDATE,
    labels=train_loader,
) as node:
    trainer = MaskedTextTrainer(
        node=node, train_loader=train_loader, epochs=1 if options.small else options.epochs, save=True
    )
    trainer.train()
