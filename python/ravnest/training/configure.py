"""What a node tells the core before its first call: how this run trains."""

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from .. import _core
from ..engine.signature import Signature
from .criterion import Criterion, criterion_state, from_labels
from .labels import label_part, leaf_labels
from .optimizers import OptimizerForm
from .sharding import share_of

if TYPE_CHECKING:
    from .node import Node


def configure(
    core: _core.Node | _core.Rank,
    node: "Node",
    criterion: Callable | None,
    optimizer: OptimizerForm | None,
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
    options = _core.TrainingOptions()
    options.criterion, options.optimizer = criterion, optimizer
    options.on_epochs, options.on_update = steps
    options.schedule, options.window, options.recompute = node.schedule, node.window, node.recompute
    options.seed = node.seed % 2**63
    options.compression = node.compression
    options.update_frequency, options.microbatches = node.update_frequency, node.microbatches
    options.reduce_factor = node.reduce_factor or 0
    options.average, options.nesterov = node.average, node.outer
    options.average_optim = node.average_optim and node.clusters > 1
    options.clip_value, options.clip_norm = node.clip_value or 0.0, node.clip_norm or 0.0
    options.loss_file = node.loss_filename
    options.accuracy_file = os.path.join(os.path.dirname(node.loss_filename), "val_accuracies.txt")
    options.settings = {
        "update_frequency": str(node.update_frequency),
        "microbatches": str(node.microbatches),
        "shard": "true" if node.shard else "false",
    }
    options.scheduled = any(step is not None for step in steps)
    options.criterion_state = criterion_state(node.criterion) if criterion is not None else None
    if node.checkpoints is not None:
        node.checkpoints.tell(options)
    core.configure(options, shows_progress=node.progress and node.is_root)


def criterion_of(node: "Node", root: str, signatures: Mapping[bool, Signature]) -> Criterion:
    """What makes a loss of the model's outputs, where those are; `root` is who has the inputs."""
    labels, test_labels = (
        leaf_labels(source, node.seed, node.batch_size or node.planned_batch, node.name, root)
        for source in (share_of(node.labels, node.share), share_of(node.test_labels, node.validation_share))
    )
    return Criterion(signatures, node.criterion, from_labels(labels, test_labels), label_part)
