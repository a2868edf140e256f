"""What a node tells the core before its first call: how this run trains."""

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from .. import _core
from ..engine.signature import Call
from .criterion import Criterion
from .labels import Labels
from .sharding import share_of

if TYPE_CHECKING:
    from .node import Node


def configure(
    core: _core.Node,
    node: "Node",
    criterion: Callable | None,
    optimizer: object,
    steps: tuple[Callable | None, Callable | None],
) -> None:
    """Hand the node's settings to the core.

    Args:
        core: The node as the core has it.
        node: The same, with what the user has set.
        criterion: What makes a loss of outputs; None where the stage is not the last.
        optimizer: The name and options of one of the core's own, or functions of one from outside.
        steps: What steps the scheduler after an epoch and after an update, if anything does.
    """
    core.configure(
        criterion,
        optimizer,
        node.schedule,
        node.window,
        node.seed % 2**63,
        node.compression,
        node.recompute,
        node.update_frequency,
        node.microbatches,
        node.reduce_factor or 0,
        node.average,
        node.outer,
        node.average_optim and node.clusters > 1,
        node.clip_value or 0.0,
        node.clip_norm or 0.0,
        *steps,
        node.loss_filename,
        os.path.join(os.path.dirname(node.loss_filename), "val_accuracies.txt"),
        node.progress and node.is_root,
        {
            "update_frequency": str(node.update_frequency),
            "microbatches": str(node.microbatches),
            "shard": "true" if node.shard else "false",
        },
    )


def criterion_of(node: "Node", core: _core.Node, calls: Mapping[bool, Call]) -> Criterion:
    """What makes a loss of the model's outputs, on the leaf."""
    labels, test_labels = (
        Labels(source, node.seed, node.batch_size or core.batch, node.name, core.name_of(0))
        for source in (share_of(node.labels, node.share), node.test_labels)
    )
    return Criterion(calls, node.criterion, labels, test_labels)
