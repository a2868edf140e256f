"""Convolutional networks and the vision transformer, by their published structure; `width` scales the channels."""

import torch
from torch import nn
from torch.nn import functional as F

from .sequence import Block


class Digits(nn.Module):
    """The small network of the digits example."""

    def __init__(self):
        super().__init__()
        self.conv2d_1 = nn.Conv2d(1, 16, 3, padding="same")
        self.act_1 = nn.ReLU()
        self.maxpool2d_1 = nn.MaxPool2d(2, 2)
        self.drp_1 = nn.Dropout(0.25)
        self.bn_1 = nn.BatchNorm2d(16)
        self.maxpool2d_2 = nn.MaxPool2d(2, 2)
        self.conv2d_2 = nn.Conv2d(16, 32, 3, padding="same")
        self.act_2 = nn.ReLU()
        self.maxpool2d_3 = nn.MaxPool2d(2, 2)
        self.drp_2 = nn.Dropout(0.25)
        self.bn_2 = nn.BatchNorm2d(32)
        self.flatten = nn.Flatten()
        self.dense_1 = nn.Linear(32, 256)
        self.act_3 = nn.ReLU()
        self.drp_3 = nn.Dropout(0.4)
        self.bn_3 = nn.BatchNorm1d(256)
        self.dense_2 = nn.Linear(256, 10)
        self.act_4 = nn.Softmax(dim=-1)

    def forward(self, x):
        for layer in self.children():
            x = layer(x)
        return x


class Bottleneck(nn.Module):
    def __init__(self, channels_in, channels, stride):
        super().__init__()
        channels_out = channels * 4
        self.conv1 = nn.Conv2d(channels_in, channels, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.conv3 = nn.Conv2d(channels, channels_out, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(channels_out)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or channels_in != channels_out:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels_in, channels_out, 1, stride, bias=False), nn.BatchNorm2d(channels_out)
            )

    def forward(self, x):
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class ResNet50(nn.Module):
    def __init__(self, width=64, classes=1000, blocks=(3, 4, 6, 3)):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        channels = width
        for number, count in enumerate(blocks):
            layers = []
            for block in range(count):
                stride = 2 if number and block == 0 else 1
                layers.append(Bottleneck(channels, width << number, stride))
                channels = 4 * (width << number)
            self.add_module(f"layer{number + 1}", nn.Sequential(*layers))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(channels, classes)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class Patches(nn.Module):
    """Images to a sequence of patch embeddings with a class token in front."""

    def __init__(self, image, patch, dim):
        super().__init__()
        self.project = nn.Conv2d(3, dim, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, dim))
        self.position = nn.Parameter(torch.randn(1, (image // patch) ** 2 + 1, dim) * 0.02)

    def forward(self, x):
        x = self.project(x).flatten(2).transpose(1, 2)
        token = self.token.expand(x.shape[0], -1, -1)
        return torch.cat([token, x], 1) + self.position


class ViT(nn.Module):
    """ViT-B/32 by its defaults."""

    def __init__(self, image=224, patch=32, dim=768, depth=12, heads=12, classes=10, dropout=0.0):
        super().__init__()
        self.patches = Patches(image, patch, dim)
        self.drop = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block(dim, heads, dropout) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        x = self.drop(self.patches(x))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


def double_conv(channels_in, channels_out):
    return nn.Sequential(
        nn.Conv2d(channels_in, channels_out, 3, padding=1),
        nn.BatchNorm2d(channels_out),
        nn.ReLU(inplace=True),
        nn.Conv2d(channels_out, channels_out, 3, padding=1),
        nn.BatchNorm2d(channels_out),
        nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    def __init__(self, width=64, depth=4, classes=2):
        super().__init__()
        self.first = double_conv(3, width)
        self.down = nn.ModuleList(double_conv(width << i, width << (i + 1)) for i in range(depth))
        self.up = nn.ModuleList(nn.ConvTranspose2d(width << (i + 1), width << i, 2, 2) for i in reversed(range(depth)))
        self.join = nn.ModuleList(double_conv(width << (i + 1), width << i) for i in reversed(range(depth)))
        self.last = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        x = self.first(x)
        kept = []
        for down in self.down:
            kept.append(x)
            x = down(F.max_pool2d(x, 2))
        for up, join in zip(self.up, self.join, strict=True):
            x = join(torch.cat([kept.pop(), up(x)], 1))
        return self.last(x)
