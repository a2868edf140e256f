"""One graph of a module, by torch.export, with every dimension of every input left open where the model allows it."""

import contextlib
import io
import linecache
import logging
import os
import sys
import traceback
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedOperatorException,
)
from torch.export import Dim, ExportedProgram, ShapesCollection
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils import _pytree as pytree

from ..errors import CaptureError
from .advice import advice_on, uses_transforms, watched
from .grad_mode import inline_grad_regions, keep_cast_weights, plain_grad_regions

# Loggers that warn about what is either harmless here (a dimension of size 1 stays 1) or said better in a CaptureError.
_NOISY = (
    "torch.fx.experimental.symbolic_shapes",
    "torch._export.non_strict_utils",
    "torch.export._trace",
    "torch.export.dynamic_shapes",
)
_OWN_FOLDERS = (os.path.dirname(torch.__file__), os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def export_graph(module: torch.nn.Module, args: tuple, kwargs: dict) -> ExportedProgram:
    """Export `module` as it stands (training or eval mode) and return a program without no_grad regions.

    All dimensions are tried as dynamic first; where that fails, only the batch dimension (dimension 0) of the inputs.
    Raises CaptureError. Gradient mode is on during the export, whatever it was before.
    """
    tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor) and leaf.dim()]
    open_everywhere = [(Dim.AUTO,) * tensor.dim() for tensor in tensors]
    open_batch = [(Dim.AUTO,) + (Dim.STATIC,) * (tensor.dim() - 1) for tensor in tensors]
    first_error = None
    for shapes in (open_everywhere, open_batch):
        watch = None
        try:
            with watched() as watch:
                program = _export(module, args, kwargs, tensors, shapes)
        except CaptureError:
            raise
        except Exception as error:
            advice = advice_on(error, watch)
            if advice:
                raise CaptureError(f"the model {advice}{user_frame(error)}") from error
            if is_data_dependent(error):
                raise _data_dependent(error) from error
            first_error = first_error or error
        else:
            if advice := uses_transforms(program):
                raise CaptureError(f"the model {advice}")
            inline_grad_regions(program)
            keep_cast_weights(program.graph_module)
            return program
    raise _export_failed(first_error) from first_error


def _export(module, args, kwargs, tensors, shapes):
    collection = ShapesCollection()
    for tensor, shape in zip(tensors, shapes, strict=True):
        collection[tensor] = shape
    # An empty collection is not the same as none: with it torch.export asks for a spec of every input.
    dynamic: Any = collection if tensors else None
    with torch.enable_grad(), _quiet(), plain_grad_regions():
        return torch.export.export(module, args, kwargs, dynamic_shapes=dynamic, strict=False)


@contextlib.contextmanager
def _quiet():
    """Hold back torch.export's own report of a failure; what the model printed comes out when the export succeeds."""
    levels = {name: logging.getLogger(name).level for name in _NOISY}
    for name in _NOISY:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    printed = io.StringIO()
    try:
        with contextlib.redirect_stderr(printed):
            yield
        sys.stderr.write(printed.getvalue())
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


def is_data_dependent(error: BaseException) -> bool:
    """Whether the export ended because Python asked for the value of a tensor."""
    seen, cause = set(), error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        if isinstance(cause, GuardOnDataDependentSymNode):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def user_frame(error: BaseException) -> str:
    """Where in the model's own code the error arose, as ' (file.py, line 12, in forward: `code`)', or ''."""
    found = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        if not frame.f_code.co_filename.startswith(_OWN_FOLDERS) and not frame.f_code.co_filename.startswith("<"):
            found = frame.f_code, line
    if found is None:
        return ""
    code, line = found
    text = linecache.getline(code.co_filename, line).strip()
    quoted = f": `{text}`" if text else ""
    return f" ({code.co_filename}, line {line}, in {code.co_name}{quoted})"


def _data_dependent(error):
    return CaptureError(
        f"the model's Python code decides by the value of a tensor{user_frame(error)}; a captured graph takes the same "
        "path for every batch. Use torch.where, a mask or torch.clamp instead of `if`, `while`, `.item()`, `int()` or "
        "`bool()` on a tensor"
    )


def _export_failed(error):
    if isinstance(error, DynamicOutputShapeException | DataDependentOutputException | UnsupportedOperatorException):
        return CaptureError(f"the model uses {error.func}{user_frame(error)}, which torch.export cannot trace")
    sentence = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return CaptureError(f"torch.export could not trace the model{user_frame(error)}: {sentence}")
