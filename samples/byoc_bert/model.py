#!/usr/bin/env python3
"""Exports a small block that holds what the rules beside it look for.

    model.py [-o build/samples/byoc_bert]

Writes block.pt (traced TorchScript) and block_inputs.pt.
"""

import argparse
import pathlib

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, size=32):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(size, size))
        self.query = nn.Linear(size, size)
        self.key = nn.Linear(size, size)
        self.value = nn.Linear(size, size)
        self.gelu = nn.GELU()
        self.norm = nn.LayerNorm(size)

    def forward(self, x, y):
        scaled = torch.matmul(x, self.weight) / 8.0
        rectified = torch.relu(scaled + y)
        mixed = torch.tanh(self.query(rectified)) * torch.sigmoid(self.key(rectified)) + self.value(rectified)
        divided = mixed + x / (y * y + 1.0)
        return self.norm(self.gelu(divided))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-o", "--output", type=pathlib.Path, default=pathlib.Path("build/samples/byoc_bert"))
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    model, inputs = Block().eval(), (torch.randn(2, 6, 32), torch.randn(2, 6, 32))
    with torch.no_grad():
        torch.jit.trace(model, inputs).save(str(folder / "block.pt"))
    torch.save(inputs, folder / "block_inputs.pt")


if __name__ == "__main__":
    main()
