"""From a PyTorch model to one archive with its training graph, its eval graph and its weights."""

import contextlib
import copy
import io
import os
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind

from .. import _core
from ..engine.graph import load
from ..engine.tree_spec import require_portable
from ..errors import CaptureError
from .autocast import ambient_autocasts, forward_in, without
from .batch_dimension import Batch, usable_example
from .export import export_graph
from .grad_mode import computed_types, has_regions, inline_grad_regions
from .modes import one_mode_warning
from .precision import PRECISIONS, compare_types
from .sparse_embeddings import DenseEmbeddings, asks_for_sparse, make_embeddings_dense
from .torchscript import replay
from .verify import compare, module_pass, untouched

_AUTOCAST_AROUND = (
    "torch.autocast is on around the capture of a TorchScript module or an ExportedProgram, which are captured as they "
    "are: leave the block, or capture the nn.Module"
)
_FIXED_TYPES = (
    "TorchScript modules and ExportedPrograms have fixed their types already: a capture for 16 bits (precision=) needs "
    "the nn.Module"
)
_TWO_PRECISIONS = (
    "torch.autocast is on around a capture with precision={precision!r}, which are two ways to compute in 16 bits: "
    "leave the block, or precision= out"
)
_DENSE = (
    "an embedding of the model asks for sparse gradients (sparse=True); ravnest captures it with dense ones, which all "
    "optimizers but SparseAdam take"
)


def write_archive(
    model: torch.nn.Module | ExportedProgram,
    example_args: Any,
    example_kwargs: Mapping[str, Any] | None,
    path: str,
    precision: str,
) -> str:
    """Do what `capture` promises: trace the model, write the archive, and check what was written."""
    if precision not in PRECISIONS:
        raise ValueError(f"precision must be one of {', '.join(map(repr, PRECISIONS))}, not {precision!r}")
    args, kwargs = _example(model, example_args, example_kwargs)
    devices = range(torch.cuda.device_count())
    autocasts = ambient_autocasts()
    with contextlib.ExitStack() as stack:
        for context in (torch.random.fork_rng(devices), warnings.catch_warnings(), without(autocasts)):
            stack.enter_context(context)
        warnings.filterwarnings("ignore", message=r".*torch\.jit.*", category=DeprecationWarning)
        # nn.LSTM and its like put their own weights back after the export; nothing of the model is lost by it.
        warnings.filterwarnings("ignore", message=r"The tensor attributes? .*_flat_weights")
        source = _source(model, args, kwargs, lambda module: stack.enter_context(forward_in(autocasts, module)))
        if isinstance(model, ExportedProgram | torch.jit.ScriptModule):
            if autocasts:
                raise CaptureError(_AUTOCAST_AROUND)
            if precision != "float32":
                raise CaptureError(_FIXED_TYPES)
            message = one_mode_warning(source.train, source.eval)
            if message:
                warnings.warn(message, stacklevel=3)
        if autocasts and precision != "float32":
            raise CaptureError(_TWO_PRECISIONS.format(precision=precision))
        if source.made_dense:
            warnings.warn(_DENSE, stacklevel=3)
        folder = os.path.dirname(os.path.abspath(path))
        with tempfile.TemporaryDirectory(prefix=".capture-", dir=folder) as scratch:
            written = os.path.join(scratch, os.path.basename(path))
            _write(source, scratch, written, [] if precision == "float32" else [precision])
            _check(source, written)
            if precision != "float32":
                _check_precision(source, written, precision)
            os.replace(written, path)
    return path


@dataclass
class Source:
    """A model ready to be written: its graphs, and the module that they are checked against."""

    module: torch.nn.Module
    train: ExportedProgram
    eval: ExportedProgram
    args: tuple
    kwargs: dict
    one_mode: bool = False  # both graphs are one: the module has no other mode
    made_dense: bool = False  # embeddings of the module give sparse gradients, those of the graphs dense ones

    @contextlib.contextmanager
    def mode(self, train: bool):
        """The module in training or eval mode, for the length of the block."""
        with untouched(self.module), DenseEmbeddings() if self.made_dense else contextlib.nullcontext():
            if not self.one_mode:
                _set_mode(self.module, train)
            yield self.module


def _set_mode(module, train):
    if not train:
        module.eval()
    elif not module.training:
        module.train()


def _example(model, example_args, example_kwargs):
    if isinstance(example_args, torch.Tensor):
        example_args = (example_args,)
    args, kwargs = tuple(example_args), dict(example_kwargs or {})
    if isinstance(model, ExportedProgram):
        if not args and not kwargs and model.example_inputs is not None:
            args, kwargs = model.example_inputs
        return args, kwargs
    return usable_example(args, kwargs)


