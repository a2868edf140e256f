"""The digits CNN and its data, as the example has them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "examples/digits"))

from digits import load_data as digits_data
from digits import make_model as digits_model

__all__ = ["digits_data", "digits_model"]
