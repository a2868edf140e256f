"""One node of a plan: its stage of the model, trained together with the other nodes of its cluster."""

import os
from collections.abc import Callable, Mapping
from typing import Any

import torch

from .. import _core
from ..capture.autocast import refuse_autocast_around
from ..engine.signature import Signature
from ..keywords import refuse_unknown
from ..seed import current_seed
from ..settings import check_training_numbers, compression_name, keywords, outer_settings, whole_number
from .configure import configure, criterion_of
from .criterion import farewell_of
from .custom_stage import captured_stage
from .endings import end_in_words, uninterrupted
from .environment import name_from_outside, share_cores
from .feeding import Feeding
from .optimizers import StageOptimizer
from .run import Run
from .schedulers import StageScheduler
from .sharding import Share

# What is meant where no strategy is.
_WITHOUT_STRATEGY = {
    "example_args": (),
    "example_kwargs": {},
    "broadcast_buffers": True,
    "units": "size",
    "backend": "auto",
    "trusted_network": False,
    "precision": "float32",
    "float32": "exact",
}


class Node(Feeding):
    """A node of the plan in `node_data/`, from the moment it is made a member of its cluster.

    The same script runs on every node; only `name` ("node_0", "node_17") differs. Without it the environment variable
    RAVNEST_NODE or the command line's `--node` gives the name.

    Use it as a context manager, or call `stop()` at the end.

    Args:
        name: Which node of the plan this is.
        model: A module of your own in place of the planned stage: it takes what that stage is sent, and returns what
            that stage returns.
        optimizer: An optimizer class, a function `(params, **optimizer_params)` or a name ("AdamW", "LAMB"); needed to
            train any stage that is not wholly frozen. Those of torch.optim run natively, all others as they are.
        optimizer_params: Its keywords.
        lr_scheduler: A class or a function `(optimizer, **lr_scheduler_params)`.
        lr_scheduler_params: Its keywords.
        lr_step_on_epoch_change: Whether it is stepped when an epoch is over, or after each update.
        criterion: A function `(outputs, targets)` that gives the loss. It runs where the model ends: `outputs` as the
            model returns them, `targets` the item that `labels` yields for the batch, whole, on the outputs' device.
        update_frequency: The batches over which gradients add up before an update; they are not scaled.
        reduce_factor: The updates after which clusters average their weights; by default once per epoch.
        labels: What yields the targets of training: a loader, a tensor or anything that can be iterated anew.
        test_labels: What yields those of validation.
        device: Where the stage is computed.
        loss_filename: The file that gets a line per update.
        compression: Of what is sent: False, True (fp16), "bf16", "int8", "int4" or "topk:0.01".
        average_optim: Whether clusters also average the state of an optimizer of torch.optim.
        schedule: "async", "sync" or "gpipe".
        window: Passes in flight; 0: as planned.
        microbatches: Cuts each batch into so many passes, with one update.
        average: "overlap": clusters train on while they average; "drain": they stop for it.
        outer: "nesterov" for rare averaging; None takes the mean itself.
        outer_momentum: Of Nesterov's method.
        outer_rate: Of Nesterov's method.
        recompute: Whether passes are computed again for their gradients: less memory for more time.
        clip_value: The limit of each element of the gradients.
        clip_norm: The limit of the norm of each stage's gradients.
        seed: By default that of `set_seed`.
        node_data: The folder of the plan.
        trained: Where stages are saved.
        threads: Of the stage's computing; by default its share of the machine's cores.
        insecure: Whether to do without TLS; on one machine only.
        progress: Whether to show how far it is.
        strategy: "ddp" trains the whole `model` on every rank, data-parallel; no plan is read. `RankNode` is what that
            makes.
        example_args: With a strategy: what the model's forward takes by position, to capture it with.
        example_kwargs: With a strategy: what it takes by keyword.
        broadcast_buffers: With a strategy: whether buffers that training writes are rank 0's after each update.
        units: With a strategy: "size" or "blocks", what the model is cut into for sending its gradients.
        backend: With a strategy: what gradients go by. "nccl", "ring", or "auto": NCCL where every rank has a GPU.
        trusted_network: With a strategy: whether NCCL, which does not encrypt, may go over the network.
        precision: With a strategy: what is computed in. "bf16" or "fp16" run the model on a 16-bit copy of its weights;
            gradients are added up, and the optimizer works, in float32. fp16 has a dynamic loss scale.
        float32: With a strategy: how a GPU multiplies what is in float32, "exact" or "tf32".
        **kwargs: There are no others; a wrong name is an error that has the right one.

    Attributes:
        name: Which node of the plan this is.
        node_type: "root", "stem", "leaf" or "solo".
        stage: The number of its stage, from 0; `stages` is how many there are.
        is_root: Whether it feeds the data; `is_leaf`: whether it computes the loss.
        cluster_id: The number of its cluster, from 0; `clusters` is how many there are.
        run: What the root feeds: how far it is, and what a training loop can wait for.
    """

    def __new__(cls, *args: Any, strategy: str | None = None, **kwargs: Any) -> "Node":
        """A `RankNode` where a strategy is asked for."""
        if strategy is not None and cls is Node:
            from .rank import RankNode

            return object.__new__(RankNode)
        return object.__new__(cls)

    def __init__(
        self,
        name: str | None = None,
        model: torch.nn.Module | None = None,
        optimizer: str | Callable[..., Any] | None = None,
        optimizer_params: Mapping[str, Any] | None = None,
        lr_scheduler: Callable[..., Any] | None = None,
        lr_scheduler_params: Mapping[str, Any] | None = None,
        lr_step_on_epoch_change: bool = True,
        criterion: Callable[[Any, Any], torch.Tensor] | None = None,
        update_frequency: int = 1,
        reduce_factor: int | None = None,
        labels: Any = None,
        test_labels: Any = None,
        device: str | torch.device = "cpu",
        loss_filename: str = "losses.txt",
        compression: bool | str = False,
        average_optim: bool = False,
        *,
        schedule: str = "async",
        window: int = 0,
        microbatches: int = 1,
        average: str = "overlap",
        outer: str | None = None,
        outer_momentum: float = 0.9,
        outer_rate: float = 0.7,
        recompute: bool = False,
        clip_value: float | None = None,
        clip_norm: float | None = None,
        seed: int | None = None,
        node_data: str | os.PathLike[str] = "node_data",
        trained: str | os.PathLike[str] = "trained",
        threads: int | None = None,
        insecure: bool = False,
        progress: bool = True,
        strategy: str | None = None,
        example_args: Any = (),
        example_kwargs: Mapping[str, Any] | None = None,
        broadcast_buffers: bool = True,
        units: str = "size",
        backend: str = "auto",
        trusted_network: bool = False,
        precision: str = "float32",
        float32: str = "exact",
        **kwargs: Any,
    ) -> None:
        super().__init__()
        self.strategy = strategy
        self._of_strategy = {
            "example_args": example_args,
            "example_kwargs": {},
            "broadcast_buffers": broadcast_buffers,
            "units": units,
            "backend": backend,
            "trusted_network": trusted_network,
            "precision": precision,
            "float32": float32,
        }
        self.name = self._own_name(name)
        self.criterion, self.labels, self.test_labels = criterion, labels, test_labels
        self.update_frequency, self.microbatches = update_frequency, microbatches
        self.reduce_factor, self.average, self.average_optim = reduce_factor, average, average_optim
        self.schedule, self.window, self.recompute = schedule, window, recompute
        self.compression = compression_name(compression)
        self.loss_filename = loss_filename
        self.clip_value, self.clip_norm = clip_value, clip_norm
        self.seed = current_seed() if seed is None else seed
        self.progress = progress
        self.device = torch.device("cpu")  # what was given is looked at when others can be told
        self._scheduler = StageScheduler(None, None, lr_step_on_epoch_change)
        self.batch_size: int | None = None  # of labels that come without batches; None: as planned
        self._shard: bool | None = None  # whether training data are cut, once a Trainer has said so
        self.outer: tuple[float, float] | None = None
        end_in_words(self.name)

        def check():
            refuse_unknown("Node", kwargs, Node.__init__)
            self.outer = outer_settings(outer, outer_momentum, outer_rate)
            check_training_numbers(self)
            self.device = torch.device(device)
            self.schedule_rates(lr_scheduler, lr_scheduler_params)
            self._of_strategy["example_kwargs"] = keywords("example_kwargs", example_kwargs)
            return None if threads is None else whole_number("threads", threads)

        try:
            self._join(model, check, node_data, trained, insecure)
            self._make(self._member, optimizer, keywords("optimizer_params", optimizer_params))
        except BaseException as error:
            if self._core is not None:
                self._core.stop(*farewell_of(error))
                self._core.close()
            raise

    @staticmethod
    def _own_name(name: str | None) -> str:
        return name or name_from_outside()

    def _join(self, model, check: Callable[[], int | None], node_data, trained, insecure: bool) -> None:
        """Become a member of the cluster. What `check` refuses, the others are told, too; it gives the threads."""
        options = _core.NodeOptions()
        options.name, options.software = self.name, _core.__version__
        options.node_data, options.trained = node_data, trained
        options.insecure = insecure
        joins = False
        try:
            share_cores(node_data, self.name, check())
            options.device = self.device
            given = [name for name, value in self._of_strategy.items() if value != _WITHOUT_STRATEGY[name]]
            if given:
                raise ValueError(f"{given[0]}= belongs to a strategy: Node(strategy='ddp', ...)")
            with captured_stage(model, node_data, self.name) as options.custom_stage:
                joins = True
                with uninterrupted():  # others must hear of it, which takes a core that is bound
                    self._core = _core.Node(options)
        except BaseException as error:
            if not joins:  # otherwise the core has told the others itself
                _core.withdraw(options, *farewell_of(error))
            raise
        core = self._core
        self.node_type, self.stage, self.stages = core.role, core.stage, core.stages
        self.is_root, self.is_leaf = self.stage == 0, self.stage == self.stages - 1
        self.cluster_id, self.clusters = core.cluster, core.clusters

    def _make(self, core: _core.TrainingProcess, optimizer, options: dict) -> None:
        self._signatures = {train: Signature(core, train) for train in (True, False)}
        self.run = Run(lambda: self._member, core.position, self._signatures)
        self._optimizer = StageOptimizer(core, optimizer, options)

    @property
    def epoch(self) -> int:
        """The epoch of the next batch to train on, from 0."""
        return self.run.position.epoch

    @property
    def n_forwards(self) -> int:
        """The batches that were fed to train on."""
        return self.run.position.trained

    @n_forwards.setter
    def n_forwards(self, count: int) -> None:
        self.run.position.trained = count

    @property
    def signature(self) -> Signature:
        """How the model is called: the names and the number of its inputs."""
        return self._signatures[True]

    @property
    def optimizer(self) -> torch.optim.Optimizer | None:
        """The stage's optimizer, with its state; None for a stage without parameters."""
        self._optimizer.make(self._member)
        if self._call is None and self._configured:
            self._optimizer.take_state(self._member)
        return self._optimizer.own

    @property
    def lr_scheduler(self) -> torch.optim.lr_scheduler.LRScheduler | None:
        """The stage's scheduler in torch, once the first call has begun; None where there is none."""
        return self._scheduler.own

    @property
    def scheduler_words(self) -> str:
        """Its name and keywords, as checkpoints say what a run was trained with; "none"."""
        return self._scheduler.words()

    @property
    def shard(self) -> bool | None:
        """Whether training data are cut between the clusters; None until a Trainer has said so."""
        return self._shard

    @shard.setter
    def shard(self, shard: bool) -> None:
        if self._configured and shard != bool(self._shard):
            raise ValueError(
                f"{self.name} has begun with shard={bool(self._shard)}, and its leaf keeps to that: "
                "give all Trainers of a node the same shard="
            )
        self._shard = shard

    @property
    def share(self) -> Share:
        """What this node's cluster trains on: all, or its part where Trainer(shard=True) asks for it."""
        return Share(self.cluster_id, self.clusters) if self._shard else Share()

    @property
    def validation_share(self) -> Share:
        """What it validates with: all."""
        return Share()

    @property
    def planned_batch(self) -> int | None:
        """The batch size that the model was planned for."""
        return self._member.batch

    def schedule_rates(
        self, lr_scheduler: Callable[..., Any] | None, lr_scheduler_params: Mapping[str, Any] | None
    ) -> None:
        """Take another scheduler than the one that the node was made with; before the first call.

        Args:
            lr_scheduler: A class or a function `(optimizer, **lr_scheduler_params)`.
            lr_scheduler_params: Its keywords.
        """
        self._scheduler = self._scheduler.replaced_by(
            lr_scheduler, keywords("lr_scheduler_params", lr_scheduler_params)
        )

    def _tensors(self) -> tuple[Mapping[str, torch.Tensor], Mapping[str, torch.Tensor]]:
        return self._member.parameters(), self._member.buffers()

    @property
    def _root_name(self) -> str:
        return self._member.name_of(0)

    def _configure(self, core: Any) -> None:
        refuse_autocast_around("the training")
        if not self._configured:
            self._scheduler.make(lambda: self.optimizer)
            after_epoch, after_update = (self._faults.of(step) for step in self._scheduler.for_core())
            criterion = self._faults.of(criterion_of(self, self._root_name, self._signatures)) if self.is_leaf else None
            configure(core, self, criterion, self._faults.of(self._optimizer.for_core()), (after_epoch, after_update))
            self._configured = True
        core.stop_at_nan(self.stop_at_nan)
