"""A node that is a rank of a data-parallel run: the whole model, trained together with all other ranks."""

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from .. import _core
from ..capture.capture import capture
from ..errors import Error
from .criterion import farewell_of
from .node import Node
from .sharding import Share

STRATEGIES = ("ddp",)
# What Node takes that means something only where each node has a part of the model.
_OF_PIPELINES = {
    "schedule": "async",
    "window": 0,
    "microbatches": 1,
    "reduce_factor": None,
    "average": "overlap",
    "average_optim": False,
    "outer": None,
    "recompute": False,
}


class RankNode(Node):
    """What `Node(strategy="ddp", model=..., example_args=...)` makes, in a script that every rank runs.

    Ranks are started by `ravnest launch -- python train.py`, torchrun, srun or mpirun; a script started plainly is the
    only rank. All ranks call the same things in the same order. Each has the whole model and trains on its share of the
    data, and all have the same parameters after every update: those of one process that trains on all their batches.

    Attributes:
        rank: Which of the ranks this is, from 0.
        world: How many there are.
        is_root: True: every rank feeds data, and computes the loss.
    """

    rank: int
    world: int

    @staticmethod
    def _own_name(name: str | None) -> str:
        if name is not None:
            raise ValueError(
                f"with a strategy, ranks have their names from whoever starts them: leave name={name!r} out"
            )
        return f"rank_{_core.place_of(dict(os.environ)).rank}"

    def _join(self, model, check: Callable[[], int | None], node_data, trained, insecure: bool) -> None:
        options = _core.RankOptions()
        options.place, options.software = _core.place_of(dict(os.environ)), _core.__version__
        options.token, options.token_source = os.environ.get("RAVNEST_TOKEN"), "RAVNEST_TOKEN"
        self.rank, self.world = options.place.rank, options.place.world
        meets = False
        try:
            threads = check()
            self._check_strategy(insecure)
            self._set(options, trained)
            _share_cores(threads, options.place.local_world)
            with self._archive_of(model) as options.model:
                meets = True
                self._core = _core.Rank(options)
        except Exception as error:
            if not meets:  # otherwise the core has told the others itself
                _core.withdraw_rank(options, farewell_of(error)[0])
            raise
        self.device = self._core.device
        self.node_type, self.stage, self.stages = "rank", 0, 1
        self.is_root = self.is_leaf = True
        self.cluster_id, self.clusters = 0, 1
        self.progress = self.progress and self.rank == 0

    def _set(self, options: _core.RankOptions, trained) -> None:
        options.trained, options.device = trained, self.device
        options.gpus_are_chosen = "CUDA_VISIBLE_DEVICES" in os.environ
        options.broadcast_buffers = self._of_strategy["broadcast_buffers"]
        options.units_are_blocks = self._of_strategy["units"] == "blocks"
        options.set_backend(self._of_strategy["backend"])
        options.trusted_network = self._of_strategy["trusted_network"]
        options.set_precision(self._of_strategy["precision"], self._of_strategy["float32"])

    def _check_strategy(self, insecure: bool) -> None:
        if self.strategy not in STRATEGIES:
            raise ValueError(f"strategy must be {' or '.join(map(repr, STRATEGIES))}, not {self.strategy!r}")
        if self._of_strategy["units"] not in ("size", "blocks"):
            raise ValueError(f"units must be 'size' or 'blocks', not {self._of_strategy['units']!r}")
        for name, default in _OF_PIPELINES.items():
            if getattr(self, name) != default:
                raise ValueError(
                    f"{name}= means something for pipelines only, where each node has a part of the model: "
                    f"leave it out with strategy={self.strategy!r}"
                )
        if insecure:
            raise ValueError("insecure= is for pipelines: ranks of one machine need no token, others always do")

    @contextlib.contextmanager
    def _archive_of(self, model) -> Iterator[str]:
        """The captured model's file, while it is needed."""
        if model is None:
            raise ValueError(f"strategy={self.strategy!r} trains a whole model: give Node model= and example_args=")
        if isinstance(model, str | os.PathLike):
            yield os.fspath(model)
            return
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.pt2")
            example = self._of_strategy["example_args"], self._of_strategy["example_kwargs"]
            yield capture(model, *example, path, self._of_strategy["precision"])

    @property
    def share(self) -> Share:
        """What this rank trains on: its part, unless Trainer(shard=False) leaves the loaders as they are."""
        return Share() if self._shard is False else Share(self.rank, self.world, "ranks")

    @property
    def validation_share(self) -> Share:
        """What it validates with: its part, as of the training data."""
        return self.share

    @property
    def planned_batch(self) -> int | None:
        """None: there is no plan."""
        return None

    @property
    def _root_name(self) -> str:
        return self.name

    def _begin(self, core: Any, name: str, settings: Mapping[str, str] | None = None) -> None:
        core.begin(name, settings=dict(settings or {}))

    def _end_run(self, core: Any, error: BaseException) -> BaseException:
        """All ranks raise the sentence that they have agreed on, but for what a script has raised itself."""
        sentence, of_another = core.stop(*farewell_of(error))
        if not isinstance(error, Error) or sentence in ("", str(error)):
            return error
        agreed = Error(sentence)
        agreed.of_another = of_another
        agreed.__cause__ = error.__cause__
        return agreed

    def _finish(self, save: bool, goes_on: bool = False) -> None:
        self._member.finish(save=save)


def _share_cores(threads: int | None, ranks: int) -> None:
    """Ranks that share a machine would fight for its cores: each takes its part, unless it was told otherwise."""
    if threads is None and ranks > 1 and "OMP_NUM_THREADS" not in os.environ:
        threads = max(1, (os.cpu_count() or 1) // ranks)
    if threads:
        torch.set_num_threads(threads)
