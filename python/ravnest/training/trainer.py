"""The training loop, the same on every node: the root feeds, the others serve."""

import functools
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import torch
from torch.utils import _pytree as pytree

from .._core import BatchCounts
from ..keywords import refuse_unknown
from ..settings import whole_number
from .checkpoints import checkpoints_of
from .labels import Items, items_of, loader_of
from .loader_checks import check_loader, length_of
from .node import Node
from .sharding import check_shares, share_of, warn_of_same_data


def _as_call(function):
    """On the root the function itself; on other nodes its call is served until the root's is over."""
    name = function.__name__

    @functools.wraps(function)
    def call(self, *args, **kwargs):
        if self.node is None:
            raise ValueError("Trainer needs a node: give node=")
        self.node.stop_at_nan = self.stop_at_nan
        trains = name == "train"
        return self.node.call(
            name,
            lambda: function(self, *args, **kwargs),
            save=trains and self.save,
            settings=self._training_settings() if trains else {"stop_at_nan": str(self.stop_at_nan)},
            recorded=self._recorded_settings() if trains and self.node.checkpoints is not None else None,
        )

    return call


class Trainer:
    """Trains, evaluates and predicts with a node. On stems and leaves each call serves until the root's own is over.

    To write your own loop, subclass it: a `train` of your own calls `self.prelim_checks()`, then
    `self.node.forward_compute(...)` per batch and `self.node.wait_for_backwards()` per epoch. It runs on the root only.

    Args:
        node: The node to train with.
        lr_scheduler: In place of the node's: a class or a function `(optimizer, **lr_scheduler_params)`.
        lr_scheduler_params: Its keywords.
        train_loader: What to train on: a loader, a tensor, or a Dataset, which is batched by `batch_size`.
        val_loader: What to validate with, likewise.
        val_freq: 1 validates once per epoch, N > 1 each time that `node.n_forwards` reaches a multiple of N; always at
            the end.
        save: Whether all stages are saved after training.
        epochs: How often to go through `train_loader`.
        batch_size: Of what comes without batches.
        step_size: Multiplies the node's `update_frequency`.
        inputs_dtype: What inputs are cast to.
        microbatches: Cuts each batch into so many passes, with one update.
        shard: Where several clusters train side by side, True gives each its part of the training data, another one in
            each epoch where they are shuffled: between them they take every sample once. Loaders keep their batch size;
            the node's `labels` are cut in the same way, validation data not at all. False has every cluster train on
            all of what it is given, and so does None, with a warning.
        stop_at_nan: Whether the run ends with an error at the first loss that is not finite; otherwise a line says when
            that begins.
        checkpoint: The folder for checkpoints, from which a run that was interrupted goes on. Nodes may share it, or
            have one each; of ranks, which all name the same, only rank 0 uses it. Or it is in object storage,
            s3://BUCKET/FOLDER. Without it there are none.
        checkpoint_every: "epoch", "500 updates" or "10 min".
        checkpoint_keep: How many of the newest stay; 0: all.
        checkpoint_keep_every: Those of updates that are multiples of this stay, too; 0: none.
        checkpoint_best: "val_accuracy" keeps the one with the highest accuracy, too.
        resume: Goes on from a checkpoint: True from the newest that all nodes can read (without any the run begins
            anew, and says so), "best", the number of an update, a path or an s3:// URL. None: as the variable
            RAVNEST_RESUME says.
        **kwargs: There are no others; a wrong name is an error that has the right one.

    Raises:
        ValueError: A number cannot be meant, or `shard=True` cannot cut the data: iterables, and loaders with samplers
            of their own.
    """

    def __init__(
        self,
        node: Node | None = None,
        lr_scheduler: Callable[..., Any] | None = None,
        lr_scheduler_params: Mapping[str, Any] | None = None,
        train_loader: Any = None,
        val_loader: Any = None,
        val_freq: int = 1,
        save: bool = False,
        epochs: int = 1,
        batch_size: int = 64,
        step_size: int = 1,
        inputs_dtype: torch.dtype | None = None,
        microbatches: int | None = None,
        shard: bool | None = None,
        stop_at_nan: bool = False,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: str = "epoch",
        checkpoint_keep: int = 2,
        checkpoint_keep_every: int = 0,
        checkpoint_best: str | None = None,
        resume: bool | int | str | os.PathLike[str] | None = None,
        **kwargs: Any,
    ) -> None:
        refuse_unknown("Trainer", kwargs, Trainer.__init__)
        self.node = cast(Node, node)  # None where none was given, which each call refuses
        batch_size, step_size = whole_number("batch_size", batch_size), whole_number("step_size", step_size)
        val_freq, epochs = whole_number("val_freq", val_freq), whole_number("epochs", epochs, least=0)
        self.train_loader, self.val_loader = loader_of(train_loader, batch_size), loader_of(val_loader, batch_size)
        if node is not None and node.is_root and train_loader is not None:
            self.train_loader = Items(self.train_loader, node, batch_size)
        self.val_freq, self.save, self.epochs, self.batch_size = val_freq, save, epochs, batch_size
        self.step_size, self.inputs_dtype = step_size, inputs_dtype
        self.stop_at_nan = stop_at_nan
        checkpoints = checkpoints_of(
            checkpoint, checkpoint_every, checkpoint_keep, checkpoint_keep_every, checkpoint_best, resume
        )
        self._validations = BatchCounts("val_loader", "validation")
        if node is None:
            return
        node.batch_size = batch_size
        node.labels, node.test_labels = loader_of(node.labels, batch_size), loader_of(node.test_labels, batch_size)
        node.update_frequency *= step_size
        if checkpoints is not None:
            node.keep_checkpoints(checkpoints)
        if microbatches is not None:
            node.microbatches = whole_number("microbatches", microbatches)
        self._shard(shard, loader_of(train_loader, batch_size))
        if type(self).train is Trainer.train:
            self._check_loaders(loader_of(train_loader, batch_size))
        if lr_scheduler is not None:
            node.schedule_rates(lr_scheduler, lr_scheduler_params)

    def _shard(self, shard: bool | None, train_loader: Any) -> None:
        node = self.node
        if shard is not None:
            node.shard = shard
        elif node.shard is None and node.is_root:
            warn_of_same_data(train_loader, node.clusters, stacklevel=3)
        for source in (train_loader, node.labels):
            check_shares(source, node.share)

    def _training_settings(self) -> dict[str, str]:
        """What every rank of a data-parallel run has to train with."""
        return {
            "epochs": str(self.epochs),
            "val_freq": str(self.val_freq),
            "save": str(self.save),
            "stop_at_nan": str(self.stop_at_nan),
            "val_loader": "given" if self.val_loader is not None else "none",
        }

    def _recorded_settings(self) -> dict[str, str]:
        """What checkpoints say of the run, to be compared when it goes on (checkpoint/settings.h)."""
        settings = {
            "epochs": str(self.epochs),
            "val_freq": str(self.val_freq),
            "lr_scheduler": self.node.scheduler_words,
        }
        if self.node.is_root:
            loader = self._training_items()
            if isinstance(loader.whole, torch.Tensor):
                settings["batch_size"] = str(self.batch_size)
            elif getattr(loader.whole, "batch_size", None) is not None:
                settings["batch_size"] = str(loader.whole.batch_size)
            if not isinstance(loader.whole, torch.Tensor) and (batches := length_of(loader)) is not None:
                settings["batches_per_epoch"] = str(batches)
        return settings

    def _check_loaders(self, train_loader):
        node, sweeps = self.node, self.epochs if self.val_freq == 1 else min(self.epochs, 1)
        check_loader("train_loader", train_loader, self.epochs, node.is_root)
        check_loader("labels", node.labels, self.epochs, node.is_leaf)
        check_loader("val_loader", self.val_loader, sweeps, node.is_root)
        check_loader("test_labels", node.test_labels, sweeps, node.is_leaf)

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        for name in ("train", "evaluate", "pred"):
            if name in vars(cls):
                setattr(cls, name, _as_call(vars(cls)[name]))

    def prelim_checks(self) -> None:
        """What a training loop of your own calls first."""
        if self.node.is_root and self.train_loader is None:
            raise ValueError("the root feeds the data: give Trainer train_loader=")

    @_as_call
    def train(self) -> None:
        """Train for `epochs`, with validation and progress; then save, if asked for."""
        self.prelim_checks()
        node, items = self.node, self._training_items()
        training = node.run.source(
            True, items.items_of_epoch, self._inputs, items.batch_counts, length_of(items) or 0, items.skips
        )
        validation = self._validation() if self.val_loader is not None else None
        node.run.train_epochs(training, validation, self.epochs, self.val_freq)
        node.leave_call(self.save)
        if node.progress:
            print(node.run.summary(self.epochs), file=sys.stderr)

    @_as_call
    def evaluate(self) -> float | None:
        """The accuracy over `val_loader` in percent, on every node; None where nothing can be counted."""
        if self.val_loader is None:
            raise ValueError("there is nothing to evaluate on: give Trainer val_loader=")
        self.node.run.evaluate(self._validation())
        return self.node.run.accuracy(self.node.progress)

    @_as_call
    def pred(self, data: Any) -> Any:
        """Predict, on the root.

        Args:
            data: A batch, or a loader.

        Returns:
            The model's outputs; those of a loader's batches put together. None on other nodes.
        """
        if isinstance(data, torch.Tensor | Mapping | tuple) or (
            isinstance(data, list) and all(isinstance(each, torch.Tensor) for each in data)
        ):
            tensors, kwargs = self._inputs(data)
            return self.node.run.predict(tensors, kwargs)
        results = []
        for item in items_of(loader_of(data, self.batch_size), self.node.seed, 0, self.batch_size):
            tensors, kwargs = self._inputs(item)
            results.append(self.node.run.predict(tensors, kwargs))
        return _joined(results)

    def _training_items(self) -> Items:
        """`train_loader`, which a subclass may have replaced."""
        loader = self.train_loader
        return loader if isinstance(loader, Items) else Items(loader, self.node, self.batch_size)

    def _validation(self):
        """`val_loader` as the loop goes through it."""
        node = self.node
        loader = cast(Iterable, share_of(self.val_loader, node.validation_share))
        return node.run.source(
            False,
            lambda sweep, skip: items_of(loader, node.seed, sweep, self.batch_size, skip),
            self._inputs,
            self._validations,
        )

    def _inputs(self, item: Any) -> tuple[Any, dict[str, Any]]:
        """(tensors, keywords) of the model, from an item of a loader."""
        call = self.node.signature
        if isinstance(item, Mapping):
            return None, {name: self._cast(value) for name, value in item.items() if name in call.names}
        if isinstance(item, tuple | list):
            if len(item) > 0 and isinstance(item[0], Mapping):
                return self._inputs(item[0])
            return tuple(self._cast(value) for value in item[: call.count]), {}
        return self._cast(item), {}

    def _cast(self, value):
        if self.inputs_dtype is None or not isinstance(value, torch.Tensor):
            return value
        return value.to(self.inputs_dtype)


def _joined(results):
    """The outputs of batches as those of one."""
    if not results:
        return None
    flat = [pytree.tree_flatten(result) for result in results]
    columns = zip(*(leaves for leaves, _ in flat), strict=True)
    return pytree.tree_unflatten([torch.cat(column) for column in columns], flat[0][1])
