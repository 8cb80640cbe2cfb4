import torch
from graft import Recipe, Rule, kernels


class Attention(Rule):
    """Attention without a mask."""

    def pattern(q, k, v, scale: float):
        return torch.matmul(torch.softmax(torch.matmul(q, k.transpose(-1, -2)) / scale, dim=-1), v)

    def replacement(q, k, v, scale: float):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=1 / scale)


class Wide(Rule):
    def pattern(x):
        return torch.softmax(x, dim=1)


class WrongScale(Rule):
    """Computes something else: the scale is forgotten."""

    def pattern(q, k, v, scale: float):
        return torch.matmul(torch.softmax(torch.matmul(q, k.transpose(-1, -2)) / scale, dim=-1), v)

    def replacement(q, k, v, scale: float):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v)


class All(Recipe):
    steps = [Attention]


class WrongFirst(Recipe):
    steps = [WrongScale, Attention]
