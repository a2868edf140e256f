"""A small BERT and masked batches of text: Python's own documentation, byte by byte."""

import sys
import sysconfig
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

PAD, MASK, FIRST_BYTE = 0, 1, 2
VOCABULARY = 256 + FIRST_BYTE
IGNORED = -100  # what cross_entropy leaves out


class Layer(nn.Module):
    """Attention to all that is not padding, and a small network, with the norms behind."""

    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.norm_1, self.norm_2, self.drop = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.Dropout(0.1)

    def forward(self, x, mask):
        batch, length, dim = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, dim // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        seen = F.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2).flatten(2)
        x = self.norm_1(x + self.drop(self.out(seen)))
        return self.norm_2(x + self.drop(self.mlp(x)))


class Bert(nn.Module):
    """Logits for every place of the text, as a dict."""

    def __init__(self, length: int, dim: int, depth: int, heads: int):
        super().__init__()
        self.word, self.position = nn.Embedding(VOCABULARY, dim, padding_idx=PAD), nn.Embedding(length, dim)
        self.norm, self.drop = nn.LayerNorm(dim), nn.Dropout(0.1)
        self.layers = nn.ModuleList(Layer(dim, heads) for _ in range(depth))
        self.head = nn.Sequential(nn.Linear(dim, dim), nn.GELU(), nn.LayerNorm(dim), nn.Linear(dim, VOCABULARY))
        for embedding in (self.word, self.position):
            nn.init.normal_(embedding.weight, std=0.02)

    def forward(self, input_ids, attention_mask):
        places = torch.arange(input_ids.shape[1], device=input_ids.device)
        x = self.drop(self.norm(self.word(input_ids) + self.position(places)))
        mask = attention_mask[:, None, None, :].bool()
        for layer in self.layers:
            x = layer(x, mask)
        return {"logits": self.head(x)}


SIZES = {
    False: {"length": 64, "dim": 96, "depth": 3, "heads": 4},
    True: {"length": 16, "dim": 16, "depth": 3, "heads": 2},
}


def make_model(small: bool = False) -> Bert:
    return Bert(**SIZES[small])


def read_text(limit: int) -> bytes:
    """The docstrings and comments of Python's own library: English enough, and on every machine with a Python."""
    text = b""
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        text += path.read_bytes()
        if len(text) >= limit:
            return text[:limit]
    raise SystemExit(f"there are only {len(text)} bytes of Python's library in {sys.prefix}; give a smaller limit")


class MaskedText(Dataset):
    """Pieces of a text in a random order, 15 % of each masked; always the same for the same seed."""

    def __init__(self, text: bytes, length: int, seed: int):
        pieces = torch.frombuffer(bytearray(text), dtype=torch.uint8).long() + FIRST_BYTE
        pieces = pieces[: len(pieces) // length * length].view(-1, length)
        random = torch.Generator().manual_seed(seed)
        self.pieces = pieces[torch.randperm(len(pieces), generator=random)]
        self.masked = torch.rand(self.pieces.shape, generator=random) < 0.15
        # Texts have lengths; some pieces end early.
        ends = torch.randint(length // 2, 2 * length, (len(self.pieces), 1), generator=random)
        self.there = torch.arange(length) < ends

    def __len__(self):
        return len(self.pieces)

    def __getitem__(self, index):
        piece, there = self.pieces[index], self.there[index]
        masked = self.masked[index] & there
        return {
            "input_ids": piece.masked_fill(masked, MASK).masked_fill(~there, PAD),
            "attention_mask": there.long(),
            "labels": piece.masked_fill(~masked, IGNORED),
        }


def make_loaders(small: bool = False) -> tuple[DataLoader, DataLoader]:
    """Batches to train on and to look at afterwards."""
    length = SIZES[small]["length"]
    text = read_text(4_096 if small else 600_000)
    cut = len(text) * 9 // 10
    # Shuffled once, by the seed: a loop of its own must go through the data in the order of the leaf's labels.
    train = MaskedText(text[:cut], length, 1)
    return DataLoader(train, batch_size=8, drop_last=True), DataLoader(MaskedText(text[cut:], length, 2), batch_size=64)


def masked_loss(outputs: dict, batch: dict) -> torch.Tensor:
    return F.cross_entropy(outputs["logits"].flatten(0, 1), batch["labels"].flatten(), ignore_index=IGNORED)
