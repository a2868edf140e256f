"""A run of the small network as users write it, and the same in one process of plain PyTorch."""

import torch

from ravnest import Trainer
from ravnest.training.labels import items_of
from support.small_net import criterion, loaders, make_net

SEED = 42


def script(epochs=3, trainer=Trainer, calls=("train",), trainer_options=None, **options):
    """What users write, the same for every node."""

    def play(make):
        train, val = loaders()
        options.setdefault("optimizer", torch.optim.SGD)
        options.setdefault("optimizer_params", {"lr": 0.05, "momentum": 0.9})
        with make(
            **{"criterion": criterion, "labels": train, "test_labels": val, "schedule": "sync", **options}
        ) as node:
            own = trainer(
                node=node, train_loader=train, val_loader=val, epochs=epochs, save=True, **(trainer_options or {})
            )
            results = [getattr(own, call)() for call in calls]
            return {"results": results, "node": node.name, "lr": _lr(node), "state": _state(node)}

    return play


def _lr(node):
    return [group["lr"] for group in node.optimizer.param_groups] if node.optimizer is not None else []


def _state(node):
    return node.optimizer.state_dict()["state"] if node.optimizer is not None else {}


def plain(
    epochs=3,
    optimizer=torch.optim.SGD,
    options=None,
    scheduler=None,
    update_frequency=1,
    by_epoch=True,
    clip=None,
    model=None,
):
    """The same in one process of plain PyTorch: losses by update, accuracies by epoch, the model and its rates."""
    model = model or make_net()
    train, val = loaders()
    own = optimizer(model.parameters(), **(options if options is not None else {"lr": 0.05, "momentum": 0.9}))
    rates = scheduler(own) if scheduler else None
    losses, accuracies, window, batches = [], [], 0.0, 0
    for epoch in range(epochs):
        model.train()
        for item in items_of(train, SEED, epoch):
            loss = criterion(model(item[0]), item)
            loss.backward()
            window += loss.item()
            batches += 1
            if batches % update_frequency == 0:
                if clip:
                    clip(model.parameters())
                own.step()
                own.zero_grad()
                losses.append(window)
                window = 0.0
                if rates and not by_epoch:
                    rates.step()
        if rates and by_epoch:
            rates.step()
        model.eval()
        with torch.no_grad():
            right = sum((model(x).argmax(1) == y).sum().item() for x, y in val)
        accuracies.append(100 * right / 60)
    return losses, accuracies, model, own


def assert_same(cluster, expected) -> None:
    losses, accuracies, model, _ = expected
    assert cluster.losses() == [round(loss, 4) for loss in losses]
    assert cluster.accuracies() == [round(accuracy, 2) for accuracy in accuracies]
    fused = cluster.fused()
    own = model.state_dict()
    assert fused.keys() == own.keys()
    for name, tensor in own.items():
        assert fused[name].dtype == tensor.dtype
        assert torch.equal(fused[name], tensor), name
    make_net().load_state_dict(fused, strict=True)
