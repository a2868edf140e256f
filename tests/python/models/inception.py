"""Inception-V3, as the example has it."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[3] / "examples/inception"))

from inception import InceptionV3

__all__ = ["InceptionV3"]
