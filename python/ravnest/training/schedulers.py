"""The user's learning-rate scheduler on one stage."""

from typing import Any

import torch

from .criterion import guarded


class StageScheduler:
    """A scheduler class or a function `(optimizer, **params)`, and what it makes: `own`, in torch, or None.

    It is stepped when an epoch is over, or after each update where `by_epoch` is False.
    """

    def __init__(self, scheduler, params: dict | None, by_epoch: bool):
        self._made = (scheduler, dict(params or {}))
        self.by_epoch = by_epoch
        self.own: Any = None
        self._optimizer: Any = None
        self._steps = 0

    def replaced_by(self, scheduler, params: dict | None) -> "StageScheduler":
        """Another one, stepped as often."""
        return StageScheduler(scheduler, params, self.by_epoch)

    def make(self, optimizer_of) -> None:
        """Make it in torch for the optimizer that `optimizer_of()` gives; a stage without parameters has none."""
        scheduler, params = self._made
        if scheduler is None or (optimizer := optimizer_of()) is None:
            return
        if scheduler is torch.optim.lr_scheduler.ReduceLROnPlateau:
            raise ValueError("ReduceLROnPlateau needs a metric at each step, which a stage does not have")
        if isinstance(scheduler, torch.optim.lr_scheduler.LRScheduler):
            name = type(scheduler).__name__
            raise TypeError(
                f"lr_scheduler= is a {name} that is made already, over another optimizer: give the class "
                f"(lr_scheduler={name}) and lr_scheduler_params={{...}}"
            )
        self._optimizer, self.own = optimizer, scheduler(optimizer, **params)

    def words(self) -> str:
        """What it is, without what no two processes write alike."""
        scheduler, params = self._made
        if scheduler is None:
            return "none"
        plain = (bool, int, float, str, tuple, list)
        shown = {
            key: repr(value) if isinstance(value, plain) else getattr(value, "__qualname__", type(value).__qualname__)
            for key, value in sorted(params.items())
        }
        name = getattr(scheduler, "__qualname__", type(scheduler).__qualname__)
        options = ", ".join(f"{key}={value}" for key, value in shown.items())
        return f"{name}({options}) per {'epoch' if self.by_epoch else 'update'}"

    def for_core(self):
        """What the core calls with how many steps there have been: (after epochs, after updates), one of them None."""
        step = guarded("the scheduler", self._step_to) if self.own is not None else None
        return (step, None) if self.by_epoch else (None, step)

    def _step_to(self, count):
        # The node steps the optimizer; torch warns where it has not seen that.
        self._optimizer._opt_called = True
        while self._steps < count:
            self.own.step()
            self._steps += 1
