"""Inception-V3 with its second head, which has a result in training mode only."""

import torch
from torch import nn
from torch.nn import functional as F

SIDE = 299  # what the second head's pooling needs


class Conv(nn.Module):
    """A convolution, batch norm and ReLU."""

    def __init__(self, channels_in, channels_out, kernel, **options):
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, kernel, bias=False, **options)
        self.bn = nn.BatchNorm2d(channels_out, eps=0.001)

    def forward(self, x):
        return F.relu(self.bn(self.conv(x)), inplace=True)


def chain(channels_in, *layers):
    """Convolutions in a row; each layer is (channels, kernel, options)."""
    modules = []
    for channels, kernel, options in layers:
        modules.append(Conv(channels_in, channels, kernel, **options))
        channels_in = channels
    return nn.Sequential(*modules)


class Pooled(nn.Module):
    """A mean over 3x3 places, then a 1x1 convolution."""

    def __init__(self, channels_in, channels):
        super().__init__()
        self.conv = Conv(channels_in, channels, 1)

    def forward(self, x):
        return self.conv(F.avg_pool2d(x, 3, 1, 1))


class Fork(nn.Module):
    """A stem whose result goes through a 1x3 and a 3x1 convolution side by side."""

    def __init__(self, stem, channels):
        super().__init__()
        self.stem = stem
        self.wide = Conv(channels, channels, (1, 3), padding=(0, 1))
        self.tall = Conv(channels, channels, (3, 1), padding=(1, 0))

    def forward(self, x):
        x = self.stem(x)
        return torch.cat([self.wide(x), self.tall(x)], 1)


class Branches(nn.Module):
    """Ways side by side, their channels put together."""

    def __init__(self, *branches):
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x):
        return torch.cat([branch(x) for branch in self.branches], 1)


WIDE, TALL = {"padding": (0, 3)}, {"padding": (3, 0)}
HALVE = {"stride": 2}


class InceptionV3(nn.Module):
    """(logits, logits of the second head) in training mode, logits in eval mode; `width` scales the channels.

    `repeats` says how many blocks of the kinds A, C and E there are.
    """

    def __init__(
        self, width: float = 1.0, repeats: tuple[int, int, int] = (3, 4, 2), classes: int = 10, dropout: float = 0.5
    ):
        super().__init__()

        def c(channels):
            return max(1, round(channels * width))

        def block_a(n, pool):
            return Branches(
                Conv(n, c(64), 1),
                chain(n, (c(48), 1, {}), (c(64), 5, {"padding": 2})),
                chain(n, (c(64), 1, {}), (c(96), 3, {"padding": 1}), (c(96), 3, {"padding": 1})),
                Pooled(n, c(pool)),
            )

        def block_c(n, k):
            return Branches(
                Conv(n, c(192), 1),
                chain(n, (c(k), 1, {}), (c(k), (1, 7), WIDE), (c(192), (7, 1), TALL)),
                chain(
                    n,
                    (c(k), 1, {}),
                    (c(k), (7, 1), TALL),
                    (c(k), (1, 7), WIDE),
                    (c(k), (7, 1), TALL),
                    (c(192), (1, 7), WIDE),
                ),
                Pooled(n, c(192)),
            )

        def block_e(n):
            return Branches(
                Conv(n, c(320), 1),
                Fork(Conv(n, c(384), 1), c(384)),
                Fork(chain(n, (c(448), 1, {}), (c(384), 3, {"padding": 1})), c(384)),
                Pooled(n, c(192)),
            )

        of_a, of_c, of_e = repeats
        a_out = [c(64) + c(64) + c(96) + c(pool) for pool in (32, 64, 64)[:of_a]]
        b_out = c(384) + c(96) + a_out[-1]
        c_out = 4 * c(192)
        d_out = c(320) + c(192) + c_out
        e_out = c(320) + 4 * c(384) + c(192)
        self.stem = nn.Sequential(
            Conv(3, c(32), 3, stride=2), Conv(c(32), c(32), 3), Conv(c(32), c(64), 3, padding=1), nn.MaxPool2d(3, 2),
            Conv(c(64), c(80), 1), Conv(c(80), c(192), 3), nn.MaxPool2d(3, 2),
        )  # fmt: skip
        a_in = [c(192), *a_out]
        self.a = nn.Sequential(*(block_a(a_in[i], (32, 64, 64)[i]) for i in range(of_a)))
        self.b = Branches(
            Conv(a_out[-1], c(384), 3, stride=2),
            chain(a_out[-1], (c(64), 1, {}), (c(96), 3, {"padding": 1}), (c(96), 3, HALVE)),
            nn.MaxPool2d(3, 2),
        )
        self.c = nn.Sequential(*(block_c(c_out if i else b_out, (128, 160, 160, 192)[i]) for i in range(of_c)))
        self.aux_conv0 = Conv(c_out, c(128), 1)
        self.aux_conv1 = Conv(c(128), c(768), 5)
        self.aux_fc = nn.Linear(c(768), classes)
        self.d = Branches(
            chain(c_out, (c(192), 1, {}), (c(320), 3, HALVE)),
            chain(c_out, (c(192), 1, {}), (c(192), (1, 7), WIDE), (c(192), (7, 1), TALL), (c(192), 3, HALVE)),
            nn.MaxPool2d(3, 2),
        )
        self.e = nn.Sequential(*(block_e(e_out if i else d_out) for i in range(of_e)))
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(e_out, classes)

    def forward(self, x):
        x = self.c(self.b(self.a(self.stem(x))))
        aux = None
        if self.training:
            aux = self.aux_conv1(self.aux_conv0(F.avg_pool2d(x, 5, 3)))
            aux = self.aux_fc(torch.flatten(F.adaptive_avg_pool2d(aux, 1), 1))
        x = F.adaptive_avg_pool2d(self.e(self.d(x)), 1)
        x = self.fc(torch.flatten(self.dropout(x), 1))
        return (x, aux) if self.training else x


def make_model(small: bool = False) -> InceptionV3:
    return InceptionV3(width=1 / 16, repeats=(1, 1, 1)) if small else InceptionV3()


def loss_of_both_heads(outputs: tuple[torch.Tensor, torch.Tensor], classes: torch.Tensor) -> torch.Tensor:
    logits, second = outputs
    return F.cross_entropy(logits, classes) + 0.4 * F.cross_entropy(second, classes)
