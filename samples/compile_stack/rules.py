"""What a compiler does before it fuses: operators into the steps of their definitions, equal calculations once, unused ones not at all."""

import torch.nn.functional as F
from torch import nn
from graft import Recipe, Rule, Weight, decompose, eliminate_common, eliminate_dead


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


class Sum(Rule):
    """Two linear layers of one input, added: one layer, whose weights are added when the rule is applied."""

    def pattern(x, w: Weight, b: Weight, v: Weight, c: Weight):
        return F.linear(x, w, b) + F.linear(x, v, c)

    def replacement(x, w: Weight, b: Weight, v: Weight, c: Weight):
        return F.linear(x, w + v, b + c)


class Difference(Rule):
    def pattern(x, w: Weight, b: Weight, v: Weight, c: Weight):
        return F.linear(x, w, b) - F.linear(x, v, c)

    def replacement(x, w: Weight, b: Weight, v: Weight, c: Weight):
        return F.linear(x, w - v, b - c)


class Branches(Recipe):
    """Both sides of a branch: rules look into each."""

    steps = [Sum, Difference]
    expect = {Sum: 1, Difference: 1}


class Product(Rule):
    """Two factors in a row are one."""

    def pattern(x, a: float, b: float):
        return x * a * b

    def replacement(x, a: float, b: float):
        return x * (a * b)


class Rounds(Recipe):
    """Four rounds are two, then one: matches of one step do not overlap."""

    steps = [Product, Product]
