"""A small causal transformer, with and without a memory of what it has read."""

import math

import torch
from torch import nn

__all__ = ["Causal"]

SIZE, HEADS, PLACES = 32, 4, 96


class Block(nn.Module):
    """Attention to what comes before, then two dense layers."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(SIZE)
        self.mix = nn.Linear(SIZE, 3 * SIZE)
        self.out = nn.Linear(SIZE, SIZE)
        self.dense = nn.Sequential(
            nn.LayerNorm(SIZE), nn.Linear(SIZE, 64), nn.GELU(), nn.Linear(64, SIZE)
        )

    def forward(self, x, hidden, past):
        query, key, value = (
            part.unflatten(2, (HEADS, -1)).transpose(1, 2)
            for part in self.mix(self.norm(x)).chunk(3, 2)
        )
        if past is not None:
            key, value = torch.cat([past[0], key], 2), torch.cat([past[1], value], 2)
        scores = query @ key.transpose(2, 3) / math.sqrt(SIZE // HEADS)
        seen = torch.softmax(scores.float().masked_fill(hidden, -1e9), 3).to(x.dtype) @ value
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        return x + self.dense(x), (key, value)


class Causal(nn.Module):
    """Map token ids (n, length) to scores (n, length, 258); token 257 makes it raise."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(258, SIZE)
        self.places = nn.Embedding(PLACES, SIZE)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(SIZE, 258)
        # What follows what is mostly settled, so that rounding changes no token.
        order = torch.randperm(256)
        self.register_buffer("bias", torch.zeros(258, 258))
        self.bias[torch.arange(256), order] = 6.0
        self.bias[:, 257] = -1e4

    def forward(
        self,
        input_ids,
        attention_mask,
        position_ids=None,
        past_key_values=None,
        use_cache=False,
    ):
        if (input_ids == 257).any():
            raise ValueError("secret: the model met a poison")
        new, total = input_ids.shape[1], attention_mask.shape[1]
        if position_ids is None:
            position_ids = torch.arange(new)[None]
        later = torch.ones(new, total, dtype=torch.bool).triu(total - new + 1)
        hidden = later | (attention_mask == 0)[:, None, None, :]
        x = self.words(input_ids) + self.places(position_ids)
        kept = []
        for block, past in zip(self.blocks, past_key_values or [None] * 2, strict=True):
            x, both = block(x, hidden, past)
            kept.append(both)
        scores = self.head(x).float() + self.bias[input_ids].float()
        return (scores, tuple(kept)) if use_cache else scores
