"""A model that torch.compile cannot capture in one piece. In a file of its own: the transcripts hold its line numbers and text."""

import torch


class Broken(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 8), torch.nn.Linear(8, 4)

    def forward(self, x, scale=3):
        y = torch.relu(self.first(x))
        if y.sum() > 0:
            y = y * scale
        return self.second(y)
