"""Models whose stages have more than a chain's edges between them."""

import torch
from torch import nn


class Crossing(nn.Module):
    """Bools and integers that are made at the start and used at the end, inputs that are first read there, operators
    without weights in the middle, and a dict of results of which some train nothing."""

    def __init__(self, vocabulary=20, dim=16):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, dim)
        self.first, self.drop = nn.Linear(dim, dim), nn.Dropout(0.2)
        self.extra = nn.Linear(dim, 2)
        self.second, self.head = nn.Linear(dim, dim), nn.Linear(dim, 5)

    def forward(self, ids, features, *, scale):
        known = ids > 3
        length = known.sum(1)
        x = self.drop(torch.relu(self.first(self.embed(ids).mean(1))))
        x = torch.tanh(x) + 1
        x = x * torch.sigmoid(x)
        side = self.extra(x)
        y = self.second(x + features)
        y = y.masked_fill(known[:, :1], 0.0) + length[:, None] * 0.1
        return {"logits": self.head(y) * scale, "length": length, "parts": (y, known), "side": side}


class Layers(nn.Module):
    """Linear layers with dropout and batch norm, of which some do not train."""

    def __init__(self, count=4, frozen=(), dim=8):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, dim), nn.BatchNorm1d(dim), nn.Tanh(), nn.Dropout(0.1)) for _ in range(count)
        )
        for number in frozen:
            self.layers[number].requires_grad_(False)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class TiedLate(nn.Module):
    """The last two of three layers share a weight."""

    def __init__(self, dim=6):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.c.weight = self.b.weight

    def forward(self, x):
        return self.c(torch.relu(self.b(torch.relu(self.a(x)))))


class Joined(nn.Linear):
    def forward(self, x, kept):
        return torch.tanh(super().forward(x + kept))


class DenseSkips(nn.Module):
    """What the first layer makes goes into each later one."""

    def __init__(self, count=5, dim=8):
        super().__init__()
        self.first = nn.Linear(dim, dim)
        self.layers = nn.ModuleList(Joined(dim, dim) for _ in range(count))

    def forward(self, x):
        x = kept = self.first(x)
        for layer in self.layers:
            x = layer(x, kept)
        return x
