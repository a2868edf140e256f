"""What the root does with the pipeline: feeds it with batches, waits for them, and knows how far it is."""

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .. import _core
from ..engine.signature import Signature
from .labels import digest_of, label_part


class Run:
    """Hands batches to the core, which numbers them, epoch by epoch and sweep by sweep over validation data.

    The core takes a batch as soon as there is room for it. A sweep ends when something else is done.

    Attributes:
        position: How far the run is: the epoch of the next batch to train on, its number in it, and the like.
    """

    def __init__(self, core: Callable[[], _core.Node], position: _core.Position, signatures: Mapping[bool, Signature]):
        self._core, self._signatures = core, signatures  # the core by a function, since a node that has left has none
        self.position = position
        self._trained = 0.0, 0  # the seconds and samples of the training that is over

    def source(
        self,
        train: bool,
        items: Callable[[int, int], Iterator],
        inputs: Callable[[Any], tuple[Any, Mapping[str, Any]]],
        counts: _core.BatchCounts,
        batches: int = 0,
        skips: bool = False,
    ) -> _core.BatchSource:
        """A loader as the core's loop goes through it.

        Args:
            train: Whether it is trained on, or validated with.
            items: Gives the items of the epoch, or of the sweep, of that number, but for so many at the beginning.
            inputs: The model's inputs of an item: by position, and by keyword.
            counts: What the loader gave so far.
            batches: How many it says that it gives; 0: it does not say.
            skips: Whether `items` can be called again for an epoch, and does not load what it leaves out.
        """
        signature = self._signatures[train]

        def begin(number, skip):
            for item in items(number, skip):
                yield signature.flatten_batch(*inputs(item)), digest_of(label_part(item))

        return _core.BatchSource(begin, counts, batches=batches, skips=skips)

    def train_epochs(
        self, training: _core.BatchSource, validation: _core.BatchSource | None, epochs: int, val_freq: int
    ) -> None:
        """The training loop, with validations in between and at the end; returns when all is computed."""
        self._trained = self._core().train_epochs(training, validation, epochs=epochs, val_freq=val_freq)

    def evaluate(self, source: _core.BatchSource) -> None:
        """One sweep; `accuracy` is then its."""
        self._core().sweep(source, validation=False)

    def train(self, tensors: Any, kwargs: Mapping[str, Any], digest: int) -> None:
        """Feed a batch to train on; `digest` is that of its labels, 0 where it is not known."""
        self._core().train_on(self._signatures[True].flatten_batch(tensors, kwargs), digest=digest)

    def validate(self, tensors: Any, kwargs: Mapping[str, Any], digest: int, validation: bool) -> None:
        """Feed a batch of a sweep; with `validation` the sweep's accuracy goes into val_accuracies.txt."""
        flat = self._signatures[False].flatten_batch(tensors, kwargs)
        self._core().validate(flat, digest=digest, validation=validation)

    def predict(self, tensors: Any, kwargs: Mapping[str, Any]) -> Any:
        """The model's outputs for a batch."""
        signature = self._signatures[False]
        return signature.unflatten(self._core().predict(signature.flatten_batch(tensors, kwargs)))

    def drain(self) -> None:
        """Wait until all that was fed is done, on all stages."""
        self._core().drain()

    def warn(self, line: str) -> None:
        """Say something once, on standard error and in the run's summary."""
        self._core().warn(line)

    def end_sweep(self) -> None:
        """The next batch to validate with is the first of another sweep."""
        if self.position.sweeping:
            self._core().end_sweep()

    def end_epoch(self) -> None:
        """The next batch to train on is the first of another epoch; nothing where none was fed in this one."""
        if self.position.index > 0:
            self._core().end_epoch()

    def wait_for_epoch(self) -> None:
        """Wait for all batches of an epoch, and end it."""
        if self.position.index == 0 and not self.position.sweeping:
            self.warn(
                f"no batch was fed for epoch {self.position.epoch + 1}, so wait_for_backwards() waits for nothing"
            )
        self.end_sweep()
        self.drain()
        self.end_epoch()

    def summary(self, epochs: int) -> str:
        """The table of what `train_epochs` trained."""
        seconds, samples = self._trained
        return self._core().summary(seconds=seconds, samples=samples, epochs=epochs)

    def accuracy(self, show: bool) -> float | None:
        """Of the last sweep, in percent; None where nothing could be counted."""
        self.drain()
        accuracy = self._core().accuracy()
        if accuracy is not None and show:
            print(f"accuracy {accuracy:.2f} %", file=sys.stderr)
        return accuracy


def serve(core: _core.Node, name: str) -> tuple[float | None, str | None]:
    """Serve until the root's call is over.

    Returns:
        Of a call that evaluates, the accuracy that the root has found; why the run ends before its time, if it does.
    """
    closing = core.serve()
    while closing["goes_on"]:
        core.begin(name)
        closing = core.serve()
    return closing["accuracy"] if name == "evaluate" else None, closing["ended_early"]
