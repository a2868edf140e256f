"""Settings of a node as users write them, and as the core takes them."""

_COMPRESSION = {False: "none", None: "none", True: "fp16"}


def compression_name(written: bool | str | None) -> str:
    return _COMPRESSION.get(written, written)


def outer_settings(name: str | None, momentum: float, rate: float) -> tuple[float, float] | None:
    """(momentum, rate) of Nesterov's over rounds between clusters; None: rounds give the mean itself."""
    if name not in (None, "nesterov"):
        raise ValueError(f"outer is None or 'nesterov', not {name!r}")
    return (momentum, rate) if name else None
