"""The mandatory check of a capture: what was written must train as the model itself does.

The archive is read back and run by the C++ executor, the model by Python, both from the same seed and on the same
inputs; outputs, gradients of every parameter and floating-point input, and buffers after the pass are held against
each other: equal to the bit, or within rounding. torch.export loses some things without a word (the backward of a
custom autograd.Function, side effects in Python): this is where they are found.
"""

import contextlib
import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from torch.utils import _pytree as pytree

from .. import _core
from ..engine.graph import Graph
from ..errors import CaptureError
from .advice import advice_on
from .differences import Watched, explained, watched

_SEED = 20


@dataclass
class Pass:
    """What one pass gave: everything by the name that a message would use."""

    outputs: dict[str, object] = field(default_factory=dict)
    gradients: dict[str, torch.Tensor | None] = field(default_factory=dict)
    buffers: dict[str, torch.Tensor] = field(default_factory=dict)
    functions: set[str] = field(default_factory=set)  # custom autograd.Functions that its backward goes through
    seen: Watched | None = None  # of the forward, where it was asked for


@contextlib.contextmanager
def untouched(module: torch.nn.Module):
    """Leave the module's training flags, parameters and buffers as they were, whatever the block does with them."""
    flags = [(part, part.training) for part in module.modules()]
    tensors = [*module.parameters(), *module.buffers()]
    kept = [(tensor, tensor.detach().clone()) for tensor in tensors]
    holders = [(part, dict(part._buffers.items())) for part in module.modules()]
    try:
        yield
    finally:
        for part, training in flags:
            part.training = training
        for part, buffers in holders:
            for name, buffer in buffers.items():
                if part._buffers[name] is not buffer:
                    setattr(part, name, buffer)
        with torch.no_grad():
            for tensor, value in kept:
                if tensor.numel() and not torch.equal(tensor, value):
                    tensor.copy_(value)


def module_pass(
    module: torch.nn.Module, args: tuple, kwargs: dict, train: bool, input_grads: bool, watch: bool = False
) -> Pass:
    """One pass of the model itself, in the mode it is in. Its state is as before afterwards."""
    with untouched(module):
        parameters = dict(module.named_parameters(remove_duplicate=False))
        call, seen = watched(module, module) if watch else (module, None)
        result = _pass(call, parameters, args, kwargs, train, input_grads)
        result.seen = seen
        buffers = dict(module.named_buffers(remove_duplicate=False))
        result.buffers = _copies(buffers)
        for name, buffer in buffers.items():
            if buffer.requires_grad:
                raise CaptureError(
                    f"the model leaves its buffer {name} with a gradient that reaches into the step just done, so its "
                    "next step would fail. Write it under torch.no_grad() or from a detached tensor; torch.jit.trace "
                    "drops no_grad blocks: script the model or capture the nn.Module"
                )
    return result


def graph_pass(graph: Graph, args: tuple, kwargs: dict, train: bool, input_grads: bool, watch: bool = False) -> Pass:
    """The same pass by the executor. The graph's buffers are as before afterwards."""
    parameters = dict(graph.named_parameters(remove_duplicate=False))
    buffers = dict(graph.named_buffers(remove_duplicate=False))
    kept = _copies(buffers)
    try:
        call = lambda *a, **k: graph(*a, train=train, **k)  # noqa: E731
        call, seen = watched(call) if watch else (call, None)
        result = _pass(call, parameters, args, kwargs, train, input_grads)
        result.seen = seen
        result.buffers = _copies(buffers)
    finally:
        with torch.no_grad():
            for name, buffer in buffers.items():
                buffer.copy_(kept[name])
    return result


