"""What the root does with the pipeline: feeds it with batches, waits for them, and knows how far it is."""

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from .. import _core
from ..engine.signature import Call
from .batch_counts import BatchCounts


class Run:
    """Counts batches, of epochs and of sweeps over validation data, and hands them to the core.

    The core takes a batch as soon as there is room for it. A sweep ends when something else is done, so whatever is no
    part of it calls `end_sweep` first.
    """

    def __init__(self, core: Callable[[], _core.Node], calls: Mapping[bool, Call]):
        self._core, self._calls = core, calls  # the core by a function, since a node that has left has none
        self.epoch = self.index = 0  # of the next batch to train on
        self.sweep = self.sweep_index = 0  # of the next batch to validate with
        self._validation: bool | None = None  # whether the present sweep is a validation; None: there is none
        self._epochs = BatchCounts("the training loop", "epoch")
        self._began = 0.0, 0  # when training began, and the samples that were trained before it
        self._trained = 0.0, 0  # the seconds and samples of the training that is over

    @property
    def in_sweep(self) -> bool:
        """Whether a sweep has begun and not ended."""
        return self._validation is not None

    def train(self, tensors: Any, kwargs: Mapping[str, Any], digest: int) -> None:
        """Feed a batch to train on; `digest` is that of its labels, 0 where it is not known."""
        flat = self._calls[True].flatten_batch(tensors, kwargs)
        self._core().feed("train", flat, self.epoch, self.index, digest)
        self.index += 1

    def validate(self, tensors: Any, kwargs: Mapping[str, Any], digest: int, validation: bool) -> None:
        """Feed a batch of a sweep; with `validation` the sweep's accuracy goes into val_accuracies.txt."""
        self._validation = validation
        flat = self._calls[False].flatten_batch(tensors, kwargs)
        self._core().feed("validate", flat, self.sweep, self.sweep_index, digest)
        self.sweep_index += 1

    def predict(self, tensors: Any, kwargs: Mapping[str, Any]) -> Any:
        """The model's outputs for a batch."""
        self.end_sweep()
        self._core().feed("predict", self._calls[False].flatten_batch(tensors, kwargs), 0, 0, 0)
        self._core().drain()
        (outputs,) = self._core().outputs()
        return self._calls[False].unflatten(outputs)

    def drain(self) -> None:
        """Wait until all that was fed is done, on all stages."""
        self._core().drain()

    def warn(self, line: str) -> None:
        """Say something once, on standard error and in the run's summary."""
        self._core().warn(line)

    def end_sweep(self) -> None:
        """The next batch to validate with is the first of another sweep."""
        if self._validation is None:
            return
        self._core().end_sweep(self._validation)
        self._validation = None
        self.sweep += 1
        self.sweep_index = 0

    def end_epoch(self) -> None:
        """The next batch to train on is the first of another epoch; nothing where none was fed in this one."""
        if self.index == 0:
            return
        if line := self._epochs.ended(self.epoch + 1, self.index):
            self.warn(line)
        self.epoch += 1
        self.index = 0

    def begin_training(self, epochs: int, batches: int) -> None:
        """Training begins, of so many epochs and batches (0: not known): from here on progress is counted."""
        self._began = time.monotonic(), self._core().samples_trained()
        self._core().begin_training(self.epoch, epochs, batches)

    def finish_rounds(self) -> None:
        """Average a last time with the other clusters, as soon as all of them are done."""
        self._core().finish_rounds()

    def end_training(self) -> None:
        """Wait for all batches: training is over."""
        self.drain()
        self._core().end_training()
        start, samples = self._began
        self._trained = time.monotonic() - start, self._core().samples_trained() - samples

    def summary(self, epochs: int) -> str:
        """The table of what was trained from `begin_training` to `end_training`."""
        return self._core().summary(*self._trained, epochs)

    def accuracy(self, show: bool) -> float | None:
        """Of the last sweep, in percent; None where nothing could be counted."""
        self.drain()
        accuracy = self._core().accuracy()
        if accuracy is not None and show:
            print(f"accuracy {accuracy:.2f} %", file=sys.stderr)
        return accuracy


def serve(core: _core.Node, name: str) -> float | None:
    """Serve until the root's call is over; of one that evaluates, the accuracy that the root has found."""
    closing = core.serve()
    while closing["more"]:
        core.begin(name)
        closing = core.serve()
    return closing["accuracy"] if name == "evaluate" else None
