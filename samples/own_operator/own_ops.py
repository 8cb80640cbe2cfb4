"""The same operator in Python: with --library own_ops.py, Graft runs it in a Python process of its own."""

import torch
import torch.nn.functional as F


@torch.library.custom_op("own::group_norm_silu", mutates_args=())
def group_norm_silu(x: torch.Tensor, groups: int, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float) -> torch.Tensor:
    return F.silu(F.group_norm(x, groups, weight, bias, eps))


@group_norm_silu.register_fake
def _(x, groups, weight, bias, eps):
    return torch.empty_like(x)
