"""Where scripts find `Node` beside `from ravnest import Node`."""

from .training.node import Node

__all__ = ["Node"]
