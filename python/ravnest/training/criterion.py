"""What the leaf makes of a pass's outputs."""

import dataclasses
import json
import os
import re
import traceback
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from .._core import Labels
from ..errors import CallbackError, Error
from .labels import part_of

_LONGEST = 1000  # characters of an exception's message
_PACKAGE = os.path.dirname(__file__)
_NOT_THE_USERS = tuple(os.path.join(os.path.dirname(file), "") for file in (_PACKAGE, torch.__file__, os.__file__))


class Criterion:
    """What the last stage makes of a pass's outputs: a loss, and where it validates a count of right answers.

    `item_of(head)` gives the item of the pass's batch, which the criterion has as its targets, and `labels_of(item)`
    what right answers are counted by. With `loss_of_validation` the criterion is asked where it validates, too.
    """

    def __init__(self, signatures, criterion, item_of: Callable, labels_of: Callable, loss_of_validation: bool = False):
        self._signatures, self._criterion = signatures, criterion
        self._item_of, self._labels_of, self._loss_of_validation = item_of, labels_of, loss_of_validation

    def __call__(self, head, outputs):
        train = head["kind"] == "train"
        result = self._signatures[train].unflatten(outputs)
        try:
            item = self._item_of(head)
        except Error as error:
            raise CallbackError(str(error)) from error
        except Exception as error:
            raise CallbackError(f"the labels raised {brief(error)}") from error
        if head["parts"] > 1:
            item = part_of(item, head["part"], head["parts"])
        item = beside(outputs, item)
        # Counting waits for the device, so only where it is asked for.
        correct, counted = (0, 0) if train else correct_of(result, self._labels_of(item))
        if not train and not self._loss_of_validation:
            return torch.zeros(()), counted, correct
        samples = next((each.shape[0] for each in outputs if each is not None and each.dim() > 0), 1)
        return self._loss(result, item), samples, correct

    def _loss(self, result, item):
        if self._criterion is None:
            raise CallbackError("the leaf computes the loss and has no criterion: give Node criterion=")
        try:
            loss = self._criterion(result, item)
        except torch.OutOfMemoryError:
            raise  # whoever computes says what would help
        except Exception as error:
            raise CallbackError(f"the criterion raised {brief(error)}{_whole_item(error, item)}") from error
        if not isinstance(loss, torch.Tensor):
            raise CallbackError(f"the criterion must give a tensor, not {type(loss).__name__}")
        return loss


def from_labels(labels: Labels, test_labels: Labels) -> Callable:
    """The item of a pass, from what the leaf was given to train and to validate on."""

    def item_of(head):
        source = labels if head["kind"] == "train" else test_labels
        return source.item(head["epoch"], head["index"], head["digest"])

    return item_of


def _whole_item(error: Exception, item) -> str:
    """What a criterion may not expect that took its targets for a tensor, as torch's own losses do."""
    if not isinstance(error, TypeError | AttributeError) or not isinstance(item, tuple | list | Mapping):
        return ""
    kind = type(item).__name__
    # As Python and torch name what is no tensor; anything else that is wrong has nothing to do with the item.
    if not re.search(rf"'{kind}'|\bnot {kind}\b|\b{kind} indices|got \([^)]*\b{kind}\b", str(error)):
        return ""
    what = f"a {kind} of {len(item)}"
    return f"; it is given the whole item of `labels` as its targets, here {what}: take the labels out of it"


def beside(outputs, item):
    """The item with its tensors on the device of the outputs."""
    device = next((each.device for each in outputs if each is not None), torch.device("cpu"))
    if device.type == "cpu":
        return item

    def move(tensor):
        # What is not pinned is in the driver's memory when the call returns: nobody waits for the GPU.
        return tensor.to(device, non_blocking=not tensor.is_pinned())

    return pytree.tree_map_only(torch.Tensor, move, item)


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
    """`function`, whose exceptions become CallbackErrors that say what raised."""

    def call(*args):
        try:
            return function(*args)
        except Exception as error:
            raise CallbackError(f"{what} raised {brief(error)}") from error

    return call


class Faults:
    """The first exception of the user's own functions, which others call: its traceback belongs on this node."""

    def __init__(self):
        self.first = None

    def of(self, function: Any) -> Any:
        """`function`, or each function of a tuple, with its exceptions looked at; None stays None."""
        if isinstance(function, tuple):
            return tuple(self.of(each) for each in function)
        if not callable(function):
            return function

        def call(*args):
            try:
                return function(*args)
            except Exception as error:
                fault = error.__cause__ if isinstance(error, CallbackError) else error
                if self.first is None and not isinstance(fault, Error):
                    self.first = fault
                raise

        return call

    def explain(self, error: BaseException) -> None:
        """Where `error` is the sentence that they ended the run with, have their traceback shown before it."""
        if isinstance(error, Error) and error.__cause__ is None and not error.of_another:
            error.__cause__ = self.first


def brief(error: BaseException) -> str:
    """The exception in one line, with the place in the user's code."""
    words = " ".join(str(error).split())
    line = f"{type(error).__name__}: {words}" if words else type(error).__name__
    if len(line) > _LONGEST:
        line = f"{line[: _LONGEST // 2]} ... {line[-_LONGEST // 2 :]}"
    return line + place_of(error)


def place_of(error: BaseException) -> str:
    """The innermost place that is not in torch, Python or here, as in (train.py, line 12, in criterion)."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith(_NOT_THE_USERS):
            return f" ({os.path.basename(frame.filename)}, line {frame.lineno}, in {frame.name})"
    return ""


def farewell_of(error: BaseException) -> tuple[str, bool]:
    """Why a node ends the run, in one line for all nodes to read after its name, and whether a user interrupted it."""
    if isinstance(error, KeyboardInterrupt):
        return "was interrupted", True
    return _reason_of(error), False


def _reason_of(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"ended its script with the status {error.code}"
    if isinstance(error, Error):
        return f"failed: {error}"
    return f"failed: its script raised {brief(error)}"


class CriterionState:
    """What a criterion with a state_dict keeps, as a checkpoint holds it: tensors, and the rest as a text."""

    def __init__(self, criterion):
        self._criterion = criterion

    def get(self) -> tuple[dict[str, torch.Tensor], str]:
        """The tensors by name, and all else as JSON."""
        tensors, others = {}, {}
        for name, value in self._criterion.state_dict().items():
            if isinstance(value, torch.Tensor):
                tensors[name] = value
            elif value is None or isinstance(value, bool | int | float | str):
                others[name] = value
            else:
                raise TypeError(
                    f"a checkpoint cannot hold what the criterion keeps as {name}, a {type(value).__name__}: it holds "
                    "tensors, numbers and strings"
                )
        return tensors, json.dumps(others) if others or not tensors else ""

    def set(self, tensors: dict[str, torch.Tensor], others: str) -> None:
        """Take back what `get` gave."""
        self._criterion.load_state_dict({**tensors, **(json.loads(others) if others else {})})


def criterion_state(criterion) -> tuple[Callable, Callable] | None:
    """Functions that give and take what the criterion keeps; None where it keeps nothing."""
    if not callable(getattr(criterion, "state_dict", None)) or not callable(
        getattr(criterion, "load_state_dict", None)
    ):
        return None
    if not criterion.state_dict():
        return None
    state = CriterionState(criterion)
    return guarded("the criterion", state.get), guarded("the criterion", state.set)
