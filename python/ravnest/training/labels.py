"""Batches and labels: items in the same order on every node, and the parts of them that matter."""

import contextlib
import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, TensorDataset, default_collate

from .._core import BatchCounts, Labels, label_digest
from ..errors import Error
from .sharding import Share, share_of


def items_of(source: Iterable, seed: int, epoch: int, batch_size: int | None = None, skip: int = 0) -> Iterator:
    """One epoch of `source`: a loader, a tensor (cut into batches), or anything that can be iterated anew.

    The first `skip` items are left out; a DataLoader over a data set that can be indexed does not load them.

    The order of a shuffled DataLoader depends on `seed` and `epoch` alone (on the first seed of its generator, where it
    was given one), so that root and leaf go through their loaders alike. torch's own generator is not touched: the
    stage that this process computes draws from it at the same time.
    """
    if isinstance(source, torch.Tensor):
        yield from source.split(batch_size or len(source))[skip:]
        return
    if not isinstance(source, DataLoader):
        yield from itertools.islice(source, skip, None)
        return
    with _keyed(source, seed, epoch), _without_the_first(source, skip) as left_out:
        iterator = _batches_at_once(source) or iter(source)
        for _ in range(skip - left_out):
            next(iterator, None)
        first = next(iterator, iterator)
    if first is not iterator:
        yield first
        yield from iterator


class Items:
    """A loader as a training loop sees it on the root: in the order that the leaf takes its labels in.

    Iterating it is one epoch of the node's share; the node is told of each item's labels, so that the leaf can compare.

    Attributes:
        whole: The loader itself.
        batch_counts: What it gave so far.
    """

    def __init__(self, source, node, batch_size: int):
        self.whole, self._node, self._batch_size = source, node, batch_size
        self._share = Share()
        self._source: Any = source
        self.batch_counts = BatchCounts("train_loader", "epoch")

    def items_of_epoch(self, number: int, skip: int = 0) -> Iterator:
        """The items of an epoch, from 0, without the first `skip`; for whoever tells of their labels and counts."""
        return items_of(self._own(), self._node.seed, number, self._batch_size, skip)

    @property
    def skips(self) -> bool:
        """Whether an epoch can be begun again in its middle, for less than going through what comes before."""
        return isinstance(self.whole, torch.Tensor | DataLoader)

    def __iter__(self):
        number, count = self._node.epoch, 0
        for item in self.items_of_epoch(number):
            self._node.label_digest = digest_of(label_part(item))
            count += 1
            yield item
        self.batch_counts.ended(number + 1, count)  # the node itself tells of epochs with fewer

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


def part_of(item, part: int, parts: int):
    """One of the parts of samples that `item` is cut into: of tensors as tensor_split would, of what they are in, too.

    The others are not made: how many there are is what a message says.
    """
    if isinstance(item, torch.Tensor):
        rows, left = divmod(item.shape[0], parts)
        return item.narrow(0, part * rows + min(part, left), rows + (part < left))
    if isinstance(item, Mapping):
        return {key: part_of(value, part, parts) for key, value in item.items()}
    if isinstance(item, tuple | list):
        return type(item)(part_of(value, part, parts) for value in item)
    raise TypeError(f"labels that are cut into microbatches are tensors, tuples or dicts of them, not {type(item)}")


def leaf_labels(source, seed: int, batch_size: int | None, node: str, root: str) -> Labels:
    """The leaf's labels: the core asks for their items in the order of the passes, and compares them with the root's.

    Args:
        source: A loader, a tensor or anything that can be iterated anew; None where there are none.
        seed: Of the order of what is shuffled.
        batch_size: Of a tensor.
        node: The leaf's name.
        root: The root's name.
    """

    def begin(epoch, skip):
        if source is None:
            raise Error(f"{node} computes the loss and has no labels: give Node labels= and test_labels=")
        return items_of(source, seed, epoch, batch_size, skip)

    return Labels(
        begin,
        lambda item: digest_of(label_part(item)),
        node=node,
        root=root,
        same="the same files, batch size and set_seed; only a DataLoader may shuffle",
        and_enough=", and a training loop of your own calls wait_for_backwards() at the end of each epoch",
    )


def _batches_at_once(loader) -> Iterator | None:
    """What a plain loader over tensors gives, without taking its samples one by one; None for any other source."""
    plain = (
        type(loader) is DataLoader
        and type(loader.dataset) is TensorDataset
        and loader.collate_fn is default_collate
        and type(loader.batch_sampler) in (BatchSampler, _LaterBatches)
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


class _LaterBatches:
    """A sampler of batches without its first ones."""

    def __init__(self, sampler, skip: int):
        self._sampler, self._skip = sampler, skip

    def __iter__(self):
        return itertools.islice(iter(self._sampler), self._skip, None)

    def __len__(self):
        return max(len(self._sampler) - self._skip, 0)


@contextlib.contextmanager
def _without_the_first(loader: DataLoader, skip: int) -> Iterator[int]:
    """The loader takes no notice of so many batches while an epoch begins; gives how many it leaves out by itself."""
    own = loader.batch_sampler
    if skip == 0 or own is None or isinstance(loader.dataset, IterableDataset) or loader.persistent_workers:
        yield 0
        return
    # A DataLoader lets nobody assign it, lest its other settings come to contradict it.
    vars(loader)["batch_sampler"] = _LaterBatches(own, skip)
    try:
        yield skip
    finally:
        vars(loader)["batch_sampler"] = own
