"""What a compiler does before it fuses: operators into the steps of their definitions, equal calculations once, unused ones not at all."""

from torch import nn
from graft import Recipe, decompose, eliminate_common, eliminate_dead


class Steps(Recipe):
    steps = [
        decompose(nn.SiLU),
        decompose(nn.BatchNorm2d),
        decompose(nn.Softmax),
        decompose(nn.LayerNorm),
        eliminate_common,
        eliminate_dead,
    ]
    expect = {decompose: 6}
