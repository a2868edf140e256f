"""What to tell the user of a model that torch.export could not trace, where what it does is known."""

import contextlib
import os
import traceback

import torch
from torch.nn.utils import rnn

_FUNCTORCH = os.path.join(os.path.dirname(torch.__file__), "_functorch")
_TRANSFORMS = (
    "uses torch.vmap or a transform of torch.func (grad, jacrev, ...), which a captured graph cannot hold. Write vmap "
    "as operators on the whole batch (layers and most operators take leading dimensions as they are), and what grad "
    "computes as ordinary operators; torch.func.functional_call is fine"
)
_GRADIENT = (
    "computes a gradient in its forward (torch.func.grad, torch.autograd.grad or backward()), which a captured graph "
    "cannot hold. Write the derivative as ordinary operators, or leave it to the criterion"
)
_PACKED = (
    "uses packed sequences (torch.nn.utils.rnn), whose shape depends on the lengths in a batch. Run the recurrent "
    "layer over the padded batch, and mask what is padding, or take the last step of each sequence with gather"
)
_REENTRANT = (
    "uses torch.utils.checkpoint with use_reentrant=True, whose gradients cannot be compared. Give "
    "use_reentrant=False; a captured graph keeps its activations either way"
)
_DATACLASS = (
    "returns {}, which torch does not know as a structure. Return a tuple, a named tuple, a list or a dict, or call "
    "torch.export.register_dataclass on a dataclass before"
)


class Watch:
    """What the model's forward called while torch.export traced it."""

    def __init__(self):
        self.gradient = False


@contextlib.contextmanager
def watched():
    """A Watch of the block: torch.export's own errors do not say what led to them."""
    watch = Watch()
    kept = torch.autograd.grad, torch.Tensor.backward

    def noting(function):
        def call(*args, **kwargs):
            watch.gradient = True
            return function(*args, **kwargs)

        return call

    torch.autograd.grad, torch.Tensor.backward = map(noting, kept)
    try:
        yield watch
    finally:
        torch.autograd.grad, torch.Tensor.backward = kept


def advice_on(error: BaseException, watch: Watch | None = None) -> str | None:
    """What the model does that led to `error`, as the end of a sentence about it; None where that is not known."""
    message = str(error)
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    files = [frame.f_code.co_filename for frame in frames]
    if any(_handles_packed(frame) for frame in frames):
        return _PACKED
    if watch is not None and watch.gradient:
        return _GRADIENT
    if "functorch tensor" in message or any(file.startswith(_FUNCTORCH) and _transforms(file) for file in files):
        return _TRANSFORMS
    if "use_reentrant=True" in message:
        return _REENTRANT
    if message.startswith("Found <class") and "which is not a known type" in message:
        return _DATACLASS.format(message.split("'")[1])
    return None


def uses_transforms(program: torch.export.ExportedProgram) -> str | None:
    """The same where torch.export has kept the transforms as calls of functions of its own."""
    modules = (getattr(node.target, "__module__", "") or "" for node in program.graph.nodes)
    return _TRANSFORMS if any(module.startswith("torch._functorch") for module in modules) else None


def _transforms(file: str) -> bool:
    return os.path.basename(file) in ("apis.py", "vmap.py", "eager_transforms.py", "pyfunctorch.py")


def _handles_packed(frame) -> bool:
    if frame.f_code.co_filename == rnn.__file__:
        return True
    return any(isinstance(value, rnn.PackedSequence) for value in list(frame.f_locals.values()))
