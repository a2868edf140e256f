"""A vision transformer for images of 32x32."""

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    """Attention among the patches, and a small network, each added to its input."""

    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        batch, length, dim = x.shape
        qkv = self.qkv(self.norm_1(x)).view(batch, length, 3, self.heads, dim // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm_2(x))


class ViT(nn.Module):
    """Patches of 4x4 as a sequence, with a place in front that gathers what the classes are told by."""

    def __init__(self, dim: int = 192, depth: int = 9, heads: int = 6, patch: int = 4, classes: int = 10):
        super().__init__()
        self.patches = nn.Conv2d(3, dim, patch, patch)
        self.summary = nn.Parameter(torch.zeros(1, 1, dim))
        self.position = nn.Parameter(torch.randn(1, (32 // patch) ** 2 + 1, dim) * 0.02)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, classes)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.summary.expand(x.shape[0], -1, -1), x], 1) + self.position
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x[:, 0]))


def make_model(small: bool = False) -> ViT:
    return ViT(dim=16, depth=3, heads=2, patch=8) if small else ViT()
