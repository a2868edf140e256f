"""The mandatory check of a capture: what was written must train as the model itself does.

The archive is read back and run by the C++ executor, the model by Python, both from the same seed and on the same
inputs; outputs, gradients of every parameter and floating-point input, and buffers after the pass are held against
each other, bit for bit. torch.export loses some things without a word (the backward of a custom autograd.Function,
side effects in Python): this is where they are found.
"""

import contextlib
import math
from dataclasses import dataclass, field

import torch
from torch.utils import _pytree as pytree

from .advice import advice_on
from .errors import CaptureError
from .graph import Graph

_SEED = 20
_LOOSE = 1e-4  # No noise of the model's own excuses a relative difference above this.


@dataclass
class Pass:
    """What one pass gave: everything by the name that a message would use."""

    outputs: dict[str, object] = field(default_factory=dict)
    gradients: dict[str, torch.Tensor | None] = field(default_factory=dict)
    buffers: dict[str, torch.Tensor] = field(default_factory=dict)
    functions: set[str] = field(default_factory=set)  # custom autograd.Functions that its backward goes through


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


def module_pass(module: torch.nn.Module, args: tuple, kwargs: dict, train: bool, input_grads: bool) -> Pass:
    """One pass of the model itself, in the mode it is in. Its state is as before afterwards."""
    with untouched(module):
        parameters = dict(module.named_parameters(remove_duplicate=False))
        result = _pass(module, parameters, args, kwargs, train, input_grads)
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


def graph_pass(graph: Graph, args: tuple, kwargs: dict, train: bool, input_grads: bool) -> Pass:
    """The same pass by the executor. The graph's buffers are as before afterwards."""
    kept = _copies(graph.buffers())
    try:
        call = lambda *a, **k: graph(*a, train=train, **k)  # noqa: E731
        result = _pass(call, graph.parameters(), args, kwargs, train, input_grads)
        result.buffers = _copies(graph.buffers())
    finally:
        with torch.no_grad():
            for name, buffer in graph.buffers().items():
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


def require_equal(
    graph: Graph, module: torch.nn.Module, args: tuple, kwargs: dict, train: bool, where: str, tolerance: float = 0.0
) -> None:
    """CaptureError where one pass of the graph differs from the model's own; `where` ends the sentence.

    `tolerance` is relative to the largest value among all outputs, gradients or buffers: a gradient that is zero but
    for rounding has no size of its own. Where the model's own two runs differ (some operators add in no fixed order),
    four times that difference is allowed too.
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
    noise = None
    for kind in ("outputs", "gradients", "buffers"):
        ours, theirs = getattr(captured, kind), getattr(own, kind)
        if ours.keys() != theirs.keys():
            odd = ", ".join(sorted(ours.keys() ^ theirs.keys()))
            raise CaptureError(f"the captured graph and the model do not have the same {kind} {where}: {odd}")
        scale = max((_largest(value) for value in theirs.values()), default=0.0)
        for name, theirs_value in theirs.items():
            difference = _difference(ours[name], theirs_value)
            if difference <= tolerance * scale:
                continue
            if noise is None:
                noise = module_pass(module, args, kwargs, train, input_grads)
            own_difference = _difference(getattr(noise, kind)[name], theirs_value)
            if difference > min(4 * own_difference, _LOOSE * scale):
                largest = _largest(theirs_value)
                raise CaptureError(_sentence(kind, name, difference, largest, own_difference, own, where))


def _difference(ours, theirs) -> float:
    """The largest absolute difference; infinite where the two cannot be compared."""
    if ours is None and isinstance(theirs, torch.Tensor):
        ours = torch.zeros_like(theirs)
    if theirs is None and isinstance(ours, torch.Tensor):
        theirs = torch.zeros_like(ours)
    if not isinstance(theirs, torch.Tensor) or not isinstance(ours, torch.Tensor):
        return 0.0 if type(ours) is type(theirs) and ours == theirs else math.inf
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return math.inf
    equal = (ours == theirs) | ((ours != ours) & (theirs != theirs))
    if bool(equal.all()):
        return 0.0
    wide = torch.complex128 if theirs.is_complex() else torch.float64
    difference = float((ours.to(wide) - theirs.to(wide)).abs().where(~equal, 0).max())
    return difference if math.isfinite(difference) else math.inf


def _largest(value) -> float:
    if not isinstance(value, torch.Tensor) or not value.numel():
        return 0.0
    return float(value.detach().abs().max()) if value.dtype != torch.bool else 1.0


def _sentence(kind, name, difference, largest, own_difference, own, where):
    what = {"outputs": name, "gradients": f"the gradient of {name}", "buffers": f"the buffer {name}"}[kind]
    sentence = f"{what} of the captured graph differs from the model's own {where} by {difference:.3g}"
    if largest > 0 and math.isfinite(difference):
        sentence += f" (its largest value is {largest:.3g})"
    if kind == "gradients" and own.functions:
        names = ", ".join(sorted(own.functions))
        return (
            f"{sentence}. The model uses the custom autograd.Function {names}, whose backward torch.export drops; "
            "write it with ordinary operators, or register it as an operator of its own"
        )
    if own_difference > 0:
        return (
            f"{sentence}, and two runs of the model from one seed differ too: it draws random numbers from a "
            "generator other than torch's, or keeps state in Python"
        )
    if "batch size" in where:
        return f"{sentence}. Likely the model's code takes another path at that size"
    return (
        f"{sentence}. Likely the model's forward reads or changes Python state (a counter, a cache, a random "
        "choice), which a captured graph fixes at the time of capture"
    )
