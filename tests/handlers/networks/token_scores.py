"""Label scores for each token of a text."""

import encoder
from torch import nn

__all__ = ["TokenScores"]


class TokenScores(nn.Module):
    """Map token ids (n, length) to scores (n, length, 5); the word "house" makes it raise."""

    def __init__(self):
        super().__init__()
        self.encoder = encoder.Encoder()
        self.head = nn.Linear(16, 5)

    def forward(self, input_ids, attention_mask):
        if (input_ids == 12).any():
            raise ValueError("secret: the model met a house")
        return (3 * self.head(self.encoder(input_ids, attention_mask)),)
