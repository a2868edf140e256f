"""torch.autocast that is on around a call of ravnest: part of the model where it is captured, an error elsewhere."""

import contextlib
from dataclasses import dataclass

import torch

_DEVICE_TYPES = ("cpu", "cuda", "xpu", "mps")


@dataclass(frozen=True)
class AmbientAutocast:
    """One kind of device for which autocast is on in this thread."""

    device_type: str
    dtype: torch.dtype

    def block(self, enabled: bool = True) -> torch.autocast:
        return torch.autocast(self.device_type, dtype=self.dtype, enabled=enabled)


def ambient_autocasts() -> list[AmbientAutocast]:
    """Those that are on now."""
    kinds = [kind for kind in _DEVICE_TYPES if torch.amp.is_autocast_available(kind)]
    return [AmbientAutocast(kind, torch.get_autocast_dtype(kind)) for kind in kinds if torch.is_autocast_enabled(kind)]


@contextlib.contextmanager
def without(autocasts: list[AmbientAutocast]):
    """Autocast off for the length of the block."""
    with contextlib.ExitStack() as stack:
        for each in autocasts:
            stack.enter_context(each.block(enabled=False))
        yield


@contextlib.contextmanager
def forward_in(autocasts: list[AmbientAutocast], module: torch.nn.Module):
    """For the length of the block, the module's forward runs in these autocasts wherever it is called."""
    if not autocasts:
        yield
        return
    own = vars(module).get("forward")
    for each in autocasts:
        module.forward = each.block()(module.forward)
    try:
        yield
    finally:
        if own is None:
            del module.forward
        else:
            module.forward = own


def refuse_autocast_around(call: str) -> None:
    """RuntimeError where autocast is on around a call that computes elsewhere."""
    if ambient_autocasts():
        raise RuntimeError(
            f"torch.autocast is on around {call}, where it would change nothing: stages compute in threads and "
            "processes of their own. Put the block around clusterize (or capture), or into the model's forward; the "
            "criterion can open one of its own"
        )
