"""Where scripts written for earlier versions find `clusterize` and `model_fusion`."""

from ..fusion import model_fusion
from ..planning import clusterize

__all__ = ["clusterize", "model_fusion"]
