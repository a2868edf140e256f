"""Does a model's forward take this input? Asked without a trace on the model, and cheaply where the answer is no.

A try runs twice. First on a copy whose tensors have shapes but no memory (torch's fake tensors): a wrong size shows
there, and neither a large model nor a large image costs more than the walk through the code. What passes is run once
for real, with two samples, because fake tensors have no values: only a real pass finds that a position lies beyond its
embedding. The real pass is on the CPU, where an index out of range is an error and not the end of the process.
"""

import contextlib
import copy
import logging
import warnings
from dataclasses import dataclass

import torch
from torch._subclasses import fake_tensor
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.jit._fuser import optimized_execution
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from .verify import untouched

# What fake tensors cannot answer. Everything else that they raise, the real pass would raise too.
_UNANSWERED = (
    fake_tensor.DynamicOutputShapeException,
    fake_tensor.DataDependentOutputException,
    fake_tensor.UnsupportedFakeTensorException,
    fake_tensor.UnsupportedOperatorException,
    fake_tensor.UnsupportedMutationAliasingException,
    GuardOnDataDependentSymNode,
    NotImplementedError,
)

# Traced TorchScript modules call the second.
_CONVOLUTIONS = (torch.ops.aten.convolution.default, torch.ops.aten._convolution.default)


@dataclass
class Outcome:
    """What a try has shown: the failure, or what the pass was like."""

    failure: Exception | None = None
    activation_bytes: int = 0  # the new tensors that the forward made, two samples in
    starved: bool = False  # a convolution met an image of one pixel, and read padding only


class Trial:
    """Tries on one model, in training mode as far as the model is (parts that stand in eval mode stay so)."""

    def __init__(self, model: torch.nn.Module):
        self._model = model
        self._scripted = isinstance(model, torch.jit.ScriptModule)
        self._real = None

    def run(self, args: tuple, kwargs: dict) -> Outcome:
        """One try with inputs on the CPU. Random state, weights, buffers, modes and gradients stay as they are."""
        devices = range(torch.cuda.device_count())
        with torch.random.fork_rng(devices), torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outcome = Outcome() if self._scripted else self._run_fake(args, kwargs)
            if outcome.failure is not None:
                return outcome
            return self._run_real(args, kwargs)

    def _run_fake(self, args, kwargs):
        mode = fake_tensor.FakeTensorMode(allow_non_fake_inputs=True)
        tensors = [*self._model.parameters(), *self._model.buffers()]
        try:
            # A copy that finds every weight copied already, as a tensor without memory.
            hollow = copy.deepcopy(self._model, {id(tensor): mode.from_tensor(tensor) for tensor in tensors})
        except Exception:
            return Outcome()
        device = next((tensor.device for tensor in tensors), torch.device("cpu"))
        with mode, _silenced(logging.getLogger(fake_tensor.__name__)):
            args, kwargs = pytree.tree_map_only(
                torch.Tensor, lambda tensor: mode.from_tensor(tensor).to(device), (args, kwargs)
            )
            outcome = _observe(hollow, args, kwargs)
        if isinstance(outcome.failure, _UNANSWERED):
            return Outcome()
        return outcome

    def _run_real(self, args, kwargs):
        if self._real is None:
            with contextlib.suppress(Exception):
                self._real = copy.deepcopy(self._model).cpu()
        if self._real is not None:
            return _observe(self._real, args, kwargs)
        # It cannot be copied (old weight_norm keeps a computed tensor): the model itself, and everything put back.
        device = next((tensor.device for tensor in self._model.parameters()), torch.device("cpu"))
        args, kwargs = pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.to(device), (args, kwargs))
        with untouched(self._model):
            return _observe(self._model, args, kwargs)


def _observe(module, args, kwargs):
    outcome = Outcome()
    observer = _Observer(outcome)
    try:
        if not module.training:
            module.train()
        with observer, optimized_execution(False):
            module(*args, **kwargs)
    except Exception as error:
        # TorchScript has tracebacks of its own around an operator's error.
        scripted = isinstance(module, torch.jit.ScriptModule)
        outcome.failure = observer.failure if scripted and observer.failure is not None else error
    return outcome


@contextlib.contextmanager
def _silenced(logger):
    """A failed try is no news to the user: torch logs each with its stack."""
    before = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = before


class _Observer(TorchDispatchMode):
    """Writes into an outcome what passes by."""

    def __init__(self, outcome):
        super().__init__()
        self._outcome = outcome
        self.failure = None  # the last that an operator raised

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        try:
            result = func(*args, **(kwargs or {}))
        except Exception as error:
            self.failure = error
            raise
        if func in _CONVOLUTIONS:
            image, kernel = args[0].shape[2:], args[1].shape[2:]
            transposed = args[6]
            if not transposed and any(size == 1 < taps for size, taps in zip(image, kernel, strict=True)):
                self._outcome.starved = True
        if not any(argument.alias_info for argument in func._schema.returns):
            for leaf in pytree.tree_leaves(result):
                if isinstance(leaf, torch.Tensor):
                    self._outcome.activation_bytes += leaf.numel() * leaf.element_size()
        return result
