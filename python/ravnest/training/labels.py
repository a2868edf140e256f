"""Batches and labels: items in the same order on every node, and the parts of them that matter."""

import contextlib
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, TensorDataset, default_collate

from .._core import label_digest
from ..errors import Error
from .batch_counts import BatchCounts, counted
from .sharding import Share, share_of


def items_of(source: Iterable, seed: int, epoch: int, batch_size: int | None = None) -> Iterator:
    """One epoch of `source`: a loader, a tensor (cut into batches), or anything that can be iterated anew.

    The order of a shuffled DataLoader depends on `seed` and `epoch` alone (on the first seed of its generator, where it
    was given one), so that root and leaf go through their loaders alike. torch's own generator is not touched: the
    stage that this process computes draws from it at the same time.
    """
    if isinstance(source, torch.Tensor):
        yield from source.split(batch_size or len(source))
        return
    if not isinstance(source, DataLoader):
        yield from source
        return
    with _keyed(source, seed, epoch):
        iterator = _batches_at_once(source) or iter(source)
        first = next(iterator, iterator)
    if first is not iterator:
        yield first
        yield from iterator


class Items:
    """A loader as a training loop sees it on the root: in the order that the leaf takes its labels in.

    Iterating it is one epoch of the node's share; the node is told of each item's labels, so that the leaf can compare.
    """

    def __init__(self, source, node, batch_size: int):
        self.whole, self._node, self._batch_size = source, node, batch_size
        self._share = Share()
        self._source: Any = source
        self._counts = BatchCounts("train_loader", "epoch")

    def __iter__(self):
        epoch, count = self._node.epoch, 0
        for item in items_of(self._own(), self._node.seed, epoch, self._batch_size):
            self._node.label_digest = digest_of(label_part(item))
            count += 1
            yield item
        self._counts.ended(epoch + 1, count)  # the node itself tells of epochs with fewer

    def __len__(self):
        return len(self._own())

    def __getattr__(self, name):
        return getattr(self._own(), name)

    def _own(self):
        # Made once, since a loader may keep its workers from epoch to epoch.
        if self._share != self._node.share:
            self._share, self._source = self._node.share, share_of(self.whole, self._node.share)
        return self._source


def loader_of(source, batch_size: int):
    """A Dataset as a loader of batches; Items as what they are of; anything else as it is."""
    if isinstance(source, Items):
        return source.whole
    if isinstance(source, Dataset):
        return DataLoader(source, batch_size=batch_size)
    return source


def label_part(item):
    """The labels in an item of a loader: y of (x, y), the entry "labels" of a dict, or the item itself."""
    if isinstance(item, Mapping):
        for key in ("labels", "label", "targets", "target"):
            if key in item:
                return item[key]
        return item
    if isinstance(item, tuple | list) and len(item) >= 2:
        return item[1] if len(item) == 2 else item[1:]
    return item


def digest_of(labels) -> int:
    """A number for the values of `labels`; 0 where there are no tensors among them."""
    tensors = list(_tensors_of(labels))
    return label_digest(tensors) if tensors else 0


def split(item, parts: int) -> list:
    """`item` cut into parts of samples: tensors along their first dimension, containers member by member."""
    if isinstance(item, torch.Tensor):
        return list(item.tensor_split(parts))
    if isinstance(item, Mapping):
        cut = {key: split(value, parts) for key, value in item.items()}
        return [{key: value[part] for key, value in cut.items()} for part in range(parts)]
    if isinstance(item, tuple | list):
        cut = [split(value, parts) for value in item]
        return [type(item)(value[part] for value in cut) for part in range(parts)]
    raise TypeError(f"labels that are cut into microbatches are tensors, tuples or dicts of them, not {type(item)}")


class Labels:
    """The leaf's labels: the item for a batch of an epoch, asked for in order."""

    def __init__(self, source, seed: int, batch_size: int | None, node: str, root: str):
        self._source, self._seed, self._batch_size = source, seed, batch_size
        self._node, self._root = node, root
        self._epoch, self._next, self._items = None, 0, iter(())
        self._item = None
        self._before = 0  # batches, of the epoch before

    def item(self, epoch: int, index: int, digest: int):
        """The item for that batch. Error where there is none, or where the root's labels are others."""
        if (epoch, index) == (self._epoch, self._next - 1):
            return self._item
        if epoch != self._epoch:
            self._before = self._next
            self._items, self._next, self._epoch = self._begin(epoch), 0, epoch
        where = f"batch {index} of epoch {epoch}"
        while self._next <= index and (item := next(self._items, self)) is not self:
            self._item = item
            self._next += 1
        if self._next == 0 and self._before > 0:
            raise Error(
                f"the labels of {self._node} gave {counted(self._before)} before and none for {where}: they can be "
                "iterated only once, as a generator can; give a DataLoader, a list or a tensor"
            )
        if self._next <= index:
            raise Error(
                f"the labels of {self._node} end after {self._next} batches, but {self._root} sent {where}: both need "
                "the same data, and a training loop of your own calls wait_for_backwards() at the end of each epoch"
            )
        own = digest_of(label_part(self._item))
        if digest and own and digest != own:
            raise Error(
                f"the labels of {self._node} for {where} are not those of {self._root}: both need the same data in the "
                "same order (the same files, batch size and set_seed; only a DataLoader may shuffle)"
            )
        return self._item

    def _begin(self, epoch):
        if self._source is None:
            raise Error(f"{self._node} computes the loss and has no labels: give Node labels= and test_labels=")
        return items_of(self._source, self._seed, epoch, self._batch_size)


def _batches_at_once(loader) -> Iterator | None:
    """What a plain loader over tensors gives, without taking its samples one by one; None for any other source."""
    plain = (
        type(loader) is DataLoader
        and type(loader.dataset) is TensorDataset
        and loader.collate_fn is default_collate
        and type(loader.batch_sampler) is BatchSampler
        and loader.num_workers == 0
        and not loader.pin_memory
    )
    if not plain:
        return None

    sampler, tensors = cast(BatchSampler, loader.batch_sampler), cast(TensorDataset, loader.dataset).tensors

    def batches():
        # The loader draws a number of its own before its sampler does; so the order stays the same.
        torch.empty((), dtype=torch.int64).random_(generator=loader.generator)
        for indices in sampler:
            yield [tensor[indices] for tensor in tensors]

    return batches()


def _tensors_of(value) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for key in sorted(value, key=str):
            yield from _tensors_of(value[key])
    elif isinstance(value, tuple | list):
        for each in value:
            yield from _tensors_of(each)


@contextlib.contextmanager
def _keyed(loader: DataLoader, seed: int, epoch: int):
    """The loader and its sampler with a generator that `seed` and `epoch` decide, while an epoch begins."""
    known = {id(each): each for each in (loader, loader.sampler, getattr(loader.batch_sampler, "sampler", None))}
    holders: list[Any] = [each for each in known.values() if hasattr(each, "generator")]
    given = [each.generator for each in holders]
    first = next((generator.initial_seed() for generator in given if generator is not None), seed)
    key = hashlib.blake2b(f"{first} {epoch}".encode(), digest_size=8).digest()
    own = torch.Generator().manual_seed(int.from_bytes(key, "little") >> 1)
    for holder in holders:
        holder.generator = own
    try:
        yield
    finally:
        for holder, generator in zip(holders, given, strict=True):
            holder.generator = generator
