"""`capture`: what users call. What it takes to trace a model is loaded when the first one is traced."""

import os
from collections.abc import Mapping
from typing import Any

import torch
from torch.export import ExportedProgram


def capture(
    model: torch.nn.Module | ExportedProgram,
    example_args: Any = (),
    example_kwargs: Mapping[str, Any] | None = None,
    path: str | os.PathLike[str] = "model.pt2",
    precision: str = "float32",
) -> str:
    """Write `model` as one archive at `path` and return the path.

    The batch size stays open, and so does every other size that the model does not fix itself.

    The archive holds two graphs over one set of weights. The training graph is the model in training mode, the eval
    graph the model after `eval()`. Submodules that stand in eval mode inside a model in training mode (frozen batch
    norm) stay so. Where torch.autocast is on around the call, it is part of the model. The model itself, its gradients
    and torch's random state are left as they were.

    An ExportedProgram and a traced TorchScript module carry the one mode that they were made in: both graphs are then
    the same, with a warning where that shows. An ExportedProgram also keeps the sizes that it was exported with.

    Before the file appears at `path`, it is read back and one training pass and one eval pass of it are compared with
    the model's own, at the example's batch size and at another: outputs, all gradients and buffers must be equal, to
    the bit or, with a warning that says how far apart they are and why, within rounding.

    Args:
        model: An nn.Module, a TorchScript module or a torch.export.ExportedProgram.
        example_args: What its forward takes by position; a single tensor may stand alone. An ExportedProgram has an
            example of its own.
        example_kwargs: What its forward takes by keyword.
        path: The file to write.
        precision: What it will be trained in, besides float32: "bf16" or "fp16". The graph is captured in float32 all
            the same, and in addition run in that precision: every operator's result must be of the type that the model
            itself gives there.

    Returns:
        The path.

    Raises:
        CaptureError: The model cannot be captured, or what was captured gives other numbers than the model; the message
            has the reason. Nothing is written then, and a file that was there before stays.
    """
    # Tracing brings sympy along, a fifth of the time that `import ravnest` took, and most processes trace nothing.
    from .archive import write_archive

    return write_archive(model, example_args, example_kwargs, os.fspath(path), precision)
