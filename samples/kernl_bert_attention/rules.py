"""BERT's attention, as torch.fx prints it, becomes one kernel. The pattern is pasted from the printed code."""

import torch
from graft import Recipe, Rule, kernels, normalize, remove_dropout


class BertAttention(Rule):
    def pattern(q, k, attention_mask, v, scale: float):
        transpose = k.transpose(-1, -2)
        matmul = torch.matmul(q, transpose);  transpose = None
        truediv = matmul / scale;  matmul = None
        add_1 = truediv + attention_mask;  truediv = None
        softmax = torch.nn.functional.softmax(add_1, dim=-1);  add_1 = None
        matmul_1 = torch.matmul(softmax, v);  softmax = None
        return matmul_1

    def replacement(q, k, attention_mask, v, scale: float):
        return kernels.attention(q, k, v, attention_mask, scale=1 / scale)

    def where(q, k, v):
        return q.dim() == 4 and k.dim() == 4 and v.dim() == 4


class Replace(Recipe):
    """As Kernl prepares the graph: one spelling of each operator, and no dropout."""

    steps = [normalize, remove_dropout, BertAttention]
    expect = {BertAttention: 2}
