"""A stage that is computed by a module of the user's instead of the planned one."""

import contextlib
import os
import tempfile
from collections.abc import Iterator

import torch

from .. import _core
from ..capture.capture import capture


@contextlib.contextmanager
def captured_stage(model, node_data, name: str) -> Iterator[str]:
    """The path of `model`'s archive, captured on tensors such as the planned stage of that node gets; "" for None."""
    if model is None:
        yield ""
        return
    planned = _core.load(_core.stage_archive(os.fspath(node_data), name))
    example = tuple(_tensor_like(info) for info in planned.input_info(True))
    with tempfile.TemporaryDirectory(prefix="ravnest-") as folder:
        yield capture(model, example, path=os.path.join(folder, "stage.pt2"))


def _tensor_like(info: dict) -> torch.Tensor:
    dtype = getattr(torch, info["dtype"])
    if dtype.is_floating_point:
        return torch.randn(info["example_sizes"], dtype=dtype)
    return torch.zeros(info["example_sizes"], dtype=dtype)
