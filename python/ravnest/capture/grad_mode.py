"""Blocks of gradient mode and of autocast in a program of torch.export.

A block of autocast is a call of a sub-graph. It stays: archives hold it so, and the core reads its operators as
operators of the graph, with a mark. A block of gradient mode has only its borders while torch.export traces, and would
become such a call, too (and be forgotten inside of an autocast block). Here its borders are taken away. What comes into
a no_grad block is detached first: inside, nothing then carries a gradient, so values, in-place writes and results are
those of the block. What the block hands out unchanged, or written in place, is the outer tensor itself, with its own
gradient.
"""

import contextlib
from collections.abc import Iterator
from typing import Any, cast

import torch
from torch._export.passes import replace_set_grad_with_hop_pass as grad_pass
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node, map_arg

from ..errors import CaptureError

_SET_GRAD = "wrap_with_set_grad_enabled"
_AUTOCAST = "wrap_with_autocast"
_CACHE = 3  # the argument of an autocast block that says whether cast weights are kept


def has_regions(program: ExportedProgram) -> bool:
    """Whether the program calls a higher-order operator."""
    return any(_is_region(node) for node in program.graph.nodes)


def computed_types(program: ExportedProgram) -> set[torch.dtype]:
    """The types of all floating-point values of the program, those within its blocks included."""
    graphs = [part.graph for part in program.graph_module.modules() if isinstance(part, GraphModule)]
    values = [node.meta.get("val") for graph in graphs for node in graph.nodes]
    return {value.dtype for value in values if isinstance(value, torch.Tensor) and value.is_floating_point()}


def operators(module: GraphModule) -> Iterator[Node]:
    """Every call of an operator of torch, in order, those within autocast blocks where they run."""
    for node in module.graph.nodes:
        if _is_region(node) and node.target.name() == _AUTOCAST:
            yield from operators(_autocast_graph(module, node))
        elif isinstance(node.target, torch._ops.OpOverload):
            yield node


@contextlib.contextmanager
def plain_grad_regions():
    """While active, torch.export gives programs without gradient-mode blocks."""
    original = grad_pass.replace_set_grad_with_hop_pass

    def detach(module, signature):
        _detach_in_blocks(module, signature)
        return module, signature

    grad_pass.replace_set_grad_with_hop_pass = detach
    try:
        yield
    finally:
        grad_pass.replace_set_grad_with_hop_pass = original


def inline_grad_regions(program: ExportedProgram) -> None:
    """Replace every gradient-mode block of `program` in place. CaptureError for any other higher-order operator."""
    _inline_all(program.graph_module, program.graph_signature)


def keep_cast_weights(module: GraphModule) -> None:
    """Have autocast blocks cast a weight once, as PyTorch does; torch.export turns that off while it traces."""
    for node in module.graph.nodes:
        if _is_region(node) and node.target.name() == _AUTOCAST:
            node.update_arg(_CACHE, True)
            keep_cast_weights(_autocast_graph(module, node))
    module.recompile()


def _is_region(node: Node) -> bool:
    return node.op == "call_function" and isinstance(node.target, torch._ops.HigherOrderOperator)


def _autocast_graph(module: GraphModule, call: Node) -> GraphModule:
    return getattr(module, cast(Any, call.args[_CACHE + 1]).target)


def _inline_all(module: GraphModule, signature) -> None:
    changed = False
    for node in list(module.graph.nodes):
        if not _is_region(node):
            continue
        if node.target.name() == _AUTOCAST:
            _inline_all(_autocast_graph(module, node), None)
        elif node.target.name() == _SET_GRAD:
            _inline(module, signature, node)
            changed = True
        else:
            raise CaptureError(
                f"the model cannot be captured: it uses the higher-order operator {node.target.name()}, which the "
                "executor does not run"
            )
    if changed:
        _detach_in_blocks(module, signature)


