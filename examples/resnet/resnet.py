"""ResNet-50 for images of 32x32."""

import torch
from torch import nn


class Bottleneck(nn.Module):
    """A narrow 3x3 convolution between two of 1x1, added to its input."""

    def __init__(self, channels_in: int, channels: int, stride: int):
        super().__init__()
        channels_out = 4 * channels
        self.narrow = nn.Sequential(
            nn.Conv2d(channels_in, channels, 1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(),
            nn.Conv2d(channels, channels, 3, stride, 1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(),
            nn.Conv2d(channels, channels_out, 1, bias=False), nn.BatchNorm2d(channels_out),
        )  # fmt: skip
        self.across = nn.Identity()
        if stride != 1 or channels_in != channels_out:
            self.across = nn.Sequential(
                nn.Conv2d(channels_in, channels_out, 1, stride, bias=False), nn.BatchNorm2d(channels_out)
            )

    def forward(self, x):
        return torch.relu(self.narrow(x) + self.across(x))


class ResNet(nn.Module):
    """`blocks` says how many bottlenecks each of the four groups has; (3, 4, 6, 3) is ResNet-50.

    The first convolution is 3x3 without a stride, and there is no pooling behind it: images are small.
    """

    def __init__(self, blocks: tuple[int, ...] = (3, 4, 6, 3), width: int = 64, classes: int = 10):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        channels_in, groups = width, []
        for group, count in enumerate(blocks):
            channels = width << group
            for block in range(count):
                groups.append(Bottleneck(channels_in, channels, 2 if group > 0 and block == 0 else 1))
                channels_in = 4 * channels
        self.groups = nn.Sequential(*groups)
        self.pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(channels_in, classes)

    def forward(self, x):
        return self.head(self.pool(self.groups(self.stem(x))))


def make_model(small: bool = False) -> ResNet:
    return ResNet((1, 1, 1, 1), width=4) if small else ResNet()
