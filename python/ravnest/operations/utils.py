"""Where scripts written for earlier versions find `clusterize`."""

from ..clusters import clusterize

__all__ = ["clusterize"]
