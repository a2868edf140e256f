"""Loaders that can be seen, before anything is trained, to give too few batches; the core counts those of the rest."""

from collections.abc import Iterator

from .._core import ITERATE_AGAIN, WHY_EMPTY


def check_loader(what: str, source, times: int, used: bool) -> None:
    """ValueError for what can be seen to give too little when it is gone through so many times.

    That is, where it is used, a length of 0; and for several times a generator or an iterator of Python's own, on every
    node, so that all of them say so. The rest is counted (`_core.BatchCounts`).
    """
    if source is None or times == 0:
        return
    if used and length_of(source) == 0:
        raise ValueError(f"{what} has no batch: {WHY_EMPTY}")
    if times > 1 and isinstance(source, Iterator) and type(source).__module__ in ("builtins", "itertools"):
        raise ValueError(
            f"{what} is a {type(source).__name__}, which can be iterated only once, but there are {times} epochs: "
            + ITERATE_AGAIN
        )


def length_of(source) -> int | None:
    """How many batches it says that it has; None where it does not say."""
    try:
        return len(source)
    except TypeError:
        return None
