"""Inception-V3, as the example has it."""

import sys

from support.places import EXAMPLES

sys.path.append(str(EXAMPLES / "inception"))

from inception import InceptionV3

__all__ = ["InceptionV3"]
