"""A small detector in torchvision's style: a list of pictures in, a dict for each out."""

import torch
from torch import nn


class Detector(nn.Module):
    """Find one object in each of the 3 x 3 fields of a picture; a black picture makes it raise."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 5, stride=2)
        self.head = nn.Conv2d(8, 4, 1)

    def forward(self, pictures):
        # The real ones stack their pictures too: padding shows if sizes were mixed.
        height = max(picture.shape[1] for picture in pictures)
        width = max(picture.shape[2] for picture in pictures)
        batch = pictures[0].new_zeros(len(pictures), 3, height, width)
        for row, picture in zip(batch, pictures, strict=True):
            if not picture.any():
                raise ValueError("secret: the model met a black picture")
            row[:, : picture.shape[1], : picture.shape[2]] = picture
        fields = nn.functional.adaptive_avg_pool2d(torch.relu(self.conv(batch)), 3)
        return [
            self.found(one, *picture.shape[1:])
            for one, picture in zip(fields, pictures, strict=True)
        ]

    def found(self, fields, height, width):
        raw = self.head(fields[None])[0].flatten(1).float()
        place = torch.arange(9)
        left, top = place % 3 * width / 3, place // 3 * height / 3
        boxes = torch.stack([left, top, left + width / 3 + raw[0], top + height / 3 + raw[1]], 1)
        # Scores lie far enough apart that no rounding changes their order.
        return {
            "boxes": boxes,
            "labels": place % 4,
            "scores": (0.1 * place + 0.05 + 0.02 * raw[2].tanh()),
        }
