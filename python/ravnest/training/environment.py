"""What the command line, the environment and the machine say to a node."""

import os
import sys

import torch

from .. import _core


def name_from_outside() -> str:
    """The node's name from `--node` or RAVNEST_NODE; ValueError where neither says it."""
    arguments = sys.argv[1:]
    for i, argument in enumerate(arguments):
        if argument == "--node" and i + 1 < len(arguments):
            return arguments[i + 1]
        if argument.startswith("--node="):
            return argument.removeprefix("--node=")
    if name := os.environ.get("RAVNEST_NODE"):
        return name
    raise ValueError("which node is this? Give Node(name='node_0'), --node node_0 or RAVNEST_NODE=node_0")


def share_cores(node_data, name: str, threads: int | None) -> None:
    """Nodes that share a machine would fight for its cores: each takes its part, unless it was told otherwise."""
    if threads is None and "OMP_NUM_THREADS" not in os.environ:
        count = _core.nodes_beside(os.fspath(node_data), name)
        if count > 1:
            threads = max(1, (os.cpu_count() or 1) // count)
    if threads:
        torch.set_num_threads(threads)
