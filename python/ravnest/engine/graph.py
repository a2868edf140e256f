"""A captured model: loaded from its archive, called like the model, cut into stages."""

import os
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from .. import _core
from .._core import fetched
from .._core import load as _load
from ..seed import current_seed
from .named_tensors import NamedTensors
from .signature import Signature


def load(path: str | os.PathLike[str], *, weights: str | os.PathLike[str] = "", entry: str = "") -> "Graph":
    """Read an archive that `capture`, `Graph.save` or torch.export wrote.

    Nothing in the files is ever unpickled.

    Args:
        path: The archive.
        weights: Weights to take in place of the archive's: a state dict, as .safetensors or of torch.save. It has to
            fit the model, name by name. An object's URL, s3://BUCKET/KEY, is fetched first (docs/object_storage.md).
        entry: Which of several state dicts in that file, such as "model_state_dict" of a checkpoint.

    Returns:
        A Graph; a Stage where the archive is that of a stage.

    Raises:
        ravnest.Error: A file is not there, is of another kind, or the weights are of another model; the message
            names it and what is wrong.
    """
    weights = os.fspath(weights)
    if weights.startswith("s3://"):
        weights = fetched(weights, dict(os.environ))
    core = _load(os.fspath(path), weights=weights, entry=entry)
    return Stage(core) if getattr(core, "stage", -1) >= 0 else Graph(core)


class Graph(NamedTensors):
    """A model as the C++ executor runs it: one set of weights, a training graph and an eval graph.

    Calling it is calling the model: the same arguments, the same structure of results, autograd recorded when gradient
    mode is on. `parameters()` and `buffers()` are the tensors that the executor reads and writes, so an optimizer over
    the parameters trains the graph, and a copy into them loads weights.

    Random operators (dropout and the like) draw by `random`: "keyed", from a generator keyed by `seed`, `step` and the
    operator's place in the model, so that a step gives the same numbers however the model is cut, and the process's
    own generators are left alone; or "plain", from torch's generators, as the model itself would. `step` goes up by one
    after each training call.

    One thread at a time may call a graph.
    """

    def __init__(self, core: _core.Model) -> None:
        self._core = core
        self._run = core.run
        self._parameters = core.parameters()
        self._buffers = core.buffers()
        self._signatures = {train: Signature(core, train) for train in (True, False)}
        self._train, self._eval = self._signatures[True], self._signatures[False]
        self._plain = False
        self.seed = current_seed()
        self.step = 0

    def __call__(self, *args: Any, train: bool = True, **kwargs: Any) -> Any:
        """Run the model.

        Args:
            *args: The model's inputs by position.
            train: Whether to run the training graph, or the eval graph.
            **kwargs: The model's inputs by keyword.

        Returns:
            What the model returns.
        """
        signature = self._train if train else self._eval
        outputs = self._run(
            signature.flatten(args, kwargs), train=train, seed=self.seed, step=self.step, plain=self._plain
        )
        if train:
            self.step += 1
        return signature.unflatten(outputs)

    @property
    def random(self) -> str:
        """Where random operators draw from: "keyed" or "plain"."""
        return "plain" if self._plain else "keyed"

    @random.setter
    def random(self, source: str) -> None:
        if source not in ("keyed", "plain"):
            raise ValueError(f'random must be "keyed" or "plain", not {source!r}')
        self._plain = source == "plain"

    def _tensors(self) -> tuple[Mapping[str, torch.Tensor], Mapping[str, torch.Tensor]]:
        return self._parameters, self._buffers

    def tied(self) -> dict[str, list[int]]:
        """Weights that more than one stage uses -> those stages; their gradients must be added up."""
        return self._core.tied()

    def operators(self, train: bool = True) -> list[dict[str, Any]]:
        """The graph's operators in order: name, target and the path of the module each one comes from."""
        return self._core.operators(train)

    def cuts(self) -> list[dict[str, Any]]:
        """Every place where the model could be cut: position, operator, module, whether it is legal or why not, and how
        many tensors and bytes would cross."""
        return self._core.cuts()

    def slice(self, cuts: Iterable[int | str]) -> list["Stage"]:
        """Cut the model before each of `cuts` and return the stages in order; they share the graph's tensors.

        Args:
            cuts: Each a position, the name of an operator, or the path of a module (before its first operator).

        Raises:
            ValueError: There is no such place.
            ravnest.Error: The model cannot be cut there; the message has the reason.
        """
        positions = sorted({self._position(cut) for cut in cuts})
        return [Stage(core, self) for core in self._core.slice(positions)]

    def _position(self, cut: int | str) -> int:
        if isinstance(cut, int):
            return cut
        operators = self._core.operators(True)
        for position, operator in enumerate(operators):
            if operator["name"] == cut:
                return position
        for position, operator in enumerate(operators):
            if operator["module"] == cut or operator["module"].startswith(f"{cut}."):
                return position
        raise ValueError(f"the graph has no operator and no module named {cut!r}")

    def save(self, path: str | os.PathLike[str]) -> str:
        """Write the graph with its present weights as an archive that `load` and torch.export.load open.

        Args:
            path: The file to write.

        Returns:
            The path.
        """
        self._core.save(os.fspath(path))
        return os.fspath(path)

    def to(self, device: str | torch.device) -> "Graph":
        """Move the weights to a device, in place. Take `parameters()` again afterwards: they are other tensors."""
        self._core.to(str(device))
        self._parameters = self._core.parameters()
        self._buffers = self._core.buffers()
        return self

    def profile(self, *args: Any, sizes: Mapping[str, int] | None = None, **kwargs: Any) -> dict[str, Any]:
        """What a training step costs: FLOPs and bytes per operator, bytes of weights, peak bytes of the step.

        Args:
            *args: Inputs: with them the figures are those of a real pass, without from shapes alone.
            sizes: Without inputs: symbol -> size, of those that differ from the example's.
            **kwargs: Inputs by keyword.
        """
        if args or kwargs:
            return self._core.measure(self._train.flatten(args, kwargs))
        return self._core.profile(sizes or {})


class Stage(Graph):
    """One part of a cut model: a graph called with flat tensors, in the order of `inputs`.

    The last stage returns what the model returns; every other a tuple, in the order of `consumers`.
    """

    def __init__(self, core: _core.Model, whole: Graph | None = None) -> None:
        super().__init__(core)
        self.index = core.stage
        if whole is not None:
            self.seed, self.step, self._plain = whole.seed, whole.step, whole._plain

    def inputs(self, train: bool = True) -> list[tuple[int, int]]:
        """For each argument where it comes from: (stage, index of its output), or (-1, index of the model's input)."""
        return self._core.inputs(train)

    def consumers(self, train: bool = True) -> list[list[int]]:
        """For each output the stages that take it; none for the model's own outputs."""
        return self._core.consumers(train)
