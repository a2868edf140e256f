"""Settings of a node as users write them, and as the core takes them."""

from numbers import Integral, Real

_COMPRESSION = {False: "none", None: "none", True: "fp16"}


def compression_name(written: bool | str | None) -> str:
    return _COMPRESSION.get(written, written)


def whole_number(name: str, value: int, most: int) -> int:
    """`value`, from 1 to `most`."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} is a whole number, not {value!r}")
    if not 1 <= value <= most:
        raise ValueError(f"{name} must be from 1 to {most}, not {value}")
    return int(value)


def number(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} is a number, not {value!r}")
    return float(value)


def outer_settings(name: str | None, momentum: float, rate: float) -> tuple[float, float] | None:
    """(momentum, rate) of Nesterov's over rounds between clusters; None: rounds give the mean itself."""
    if name not in (None, "nesterov"):
        raise ValueError(f"outer is None or 'nesterov', not {name!r}")
    return (momentum, rate) if name else None
