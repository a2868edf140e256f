"""Whether a graph that was captured in 32 bits computes in the module's own types where it runs in 16.

Such a run gives the graph 16-bit copies of its weights, as `Node(precision=)` has it. Most operators follow the types
of what they read. Those whose type the capture has fixed (`torch.zeros(..., dtype=x.dtype)`, `x.to(y.dtype)`) do not.
So the module is exported once more, under the same policy, and the two are held against each other by operator.
"""

import contextlib
import itertools
from collections.abc import Iterator

import torch
from torch.export import ExportedProgram
from torch.fx import Node
from torch.utils import _pytree as pytree

from .. import _core
from ..engine.signature import Signature
from ..errors import CaptureError
from .export import export_graph, user_frame
from .grad_mode import operators

TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
PRECISIONS = ("float32", *TYPES)
_TO_FOLLOW = "Let it follow a tensor: x.new_zeros(...), torch.zeros_like(x), x.type_as(y)"


def compare_types(
    core: _core.Model,
    module: torch.nn.Module,
    program: ExportedProgram,
    args: tuple,
    kwargs: dict,
    precision: str,
    train: bool,
) -> None:
    """CaptureError, with the operator, where the graph's results are of other types than the module's own.

    Args:
        core: The captured graph.
        module: What it was captured from, in the mode that is asked for.
        program: The graph as torch.export gave it.
        args: The example, by position.
        kwargs: The example, by keyword.
        precision: "bf16" or "fp16".
        train: Which of the two graphs is meant.
    """
    where = f"in {precision}, in {'training' if train else 'eval'} mode,"
    args, kwargs = _cast_inputs(args, kwargs, TYPES[precision])
    with _cast_weights(module, TYPES[precision], _core.kept_in_float32(core)):
        _try(module, *_cast_inputs(args, kwargs, TYPES[precision]), where=where, precision=precision)
        own = export_graph(module, args, kwargs)
    _compare_constants(program, own, where)
    flat = Signature(core, train).flatten(args, kwargs)
    found, failure = _core.result_types(core, flat, precision, train=train)
    for captured, node in itertools.zip_longest(found, _with_results(own)):
        if captured is None and failure:
            raise CaptureError(f"{where} the captured graph fails, where the model does not: {failure}")
        if captured is None or node is None or captured[1] != f"torch.ops.{node.target}":
            raise CaptureError(f"{where} {_other_path(captured, node)}")
        name, target, path, types = captured
        if types != (wanted := _types(node)):
            raise CaptureError(
                f'{where} the operator "{name}" ({target}{f" of module {path}" if path else ""}) of the captured graph '
                f"gives {', '.join(types)}, that of the model itself {', '.join(wanted)}: the type was fixed when it "
                f"was captured{_line_of(node)}. {_TO_FOLLOW}"
            )


def _cast_inputs(args: tuple, kwargs: dict, dtype: torch.dtype) -> tuple[tuple, dict]:
    """A copy, since a forward may write into its inputs."""
    cast = lambda tensor: tensor.detach().to(dtype if tensor.is_floating_point() else tensor.dtype, copy=True)  # noqa: E731
    return pytree.tree_map_only(torch.Tensor, cast, (args, kwargs))


def _try(module: torch.nn.Module, args: tuple, kwargs: dict, *, where: str, precision: str) -> None:
    """For real: what torch.export traces with has types, but does not refuse all of those that kernels do."""
    try:
        with torch.enable_grad():
            module(*args, **kwargs)
    except Exception as error:
        raise CaptureError(
            f"{where} the model itself does not run: {error}{user_frame(error)}. Weights and inputs are in {precision} "
            "there, buffers stay in float32: cast them where forward uses them, as in x + self.table.type_as(x)"
        ) from error


@contextlib.contextmanager
def _cast_weights(module: torch.nn.Module, dtype: torch.dtype, kept: set[str]) -> Iterator[None]:
    """The module's float32 parameters in `dtype`, but those that stay, for the length of the block."""
    named = list(module.named_parameters(remove_duplicate=False))
    stays = {id(parameter) for name, parameter in named if name in kept or parameter.dtype != torch.float32}
    weights = {id(parameter): parameter for _, parameter in named if id(parameter) not in stays}
    own = {key: parameter.data for key, parameter in weights.items()}
    try:
        for parameter in weights.values():
            parameter.data = parameter.data.to(dtype)
        yield
    finally:
        for key, parameter in weights.items():
            parameter.data = own[key]


def _types(node: Node) -> list[str]:
    leaves = pytree.tree_leaves(node.meta.get("val"))
    return [str(leaf.dtype).removeprefix("torch.") for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _with_results(program: ExportedProgram) -> Iterator[Node]:
    return (node for node in operators(program.graph_module) if _types(node))


def _compare_constants(program: ExportedProgram, own: ExportedProgram, where: str) -> None:
    """Numbers that the model computes of a type, such as torch.finfo(x.dtype).min, are fixed in the graph, too."""
    for captured, node in zip(operators(program.graph_module), operators(own.graph_module), strict=False):
        if captured.target != node.target:
            return  # said with the types
        for number, other in zip(_numbers(captured), _numbers(node), strict=False):
            if repr(number) != repr(other):
                raise CaptureError(
                    f'{where} the model gives its operator "{node.name}" ({node.target}) the number {other}, the '
                    f"captured graph {number}: it is computed of a type, as by torch.finfo{_line_of(node)}. Take a "
                    "number that all types have"
                )


def _numbers(node: Node) -> list[float]:
    return [leaf for leaf in pytree.tree_leaves((node.args, node.kwargs)) if isinstance(leaf, float)]


def _other_path(captured, node: Node | None) -> str:
    in_graph = f"has {captured[1]}" if captured else "ends"
    in_model = f"has {node.target}{_line_of(node)}" if node else "ends"
    return (
        f"the model's code takes another path than in float32: where the captured graph {in_graph}, it {in_model}. "
        "Decide by something else than the type"
    )


def _line_of(node: Node) -> str:
    """The last line of the model's code behind a node, as ' (file.py, line 12, in forward: `code`)', or ''."""
    lines = [line.strip() for line in (node.meta.get("stack_trace") or "").splitlines() if line.strip()]
    frames = [index for index, line in enumerate(lines) if line.startswith("File ")]
    if not frames:
        return ""
    place = lines[frames[-1]].removeprefix("File ").replace('"', "")
    code = f": `{lines[frames[-1] + 1]}`" if len(lines) > frames[-1] + 1 else ""
    return f" ({place}{code})"
