"""A single-headed attention block in fewer kernels than a graph compiler made of it: the mask goes into the softmax, the transpose into
the product, and both projections' biases into their products."""

import torch
import torch.nn.functional as F
from graft import Recipe, Rule, Weight, eliminate_dead, kernels, normalize


class MaskedAttention(Rule):
    """The mask keeps where it is not 0. Filling with a large negative number and leaving out differ only in rows that are masked
    whole, where neither means anything: the rule says that it changes numbers."""

    changes_numbers = True

    def pattern(q, k, v, mask, scale: float, fill: float):
        score = torch.matmul(q, k.transpose(-2, -1)) / scale
        score = score.masked_fill(mask == 0, fill)
        return torch.matmul(score.softmax(dim=-1), v)

    def replacement(q, k, v, mask, scale: float):
        return kernels.attention(q, k, v, mask != 0, scale=1 / scale)

    def where(q, fill):
        return q.dim() == 3 and fill <= -1000.0


class LinearWithBias(Rule):
    """The bias is added while the product is written, in the output projection too."""

    def pattern(x, w: Weight, b: Weight):
        return F.linear(x, w, b)

    def replacement(x, w: Weight, b: Weight):
        return kernels.linear(x, w, b)


class Fuse(Recipe):
    steps = [normalize, MaskedAttention, LinearWithBias, eliminate_dead]
    expect = {MaskedAttention: 1, LinearWithBias: 2}
