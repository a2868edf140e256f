"""Train PyTorch models across several machines."""

import torch  # noqa: F401  - loads the libraries that _core needs

from ravnest._core import __version__

__all__ = ["__version__"]
