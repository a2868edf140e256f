"""Named tuples and dataclasses that a model takes or returns, by the names that archives have for them.

A named tuple is written with its fields, `zoo.Scores(logits, hidden)`, so that whoever reads it can have one. A
dataclass is written by its name only. Where a module that is already imported has the type, that is taken: a plain
named tuple, or a dataclass that the process has registered with torch. Nothing is imported, and no code runs that an
archive chooses.
"""

import dataclasses
import re
import sys
from collections import namedtuple

from torch.utils import _pytree as pytree

from .._core import Error

NAMEDTUPLE = "collections.namedtuple"
_DESCRIBED = re.compile(r"([\w.<>]+)\((\w+(?:, \w+)*)?\)")
_MAX_FIELDS = 1000


def give_name(kind: type) -> bool:
    """Give a named tuple, or a dataclass that is registered with torch, a name for archives; whether it has one."""
    if pytree.is_namedtuple_class(kind):
        if not _has_name(kind):
            _register(kind, f"{_full_name(kind)}({', '.join(kind._fields)})")
        return True
    if dataclasses.is_dataclass(kind) and kind in pytree.SUPPORTED_NODES and not _has_name(kind):
        _register(kind, _full_name(kind))
    return _has_name(kind)


def find_named_tuple(name: str) -> None:
    """Have torch know the named tuple that an archive describes as `name`: that of this process, or one like it."""
    if name in pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE:
        return
    described = _DESCRIBED.fullmatch(name)
    fields = tuple(described[2].split(", ")) if described and described[2] else ()
    if described is None or len(fields) > _MAX_FIELDS:
        raise Error(f"the archive describes a named tuple {name!r}, which this process has not registered")
    kind = _imported(described[1])
    if not (kind and pytree.is_namedtuple_class(kind) and kind.__bases__ == (tuple,) and kind._fields == fields):
        kind = namedtuple(described[1].rpartition(".")[2], fields)
    _register(kind, name)


def find_dataclass(name: str) -> bool:
    """Have torch know the dataclass `name`, where the process has registered it without a name; whether it has."""
    kind = _imported(name)
    return kind is not None and give_name(kind) and name in pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE


def _full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _has_name(kind: type) -> bool:
    known = pytree.SUPPORTED_SERIALIZED_TYPES.get(kind)
    return known is not None and known.serialized_type_name != pytree.NO_SERIALIZED_TYPE_NAME_FOUND


def _register(kind: type, name: str) -> None:
    if kind not in pytree.SUPPORTED_NODES:
        pytree._register_namedtuple(kind, serialized_type_name=name)
        return
    # torch has no second registration that would add a name.
    known = pytree.SUPPORTED_SERIALIZED_TYPES.get(kind)
    both = (known.to_dumpable_context, known.from_dumpable_context) if known else (None, None)
    pytree.SUPPORTED_SERIALIZED_TYPES[kind] = pytree._SerializeNodeDef(kind, name, *both)
    pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE[name] = kind


def _imported(name: str) -> type | None:
    """The class `package.module.Outer.Inner`, if a module that is imported has it."""
    parts = name.split(".")
    for count in range(len(parts) - 1, 0, -1):
        found = sys.modules.get(".".join(parts[:count]))
        for part in parts[count:]:
            found = vars(found).get(part) if found is not None and hasattr(found, "__dict__") else None
        if isinstance(found, type):
            return found
    return None
