"""MiniLM (Wang et al., 2020), a small BERT, in plain torch with the names of its public weights."""

from __future__ import annotations

import torch
from torch import nn

__all__ = ["MiniLM"]

WORDS, LENGTH, SIZE, HEADS, LAYERS = 30522, 512, 384, 12, 6
EPSILON = 1e-12


class Embeddings(nn.Module):
    """Add what a token is, where it stands and which text of a pair it belongs to."""

    def __init__(self) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(WORDS, SIZE)
        self.position_embeddings = nn.Embedding(LENGTH, SIZE)
        self.token_type_embeddings = nn.Embedding(2, SIZE)
        self.LayerNorm = nn.LayerNorm(SIZE, eps=EPSILON)
        self.register_buffer("position_ids", torch.arange(LENGTH)[None])

    def forward(self, ids: torch.Tensor, types: torch.Tensor) -> torch.Tensor:
        """Map ids and types (n, length) to vectors (n, length, size)."""
        positions = self.position_ids[:, : ids.shape[1]]
        vectors = self.word_embeddings(ids) + self.token_type_embeddings(types)
        return self.LayerNorm(vectors + self.position_embeddings(positions))


class SelfAttention(nn.Module):
    """Let each token look at those that the mask shows."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(SIZE, SIZE)
        self.key = nn.Linear(SIZE, SIZE)
        self.value = nn.Linear(SIZE, SIZE)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Map (n, length, size) and a mask (n, 1, 1, length) to (n, length, size)."""
        query, key, value = (
            layer(x).unflatten(2, (HEADS, -1)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        seen = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return seen.transpose(1, 2).flatten(2)


class Projection(nn.Module):
    """Map back to the size of a token's vector, add the input, normalise."""

    def __init__(self, inner: int) -> None:
        super().__init__()
        self.dense = nn.Linear(inner, SIZE)
        self.LayerNorm = nn.LayerNorm(SIZE, eps=EPSILON)

    def forward(self, hidden: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """Map (n, length, inner) and the input (n, length, size) to (n, length, size)."""
        return self.LayerNorm(self.dense(hidden) + x)


class Layer(nn.Module):
    """One step of the encoder: attention, then two dense layers, each with its input added."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.ModuleDict({"self": SelfAttention(), "output": Projection(SIZE)})
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(SIZE, 4 * SIZE)})
        self.output = Projection(4 * SIZE)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Map (n, length, size) to the same shape."""
        x = self.attention["output"](self.attention["self"](x, mask), x)
        return self.output(nn.functional.gelu(self.intermediate["dense"](x)), x)


class MiniLM(nn.Module):
    """Map token ids (n, length) to one vector per token, (n, length, 384)."""

    def __init__(self) -> None:
        super().__init__()
        self.embeddings = Embeddings()
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList(Layer() for _ in range(LAYERS))})
        # The weights come with a pooler; sentence embeddings do not use it.
        self.pooler = nn.ModuleDict({"dense": nn.Linear(SIZE, SIZE)})

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        token_type_ids: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return vectors (n, length, 384); those of padding mean nothing."""
        types = torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids
        x = self.embeddings(input_ids, types)
        mask = attention_mask.bool()[:, None, None, :]
        for layer in self.encoder["layer"]:
            x = layer(x, mask)
        return x
