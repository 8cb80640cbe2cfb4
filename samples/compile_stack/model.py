#!/usr/bin/env python3
"""Saves a small block as torch.fx traces it, with everything that a compiler takes apart or leaves out; a model whose
branch depends on its input, as TorchScript keeps it; and a loop, as torch.fx writes its rounds out.

    model.py [-o build/samples/compile_stack]

Writes block.fx, branch.pt and rounds.fx, each with its inputs.
"""

import argparse
import pathlib
import sys

import torch
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "resources/python"))
import graft_fx


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.bn = nn.BatchNorm2d(8)
        self.act = nn.SiLU()
        self.softmax = nn.Softmax(dim=-1)
        self.norm = nn.LayerNorm(6)

    def forward(self, x):
        once = self.act(self.bn(self.conv(x)))
        again = self.act(self.bn(self.conv(x)))  # the same
        torch.tanh(once)  # nobody asks for it
        return self.norm(self.softmax(once) + again)


class Branch(nn.Module):
    """Which way it goes is only known when it runs: a tracer has to break the graph here."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)

    def forward(self, x):
        if bool(x.sum() < 0):
            y = self.a(x) + self.b(x)
        else:
            y = self.a(x) - self.b(x)
        return y


class Rounds(nn.Module):
    def forward(self, x):
        for i in range(1, 5):
            x = x * float(i)
        return x


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-o", "--output", type=pathlib.Path, default=pathlib.Path("build/samples/compile_stack"))
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    model, inputs = Block().eval(), (torch.randn(2, 3, 8, 8),)
    model.bn.running_mean.uniform_(-1, 1)
    model.bn.running_var.uniform_(0.5, 2)
    graft_fx.save(torch.fx.symbolic_trace(model), str(folder / "block.fx"), inputs)
    torch.save(inputs, folder / "block_inputs.pt")
    torch.jit.script(Branch().eval()).save(str(folder / "branch.pt"))
    torch.save((torch.randn(3, 4),), folder / "branch_inputs.pt")
    inputs = (torch.randn(3, 4),)
    graft_fx.save(torch.fx.symbolic_trace(Rounds()), str(folder / "rounds.fx"), inputs)
    torch.save(inputs, folder / "rounds_inputs.pt")


if __name__ == "__main__":
    main()
