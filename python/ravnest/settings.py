"""Settings of a node as users write them, and as the core takes them."""

from collections.abc import Mapping
from math import inf
from numbers import Integral, Real
from typing import Any


def compression_name(written: bool | str | None) -> str:
    """The core's name of what users write: False and None are none, True is fp16."""
    return written if isinstance(written, str) else "fp16" if written else "none"


def whole_number(name: str, value: int, most: int = 2**31 - 1, least: int = 1) -> int:
    """`value`, from `least` to `most`."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be a whole number, not {value!r}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, not {value}")
    if value > most:
        raise ValueError(f"{name} must be at most {most}, not {value}")
    return int(value)


def keywords(name: str, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """What was given to be passed on by keyword."""
    if given is None:
        return {}
    try:
        return dict(given)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a dict of keywords, not {given!r}") from None


def number(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, not {value!r}")
    return float(value)


def positive(name: str, value: float) -> float:
    if not 0 < number(name, value) < inf:
        raise ValueError(f"{name} must be more than 0, not {value}")
    return float(value)


def outer_settings(name: str | None, momentum: float, rate: float) -> tuple[float, float] | None:
    """(momentum, rate) of Nesterov's over rounds between clusters; None: rounds give the mean itself."""
    if name not in (None, "nesterov"):
        raise ValueError(f"outer must be None or 'nesterov', not {name!r}")
    if not 0 <= number("outer_momentum", momentum) < 1:
        raise ValueError(f"outer_momentum must be at least 0 and less than 1, not {momentum}")
    return (float(momentum), positive("outer_rate", rate)) if name else None


def check_training_numbers(node) -> None:
    """TypeError or ValueError where a number that a node was given cannot be meant."""
    node.update_frequency = whole_number("update_frequency", node.update_frequency)
    node.microbatches = whole_number("microbatches", node.microbatches)
    node.window = whole_number("window", node.window, least=0)
    if node.reduce_factor is not None:
        node.reduce_factor = whole_number("reduce_factor", node.reduce_factor)
    for limit in ("clip_value", "clip_norm"):
        if getattr(node, limit) is not None:
            setattr(node, limit, positive(limit, getattr(node, limit)))
