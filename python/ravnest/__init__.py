"""Train one model across many machines: capture it as a graph, cut the graph into stages, run them in C++."""

import torch  # noqa: F401  - loads the libraries that _core needs

try:
    from ._core import Error, __version__
except ImportError as error:
    raise ImportError(
        f"ravnest's C++ core could not be loaded ({error}). It must be built against the installed torch: run `make`, "
        "or install the package again with `pip install --no-build-isolation`"
    ) from error

from .capture.capture import capture
from .engine.graph import Graph, Stage, load
from .errors import CaptureError
from .fusion import model_fusion
from .planning import Plan, clusterize
from .seed import set_seed
from .training.local_cluster import LocalCluster
from .training.node import Node
from .training.trainer import Trainer

__all__ = [
    "CaptureError",
    "Error",
    "Graph",
    "LocalCluster",
    "Node",
    "Plan",
    "Stage",
    "Trainer",
    "__version__",
    "capture",
    "clusterize",
    "load",
    "model_fusion",
    "set_seed",
]
