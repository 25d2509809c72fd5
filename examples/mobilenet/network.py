"""MobileNetV2 (Sandler et al., 2018) in plain torch, with the names of its public weights."""

import torch
from torch import nn

__all__ = ["MobileNetV2"]

# Per stage: expansion of the hidden layer, output channels, repetitions, stride of the first block.
STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


class ConvNormAct(nn.Sequential):
    """Convolution, batch norm, ReLU6; keeps the picture's size at stride 1."""

    def __init__(
        self, channels: int, out: int, *, kernel: int = 3, stride: int = 1, groups: int = 1
    ) -> None:
        super().__init__(
            nn.Conv2d(channels, out, kernel, stride, kernel // 2, groups=groups, bias=False),
            nn.BatchNorm2d(out),
            nn.ReLU6(inplace=True),
        )


class InvertedResidual(nn.Module):
    """Expand, filter each channel, project; add the input where shapes allow."""

    def __init__(self, channels: int, out: int, *, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = channels * expansion
        expand = [ConvNormAct(channels, hidden, kernel=1)] if expansion > 1 else []
        self.residual = stride == 1 and channels == out
        self.conv = nn.Sequential(
            *expand,
            ConvNormAct(hidden, hidden, stride=stride, groups=hidden),
            nn.Conv2d(hidden, out, 1, bias=False),
            nn.BatchNorm2d(out),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (n, channels, h, w) to (n, out, h / stride, w / stride)."""
        return x + self.conv(x) if self.residual else self.conv(x)


class MobileNetV2(nn.Module):
    """Map pictures (n, 3, 224, 224) to scores (n, 1000) of the ImageNet classes."""

    def __init__(self) -> None:
        super().__init__()
        channels = 32
        layers: list[nn.Module] = [ConvNormAct(3, channels, stride=2)]
        for expansion, out, repetitions, stride in STAGES:
            for i in range(repetitions):
                first_stride = stride if i == 0 else 1
                layers.append(
                    InvertedResidual(channels, out, stride=first_stride, expansion=expansion)
                )
                channels = out
        layers.append(ConvNormAct(channels, 1280, kernel=1))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, 1000))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Pool the features over the picture and classify them."""
        return self.classifier(self.features(x).mean((2, 3)))
