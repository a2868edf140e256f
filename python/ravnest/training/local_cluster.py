"""A cluster whose stages are threads of this process: a model cut into stages and trained as a pipeline."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from .. import _core
from ..engine.graph import Graph, Stage
from ..engine.named_tensors import NamedTensors, check_recurse, named
from ..seed import current_seed
from .criterion import Criterion
from .optimizers import form_of_step

_PATIENCE_S = 24 * 3600.0


class LocalCluster(NamedTensors):
    """Train a captured model as a pipeline of threads.

    >>> graph = ravnest.load("model.pt2")
    >>> with LocalCluster(graph.slice(["blocks.2", "blocks.4"]), loss_function, "AdamW", {"lr": 1e-3}) as cluster:
    ...     for x, y in loader:
    ...         cluster.train(x, y)
    ...     losses = [report["loss"] for report in cluster.drain()]

    Args:
        stages: What `Graph.slice` gives, or a graph that is not cut.
        criterion: A function `(outputs, targets)` that gives the loss; `outputs` is the model's result.
        optimizer: A name, with the options that torch.optim's has, or a function
            `make(stage) -> step(parameters, gradients)`.
        optimizer_params: The options of an optimizer by name.
        schedule: "async", "sync" or "gpipe".
        window: Passes in flight, by default as many as there are stages.
        microbatches: Cuts each batch into so many passes, with one update.
        compression: Of what stages send each other: "none", "fp16", "bf16", "int8", "int4" or "topk:0.01".
        recompute: Whether passes are computed again for their gradients: less memory for more time.
        seed: By default that of `set_seed`.
        addresses: Of the stages, as "127.0.0.1:9000": then they talk over sockets.
        tls: Whether these are encrypted.
    """

    def __init__(
        self,
        stages: Sequence[Stage] | Graph,
        criterion: Callable[[Any, Any], torch.Tensor],
        optimizer: str | Callable[[int], Callable[..., None]] = "SGD",
        optimizer_params: Mapping[str, Any] | None = None,
        *,
        schedule: str = "async",
        window: int = 0,
        microbatches: int = 1,
        compression: str = "none",
        recompute: bool = False,
        seed: int | None = None,
        addresses: Sequence[str] = (),
        tls: bool = False,
    ) -> None:
        parts: list[Graph] = [stages] if isinstance(stages, Graph) else list(stages)
        self._targets = _Targets()
        self._batches = itertools.count()
        options = _core.ClusterOptions()
        options.criterion = Criterion(
            parts[-1]._signatures, criterion, self._targets, lambda targets: targets, loss_of_validation=True
        )
        if callable(optimizer):
            options.optimizers = [form_of_step(optimizer(stage)) for stage in range(len(parts))]
        else:
            options.optimizers = [(optimizer, dict(optimizer_params or {}), [])] * len(parts)
        options.schedule, options.window, options.recompute = schedule, window, recompute
        options.microbatches = microbatches
        options.seed = current_seed() if seed is None else seed
        options.compression = compression
        options.addresses, options.tls = list(addresses), tls
        self._core = _core.Cluster([part._core for part in parts], options)
        self.size = len(parts)

    def train(self, inputs: Any, targets: Any, *, update: bool = True, timeout_s: float = _PATIENCE_S) -> None:
        """Offer a batch to train on; returns as soon as there is room for it.

        Args:
            inputs: The model's inputs: a tensor, or a sequence of them.
            targets: What the criterion is given beside the outputs.
            update: Whether the optimizer steps after it.
            timeout_s: How long to wait for room.
        """
        self._offer("train", inputs, targets, update, timeout_s)

    def validate(self, inputs: Any, targets: Any, *, timeout_s: float = _PATIENCE_S) -> None:
        """Offer a batch to be evaluated by the eval graph, after all that was offered before it.

        Args:
            inputs: The model's inputs.
            targets: What the criterion is given beside the outputs.
            timeout_s: How long to wait for room.
        """
        self._offer("validate", inputs, targets, False, timeout_s)

    def predict(self, inputs: Any, *, timeout_s: float = _PATIENCE_S) -> None:
        """Offer a batch whose outputs come back in the reports.

        Args:
            inputs: The model's inputs.
            timeout_s: How long to wait for room.
        """
        self._offer("predict", inputs, None, False, timeout_s)

    def drain(self, timeout_s: float = _PATIENCE_S) -> list[dict[str, Any]]:
        """Wait for all batches.

        Args:
            timeout_s: How long to wait.

        Returns:
            The reports on the batches that were not returned yet, in their order: `loss`, `samples`, `correct` and the
            like of each pass.
        """
        self._core.drain(timeout_s)
        return self._core.reports()

    def statistics(self) -> list[dict[str, Any]]:
        """Per stage: passes, updates, staleness, versions of the weights, seconds computed and running."""
        return [self._core.statistics(stage) for stage in range(self.size)]

    def parameters(self, recurse: bool = True, *, stage: int | None = None) -> Iterator[torch.Tensor]:
        """The parameters, each once, as torch.nn.Module gives them. Drain first.

        Args:
            recurse: Has no effect; it is there because torch has it.
            stage: The number of a stage, for its own alone.
        """
        return (tensor for _, tensor in self.named_parameters(recurse=recurse, stage=stage))

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True, *, stage: int | None = None
    ) -> Iterator[tuple[str, torch.Tensor]]:
        """The parameters with the model's own names, as torch.nn.Module gives them. Drain first.

        Args:
            prefix: What all names begin with, before a dot.
            recurse: Has no effect; it is there because torch has it.
            remove_duplicate: Whether a tied weight comes once, under its first name, or under each of its names.
            stage: The number of a stage, for its own alone.
        """
        check_recurse(recurse, "; stage= has the parameters of one stage")
        tensors = self._tensors()[0] if stage is None else self._core.parameters(stage)
        return named(tensors, prefix, remove_duplicate)

    def _tensors(self) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        parameters: dict[str, torch.Tensor] = {}
        buffers: dict[str, torch.Tensor] = {}
        for stage in range(self.size):
            for all_stages, own in ((parameters, self._core.parameters(stage)), (buffers, self._core.buffers(stage))):
                for name, tensor in own.items():
                    all_stages.setdefault(name, tensor)  # one that several stages use is kept by the first of them
        return parameters, buffers

    def stop(self, stage: int, reason: str = "was stopped") -> None:
        """End the run from one of its stages, as if it had failed there.

        Args:
            stage: The number of the stage.
            reason: What the others are told of it, after its name.
        """
        self._core.stop(stage, reason)

    def close(self) -> None:
        """Wait for all batches and end. Raises what a stage failed with."""
        self._core.close()

    def __enter__(self) -> "LocalCluster":
        return self

    def __exit__(self, kind: type | None, *_: object) -> None:
        if kind is None:
            self.close()
        self._core.end()

    def _offer(self, kind, inputs, targets, update, timeout_s):
        inputs = list(inputs) if isinstance(inputs, tuple | list) else [inputs]
        batch = next(self._batches)
        if kind != "predict":
            self._targets.add(batch, targets)
        self._core.offer(kind, inputs, batch=batch, update=update, timeout_s=timeout_s)


class _Targets:
    """The targets of batches that are under way. Apart from the cluster, which would otherwise keep itself."""

    def __init__(self):
        self._of_batch: dict[int, Any] = {}

    def add(self, batch, targets):
        self._of_batch[batch] = targets

    def __call__(self, head):
        last = head["part"] == head["parts"] - 1
        return self._of_batch.pop(head["batch"]) if last else self._of_batch[head["batch"]]
