"""TorchScript operators that are not torch operators: on numbers, lists, strings, dicts, and sizes of tensors.

A size may be a symbol here, so arithmetic on numbers must be Python's own. A traced graph computes with sizes as if
they were tensors (`prim::NumToTensor`); they are kept as numbers, and become tensors only where a real one meets them.
"""

import math
import operator

import torch

from ..errors import CaptureError

NUMBER = (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool)


class Raised(RuntimeError):
    """What the script itself raised."""


def _raise(message, *_):
    raise Raised(message)


def _append(items, item):
    items.append(item)
    return items


def _set_item(items, key, value):
    items[key] = value


def _slice(items, start=None, stop=None, step=1):
    return items[slice(start, stop, step)]


def _to_int(number):
    return number if isinstance(number, torch.SymInt) else int(number)


def _to_float(number):
    return torch.sym_float(number)


def _to_bool(number):
    return number if isinstance(number, torch.SymBool) else bool(number)


def _trunc_div(a, b, mode=None):
    if mode is None:
        return a / b
    return a // b if mode == "floor" or (a >= 0) == (b >= 0) else -(-a // b)


# Kinds that mean one thing whatever their arguments are.
OPERATORS = {
    "prim::TupleConstruct": lambda *items: items,
    "prim::TupleUnpack": list,
    "prim::TupleIndex": operator.getitem,
    "prim::ListConstruct": lambda *items: list(items),
    "prim::ListUnpack": list,
    "prim::DictConstruct": lambda *items: dict(zip(items[::2], items[1::2], strict=True)),
    "prim::NumToTensor": lambda number: number,
    "prim::unchecked_cast": lambda value: value,
    "prim::unchecked_unwrap_optional": lambda value: value,
    "aten::_unwrap_optional": lambda value: value,
    "prim::Uninitialized": lambda: None,
    "prim::RaiseException": _raise,
    "prim::Print": print,
    "prim::data": lambda tensor: tensor.detach(),
    "prim::dtype": lambda tensor: tensor.dtype,
    "prim::device": lambda tensor: tensor.device,
    "prim::layout": lambda tensor: tensor.layout,
    "prim::shape": lambda tensor: list(tensor.shape),
    "prim::is_cuda": lambda tensor: tensor.is_cuda,
    "prim::is_cpu": lambda tensor: tensor.is_cpu,
    "prim::requires_grad": lambda tensor: tensor.requires_grad,
    "prim::min": min,
    "prim::max": max,
    "aten::size": lambda tensor, *dimension: tensor.size(*dimension) if dimension else list(tensor.shape),
    "aten::dim": lambda tensor: tensor.dim(),
    "aten::numel": lambda tensor: tensor.numel(),
    "aten::stride": lambda tensor, *dimension: tensor.stride(*dimension) if dimension else list(tensor.stride()),
    "aten::is_floating_point": lambda tensor: tensor.is_floating_point(),
    "aten::is_contiguous": lambda tensor: tensor.is_contiguous(),
    "aten::len": len,
    "aten::append": _append,
    "aten::extend": lambda items, others: items.extend(others),
    "aten::list": list,
    "aten::pop": lambda items, index=-1: items.pop(index),
    "aten::insert": lambda items, index, item: items.insert(index, item),
    "aten::clear": lambda items: items.clear(),
    "aten::reverse": lambda items: items.reverse(),
    "prim::Enter": lambda block: block.__enter__(),
    "prim::Exit": lambda block: block.__exit__(None, None, None),
    "aten::__getitem__": operator.getitem,
    "aten::_set_item": _set_item,
    "aten::__contains__": operator.contains,
    "aten::__is__": operator.is_,
    "aten::__isnot__": operator.is_not,
    "aten::__not__": operator.not_,
    "aten::keys": lambda items: list(items.keys()),
    "aten::values": lambda items: list(items.values()),
    "aten::items": lambda items: list(items.items()),
    "aten::format": lambda text, *items: text.format(*items),
    "aten::warn": lambda *_: None,
    "aten::Int": _to_int,
    "aten::Float": _to_float,
    "aten::Bool": _to_bool,
    "aten::IntImplicit": _to_int,
    "aten::FloatImplicit": _to_float,
    "aten::ScalarImplicit": lambda number: number if isinstance(number, NUMBER) else number.item(),
}  # fmt: skip

# Kinds that torch also has on tensors: these are for numbers, lists and strings.
_ON_NUMBERS = {
    "add": lambda a, b, alpha=1: a + b * alpha if alpha != 1 else a + b,
    "sub": lambda a, b, alpha=1: a - b * alpha if alpha != 1 else a - b,
    "mul": operator.mul,
    "div": _trunc_div,
    "floordiv": operator.floordiv,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "pow": operator.pow,
    "neg": operator.neg,
    "abs": abs,
    "floor": math.floor,
    "ceil": math.ceil,
    "sqrt": math.sqrt,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "__and__": operator.and_,
    "__or__": operator.or_,
    "slice": _slice,
    "copy": list,
    "to": lambda number, *_: number,
    "detach": lambda number: number,
}


def call_operator(node, inputs: list):
    """Run an operator that torch has, or one of its namesakes on numbers and lists."""
    schema = torch._C.parse_schema(node.schema())
    name = node.kind().removeprefix("aten::")
    if name in _ON_NUMBERS and _about_numbers(schema, inputs):
        return _ON_NUMBERS[name](*map(_as_number, inputs))
    namespace, _, base = schema.name.partition("::")
    try:
        overload = getattr(getattr(getattr(torch.ops, namespace), base), schema.overload_name or "default")
    except AttributeError:
        raise CaptureError(f"the TorchScript module uses {schema.name}, which torch.export does not know") from None
    args, kwargs = [], {}
    for argument, value in zip(schema.arguments, inputs, strict=True):
        if _is_number_for_tensor(argument, value):
            value = torch.scalar_tensor(value, dtype=_dtype_of(value))
        if argument.kwarg_only:
            kwargs[argument.name] = value
        else:
            args.append(value)
    return overload(*args, **kwargs)


def _about_numbers(schema, inputs) -> bool:
    """Whether a call has no tensor, or only sizes that a traced graph takes for tensors and constants beside them."""
    tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
    if not tensors:
        return not any(isinstance(value, list) and any(isinstance(v, torch.Tensor) for v in value) for value in inputs)
    constants = all(type(tensor) is torch.Tensor and tensor.dim() == 0 for tensor in tensors)
    return constants and any(map(_is_number_for_tensor, schema.arguments, inputs))


def _is_number_for_tensor(argument, value) -> bool:
    return isinstance(value, NUMBER) and argument.type.kind() == "TensorType"


def _as_number(value):
    return value.item() if isinstance(value, torch.Tensor) else value


def _dtype_of(value):
    if isinstance(value, bool | torch.SymBool):
        return torch.bool
    return torch.long if isinstance(value, int | torch.SymInt) else torch.get_default_dtype()
