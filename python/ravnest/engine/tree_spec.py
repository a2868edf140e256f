"""Structures of inputs and outputs, as archives describe them.

torch's own reader of these descriptions imports whatever module a defaultdict or an enum in them names. An archive may
come from anyone, so a description is looked through first, and only containers that can do nothing are let in: those of
Python, and types that this process has itself.
"""

import json
from collections import defaultdict, namedtuple

from torch.utils import _pytree as pytree

from .._core import Error
from ..errors import CaptureError
from .named_types import NAMEDTUPLE, find_dataclass, find_named_tuple, give_name

_KEYED = ("builtins.dict", "collections.OrderedDict")
_PLAIN = ("builtins.tuple", "builtins.list")
_MAX_DEPTH = 64


def read_spec(text: str) -> pytree.TreeSpec:
    """The tree that `text` describes, or Error with the reason."""
    try:
        _, described = json.loads(text)
        _look_through(described, 0)
        return pytree.treespec_loads(text)
    except Error:
        raise
    except Exception as error:
        raise Error(
            f"the archive describes a structure that cannot be read ({type(error).__name__}: {error})"
        ) from error


def require_portable(spec: pytree.TreeSpec, verb: str) -> None:
    """CaptureError where a structure that the model takes or returns cannot be described in an archive."""
    if spec.is_leaf():
        return
    kind = spec.context if spec.type is namedtuple else spec.type
    known = give_name(kind) or kind in pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE.values()
    if not known or kind is defaultdict:
        raise CaptureError(
            f"the model {verb} a {kind.__module__}.{kind.__qualname__}, which an archive cannot describe: use a tuple, "
            "a named tuple, a list, a dict or a dataclass that torch.export.register_dataclass knows"
        )
    for child in spec.children():
        require_portable(child, verb)


def _look_through(described: dict, depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise Error(f"the archive describes a structure nested more than {_MAX_DEPTH} deep")
    kind, context = described["type"], described["context"]
    if kind in _KEYED:
        keys = json.loads(context)
        if not all(isinstance(key, str | int | float | None) for key in keys):
            raise Error(f"the archive describes a {kind} with keys that are neither text nor numbers")
    elif kind in _PLAIN:
        if json.loads(context) is not None:
            raise Error(f"the archive describes a {kind} with more than its items")
    elif kind == "collections.defaultdict" or (isinstance(context, str) and "__enum__" in context):
        raise Error(f"the archive describes a {kind}, which names Python code to import; use a plain dict")
    elif kind == NAMEDTUPLE:
        find_named_tuple(context)
    elif kind is not None and kind not in pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE and not find_dataclass(kind):
        raise Error(
            f"the archive describes a {kind}, which this process has not registered as a structure: import the module "
            "that defines it first, or have the model take and return tuples, named tuples, lists and dicts"
        )
    for child in described["children_spec"]:
        _look_through(child, depth + 1)