def _inline(module: GraphModule, signature, call: Node) -> None:
    """Put the block's operators in the place of `call`, between the borders that they had when they were traced."""
    enabled, attribute, *inputs = cast(tuple[Any, ...], call.args)
    region = getattr(module, attribute.target)
    _inline_all(region, None)
    inner = dict(zip((node for node in region.graph.nodes if node.op == "placeholder"), inputs, strict=True))
    with module.graph.inserting_before(call):
        module.graph.call_function(torch._C._set_grad_enabled, (enabled,))
        for node in region.graph.nodes:
            if node.op in ("call_function", "get_attr"):
                inner[node] = module.graph.node_copy(node, inner.__getitem__)
            if node.op == "get_attr":
                inner[node].target = _adopt(module, getattr(region, node.target))
        module.graph.call_function(torch._C._set_grad_enabled, (not enabled,))
    (results,) = next(node for node in region.graph.nodes if node.op == "output").args
    for item in list(call.users):
        _replace(item, cast(Node, inner.get(results[item.args[1]])), signature)
        module.graph.erase_node(item)
    module.graph.erase_node(call)
    module.graph.erase_node(attribute)


def _adopt(module: GraphModule, part) -> str:
    """Give `module` the sub-graph of another one; its name there."""
    number = 1
    while hasattr(module, f"block_{number}"):
        number += 1
    module.add_submodule(f"block_{number}", part)
    return f"block_{number}"


def _replace(node: Node, other: Node, signature, unless=lambda user: False) -> None:
    node.replace_all_uses_with(other, delete_user_cb=lambda user: not unless(user))
    if signature is not None:
        signature.replace_all_uses(node.name, other.name)


def _detach_in_blocks(module: GraphModule, signature) -> None:
    """Take away the borders of gradient-mode blocks, and detach what comes into those of no_grad."""
    graph = module.graph
    gradless = {*signature.inputs_to_buffers, *signature.inputs_to_lifted_tensor_constants} if signature else set()
    inside, detached = {}, {}  # of the block: its nodes, in order; what comes into it, detached
    grad = True

    def entering(source: Node) -> Node:
        if source in inside or not _may_need_grad(source, gradless):
            return source
        if source not in detached:
            detached[source] = _detached(graph, source)
        return detached[source]

    for node in list(graph.nodes):
        if node.target is torch._C._set_grad_enabled:
            if not grad and node.args[0]:
                _hand_out(inside, detached, signature)
                inside, detached = {}, {}
            grad = node.args[0]
            graph.erase_node(node)
        elif not grad and node.op == "call_function":
            with graph.inserting_before(node):
                node.args, node.kwargs = map_arg(node.args, entering), map_arg(node.kwargs, entering)
            inside[node] = None
    if not grad:
        _hand_out(inside, detached, signature)
    graph.lint()
    module.recompile()


def _hand_out(inside: dict, detached: dict, signature) -> None:
    """Have those behind the block use an outer tensor itself where the block has written it."""
    outer = {node: source for source, node in detached.items()}
    for node in inside:
        written = outer.get(_written_input(node))
        if written is not None:
            _replace(node, written, signature, unless=inside.__contains__)


def _detached(graph, source: Node) -> Node:
    node = graph.call_function(torch.ops.aten.detach.default, (source,))
    node.meta = {key: value for key, value in source.meta.items() if key in ("val", "nn_module_stack")}
    # A placeholder has no module path of its own; the verifier asks one of every operator.
    node.meta.setdefault("nn_module_stack", {})
    return node


def _may_need_grad(source, gradless: set[str]) -> bool:
    value = source.meta.get("val") if isinstance(source, Node) else None
    return (
        isinstance(value, torch.Tensor)
        and (value.is_floating_point() or value.is_complex())
        and source.name not in gradless
    )


def _written_input(node):
    """The region's input that `node` is, when it is one or the result of in-place operators on one."""
    while isinstance(node, Node) and node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload):
        schema = node.target._schema
        returned = schema.returns[0].alias_info if len(schema.returns) == 1 else None
        if returned is None or not returned.is_write:
            return None
        for position, argument in enumerate(schema.arguments):
            if argument.alias_info is not None and argument.alias_info.is_write:
                node = node.kwargs.get(argument.name) if argument.kwarg_only else node.args[position]
                break
        else:
            return None
    return node
