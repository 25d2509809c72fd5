"""A small segmenter: scores at half the resolution of the picture."""

import torch
from torch import nn


class Segmenter(nn.Module):
    """Map pictures (n, 3, h, w) to {"out": (n, 3, h / 2, w / 2)}; black makes it raise."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 5, stride=2, padding=2)
        self.head = nn.Conv2d(8, 3, 1)

    def forward(self, x):
        if (x.amax((1, 2, 3)) < -1.5).any():
            raise ValueError("secret: the model met a black picture")
        return {"out": self.head(torch.relu(self.conv(x))), "aux": x}
