"""A small model with one place for a rule, and that rule: for tests of many models."""

import torch

RULES = """import torch
import torch.nn.functional as F
from graft import Rule


class Swish(Rule):
    def pattern(x):
        return x * torch.sigmoid(x)

    def replacement(x):
        return F.silu(x)
"""


class Net(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = torch.nn.Linear(width, 2 * width)

    def forward(self, x):
        y = self.up(x)
        return y * torch.sigmoid(y)
