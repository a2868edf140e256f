"""From a model's first layers to the inputs that they could take."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import nn

_LENGTHS = (8, 16, 32, 64, 128, 256, 512, 1024)
# Tried last: a length of one fits nearly everywhere, by broadcasting.
_SHORT_LENGTHS = (4, 2, 1)
_SIGNALS = (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16000)
_IMAGES = (8, 16, 28, 32, 64, 96, 112, 128, 160, 192, 224, 256, 299, 384, 512)
_VOLUMES = ((8, 8, 8), (16, 16, 16), (32, 32, 32), (64, 64, 64), (16, 112, 112), (8, 224, 224), (16, 224, 224))
_SPATIAL = {
    1: tuple((length,) for length in _SIGNALS),
    2: tuple((size, size) for size in _IMAGES),
    3: _VOLUMES,
}


@dataclass(frozen=True)
class Shape:
    """An input's shape without its batch: `before` stands in front of the batch dimension, `after` behind it."""

    after: tuple[int, ...]
    before: tuple[int, ...] = ()

    def sizes(self, batch: int) -> tuple[int, ...]:
        return (*self.before, batch, *self.after)


@dataclass(frozen=True)
class FirstLayer:
    """A layer that the input may go to, with the shapes to try in order; integers below `tokens` where that is set."""

    name: str
    kind: str
    shapes: tuple[Shape, ...]
    dtype: torch.dtype
    tokens: int | None = None

    def __str__(self):
        return f"{self.name} ({self.kind})" if self.name else f"the model itself ({self.kind})"


def first_layers(model: nn.Module) -> Iterator[FirstLayer]:
    """The model's layers that fix the size of their input, in the order in which they were registered."""
    for name, module in model.named_modules():
        kind = _kind(module)
        if kind is not None and (found := _shapes(kind, module, model)) is not None:
            shapes, tokens = found
            yield FirstLayer(name, kind.__name__, shapes, torch.long if tokens else _dtype(module), tokens)


def _kind(module) -> type | None:
    """The class of torch.nn that a module is of; of a TorchScript module, the one that it was made from."""
    if isinstance(module, torch.jit.ScriptModule):
        return getattr(nn, getattr(module, "original_name", ""), None)
    return next((kind for kind in type(module).__mro__ if getattr(nn, kind.__name__, None) is kind), None)


def _dtype(module):
    return next(
        (tensor.dtype for tensor in module.parameters() if tensor.is_floating_point()), torch.get_default_dtype()
    )


def _shapes(kind, module, model):
    if issubclass(kind, nn.Embedding | nn.EmbeddingBag):
        count = _number(module, "num_embeddings", "weight", 0)
        lengths = (*_LENGTHS, *_lengths_in(model, module), *_SHORT_LENGTHS)
        return _known(count, (*(Shape((length,)) for length in lengths), Shape(())), count)
    if issubclass(kind, nn.modules.conv._ConvNd):
        channels = _number(module, "in_channels", "weight", 0 if "Transpose" in kind.__name__ else 1)
        return _known(channels, _images(channels, int(kind.__name__[-2])))
    if issubclass(kind, nn.modules.batchnorm._NormBase):
        channels = _number(module, "num_features", "running_mean", 0)
        rank = int(kind.__name__[-2]) if kind.__name__[-2].isdigit() else 2
        flat = (Shape((channels,)),) if kind is nn.BatchNorm1d else ()
        return _known(channels, flat + _images(channels, rank))
    if issubclass(kind, nn.GroupNorm):
        channels = _number(module, "num_channels", "weight", 0)
        return _known(channels, (Shape((channels,)), *_images(channels, 2), *_images(channels, 1)))
    if issubclass(kind, nn.Linear):
        features = _number(module, "in_features", "weight", 1)
        return _known(features, (Shape((features,)), *_sequences(features, True)))
    if issubclass(kind, nn.LayerNorm):
        sizes = tuple(getattr(module, "normalized_shape", None) or module.weight.shape)
        return (Shape(sizes), *(Shape((length, *sizes)) for length in (*_LENGTHS, *_SHORT_LENGTHS))), None
    if issubclass(kind, nn.RNNBase):
        features = _number(module, "input_size", "weight_ih_l0", 1)
        return _known(features, _sequences(features, getattr(module, "batch_first", True)))
    if issubclass(kind, nn.RNNCellBase):
        features = _number(module, "input_size", "weight_ih", 1)
        return _known(features, (Shape((features,)),))
    if issubclass(kind, nn.MultiheadAttention):
        features = getattr(module, "embed_dim", 0)
        return _known(features, _sequences(features, getattr(module, "batch_first", True)))
    return None


def _known(size, shapes, tokens=None):
    """Nothing where the size is not known yet, as in a lazy layer."""
    return (shapes, tokens) if size else None


def _number(module, attribute, tensor, dimension) -> int:
    """A size as the layer states it; a traced TorchScript layer states nothing, but has its weight."""
    stated = getattr(module, attribute, None)
    if isinstance(stated, int):
        return stated
    held = getattr(module, tensor, None)
    return int(held.shape[dimension]) if isinstance(held, torch.Tensor) and held.dim() > dimension else 0


def _images(channels, rank):
    return tuple(Shape((channels, *sizes)) for sizes in _SPATIAL[rank])


def _sequences(features, batch_first):
    lengths = (*_LENGTHS, *_SHORT_LENGTHS)
    if batch_first:
        return tuple(Shape((length, features)) for length in lengths)
    return tuple(Shape((features,), before=(length,)) for length in lengths)


def _lengths_in(model, embedding):
    """Sizes of the model's other embeddings and of its tables of rank 3: a length that is fixed often stands there."""
    found = {}
    for module in model.modules():
        if _kind(module) is nn.Embedding and module is not embedding:
            found[_number(module, "num_embeddings", "weight", 0)] = None
        for tensor in (*module.parameters(recurse=False), *module.buffers(recurse=False)):
            if tensor.dim() == 3:
                found[tensor.shape[1]] = None
    return tuple(length for length in found if 0 < length <= 4096 and length not in _LENGTHS)
