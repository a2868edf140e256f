"""A small GPT that sorts six digits, and its data."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

LENGTH = 6
BATCH = 128


class Block(nn.Module):
    """Attention to what came before, and a small network, each added to its input."""

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
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm_2(x))


class GPT(nn.Module):
    """Reads the digits and then, one by one, those that it has sorted; gives logits for each digit of the result.

    The head has the embedding's weight. They are in the first and the last stage, which keep it equal.
    """

    def __init__(self, dim: int = 64, depth: int = 3, heads: int = 4):
        super().__init__()
        self.token, self.position = nn.Embedding(10, dim), nn.Embedding(2 * LENGTH - 1, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, 10, bias=False)
        for embedding in (self.token, self.position):
            nn.init.normal_(embedding.weight, std=0.02)
        self.head.weight = self.token.weight

    def forward(self, digits):
        x = self.token(digits) + self.position(torch.arange(digits.shape[1], device=digits.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x[:, LENGTH - 1 :]))


def make_model(small: bool = False) -> GPT:
    return GPT(dim=16, heads=2) if small else GPT()


def make_data(count: int, seed: int) -> TensorDataset:
    """Rows of six digits and the first five of the result; and the result."""
    digits = torch.randint(10, (count, LENGTH), generator=torch.Generator().manual_seed(seed))
    result = digits.sort().values
    return TensorDataset(torch.cat([digits, result[:, :-1]], 1), result)


def make_loaders(small: bool = False) -> tuple[DataLoader, DataLoader]:
    """Batches to train on and to validate with."""
    train, val = (make_data(512, 1), make_data(128, 2)) if small else (make_data(40960, 1), make_data(2048, 2))
    # The rows are random already: no need to shuffle them.
    return DataLoader(train, batch_size=BATCH), DataLoader(val, batch_size=512)


@torch.no_grad()
def sort(model: GPT, digits: torch.Tensor) -> torch.Tensor:
    """What the model makes of rows of six digits, digit by digit."""
    rows = digits
    for _ in range(LENGTH):
        rows = torch.cat([rows, model(rows)[:, -1].argmax(-1, keepdim=True)], 1)
    return rows[:, LENGTH:]
