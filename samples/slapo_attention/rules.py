"""The steps of Slapo's tutorial on one attention block: find the projections, merge them, fuse the core attention, take the dense layer
apart and fuse its bias with what follows."""

import torch
import torch.nn.functional as F
from torch import nn
from graft import Recipe, Rule, Weight, call_module, decompose, kernels, optional, remove_dropout


class Projection(Rule):
    """Finds each of the three projections by its name, with the view and permute behind it. Finds only: nothing is replaced."""

    def pattern(x):
        x = call_module(r"[qkv]_proj", x)
        new_shape = x.shape[:-1] + (4, -1)
        x = x.view(new_shape)
        return x.permute(0, 2, 1, 3)


def projection(x, w, b):
    y = F.linear(x, w, b)
    return y.view(y.shape[:-1] + (4, -1)).permute(0, 2, 1, 3)


class FusedQkv(Rule):
    """Three linear layers of one input become one of three times the width, with the three weights stacked."""

    scope = "self_attn"

    def pattern(x, wq: Weight, bq: Weight, wk: Weight, bk: Weight, wv: Weight, bv: Weight):
        return projection(x, wq, bq), projection(x, wk, bk), projection(x, wv, bv)

    def replacement(x, wq: Weight, bq: Weight, wk: Weight, bk: Weight, wv: Weight, bv: Weight):
        qkv = F.linear(x, torch.cat([wq, wk, wv]), torch.cat([bq, bk, bv]))
        heads = qkv.view(x.shape[0], x.shape[1], 12, -1).permute(0, 2, 1, 3)
        return heads[:, :4], heads[:, 4:8], heads[:, 8:]

    def where(x):
        return x.dim() == 3


class FusedQKV(nn.Module):
    """The tutorial's module, to the letter."""

    def __init__(self, hidden_size, n_heads) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.fused_linear = nn.Linear(hidden_size, hidden_size * 3)

    def permute_for_scores(self, x):
        new_shape = x.shape[:-1] + (self.n_heads, -1, 3)
        x = x.view(new_shape)
        return x.permute(0, 2, 1, 3, 4)

    def forward(self, hidden_states):
        qkv = self.fused_linear(hidden_states)
        reshaped_qkv = self.permute_for_scores(qkv)
        q, k, v = torch.split(reshaped_qkv, 1, dim=-1)
        q = torch.squeeze(q, -1).contiguous()
        k = torch.squeeze(k, -1).contiguous()
        v = torch.squeeze(v, -1).contiguous()
        return [q, k, v]


class NewQkv(Rule):
    """The projections become a new module, as `sch.replace(fused_qkv, qkv_subgraphs)` does it: its weights are new, too, so the model
    has to be trained again. FusedQkv above keeps the weights."""

    changes_numbers = True

    class pattern(nn.Module):
        def __init__(self):
            super().__init__()
            self.q_proj = nn.Linear(1, 1)
            self.k_proj = nn.Linear(1, 1)
            self.v_proj = nn.Linear(1, 1)

        def permute_for_scores(self, x):
            return x.view(x.shape[:-1] + (4, -1)).permute(0, 2, 1, 3)

        def forward(self, x):
            q = self.permute_for_scores(self.q_proj(x))
            k = self.permute_for_scores(self.k_proj(x))
            return q, k, self.permute_for_scores(self.v_proj(x))

    class replacement(nn.Module):
        def __init__(self):
            super().__init__()
            self.fused_qkv = FusedQKV(hidden_size=64, n_heads=4)

        def forward(self, x):
            return self.fused_qkv(x)


def scaled_dot_product(q, k, v, p=0.1):
    d_k = q.shape[-1]
    attn_score = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(d_k)
    attn_probs = F.softmax(attn_score, dim=-1)
    attn_probs = optional(F.dropout, attn_probs, p=p, training=False)
    return torch.matmul(attn_probs, v)


class CoreAttention(Rule):
    """The core attention, found by its own function; p is concrete, and there is no mask."""

    pattern = scaled_dot_product

    def replacement(q, k, v):
        return kernels.attention(q, k, v, None, scale=1 / math.sqrt(q.shape[-1]))


class LnPattern(Rule):
    """The tutorial's `ln_pattern(x, bias, residual)`: found once the dense layer's bias is an addition of its own. Finds only."""

    scope = "proj"

    def pattern(x, bias, residual):
        return F.layer_norm(F.dropout(x + bias, p=_, training=_) + residual, 64, _, _, _)


class FusedLayerNorm(Rule):
    """Bias, dropout, residual and LayerNorm in one kernel: what taking the dense layer apart makes room for."""

    scope = "proj"

    def pattern(x, bias: Weight, residual, shape: list[int], weight: Weight, beta: Weight, eps: float):
        dropped = optional(F.dropout, x + bias, p=_, training=False)
        return F.layer_norm(dropped + residual, shape, weight, beta, eps)

    def replacement(x, bias: Weight, residual, weight: Weight, beta: Weight, eps: float):
        return kernels.add_layer_norm(x, residual, weight, beta, eps, input_bias=bias)

    def where(bias, shape):
        return bias.dim() == 1 and len(shape) == 1


class TrainedAttention(Rule):
    """The core attention as it is trained. PyTorch's own function drops out, too; another run of either draws other numbers."""

    changes_numbers = True

    def pattern(q, k, v, p: float):
        d_k = q.shape[-1]
        attn_score = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(d_k)
        attn_probs = F.dropout(F.softmax(attn_score, dim=-1), p=p, training=True)
        return torch.matmul(attn_probs, v)

    def replacement(q, k, v, p: float):
        return F.scaled_dot_product_attention(q, k, v, dropout_p=p)


class TrainedLayerNorm(Rule):
    """Residual and LayerNorm in one kernel, behind a dropout that drops."""

    scope = "proj"

    def pattern(x, bias: Weight, residual, shape: list[int], weight: Weight, beta: Weight, eps: float, p: float):
        return F.layer_norm(F.dropout(x + bias, p=p, training=True) + residual, shape, weight, beta, eps)

    def replacement(x, bias: Weight, residual, weight: Weight, beta: Weight, eps: float, p: float):
        return kernels.add_layer_norm(F.dropout(x + bias, p=p, training=True), residual, weight, beta, eps)

    def where(bias, shape):
        return bias.dim() == 1 and len(shape) == 1


class Optimize(Recipe):
    """The tutorial's whole schedule."""

    steps = [FusedQkv, CoreAttention, decompose(nn.Linear), FusedLayerNorm]
    expect = {FusedQkv: 1, CoreAttention: 1, FusedLayerNorm: 1}


class Retrain(Recipe):
    """The schedule as the tutorial has it: a new module for the projections, and only the output layer taken apart."""

    steps = [NewQkv, CoreAttention, decompose(r"proj\.dense"), FusedLayerNorm]
    expect = {NewQkv: 1, CoreAttention: 1, FusedLayerNorm: 1}


class Train(Recipe):
    """The schedule of a model that is trained: dropout is on, and merged weights keep the parameters that they are made from."""

    steps = [FusedQkv, TrainedAttention, decompose(nn.Linear), TrainedLayerNorm]
    expect = {FusedQkv: 1, TrainedAttention: 1, TrainedLayerNorm: 1}


class Merge(Recipe):
    """The first half: one projection, one attention."""

    steps = [FusedQkv, CoreAttention]
    expect = {FusedQkv: 1, CoreAttention: 1}


class Find(Recipe):
    """Up to the place where the tutorial looks for `ln_pattern`."""

    steps = [Projection, decompose(nn.Linear), LnPattern]
    expect = {Projection: 3, LnPattern: 1}
