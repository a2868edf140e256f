"""Blocks of gradient mode in an exported program, turned into plain operators.

torch.export keeps `with torch.no_grad():` as a call of a sub-graph. The executor and the slicer know operators only, so
the sub-graph's nodes are moved into the graph around it. What comes into a no_grad block is detached first: inside,
nothing then carries a gradient, so values, in-place writes and results are those of the block. What the block hands
out unchanged, or written in place, is the outer tensor itself, with its own gradient.
"""

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from .errors import CaptureError

_SET_GRAD = "wrap_with_set_grad_enabled"
_REASONS = {
    "wrap_with_autocast": "it uses torch.autocast inside its forward; the type of every operator would hang on a mode "
    "of the process. Cast explicitly (`x.to(torch.bfloat16)`), or run the whole training in one type",
}


def has_regions(program: ExportedProgram) -> bool:
    """Whether the program calls a higher-order operator."""
    return any(isinstance(node.target, torch._ops.HigherOrderOperator) for node in program.graph.nodes)


def inline_grad_regions(program: ExportedProgram) -> None:
    """Replace every gradient-mode block of `program` in place. CaptureError for any other higher-order operator."""
    module = program.graph_module
    graph = module.graph
    changed = False
    for node in list(graph.nodes):
        if node.op != "call_function" or not isinstance(node.target, torch._ops.HigherOrderOperator):
            continue
        if node.target.name() != _SET_GRAD:
            reason = _REASONS.get(
                node.target.name(),
                f"it uses the higher-order operator {node.target.name()}, which the executor does not run",
            )
            raise CaptureError(f"the model cannot be captured: {reason}")
        enabled, region, *inputs = node.args
        inner = _inline(program, node, getattr(module, region.target), inputs, detach=not enabled)
        _replace_results(program, node, inner)
        graph.erase_node(region)
        changed = True
    if changed:
        graph.lint()
        module.recompile()


def _inline(program, call: Node, region: GraphModule, inputs: list, detach: bool) -> list:
    """Copy the region's operators before `call`; what the graph is to use in place of the region's results."""
    graph, signature = program.graph, program.graph_signature
    gradless = {*signature.inputs_to_buffers, *signature.inputs_to_lifted_tensor_constants}
    placeholders = [node for node in region.graph.nodes if node.op == "placeholder"]
    outer = dict(zip(placeholders, inputs, strict=True))
    inner = {}
    with graph.inserting_before(call):
        for placeholder, source in outer.items():
            inner[placeholder] = source
            if detach and _may_need_grad(source, gradless):
                inner[placeholder] = _detached(graph, source)
        for node in region.graph.nodes:
            if node.op == "call_function":
                if isinstance(node.target, torch._ops.HigherOrderOperator):
                    raise CaptureError(
                        f"the model cannot be captured: {node.target.name()} inside a gradient-mode block"
                    )
                inner[node] = graph.node_copy(node, inner.__getitem__)
            elif node.op not in ("placeholder", "output"):
                raise CaptureError(
                    f"the model cannot be captured: {node.op} {node.target} inside a gradient-mode block"
                )
    (results,) = next(node for node in region.graph.nodes if node.op == "output").args
    return [outer.get(_written_input(result), inner.get(result, result)) for result in results]


def _replace_results(program, call: Node, results: list) -> None:
    for item in list(call.users):
        result = results[item.args[1]]
        item.replace_all_uses_with(result)
        program.graph_signature.replace_all_uses(item.name, result.name)
        program.graph.erase_node(item)
    program.graph.erase_node(call)


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
