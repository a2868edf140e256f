"""Why a captured graph and its model may have come to other numbers: only what was looked for, and found.

Asked after the two were seen to differ, so it may cost a few passes more. The model runs again, watched: which
operators it calls, which attributes of its modules change, whether it draws from Python's or NumPy's random numbers.
"""

import random
import sys
from collections import Counter
from dataclasses import dataclass, field

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

_MOST_NAMED = 4
# What comes and goes without touching a number.
_WITHOUT_NUMBERS = {"clone", "copy_", "lift_fresh_copy", "new_empty", "new_ones", "new_zeros", "_local_scalar_dense"}
_WITHOUT_NUMBERS |= {"_unsafe_view", "empty_like", "ones_like", "zeros_like"}

_FIXED = ", which a captured graph fixes at the time of capture"


@dataclass
class Watched:
    """What was seen of one forward pass."""

    operators: Counter = field(default_factory=Counter)
    attributes: list[str] = field(default_factory=list)  # those of its modules that it changed: "layers.0.calls"
    generators: list[str] = field(default_factory=list)  # those that it drew from, besides torch's


class _Operators(TorchDispatchMode):
    def __init__(self, counts: Counter):
        super().__init__()
        self._counts = counts

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func._schema.name.removeprefix("aten::")
        is_view = any(each.alias_info for each in func._schema.returns)
        reads = any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves((args, kwargs)))
        if reads and not is_view and name not in _WITHOUT_NUMBERS:
            self._counts[name] += 1
        return func(*args, **(kwargs or {}))


def watched(call, module: torch.nn.Module | None = None):
    """`call`, and the Watched that it writes into whenever it is called."""
    seen = Watched()

    def run(*args, **kwargs):
        before = _attributes(module), _generators()
        with _Operators(seen.operators):
            result = call(*args, **kwargs)
        after = _attributes(module), _generators()
        seen.attributes = [name for name, value in after[0].items() if before[0].get(name, value) != value]
        seen.attributes += [name for name in after[0] if name not in before[0]]
        seen.generators = [name for name, state in after[1].items() if before[1].get(name, state) != state]
        return result

    return run, seen


def _attributes(module) -> dict[str, object]:
    """Of every submodule what its Python attributes hold: small values as they are, all else by who it is."""
    found = {}
    for path, part in module.named_modules() if module is not None else ():
        for name, value in vars(part).items():
            if name in ("training", "_parameters", "_buffers", "_modules"):
                continue
            if isinstance(value, torch.Tensor):
                value = (id(value), value._version)
            elif isinstance(value, list | dict | set):
                value = (id(value), len(value), repr(value) if len(value) < 8 else "")
            elif not isinstance(value, int | float | str | tuple | None):
                value = id(value)
            found[f"{path}.{name}" if path else name] = value
    return found


def _generators() -> dict[str, object]:
    states: dict[str, object] = {"random": random.getstate()}
    if "numpy" in sys.modules:  # Who draws from it has it.
        states["numpy.random"] = str(sys.modules["numpy"].random.get_state())
    return states


def explained(own: Watched, graph: Watched, noise: float, rounding: bool, only_here: bool) -> str:
    """The reason as a sentence. `noise` is how far apart two runs of the model itself are; `only_here`: at another size
    graph and model were equal."""
    if noise > 0 and rounding:
        return f"Two runs of the model itself differ too, by {noise:.3g}"
    if noise > 0:
        return f"Two runs of the model from one seed differ too, by {noise:.3g}{_unstable(own)}"
    only_own, only_graph = own.operators - graph.operators, graph.operators - own.operators
    if only_own or only_graph:
        when = "at that size" if only_here else "when torch.export traces it"
        return f"The model's code takes another path {when}: {_parted(only_own, only_graph)}"
    if own.attributes:
        return f"Its forward changes the Python attribute {_listed(own.attributes)}{_FIXED}; keep it in a buffer"
    looked = "Both run the same operators, two runs of the model agree, and its forward changes no attribute"
    if rounding:
        return f"{looked}: what is left is the order in which they add"
    return f"{looked}: what is left is a number in its forward that was another one when torch.export traced it"


def _unstable(own: Watched) -> str:
    if own.attributes:
        return f": its forward changes the Python attribute {_listed(own.attributes)}{_FIXED}; keep it in a buffer"
    if own.generators:
        return f": its forward draws numbers from {_listed(own.generators)}{_FIXED}; draw them with torch"
    return (
        ", though neither an attribute of its modules nor the generators of Python and NumPy change: it keeps state "
        "elsewhere, or one of its operators gives other numbers each time"
    )


def _parted(only_own: Counter, only_graph: Counter) -> str:
    both = []
    if only_own:
        both.append(f"it runs {_counted(only_own)}, which the graph does not")
    if only_graph:
        both.append(f"the graph runs {_counted(only_graph)}, which it does not")
    return "; ".join(both)


def _counted(operators: Counter) -> str:
    return _listed([f"{name} ({count} times)" if count > 1 else name for name, count in operators.most_common()])


def _listed(names: list[str]) -> str:
    named = ", ".join(names[:_MOST_NAMED])
    return f"{named} and {len(names) - _MOST_NAMED} others" if len(names) > _MOST_NAMED else named
