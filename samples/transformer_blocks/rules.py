"""A single-headed attention block in fewer kernels than a graph compiler made of it: the mask goes into the softmax, the transpose into
the product, and both projections' biases into their products."""

import torch
import torch.nn.functional as F
from graft import Recipe, Rule, Weight, eliminate_dead, kernels, normalize


class MaskedAttention(Rule):
    """The mask keeps where it is not 0. Filling with a large negative number and leaving out differ only in rows that are masked
    whole, where neither means anything: the rule says that it changes numbers.

    cases:
        given q: f32[2,5,8]; k: f32[2,5,8]; v: f32[2,5,8]; mask: i64[2,5,5]:randint(0,2)
        matches 1
            score = torch.matmul(q, k.transpose(-2, -1)) / 4.0
            return torch.matmul(score.masked_fill(mask == 0, -1e9).softmax(dim=-1), v)
        none where    # a score that is not far below the others stays part of the softmax
            score = torch.matmul(q, k.transpose(-2, -1)) / 4.0
            return torch.matmul(score.masked_fill(mask == 0, -1.0).softmax(dim=-1), v)
        none escapes    # somebody else needs the weights, too
            weights = (torch.matmul(q, k.transpose(-2, -1)) / 4.0).masked_fill(mask == 0, -1e9).softmax(dim=-1)
            return torch.matmul(weights, v), weights
    """

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
    """The bias is added while the product is written, in the output projection too.

    cases:
        given x: f32[2,5,8]; w: weight f32[4,8]; b: weight f32[4]
        matches 1
            return F.linear(x, w, b)
        none
            return F.linear(x, w)
    """

    def pattern(x, w: Weight, b: Weight):
        return F.linear(x, w, b)

    def replacement(x, w: Weight, b: Weight):
        return kernels.linear(x, w, b)


class Fuse(Recipe):
    steps = [normalize, MaskedAttention, LinearWithBias, eliminate_dead]
    expect = {MaskedAttention: 1, LinearWithBias: 2}
