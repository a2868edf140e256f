"""The digits CNN and its data, as the example has them."""

import sys

from support.places import EXAMPLES

sys.path.insert(0, str(EXAMPLES / "digits"))

from digits import load_data as digits_data
from digits import make_model as digits_model

__all__ = ["digits_data", "digits_model"]
