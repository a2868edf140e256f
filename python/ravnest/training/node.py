"""One node of a plan: its stage of the model, trained together with the other nodes of its cluster."""

import os
import uuid

import torch

from .. import _core
from ..capture.autocast import refuse_autocast_around
from ..engine.signature import Call
from ..errors import Error
from ..keywords import refuse_unknown
from ..seed import current_seed
from ..settings import check_training_numbers, compression_name, outer_settings, whole_number
from .batch_counts import BatchCounts
from .criterion import Faults, Judge, farewell_of
from .custom_stage import captured_stage
from .endings import end_in_words
from .environment import name_from_outside, share_cores
from .labels import Labels
from .optimizers import StageOptimizer
from .schedulers import StageScheduler
from .sharding import Share, share_of


class Node:
    """A node of the plan in `node_data/`, from the moment it is made a member of its cluster.

    The same script runs on every node; only `name` ("node_0", "node_17") differs. Without it the environment variable
    RAVNEST_NODE or the command line's `--node` gives the name.

    `model` is a module of your own in place of the planned stage: it takes what that stage is sent, and returns what
    that stage returns. `optimizer` is an optimizer class, a function `(params, **optimizer_params)` or a name
    ("AdamW", "LAMB"), and needed to train any stage that is not wholly frozen; those of torch.optim run natively, all
    others as they are. `lr_scheduler` is a class or a
    function `(optimizer, **lr_scheduler_params)`, stepped when an epoch is over, or after each update with
    `lr_step_on_epoch_change=False`.
    `criterion(outputs, targets)` runs where the model ends: `outputs` as the model returns them, `targets` the item
    that `labels` (or `test_labels`) yields for the batch, whole, on the outputs' device. Gradients add up over
    `update_frequency` batches and are not scaled. `compression` is False, True (fp16), "bf16", "int8", "int4" or
    "topk:0.01". Clusters average their weights every `reduce_factor` updates, by default once per epoch; with
    `average_optim=True` also what an optimizer of torch.optim keeps.

    Ours: `schedule` ("async", "sync", "gpipe"), `window` (passes in flight; 0: as planned), `microbatches` (cuts each
    batch into so many passes with one update), `average` ("overlap": clusters train on while they average; "drain":
    they stop for it), `outer="nesterov"` with `outer_momentum` and `outer_rate` (for rare averaging),
    `recompute` (less memory for more time), `clip_value` and `clip_norm` (limits of the gradients' elements, and of the
    norm of each stage's gradients), `seed`, `node_data`, `trained` (where stages are saved), `threads`, `insecure` (no
    TLS, on one machine only) and `progress`.

    Use it as a context manager, or call `stop()` at the end.
    """

    def __init__(
        self,
        name: str | None = None,
        model=None,
        optimizer=None,
        optimizer_params=None,
        lr_scheduler=None,
        lr_scheduler_params=None,
        lr_step_on_epoch_change: bool = True,
        criterion=None,
        update_frequency: int = 1,
        reduce_factor: int | None = None,
        labels=None,
        test_labels=None,
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
        node_data: str = "node_data",
        trained: str = "trained",
        threads: int | None = None,
        insecure: bool = False,
        progress: bool = True,
        **kwargs,
    ):
        self.name = name or name_from_outside()
        self.criterion, self.labels, self.test_labels = criterion, labels, test_labels
        self.update_frequency, self.microbatches = update_frequency, microbatches
        self.reduce_factor, self.average, self.average_optim = reduce_factor, average, average_optim
        self.device, self.schedule, self.window, self.recompute = torch.device(device), schedule, window, recompute
        self.compression = compression_name(compression)
        self.loss_filename = loss_filename
        self.clip_value, self.clip_norm = clip_value, clip_norm
        self.seed = current_seed() if seed is None else seed
        self.n_forwards = 0
        self.epoch = 0
        self.label_digest = None  # of the batch that is fed next; 0: it has none; None: not known
        self._progress = progress
        self._scheduler = StageScheduler(lr_scheduler, lr_scheduler_params, lr_step_on_epoch_change)
        self._batch_size = None
        self._shard = None  # whether training data are cut, once a Trainer has said so
        self._stop_at_nan = False
        self._epochs_fed = BatchCounts("the training loop", "epoch")
        self._index = self._sweeps = self._sweep_index = 0
        self._sweep = None  # whether the present one is a validation
        self._call = None
        self._equipped = self._served = False
        self._run = uuid.uuid4().hex[:12]
        self._core = None
        self._faults = Faults()
        end_in_words(self.name)
        place = (os.fspath(node_data), self.name)
        joins = False
        try:
            refuse_unknown("Node", kwargs, Node.__init__)
            self.outer = outer_settings(outer, outer_momentum, outer_rate)
            check_training_numbers(self)
            share_cores(node_data, self.name, None if threads is None else whole_number("threads", threads))
            with captured_stage(model, *place) as own_stage:
                joins = True
                self._core = _core.Node(
                    self.name, place[0], os.fspath(trained), str(self.device), insecure, _core.__version__, own_stage
                )
            self._make(optimizer, dict(optimizer_params or {}))
        except BaseException as error:
            if self._core is not None:
                self._core.stop(*farewell_of(error))
                self._core.close()
            elif not joins:  # otherwise the core has told the others itself
                _core.withdraw(*place, insecure, *farewell_of(error))
            raise

    def _make(self, optimizer, options):
        self.node_type, self.stage, self.stages = self._core.role, self._core.stage, self._core.stages
        self.is_root, self.is_leaf = self.stage == 0, self.stage == self.stages - 1
        self.cluster_id, self._clusters = self._core.cluster, self._core.clusters
        self._calls = {train: Call(self._core, train) for train in (True, False)}
        self._optimizer = StageOptimizer(self._core, optimizer, options)

    # -- facts

    @property
    def optimizer(self):
        """The stage's optimizer, with its state; None for a stage without parameters."""
        self._optimizer.make(self._core)
        if self._call is None and self._equipped:
            self._optimizer.take_state(self._core)
        return self._optimizer.own

    @property
    def lr_scheduler(self):
        """The stage's scheduler in torch, once the first call has begun; None where there is none."""
        return self._scheduler.own

    @property
    def share(self) -> Share:
        """What this node's cluster trains on: all, or its part where Trainer(shard=True) asks for it."""
        return Share(self.cluster_id, self._clusters) if self._shard else Share()

    def parameters(self) -> dict[str, torch.Tensor]:
        """Name -> parameter of this stage, by the model's own names."""
        return self._core.parameters()

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Parameters and buffers of this stage, detached."""
        tensors = self._core.parameters() | self._core.buffers()
        return {name: tensor.detach() for name, tensor in tensors.items()}

    # -- passes, on the root; on all others these do nothing: they serve

    def forward_compute(self, tensors=None, **kwargs) -> None:
        """Train on a batch: the model's inputs, by position and by keyword (`attention_mask` or `l_attention_mask_`).

        Returns as soon as there is room for the next one; `wait_for_backwards` waits for all.
        """
        self._feed_training(tensors, kwargs)

    def no_grad_forward_compute(self, tensors=None, output_type: str | None = None, **kwargs):
        """Run a batch through the model in eval mode.

        `output_type` "val_accuracy" or "accuracy" counts it in the present sweep, against `test_labels`: the sweep ends
        when something else is done, and of "val_accuracy" leaves a line in val_accuracies.txt. "prediction" returns
        the model's outputs.
        """
        if not self.is_root:
            return None
        self._direct_call()
        if output_type in (None, "prediction"):
            return self._predict(tensors, kwargs)
        if output_type not in ("val_accuracy", "accuracy"):
            raise ValueError(f"output_type must be 'val_accuracy', 'accuracy' or 'prediction', not {output_type!r}")
        self._feed_validation(tensors, kwargs, 0, output_type == "val_accuracy")
        return None

    def wait_for_backwards(self) -> None:
        """Wait until all batches are trained on everywhere: the end of an epoch."""
        if not self.is_root or self._call is None:
            return
        if self._index == 0 and self._sweep is None:
            self._core.warn(f"no batch was fed for epoch {self.epoch + 1}, so wait_for_backwards() waits for nothing")
        self._end_sweep()
        self._core.drain()
        self._end_epoch()

    def trigger_save_submodel(self) -> None:
        """Save the stages: on all nodes when the root calls it while it trains, otherwise this node's."""
        if self._call is None:
            self._core.save()
        elif self.is_root:
            self._core.finish(True, self._run, self.epoch, True)
            self._core.begin(self._call)

    def reset(self) -> None:
        """Forget how many batches there were: the next one is the first of a new epoch."""
        self._end_epoch()
        self.n_forwards = 0

    # -- its life

    def start(self) -> None:
        """A node runs from the moment it is made; this is for scripts that call it."""

    init_server = start_grpc_server = check_load_forward_buffer = start

    def stop(self) -> None:
        """Leave the cluster in good order. One that is not the root first serves what the root has begun by itself."""
        if self._core is None:
            return
        try:
            if self.is_root and self._call is not None:
                self._leave_call(save=False)
            elif not self.is_root and not self._served:
                self.call("direct", lambda: None)
        finally:
            self._core.close()
            self._core = None

    def get_latest_weights(self) -> None:
        """Take the newest weights of the other clusters, by a round with them; a cluster that comes late adds nothing.

        To be called on all nodes of the cluster. Where there is one cluster, its own weights are the newest.
        """
        if self._clusters > 1:
            self.call("get_latest_weights", lambda: self._core.average())

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is None:
            self.stop()
            return
        self._faults.explain(error)
        if self._core is not None:
            self._core.stop(*farewell_of(error))
            self._core.close()
            self._core = None

    # -- calls

    def call(self, name: str, body, save: bool = False):
        """Run `body` on the root as the call `name`; on other nodes serve until the root's call of that name is over.

        Returns what `body` does; on other nodes nothing, but the accuracy that the root found where it evaluates.
        """
        if self._call is not None:
            return body()
        if self._core is None:
            raise Error(f"{self.name} has left its cluster")
        self._equip()
        self._core.stop_at_nan(self._stop_at_nan)
        self._served = True
        self._call = name
        try:
            self._core.begin(name)
            if not self.is_root:
                return self._serve(name)
            result = body()
            if self._call is not None:
                self._leave_call(save)
            return result
        except BaseException as error:
            self._faults.explain(error)
            self._core.stop(*farewell_of(error))
            raise
        finally:
            self._call = None

    def _serve(self, name):
        closing = self._core.serve()
        while closing["more"]:
            self._core.begin(name)
            closing = self._core.serve()
        return closing["accuracy"] if name == "evaluate" else None

    def _direct_call(self):
        """A root whose script has no Trainer is in one call until it stops."""
        if self._call is None:
            self._equip()
            self._core.stop_at_nan(self._stop_at_nan)
            self._core.begin("direct")
            self._call = "direct"

    def _leave_call(self, save):
        self._end_sweep()
        self._core.finish(save, self._run, self.epoch, False)
        self._call = None

    def _equip(self):
        refuse_autocast_around("the training")
        if self._equipped:
            return
        self._scheduler.make(lambda: self.optimizer)
        self._core.equip(
            self._faults.of(self._judge()) if self.is_leaf else None,
            self._faults.of(self._optimizer.for_core()),
            self.schedule,
            self.window,
            self.seed % 2**63,
            self.compression,
            self.recompute,
            self.update_frequency,
            self.microbatches,
            self.reduce_factor or 0,
            self.average,
            self.outer,
            self.average_optim and self._clusters > 1,
            self.clip_value or 0.0,
            self.clip_norm or 0.0,
            *(self._faults.of(step) for step in self._scheduler.for_core()),
            self.loss_filename,
            os.path.join(os.path.dirname(self.loss_filename), "val_accuracies.txt"),
            self._progress and self.is_root,
            {
                "update_frequency": str(self.update_frequency),
                "microbatches": str(self.microbatches),
                "shard": "true" if self._shard else "false",
            },
        )
        self._equipped = True

    # -- what is fed

    def _feed_training(self, tensors, kwargs):
        if not self.is_root:
            return
        self._direct_call()
        self._end_sweep()
        digest, self.label_digest = self.label_digest, None
        if digest is None and self.share.parts > 1:
            raise Error(
                "with shard=True a training loop takes its batches from trainer.train_loader, cut as the labels are"
            )
        flat = self._calls[True].flatten_batch(tensors, kwargs)
        self._core.feed("train", flat, self.epoch, self._index, digest or 0)
        self._index += 1
        self.n_forwards += 1

    def _feed_validation(self, tensors, kwargs, digest, validation):
        self._sweep = validation
        flat = self._calls[False].flatten_batch(tensors, kwargs)
        self._core.feed("validate", flat, self._sweeps, self._sweep_index, digest)
        self._sweep_index += 1

    def _end_sweep(self):
        if self._sweep is None:
            return
        self._core.end_sweep(self._sweep)
        self._sweep = None
        self._sweeps += 1
        self._sweep_index = 0

    def _end_epoch(self):
        if self._index > 0:
            if line := self._epochs_fed.ended(self.epoch + 1, self._index):
                self._core.warn(line)
            self.epoch += 1
            self._index = 0

    def _predict(self, tensors, kwargs):
        self._end_sweep()
        self._core.feed("predict", self._calls[False].flatten_batch(tensors, kwargs), 0, 0, 0)
        self._core.drain()
        (outputs,) = self._core.outputs()
        return self._calls[False].unflatten(outputs)

    def _judge(self):
        return Judge(
            self._calls,
            self.criterion,
            *(
                Labels(source, self.seed, self._batch_size or self._core.batch, self.name, self._core.name_of(0))
                for source in (share_of(self.labels, self.share), self.test_labels)
            ),
        )
