"""What the leaf makes of a pass's outputs."""

import dataclasses
import traceback
from collections.abc import Mapping

import torch
from torch.utils import _pytree as pytree

from .errors import CallbackError, Error
from .labels import Labels, label_part, split


class Judge:
    """What the leaf makes of a pass's outputs: a loss of those that train, a count of those that validate."""

    def __init__(self, calls, criterion, labels: Labels, test_labels: Labels):
        self._calls, self._criterion = calls, criterion
        self._labels = {True: labels, False: test_labels}

    def __call__(self, head, outputs):
        train = head["kind"] == "train"
        result = self._calls[train].unflatten(outputs)
        try:
            item = self._labels[train].item(head["epoch"], head["index"], head["digest"])
        except Error as error:
            raise CallbackError(str(error)) from error
        except Exception as error:
            raise CallbackError(f"the labels raised\n{trace_of(error)}") from error
        if head["parts"] > 1:
            item = split(item, head["parts"])[head["part"]]
        item = beside(outputs, item)
        samples = next((each.shape[0] for each in outputs if each is not None and each.dim() > 0), 1)
        if not train:
            correct, counted = correct_of(result, label_part(item))
            return torch.zeros(()), counted, correct
        if self._criterion is None:
            raise CallbackError("computes the loss and has no criterion: give Node criterion=")
        try:
            loss = self._criterion(result, item)
        except Exception as error:
            raise CallbackError(f"the criterion raised\n{trace_of(error)}") from error
        if not isinstance(loss, torch.Tensor):
            raise CallbackError(f"the criterion must give a tensor, not {type(loss).__name__}")
        return loss, samples, 0


def beside(outputs, item):
    """The item with its tensors on the device of the outputs."""
    device = next((each.device for each in outputs if each is not None), torch.device("cpu"))
    if device.type == "cpu":
        return item
    return pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.to(device), item)


def correct_of(outputs, targets) -> tuple[int, int]:
    """(correct, counted): where the outputs' largest value is where the targets, indices or one-hot, say."""
    if dataclasses.is_dataclass(outputs) and not isinstance(outputs, Mapping):
        outputs = vars(outputs)
    if isinstance(outputs, Mapping):
        outputs = outputs.get("logits", next(iter(outputs.values()), None))
    elif isinstance(outputs, tuple | list) and outputs:
        outputs = outputs[0]
    if not isinstance(outputs, torch.Tensor) or not isinstance(targets, torch.Tensor) or outputs.dim() < 2:
        return 0, 0
    targets = targets.to(outputs.device)
    if targets.shape == outputs.shape:
        targets = targets.argmax(-1)
    if targets.shape != outputs.shape[:-1]:
        return 0, 0
    return int((outputs.argmax(-1) == targets).sum()), targets.numel()


def guarded(what: str, function):
    """`function`, whose exceptions become CallbackErrors with their traceback."""

    def call(*args):
        try:
            return function(*args)
        except Exception as error:
            raise CallbackError(f"{what} raised\n{trace_of(error)}") from error

    return call


def trace_of(error: BaseException) -> str:
    """The traceback as people know it."""
    return "".join(traceback.format_exception(error)).rstrip()


def reason_of(error: BaseException) -> str:
    """Why a node ends the run, for all nodes to read after its name."""
    if isinstance(error, KeyboardInterrupt):
        return "was interrupted"
    if isinstance(error, SystemExit):
        return f"ended its script with the status {error.code}"
    return f"failed: its script raised\n{trace_of(error)}"