def _source(model, args, kwargs, prepare) -> Source:
    if isinstance(model, ExportedProgram):
        return _program_source(model, args, kwargs)
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"capture takes an nn.Module, a TorchScript module or an ExportedProgram, not {type(model)}")
    scripted = isinstance(model, torch.jit.ScriptModule)
    module = getattr(model, "_orig_mod", model) if not scripted else model
    with contextlib.suppress(Exception):
        # Where a copy cannot be had (old weight_norm keeps a computed tensor), the model itself is used and put back.
        module = copy.deepcopy(module)
    if not scripted:
        prepare(module)

    def exported(train: bool) -> ExportedProgram:
        with untouched(module):
            _set_mode(module, train)
            traced = replay(module, args, kwargs) if isinstance(module, torch.jit.ScriptModule) else module
            return export_graph(traced, args, kwargs)

    programs = exported(True), exported(False)
    made_dense = [make_embeddings_dense(program.graph_module) for program in programs]
    return Source(module, programs[0], programs[1], args, kwargs, made_dense=any(made_dense))


def _program_source(program, args, kwargs):
    if any(
        spec.kind not in (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT)
        for spec in program.graph_signature.output_specs
    ):
        raise CaptureError(
            "the ExportedProgram has been through run_decompositions, which turns in-place writes into results: such a "
            "graph cannot train. Pass it as torch.export.export returned it"
        )
    if has_regions(program) or asks_for_sparse(program.graph_module):
        # A copy to change. Not by deepcopy: it renames an input called `input`, and the program no longer holds.
        file = io.BytesIO()
        torch.export.save(program, file)
        program = torch.export.load(file)
        inline_grad_regions(program)
    made_dense = make_embeddings_dense(program.graph_module)
    return Source(program.module(), program, program, args, kwargs, one_mode=True, made_dense=made_dense)


def _write(source, scratch, written, checked_precisions):
    train, evaluate = (os.path.join(scratch, f"{name}.pt2") for name in ("train", "eval"))
    for file, program in ((train, source.train), (evaluate, source.eval)):
        require_portable(program.call_spec.in_spec, "takes")
        require_portable(program.call_spec.out_spec, "returns")
        try:
            torch.export.save(program, file)
        except Exception as error:
            raise CaptureError(f"torch.export could not write the model's graph: {error}") from error
    try:
        _core.merge(train, evaluate, written, checked_precisions=checked_precisions)
    except _core.Error as error:
        raise CaptureError(f"the model cannot be captured: {error}") from error


def _check(source, written):
    try:
        graph = load(written)
    except _core.Error as error:
        raise CaptureError(f"the model cannot be captured: {error}") from error
    device = next((tensor.device for tensor in source.module.parameters()), torch.device("cpu"))
    if device.type != "cpu":
        graph.to(device)
    graph.random = "plain"
    found = []
    for train, program in ((True, source.train), (False, source.eval)):
        mode = "training" if train else "eval"
        with source.mode(train) as module:
            where = f"on the example in {mode} mode"
            types = computed_types(program)
            found.append(compare(graph, module, source.args, source.kwargs, train, where, types))
            batch = Batch(program, source.args, source.kwargs)
            _check_batch_is_open(batch, module)
            other = batch.resized()
            if other is not None and _runs(module, *other):
                where = f"in {mode} mode at another batch size than the example's {batch.size}"
                found.append(compare(graph, module, *other, train, where, types, only_here=found[-1] is None))
    _note_rounding([apart for apart in found if apart is not None])


def _check_precision(source, written, precision):
    core = _core.load(written)
    device = next((tensor.device for tensor in source.module.parameters()), torch.device("cpu"))
    if device.type != "cpu":
        core.to(str(device))
    for train, program in ((True, source.train), (False, source.eval)):
        with source.mode(train) as module:
            compare_types(core, module, program, source.args, source.kwargs, precision, train)


def _note_rounding(found):
    if not found:
        return
    apart = max(found, key=lambda each: each.excess)
    warnings.warn(f"captured, equal to the model within rounding: {apart.sentence()}", stacklevel=5)


def _check_batch_is_open(batch, module):
    fixed = batch.fixed_inputs()
    if not fixed:
        return
    what = f"the graph takes {', '.join(fixed)} with size {batch.size} in dimension 0 only"
    if not _runs(module, *batch.enlarged()):
        warnings.warn(f"{what}, as the model itself does: every batch must have that size", stacklevel=5)
    elif batch.open_elsewhere():
        # Recurrent networks with time in dimension 0: torch.export unrolls over time.
        warnings.warn(f"{what}, while the model itself runs with {batch.size + 1}", stacklevel=5)
    else:
        raise CaptureError(
            f"{what}, while the model itself runs with {batch.size + 1}: its code turns that size into a constant. Use "
            "x.shape[0] or -1 where it is used, not a loop over the batch or a comparison with a number"
        )


def _runs(module, args, kwargs) -> bool:
    try:
        module_pass(module, args, kwargs, train=False, input_grads=False)
    except Exception:
        return False
    return True
