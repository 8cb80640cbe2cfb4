"""GroupNorm and the SiLU behind it become the operator of group_norm_silu.cpp, which build.py builds."""

import torch
import torch.nn.functional as F
from graft import Rule, Weight, library

library("libown_ops.so")


class GroupNormSilu(Rule):
    def pattern(x, groups: int, w: Weight, b: Weight, eps: float):
        return F.silu(F.group_norm(x, groups, w, b, eps))

    def replacement(x, groups: int, w: Weight, b: Weight, eps: float):
        return torch.ops.own.group_norm_silu(x, groups, w, b, eps)
