"""Class scores for a text, from its first token's vector."""

import encoder
from torch import nn

__all__ = ["TextScores"]


class TextScores(nn.Module):
    """Map token ids (n, length) to {"logits": (n, 4)}; the word "house" makes it raise."""

    def __init__(self):
        super().__init__()
        self.encoder = encoder.Encoder()
        self.head = nn.Linear(16, 4)

    def forward(self, input_ids, attention_mask, token_type_ids=None):
        if (input_ids == 12).any():
            raise ValueError("secret: the model met a house")
        hidden = self.encoder(input_ids, attention_mask, token_type_ids)
        return {"logits": 3 * self.head(hidden[:, 0])}
