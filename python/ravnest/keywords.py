"""Keywords that do not exist, and the ones that were meant."""

import inspect
from collections.abc import Callable, Iterable

from . import _core


def refuse_unknown(what: str, given: Iterable[str], function: Callable) -> None:
    """TypeError with the nearest name for the first of `given` that is no parameter of `function`."""
    parameters = inspect.signature(function).parameters.values()
    names = [each.name for each in parameters if each.kind is not each.VAR_KEYWORD and each.name != "self"]
    for keyword in given:
        if keyword not in names:
            raise TypeError(f"{what}() has no keyword {keyword}{_core.did_you_mean(keyword, names)}")
