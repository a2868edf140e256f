"""Transformers and recurrent networks, and a model with inputs and outputs of many kinds."""

import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, dim, heads, dropout, causal):
        super().__init__()
        self.heads, self.dropout, self.causal = heads, dropout, causal
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        batch, length, dim = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, dim // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        dropout = self.dropout if self.training else 0.0
        x = F.scaled_dot_product_attention(q, k, v, mask, dropout, is_causal=self.causal)
        return self.out(x.transpose(1, 2).reshape(batch, length, dim))


class Block(nn.Module):
    """A transformer block with the norms in front."""

    def __init__(self, dim, heads, dropout=0.0, causal=False):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attention = Attention(dim, heads, dropout, causal)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim), nn.Dropout(dropout))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, vocabulary=256, length=64, dim=256, depth=6, heads=4, dropout=0.1, tied=False):
        super().__init__()
        self.token = nn.Embedding(vocabulary, dim)
        self.position = nn.Embedding(length, dim)
        self.drop = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block(dim, heads, dropout, causal=True) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocabulary, bias=False)
        if tied:
            self.head.weight = self.token.weight

    def forward(self, tokens):
        position = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.drop(self.token(tokens) + self.position(position))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class EncoderLayer(nn.Module):
    """A transformer layer with the norms behind, its attention written out."""

    def __init__(self, dim, heads, dropout):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.out, self.norm1, self.norm2 = nn.Linear(dim, dim), nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, bias):
        batch, length, dim = x.shape

        def split(projected):
            return projected.view(batch, length, self.heads, -1).transpose(1, 2)

        scores = split(self.query(x)) @ split(self.key(x)).transpose(-1, -2) / (dim // self.heads) ** 0.5
        weights = self.drop(torch.softmax(scores + bias, -1))
        context = (weights @ split(self.value(x))).transpose(1, 2).contiguous().view(batch, length, dim)
        x = self.norm1(x + self.drop(self.out(context)))
        return self.norm2(x + self.drop(self.down(F.gelu(self.up(x)))))


class Bert(nn.Module):
    """An encoder with an attention mask and token types as keyword inputs, and a dict of two results."""

    def __init__(self, vocabulary=1000, length=64, dim=256, depth=4, heads=4, dropout=0.1):
        super().__init__()
        self.word = nn.Embedding(vocabulary, dim, padding_idx=0)
        self.position = nn.Embedding(length, dim)
        self.kind = nn.Embedding(2, dim)
        self.register_buffer("position_ids", torch.arange(length).unsqueeze(0), persistent=False)
        self.norm, self.drop = nn.LayerNorm(dim), nn.Dropout(dropout)
        self.layers = nn.ModuleList(EncoderLayer(dim, heads, dropout) for _ in range(depth))
        self.pool = nn.Linear(dim, dim)

    def forward(self, input_ids, attention_mask=None, token_type_ids=None):
        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)
        if token_type_ids is None:
            token_type_ids = torch.zeros_like(input_ids)
        bias = (1.0 - attention_mask[:, None, None, :].to(self.word.weight.dtype)) * -1e4
        positions = self.position_ids[:, : input_ids.shape[1]]
        x = self.drop(self.norm(self.word(input_ids) + self.position(positions) + self.kind(token_type_ids)))
        for layer in self.layers:
            x = layer(x, bias)
        return {"hidden": x, "pooled": torch.tanh(self.pool(x[:, 0]))}


class Lstm(nn.Module):
    def __init__(self, vocabulary=100, dim=32, hidden=48, layers=2, dropout=0.2):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, dim)
        self.lstm = nn.LSTM(dim, hidden, layers, batch_first=True, dropout=dropout)
        self.head = nn.Linear(hidden, vocabulary)

    def forward(self, tokens):
        out, (h, c) = self.lstm(self.embed(tokens))
        return self.head(out), h, c


class Mixed(nn.Module):
    """Integers, floats and a bool mask in, one of them by keyword; a dict with a tuple inside out."""

    def __init__(self, vocabulary=50, features=8, dim=32):
        super().__init__()
        self.embed = nn.EmbeddingBag(vocabulary, dim, mode="mean")
        self.features = nn.Sequential(nn.Linear(features, dim), nn.Tanh(), nn.LayerNorm(dim))
        self.mix = nn.Bilinear(dim, dim, dim)
        self.drop = nn.Dropout(0.3)
        self.head = nn.Linear(dim, 5)
        self.value = nn.Linear(dim, 1)

    def forward(self, ids, features, *, mask):
        x = self.embed(ids)
        y = self.features(features)
        z = self.drop(self.mix(x, y).masked_fill(mask[:, None], 0.0))
        logits = self.head(z)
        return {"logits": logits, "both": (self.value(z).squeeze(-1), logits.argmax(-1)), "masked": mask.sum()}
