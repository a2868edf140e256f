"""The batch dimension of an exported program: whether it stayed open, and inputs of another size to try it with."""

from collections.abc import Mapping
from typing import Any, cast

import sympy
import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree


def input_sizes(program: ExportedProgram) -> list[tuple[str, tuple] | None]:
    """For each flat input: its name and sizes (ints or sympy expressions), or None where it is not a tensor."""
    values = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    sizes = []
    for name in program.graph_signature.user_inputs:
        value = values.get(name) if isinstance(name, str) else None
        if isinstance(value, torch.Tensor):
            sizes.append((name, tuple(_size(size) for size in value.shape)))
        else:
            sizes.append(None)
    return sizes


def _size(size):
    expression = size.node.expr if isinstance(size, torch.SymInt) else sympy.Integer(size)
    return expression if expression.free_symbols else int(expression)


class Batch:
    """The batch size of one program: the size of dimension 0 that most of its inputs share in the example."""

    def __init__(self, program: ExportedProgram, args: tuple, kwargs: dict):
        self._leaves, self._spec = pytree.tree_flatten((args, kwargs))
        self._sizes = input_sizes(program)
        self._ranges = cast(Mapping[sympy.Basic, Any], program.range_constraints)
        firsts = [leaf.shape[0] for leaf, known in self._tensors()]
        self.size = max(firsts, key=firsts.count) if firsts else None

    def open_elsewhere(self) -> bool:
        """Whether an input with a fixed dimension 0 has another dimension that is open: it may be the batch's."""
        return any(
            not isinstance(sizes[0], sympy.Expr) and any(isinstance(size, sympy.Expr) for size in sizes)
            for leaf, (_, sizes) in self._tensors()
            if leaf.shape[0] == self.size
        )

    def fixed_inputs(self) -> list[str]:
        """Names of the inputs with the batch size in dimension 0, where the graph accepts that one size only."""
        return [
            name
            for leaf, (name, sizes) in self._tensors()
            if leaf.shape[0] == self.size and not isinstance(sizes[0], sympy.Expr)
        ]

    def resized(self) -> tuple[tuple, dict] | None:
        """The example with one more sample (or one less, where the model has an upper bound), or None if it has one
        size only. Samples are repeated in turn; other dimensions that follow the batch size follow it here too."""
        hints: dict[sympy.Basic, int] = {
            size: actual
            for leaf, (_, sizes) in self._tensors()
            for size, actual in zip(sizes, leaf.shape, strict=True)
            if isinstance(size, sympy.Symbol)
        }
        moved: dict[sympy.Basic, int] = {}
        for leaf, (_, sizes) in self._tensors():
            if leaf.shape[0] == self.size and isinstance(sizes[0], sympy.Expr):
                for symbol in sizes[0].free_symbols:
                    if symbol not in hints:
                        return None
                    moved[symbol] = hints[symbol]
        if not moved:
            return None
        for symbol, hint in moved.items():
            bounds = self._ranges.get(symbol)
            if bounds is None or hint + 1 <= bounds.upper:
                moved[symbol] = hint + 1
            elif hint - 1 >= max(bounds.lower, 1):
                moved[symbol] = hint - 1
            else:
                return None
        return self._with_sizes(hints | moved)

    def enlarged(self) -> tuple[tuple, dict]:
        """The example with one more sample in every input that has the batch size in dimension 0, whatever the graph
        accepts: to ask the model itself."""
        leaves = [
            _repeated(leaf, 0, leaf.shape[0] + 1)
            if isinstance(leaf, torch.Tensor) and leaf.dim() and leaf.shape[0] == self.size
            else leaf
            for leaf in self._leaves
        ]
        return pytree.tree_unflatten(leaves, self._spec)

    def _tensors(self):
        for leaf, known in zip(self._leaves, self._sizes, strict=True):
            if known is not None and isinstance(leaf, torch.Tensor) and leaf.dim():
                yield leaf, known

    def _with_sizes(self, values: dict):
        leaves = []
        for leaf, known in zip(self._leaves, self._sizes, strict=True):
            if known is not None and isinstance(leaf, torch.Tensor):
                for dimension, size in enumerate(known[1]):
                    if isinstance(size, sympy.Expr):
                        leaf = _repeated(leaf, dimension, int(cast(sympy.Integer, size.xreplace(values))))
            leaves.append(leaf)
        return pytree.tree_unflatten(leaves, self._spec)


def _repeated(tensor: torch.Tensor, dimension: int, size: int) -> torch.Tensor:
    if tensor.shape[dimension] == size:
        return tensor
    index = torch.arange(size, device=tensor.device) % tensor.shape[dimension]
    return tensor.detach().index_select(dimension, index)


def usable_example(args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    """The example in a form that torch.export takes as meant.

    A batch of one is doubled along dimension 0 (where every tensor input has size 1 there): torch.export would take it
    for a constant. A tensor given twice is copied: torch.export would take the two inputs for one.
    """
    leaves, spec = pytree.tree_flatten((args, kwargs))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    sized = [tensor for tensor in tensors if tensor.dim()]
    double = bool(sized) and all(tensor.shape[0] == 1 for tensor in sized)
    seen = set()
    for position, leaf in enumerate(leaves):
        if not isinstance(leaf, torch.Tensor):
            continue
        if double and leaf.dim():
            leaves[position] = _repeated(leaf, 0, 2)
        elif id(leaf) in seen:
            leaves[position] = leaf.detach().clone()
        seen.add(id(leaf))
    return pytree.tree_unflatten(leaves, spec)
