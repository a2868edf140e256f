"""Where scripts written for earlier versions find `clusterize` and `model_fusion`."""

from ..clusters import clusterize
from ..fusion import model_fusion

__all__ = ["clusterize", "model_fusion"]
