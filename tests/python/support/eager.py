"""A model trained by PyTorch itself: what a pipeline of its stages has to come to, bit for bit.

A captured graph draws its random numbers by key (seed, step, the operator's place in the graph). `KeyedRandom` lets the
module's own calls draw the same ones; the keys and the mask of dropout are written out here a second time, in NumPy.
"""

import numpy
import torch
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

RANDOM = ("aten.dropout.", "aten.scaled_dot_product_attention.")
WORD, HALF = 2**64 - 1, numpy.uint64(32)


def operator_key(seed: int, step: int, place: int) -> int:
    def mix(x):  # SplitMix64
        x = (x + 0x9E3779B97F4A7C15) & WORD
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & WORD
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & WORD
        return x ^ (x >> 31)

    return mix(mix(mix(seed) ^ step) ^ place)


def keyed_dropout(x: torch.Tensor, p: float, key: int) -> torch.Tensor:
    """Element i is kept if number i of a stream of Philox 4x32-10 is small enough. The stream comes in blocks of 32:
    the first words of eight counters, then their second, third and fourth words."""
    counters = -(-x.numel() // 32) * 8
    low = numpy.uint64(2**32 - 1)
    words = [numpy.arange(counters, dtype=numpy.uint64), *(numpy.zeros(counters, numpy.uint64) for _ in range(3))]
    keys = [key & 0xFFFFFFFF, key >> 32]
    for _ in range(10):
        a, b = numpy.uint64(0xD2511F53) * words[0], numpy.uint64(0xCD9E8D57) * words[2]
        first, second = numpy.uint64(keys[0]), numpy.uint64(keys[1])
        words = [(b >> HALF) ^ words[1] ^ first, b & low, (a >> HALF) ^ words[3] ^ second, a & low]
        keys = [(keys[0] + 0x9E3779B9) & 0xFFFFFFFF, (keys[1] + 0xBB67AE85) & 0xFFFFFFFF]
    stream = numpy.stack([word.reshape(-1, 8) for word in words], 1).reshape(-1)[: x.numel()]
    kept = torch.from_numpy(stream < numpy.uint64(round((1 - p) * 2**32)))
    return x * (kept.to(x.dtype) * (1 / (1 - p))).reshape(x.shape)


class KeyedRandom(TorchFunctionMode):
    """While active, the n-th random call of a forward pass draws as the graph's n-th random operator does."""

    def __init__(self, graph, seed: int):
        super().__init__()
        operators = enumerate(graph.operators())
        self.places = [place for place, operator in operators if any(random in operator["target"] for random in RANDOM)]
        self.seed, self.step = seed, 0
        self.left: list[int] = []

    def begin(self, step: int):
        assert not self.left, "the module made fewer random calls than the graph has random operators"
        self.step, self.left = step, list(self.places)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is F.dropout and args[0].is_cpu:
            return keyed_dropout(args[0], kwargs["p"], self._key())
        if func in (F.dropout, F.scaled_dot_product_attention):
            torch.manual_seed(self._key())
        return func(*args, **(kwargs or {}))

    def _key(self) -> int:
        return operator_key(self.seed, self.step, self.left.pop(0))


class Eager:
    """The module with an optimizer of torch's, trained on batches as they are offered to a cluster."""

    def __init__(self, case, graph, criterion, make_optimizer, *, seed=0, microbatches=1):
        self.module = case.model()
        self.criterion, self.microbatches = criterion, microbatches
        self.optimizer = make_optimizer([p for p in self.module.parameters() if p.requires_grad])
        self.random = KeyedRandom(graph, seed)
        self.spec = pytree.tree_flatten(case.example())[1]
        self.passes = 0

    def train(self, inputs: list, targets, update=True) -> list[float]:
        """The losses of the batch's parts."""
        parts = min(self.microbatches, len(targets))
        cut = zip(*(tensor.tensor_split(parts) for tensor in [*inputs, targets]), strict=True)
        return [self._pass(list(part[:-1]), part[-1], len(part[-1]) / len(targets)) for part in cut] + self._end(update)

    def evaluate(self, inputs: list):
        self.module.eval()
        with torch.no_grad():
            outputs = self._call(inputs)
        self.module.train()
        return outputs

    def state(self) -> dict[str, torch.Tensor]:
        named = [*self.module.named_parameters(remove_duplicate=False), *self.module.named_buffers()]
        return {name: tensor.detach() for name, tensor in named}

    def _pass(self, inputs, targets, weight) -> float:
        self.random.begin(self.passes)
        self.passes += 1
        with self.random:
            outputs = self._call(inputs)
        loss = self.criterion(outputs, targets)
        (loss if weight == 1 else loss * weight).backward()
        return loss.item()

    def _end(self, update) -> list:
        if update:
            self.optimizer.step()
            self.optimizer.zero_grad()
        return []

    def _call(self, inputs):
        args, kwargs = pytree.tree_unflatten(inputs, self.spec)
        return self.module(*args, **kwargs)
