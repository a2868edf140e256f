"""What models do beyond the usual layers, one model a line; capture itself compares the numbers with PyTorch's."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import ravnest


class Model(nn.Module):
    """A body written in one line, with its layers as self[0], self[1]."""

    def __init__(self, body, *layers):
        super().__init__()
        self.layers, self.body = nn.ModuleList(layers), body

    def __getitem__(self, number):
        return self.layers[number]

    def forward(self, *args):
        return self.body(self, *args)


def linear():
    return nn.Linear(8, 8)


def row():
    return (torch.randn(4, 8),)


def image():
    return (torch.randn(4, 3, 12, 12),)


def sequence():
    return (torch.randn(4, 10, 16),)


def padded():
    mask = torch.zeros(4, 10, dtype=torch.bool)
    mask[:, 7:] = True
    return (*sequence(), mask)


MODELS = {
    "attention": (lambda: nn.MultiheadAttention(16, 4, 0.1, batch_first=True), lambda: sequence() * 3),
    "encoder": (
        lambda: Model(
            lambda s, x, m: s[0](x, src_key_padding_mask=m),
            nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 1),
        ),
        padded,
    ),
    "gru": (lambda: nn.GRU(16, 8, 2, batch_first=True, dropout=0.2, bidirectional=True), sequence),
    "rnn": (lambda: nn.RNN(16, 8, batch_first=True), sequence),
    "group_norm": (lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.SiLU()), image),
    "instance_norm": (
        lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.InstanceNorm2d(8, affine=True, track_running_stats=True)),
        image,
    ),
    "activations": (
        lambda: nn.Sequential(linear(), nn.RMSNorm(8), nn.Hardswish(inplace=True), nn.PReLU(), nn.RReLU(), nn.GLU()),
        row,
    ),
    "interpolate": (lambda: Model(lambda s, x: F.interpolate(s[0](x), scale_factor=2), nn.Conv2d(3, 4, 3)), image),
    "pixel_shuffle": (lambda: nn.Sequential(nn.Conv2d(3, 16, 3), nn.PixelShuffle(2), nn.Upsample(None, 2)), image),
    "adaptive_pool": (lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveMaxPool2d(3), nn.Flatten()), image),
    "circular": (lambda: nn.Conv1d(10, 8, 3, padding="same", padding_mode="circular"), sequence),
    "dropouts": (lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.Dropout2d(0.3), nn.AlphaDropout(0.2)), image),
    "noise": (lambda: Model(lambda s, x: s[0](x) + torch.rand(x.shape[0], 8) + torch.randn(8), linear()), row),
    "shuffle": (lambda: Model(lambda s, x: s[0](x)[torch.randperm(x.shape[0])], linear()), row),
    "multinomial": (lambda: Model(lambda s, x: (y := s[0](x), torch.multinomial(y.softmax(-1), 2)), linear()), row),
    "gumbel": (lambda: Model(lambda s, x: F.gumbel_softmax(s[0](x), hard=True), linear()), row),
    "einsum": (lambda: Model(lambda s, x: torch.einsum("bi,bj->bij", s[0](x), x), linear()), row),
    "indexing": (lambda: Model(lambda s, x: s[0](x)[:, [0, 2]] + x[torch.arange(x.shape[0]), 0, None], linear()), row),
    "bool_indexing": (lambda: Model(lambda s, x: s[0](x)[x > 0].mean(), linear()), row),
    "nonzero": (lambda: Model(lambda s, x: s[0](x)[(x[:, 0] > -9).nonzero().squeeze(1)].sum(0), linear()), row),
    "item": (lambda: Model(lambda s, x: s[0](x) * x.abs().max().item(), linear()), row),
    "top_k": (lambda: Model(lambda s, x: tuple(s[0](x).topk(3, -1)), linear()), row),
    "split": (lambda: Model(lambda s, x: [part * 2 for part in s[0](x).split([3, 5], -1)], linear()), row),
    "fft": (lambda: Model(lambda s, x: torch.fft.rfft(s[0](x)).abs(), linear()), row),
    "complex": (lambda: Model(lambda s, x: torch.view_as_real(torch.fft.fft(s[0](x))), linear()), row),
    "types": (lambda: Model(lambda s, x: s[0](x).double().float().type_as(x) + x.int(), linear()), row),
    "sizes": (lambda: Model(lambda s, x: s[0](x).reshape(x.shape[0] * 2, -1) / x.shape[0] ** 0.5, linear()), row),
    "even_batches": (lambda: Model(lambda s, x: s[0](x).reshape(x.shape[0] // 2, -1), linear()), row),
    "constants": (lambda: Model(lambda s, x: torch.where(x > 0, s[0](x), torch.tensor(-9.0)).exp(), linear()), row),
    "written_input": (lambda: Model(lambda s, x: s[0](x.clamp_(min=0)), linear()), row),
    "written_zeros": (lambda: Model(lambda s, x: torch.zeros_like(x).copy_(s[0](x)), linear()), row),
    "own_weight_twice": (lambda: Model(lambda s, x: s[0](x) @ s[0].weight, linear()), row),
    "causal": (
        lambda: Model(lambda s, x: F.scaled_dot_product_attention(s[0](x), x, x, is_causal=True), nn.Linear(16, 16)),
        sequence,
    ),
    "checkpoint": (
        lambda: Model(lambda s, x: torch.utils.checkpoint.checkpoint(s[0], x, use_reentrant=False), linear()),
        row,
    ),
    "mixture_of_experts": (
        lambda: Model(lambda s, x: sum(s[0](x)[:, i, None] * s[i](x) for i in (1, 2)), linear(), linear(), linear()),
        row,
    ),
    "no_tensors": (lambda: Model(lambda s, x: {"y": s[0](x), "rest": (None, 3, "text", True, 2.5)}, linear()), row),
    "half": (lambda: nn.Sequential(linear(), nn.LayerNorm(8)).half(), lambda: (torch.randn(4, 8).half(),)),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_captured_with_equal_numbers(name, tmp_path):
    build, inputs = MODELS[name]
    torch.manual_seed(3)
    args = inputs()
    model = build()
    graph = ravnest.load(ravnest.capture(model, args, path=tmp_path / "m.pt2"))
    spread = [cut["position"] for cut in graph.cuts() if cut["legal"]]
    graph.slice(spread)
