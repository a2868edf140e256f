"""One call that seeds every generator a run uses."""

import random
import sys

import torch

_current = 0


def set_seed(seed: int) -> None:
    """Seed Python, NumPy (where it is loaded) and torch on all devices, and every graph loaded from now on.

    Args:
        seed: Any whole number. The same on all nodes, so that all go through their data in the same order.
    """
    global _current
    _current = int(seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)
    torch.manual_seed(seed)


def current_seed() -> int:
    """The seed of the last set_seed, or 0."""
    return _current
