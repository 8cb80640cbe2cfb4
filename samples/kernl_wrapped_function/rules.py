"""A file as it was written for torch.fx: `wrap` keeps its tracer out of a function. Graft reads the same file; a wrapped function of the
file is pasted in, and the buffer that the old kernel wanted is left out, since nothing reads it."""

import torch
from graft import Recipe, kernels, normalize, remove_dropout

torch.fx.wrap("attention_forward")


def attention_forward(q, k, v, output, sm_scale, is_causal=False, attention_mask=None):
    return kernels.attention(q, k, v, attention_mask, scale=sm_scale, causal=is_causal)


def pattern(q, k, attention_mask, v):
    transpose = k.transpose(-1, -2)
    matmul = torch.matmul(q, transpose)
    truediv = matmul / 4.0
    add_1 = truediv + attention_mask
    softmax = torch.nn.functional.softmax(add_1, dim=-1)
    matmul_1 = torch.matmul(softmax, v)
    return matmul_1


def replace(q, k, attention_mask, v):
    output = torch.empty_like(q)
    output = attention_forward(q, k, v, output, 1 / 4.0, is_causal=False, attention_mask=attention_mask)
    return output


class Replace(Recipe):
    """The two functions are one rule, which is called like the file."""

    steps = [normalize, remove_dropout, rules]
    expect = {rules: 2}
