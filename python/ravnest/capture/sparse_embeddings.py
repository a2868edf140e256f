"""Embeddings that ask for sparse gradients, captured with dense ones."""

import inspect
from typing import cast

import torch
from torch.fx import GraphModule, Node
from torch.nn import functional
from torch.overrides import TorchFunctionMode

_EMBEDDINGS = ("aten::embedding", "aten::embedding_bag", "aten::_embedding_bag")


class DenseEmbeddings(TorchFunctionMode):
    """While active, embeddings that a module calls give dense gradients, whatever they are told."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in (functional.embedding, functional.embedding_bag):
            position = list(inspect.signature(func).parameters).index("sparse")
            args = (*args[:position], False, *args[position + 1 :]) if len(args) > position else args
            kwargs = {name: value for name, value in kwargs.items() if name != "sparse"}
        return func(*args, **kwargs)


def asks_for_sparse(module: GraphModule) -> bool:
    """Whether an embedding of a graph, or of its sub-graphs, is to give sparse gradients."""
    return any(_sparse_at(node) is not None for graph in _graphs(module) for node in graph.nodes)


def make_embeddings_dense(module: GraphModule) -> bool:
    """Have all embeddings of a graph, and of its sub-graphs, give dense gradients; whether one was to give others."""
    if not asks_for_sparse(module):
        return False
    for graph in _graphs(module):
        for node in graph.nodes:
            place = _sparse_at(node)
            if isinstance(place, int):
                node.update_arg(place, False)
            elif place is not None:
                node.update_kwarg(place, False)
        cast(GraphModule, graph.owning_module).recompile()
    return True


def _graphs(module: GraphModule):
    return [each.graph for each in module.modules() if isinstance(each, GraphModule)]


def _sparse_at(node: Node) -> int | str | None:
    """Where among the node's arguments it says sparse=True."""
    if not isinstance(node.target, torch._ops.OpOverload) or node.target._schema.name not in _EMBEDDINGS:
        return None
    position = [argument.name for argument in node.target._schema.arguments].index("sparse")
    if len(node.args) > position:
        return position if node.args[position] else None
    return "sparse" if node.kwargs.get("sparse") else None
