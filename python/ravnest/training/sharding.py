"""What one of several clusters, or ranks, trains on: its share of a data set, another one in each epoch."""

import copy
import warnings
from collections.abc import Iterator, Sized
from typing import NamedTuple, cast

import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler, Sampler, SequentialSampler

_ONESELF = {
    "clusters": "give each cluster its part yourself (node.cluster_id says which it is) and leave shard=False",
    "ranks": "give each rank its part yourself (node.rank says which it is) with Trainer(shard=False)",
}
# Between ranks data are cut without a word of the user's.
_CANNOT_CUT = {"clusters": "shard=True cannot cut", "ranks": "ranks cannot share out"}


class Share(NamedTuple):
    """The samples at the places part, part + parts, part + 2 * parts, ... of an epoch's order."""

    part: int = 0
    parts: int = 1
    between: str = "clusters"  # or "ranks"; for messages


class ShareSampler(Sampler):
    """The rows of a share in an epoch: places of one order of the whole data set, which is the same on all clusters.

    The first seed of `generator`, which labels.items_of sets for each epoch, decides the order; whatever else was drawn
    from it does not, since that may differ between the loaders of root and leaf. It is the order of the loader that is
    cut: a run may go on with another number of shares in the middle of an epoch.
    """

    def __init__(self, dataset, shuffle: bool, share: Share):
        self._dataset, self._shuffle, self._share = dataset, shuffle, share
        self.generator = None

    def __iter__(self) -> Iterator[int]:
        order = torch.arange(len(self._dataset))
        if self._shuffle:
            own = torch.Generator().manual_seed((self.generator or torch.default_generator).initial_seed())
            torch.empty((), dtype=torch.int64).random_(generator=own)  # as a DataLoader draws before its sampler does
            order = torch.randperm(len(order), generator=own)
        yield from order[self._share.part :: self._share.parts].tolist()

    def __len__(self) -> int:
        return len(range(self._share.part, len(self._dataset), self._share.parts))


def share_of(source, share: Share):
    """The share of a loader, as a loader, or of a tensor, as a tensor; the source itself where it is the only one.

    The loader is a copy, and keeps all but its sampling: batch size, drop_last, collate_fn, workers. Where it shuffles,
    the order depends on the seed and the epoch of `labels.items_of` alone, not on a generator of its own: that could
    be another one on each cluster, and samples would come twice or never. ValueError for what cannot be cut.
    """
    check_shares(source, share)
    if share.parts == 1 or source is None:
        return source
    if isinstance(source, torch.Tensor):
        return source[share.part :: share.parts].contiguous()
    sampler = ShareSampler(source.dataset, isinstance(source.sampler, RandomSampler), share)
    whole_batches = source.batch_size is not None
    loader = copy.copy(source)
    # A DataLoader lets nobody assign these, lest one of them is forgotten.
    vars(loader).update(
        sampler=sampler,
        batch_sampler=BatchSampler(sampler, source.batch_size, source.drop_last) if whole_batches else None,
        generator=None,
        _iterator=None,
    )
    return loader


def check_shares(source, share: Share) -> None:
    """ValueError where `source` cannot be cut into such shares, with the reason and what to do."""
    parts = share.parts
    if parts == 1 or source is None:
        return
    if reason := _why_not(source):
        raise ValueError(f"{_CANNOT_CUT[share.between]} {reason}: {_ONESELF[share.between]}")
    size, least = len(source), 1
    if isinstance(source, DataLoader):
        size = len(cast(Sized, source.dataset))
        least = (source.batch_size or 1) if source.drop_last else 1
    if size // parts < least:
        what = "one sample" if least == 1 else f"one batch of {least} (drop_last=True leaves out shorter ones)"
        if share.between == "ranks":
            raise ValueError(
                f"there are {size} samples for {parts} ranks, which is less than {what} for each: "
                "take fewer ranks, or more data"
            )
        raise ValueError(f"shard=True has {size} samples for {parts} clusters, which is less than {what} for each")


def warn_of_same_data(source, clusters: int, stacklevel: int) -> None:
    """A warning where `source` gives the same samples on each of several clusters, as far as can be seen."""
    if clusters > 1 and source is not None and _why_not(source) is None:
        warnings.warn(
            f"all {clusters} clusters train on the same data, unless your script gives each of them other data: "
            "Trainer(shard=True) gives each its part; shard=False says that you mean it so",
            stacklevel=stacklevel + 1,
        )


def _why_not(source) -> str | None:
    """What of `source` keeps it from being cut, as the object of a sentence; None where nothing does."""
    if isinstance(source, torch.Tensor):
        return None if source.dim() > 0 else "a tensor that is one number"
    if not isinstance(source, DataLoader):
        return f"an object of the type {type(source).__name__}, only DataLoaders, Datasets and tensors"
    if isinstance(source.dataset, IterableDataset):
        return "an IterableDataset, which gives its samples in an order of its own"
    if source.batch_size is None and source.batch_sampler is not None:
        return f"a DataLoader with a batch_sampler of its own ({type(source.batch_sampler).__name__})"
    if not hasattr(source.dataset, "__len__"):
        return "a data set without a length"
    sampler = source.sampler
    if type(sampler) not in (RandomSampler, SequentialSampler):
        return f"a DataLoader with a sampler of its own ({type(sampler).__name__})"
    if len(cast(Sized, sampler)) != len(cast(Sized, source.dataset)) or getattr(sampler, "replacement", False):
        return f"a DataLoader whose {type(sampler).__name__} does not take each sample once"
    return None
