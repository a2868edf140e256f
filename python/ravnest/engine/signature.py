"""The model's call signature: from arguments as a user gives them to the executor's flat list, and back."""

from collections.abc import Mapping
from typing import Any

from torch.utils import _pytree as pytree

from .._core import Error
from .tree_spec import read_spec


class Signature:
    """How one graph (training or eval) is called. Everything that can be known at load is worked out here once."""

    def __init__(self, core, train: bool):
        in_spec, self._out_spec = read_spec(core.in_spec(train)), read_spec(core.out_spec(train))
        if in_spec.type is not tuple or [child.type for child in in_spec.children()] != [tuple, dict]:
            raise Error("the archive's inputs are not described as arguments and keywords")
        positional, keywords = in_spec.children()
        self._args = positional.children()
        self._kwargs = dict(zip(keywords.context, keywords.children(), strict=True))
        self._names = list(core.arg_names(train))
        if len(self._names) != len(self._args) + len(self._kwargs):
            count = len(self._args)
            self._names = [f"argument {i}" for i in range(count)] + list(self._kwargs)
        specs = [*self._args, *self._kwargs.values()]
        flat = all(spec.is_leaf() for spec in specs)
        self._plain_count = len(self._args) if flat and not self._kwargs else -1
        self._single_output = self._out_spec.is_leaf()
        self.names = tuple(self._names)
        self.count = len(self._names)

    def argument(self, name: str) -> str:
        """The name of an argument: `l_attention_mask_`, as graphs call it, is `attention_mask`."""
        bare = name[2:-1]
        return bare if name not in self.names and name == f"l_{bare}_" and bare in self.names else name

    def unflatten(self, outputs: list):
        """The flat results in the structure that the model returns."""
        return outputs[0] if self._single_output else pytree.tree_unflatten(outputs, self._out_spec)

    def flatten_batch(self, batch: Any, kwargs: Mapping[str, Any]) -> list:
        """The flat inputs, from a batch (None, a tensor, a sequence of them or a dict by name) and more by keyword."""
        if isinstance(batch, Mapping):
            args, kwargs = (), {**batch, **kwargs}
        elif batch is None:
            args = ()
        else:
            args = tuple(batch) if isinstance(batch, tuple | list) else (batch,)
        return self.flatten(args, {self.argument(name): value for name, value in kwargs.items()})

    def flatten(self, args: tuple, kwargs: dict) -> list:
        """The flat inputs, from arguments given by position or by name. TypeError where they do not fit the model."""
        # The common call is tensors by position: nothing to flatten, nothing to bind.
        if not kwargs and len(args) == self._plain_count:
            return list(args)
        count = len(self._args)
        if len(args) > len(self._names):
            raise TypeError(f"the model takes {self._expected()}, but {len(args)} were given by position")
        given = dict(zip(self._names, args, strict=False))
        for name, value in kwargs.items():
            if name in given:
                raise TypeError(f"{name} is given twice, by position and by name")
            if name not in self._names:
                raise TypeError(f"the model has no argument {name}; it takes {self._expected()}")
            given[name] = value
        missing = [name for name in self._names if name not in given]
        if missing:
            raise TypeError(f"{', '.join(missing)} not given; the model takes {self._expected()}")
        flat = []
        for name, spec in zip(self._names[:count], self._args, strict=True):
            self._append(flat, name, given[name], spec)
        for name, spec in self._kwargs.items():
            self._append(flat, name, given[name], spec)
        return flat

    def _append(self, flat, name, value, spec):
        if spec.is_leaf():
            flat.append(value)
            return
        leaves, actual = pytree.tree_flatten(value)
        if actual != spec:
            value = self._reordered(value, spec)
            leaves, actual = pytree.tree_flatten(value)
        if actual != spec:
            raise TypeError(
                f"{name} must have the structure of the example, {_describe(spec)}, not {_describe(actual)}"
            )
        flat.extend(leaves)

    @staticmethod
    def _reordered(value, spec):
        """A dict whose keys come in another order than the example's is the same argument."""
        if type(value) is dict and spec.type is dict and value.keys() == set(spec.context):
            return {key: value[key] for key in spec.context}
        return value

    def _expected(self) -> str:
        count = len(self._names)
        return f"{count} argument{'s' if count != 1 else ''} ({', '.join(self._names)})"


def _describe(spec) -> str:
    stars = pytree.tree_unflatten(["*"] * spec.num_leaves, spec)
    return str(stars).replace("'*'", "*")