def _copies(tensors):
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def _pass(call, parameters, args, kwargs, train, input_grads):
    leaves, spec = pytree.tree_flatten((args, kwargs))
    leaves = [leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
    wanted = {name: parameter for name, parameter in parameters.items() if parameter.requires_grad}
    if input_grads:
        for position, leaf in enumerate(leaves):
            if isinstance(leaf, torch.Tensor) and leaf.is_floating_point():
                wanted[f"input {position}"] = leaf.requires_grad_()
    args, kwargs = pytree.tree_unflatten(leaves, spec)
    torch.manual_seed(_SEED)
    with torch.enable_grad():
        outputs = call(*args, **kwargs)
    result = Pass()
    for path, leaf in pytree.tree_flatten_with_path(outputs)[0]:
        name = f"output{pytree.keystr(path)}" if path else "output"
        result.outputs[name] = leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf
    if train:
        _differentiate(pytree.tree_leaves(outputs), wanted, result)
    return result


def _differentiate(outputs, wanted, result):
    differentiable = [leaf for leaf in outputs if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    if not differentiable or not wanted:
        return
    result.functions = _custom_functions(differentiable)
    # Weights that differ from element to element, so that no gradient vanishes by symmetry, as softmax's would.
    weights = [
        torch.cos(torch.arange(leaf.numel(), device=leaf.device) + float(position)).to(leaf.dtype).view(leaf.shape)
        for position, leaf in enumerate(differentiable)
    ]
    gradients = torch.autograd.grad(differentiable, list(wanted.values()), weights, allow_unused=True)
    result.gradients = dict(zip(wanted, gradients, strict=True))


def _custom_functions(outputs):
    found, seen, pending = set(), set(), [leaf.grad_fn for leaf in outputs]
    while pending:
        node = pending.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if isinstance(node, torch.autograd.function.BackwardCFunction):
            found.add(type(node).__name__.removesuffix("Backward"))
        pending.extend(child for child, _ in node.next_functions)
    return found


@dataclass(frozen=True)
class Apart:
    """Two passes whose numbers are not equal to the bit."""

    name: str  # "the gradient of fc.weight"
    difference: float
    largest: float  # of the model's own values
    allowed: float  # what rounding may make
    precision: str  # whose rounding: "float"
    where: str
    only_here: bool  # at another size they were equal
    reason: str = ""

    @property
    def excess(self) -> float:
        return self.difference / self.allowed if self.allowed > 0 else math.inf

    def sentence(self) -> str:
        text = f"{self.name} of the captured graph differs from the model's own {self.where} by {self.difference:.3g}"
        if self.largest > 0 and math.isfinite(self.difference):
            text += f", {self.difference / self.largest:.1g} of its largest value"
        return f"{text}. {self.reason}"


def compare(
    graph: Graph,
    module: torch.nn.Module,
    args: tuple,
    kwargs: dict,
    train: bool,
    where: str,
    types: Iterable[torch.dtype] = (),
    only_here: bool = False,
) -> Apart | None:
    """One pass of the graph held against the model's own: nothing where they are equal to the bit, how far they are
    apart where that is rounding. CaptureError, with the reason, where it is more; `where` ends the sentence.
    `types` are those that the model computes with, `only_here` says that the two were equal at another size.

    What rounding may make is relative to a tensor's largest value; closeness.h of src/ravnest/graph has the rule.
    """
    input_grads = train
    try:
        own = module_pass(module, args, kwargs, train, input_grads)
    except CaptureError:
        raise
    except RuntimeError:
        input_grads = False  # It writes into its input, which a leaf with gradient does not allow.
        try:
            own = module_pass(module, args, kwargs, train, input_grads)
        except Exception as error:
            if advice := advice_on(error):
                raise CaptureError(f"the model {advice}") from error
            raise CaptureError(f"the model itself fails {where}: {error}") from error
    try:
        captured = graph_pass(graph, args, kwargs, train, input_grads)
    except Exception as error:
        raise CaptureError(f"the captured graph fails {where}, where the model does not: {error}") from error
    worst = None
    for kind in ("outputs", "gradients", "buffers"):
        found = _differences(kind, getattr(captured, kind), getattr(own, kind), types, where)
        if not found:
            continue
        name, difference, largest, allowed, precision = max(
            found, key=lambda each: each[1] / each[3] if each[3] > 0 else math.inf
        )
        what = {"outputs": name, "gradients": f"the gradient of {name}", "buffers": f"the buffer {name}"}[kind]
        apart = Apart(what, difference, largest, allowed, precision, where, only_here)
        if apart.excess > 1 or worst is None:
            reason = _reason(apart, kind, name, own, graph, module, args, kwargs, train, input_grads)
            worst = dataclasses.replace(apart, reason=reason)
        if apart.excess > 1:
            raise CaptureError(worst.sentence())
    return worst


def _differences(kind, ours, theirs, types, where):
    if ours.keys() != theirs.keys():
        odd = ", ".join(sorted(ours.keys() ^ theirs.keys()))
        raise CaptureError(f"the captured graph and the model do not have the same {kind} {where}: {odd}")
    tensors = [name for name in theirs if all(isinstance(each[name], torch.Tensor | None) for each in (ours, theirs))]
    found = [
        (name, math.inf, 0.0, 0.0, "")
        for name in theirs.keys() - set(tensors)
        if type(ours[name]) is not type(theirs[name]) or ours[name] != theirs[name]
    ]
    typed = [torch.empty(0, dtype=each) for each in types]
    return found + _core.differences([(name, ours[name], theirs[name]) for name in tensors], typed)


def _reason(apart, kind, name, own, graph, module, args, kwargs, train, input_grads) -> str:
    """What was looked for and found. Costs a pass of the model and one of the graph."""
    if kind == "gradients" and own.functions:
        names = ", ".join(sorted(own.functions))
        return (
            f"The model uses the custom autograd.Function {names}, whose backward torch.export drops; write it with "
            "ordinary operators, or register it as an operator of its own"
        )
    again = module_pass(module, args, kwargs, train, input_grads, watch=True)
    in_graph = graph_pass(graph, args, kwargs, train, input_grads, watch=True)
    apart_again = _differences(kind, getattr(again, kind), getattr(own, kind), (), apart.where)
    noise = next((difference for other, difference, *_ in apart_again if other == name), 0.0)
    assert again.seen is not None and in_graph.seen is not None  # both were watched
    return explained(again.seen, in_graph.seen, noise, apart.excess <= 1, apart.only_here)
