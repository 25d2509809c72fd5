"""A small network that listens to windows of a recording, and remembers the last ones."""

import torch
from torch import nn


class Listener(nn.Module):
    """Map windows (n, 512) and a rate to probabilities (n, 1); a loud window makes it raise."""

    def __init__(self):
        super().__init__()
        self.hear = nn.Linear(512, 16)
        self.remember = nn.GRUCell(16, 16)
        self.judge = nn.Linear(16, 1)
        self.state = None

    def reset_states(self):
        self.state = None

    def forward(self, x, sample_rate):
        if (x.abs() > 100).any():
            raise ValueError("secret: the model met a loud window")
        self.state = self.remember(torch.tanh(self.hear(x)), self.state)
        return torch.sigmoid(8 * self.judge(self.state))
