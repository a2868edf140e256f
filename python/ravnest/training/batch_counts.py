"""How many batches a loader gives each time that it is gone through."""

from collections.abc import Iterator

from ..errors import Error

_AGAIN = "give a DataLoader, a list, a tensor, or an object whose __iter__ begins anew"
_EMPTY = "it is empty, or has less than one batch, which drop_last=True leaves out"


def check_loader(what: str, source, times: int, used: bool) -> None:
    """ValueError for what can be seen to give too little when it is gone through so many times.

    That is, where it is used, a length of 0; and for several times a generator or an iterator of Python's own, on every
    node, so that all of them say so. The rest is counted.
    """
    if source is None or times == 0:
        return
    if used and length_of(source) == 0:
        raise ValueError(f"{what} has no batch: {_EMPTY}")
    if times > 1 and isinstance(source, Iterator) and type(source).__module__ in ("builtins", "itertools"):
        raise ValueError(
            f"{what} is a {type(source).__name__}, which can be iterated only once, but there are {times} epochs: "
            + _AGAIN
        )


class BatchCounts:
    """What came of a loader so far, by epochs or validations, counted from 1."""

    def __init__(self, what: str, unit: str):
        self._what, self._unit = what, unit
        self._last = None  # (number, batches)

    def ended(self, number: int, batches: int) -> str | None:
        """A line where there were fewer batches than the time before. Error where there were none."""
        before, self._last = self._last, (number, batches)
        if batches == 0:
            raise Error(f"{self._what} gave no batch in {self._unit} {number}{self._why(before)}")
        if before is not None and batches < before[1]:
            return (
                f"{self._what} gave {counted(batches)} in {self._unit} {number}, and {counted(before[1])} in "
                f"{self._unit} {before[0]}"
            )
        return None

    def _why(self, before) -> str:
        if before is None:
            return f": {_EMPTY}"
        return (
            f", after {counted(before[1])} in {self._unit} {before[0]}: it can be iterated only once, as a "
            f"generator can; {_AGAIN}"
        )


def counted(batches: int) -> str:
    """So many batches, in words."""
    return f"{batches} batch" if batches == 1 else f"{batches or 'no'} batches"


def length_of(source) -> int | None:
    """How many batches it says that it has; None where it does not say."""
    try:
        return len(source)
    except TypeError:
        return None
