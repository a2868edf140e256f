"""Where scripts find `Trainer` beside `from ravnest import Trainer`."""

from .training.trainer import Trainer

__all__ = ["Trainer"]
