"""A network for arrays of any width: each row gets sums over itself; NaN makes it raise."""

import torch
from torch import nn


class Mixer(nn.Module):
    """Map (n, length, 4) to {"sum": (n, 3), "peak": (n,)}."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x):
        if torch.isnan(x).any():
            raise ValueError("secret: the model met a NaN")
        hidden = torch.tanh(self.linear(x))
        return {"sum": hidden.sum(1), "peak": hidden.amax((1, 2))}
