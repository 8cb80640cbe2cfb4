"""Small modules that people meet in tutorials about rewriting graphs, and a scripted one with control flow."""

import math
from typing import Dict, List, Optional, Tuple

import torch
from torch import nn
from torch.nn import functional as F


class SelfAttention(nn.Module):
    """Three projections that a rule can merge into one, then attention spelled out."""

    def __init__(self, hidden_size, heads):
        super().__init__()
        self.q_proj = nn.Linear(hidden_size, hidden_size)
        self.k_proj = nn.Linear(hidden_size, hidden_size)
        self.v_proj = nn.Linear(hidden_size, hidden_size)
        self.heads = heads
        self.head_size = hidden_size // heads

    def split(self, x):
        return x.view(x.shape[:-1] + (self.heads, -1)).permute(0, 2, 1, 3)

    def forward(self, x):
        q, k, v = self.split(self.q_proj(x)), self.split(self.k_proj(x)), self.split(self.v_proj(x))
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.head_size)
        weights = F.dropout(F.softmax(scores, dim=-1), 0.1, self.training)
        mixed = torch.matmul(weights, v).permute(0, 2, 1, 3).contiguous()
        return mixed.view(mixed.shape[0], mixed.shape[1], -1)


class Projection(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.dense = nn.Linear(hidden_size, hidden_size)
        self.dropout = nn.Dropout(0.1)
        self.layer_norm = nn.LayerNorm(hidden_size)

    def forward(self, x, residual):
        return self.layer_norm(self.dropout(self.dense(x)) + residual)


class Attention(nn.Module):
    """Slapo's example: self-attention, then projection, dropout, residual and LayerNorm."""

    def __init__(self, hidden_size, heads):
        super().__init__()
        self.self_attn = SelfAttention(hidden_size, heads)
        self.proj = Projection(hidden_size)

    def forward(self, x):
        return self.proj(self.self_attn(x), x)


class SelfAtten(nn.Module):
    """The notebook's single-headed attention: q, k and v from one projection, a mask that fills."""

    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        self.qkv_proj = nn.Linear(dim, dim * 3)
        self.out_proj = nn.Linear(dim, dim)

    def forward(self, x, mask):
        q, k, v = self.qkv_proj(x).chunk(3, dim=-1)
        score = torch.matmul(q, k.transpose(-2, -1)) / (self.dim**0.5)
        weights = score.masked_fill(mask == 0, -1e3).softmax(dim=-1)
        return self.out_proj(torch.matmul(weights, v))


class MyModule(torch.nn.Module):
    """Kernl's first example: a parameter of its own, an addition, a linear, a clamp."""

    def __init__(self):
        super().__init__()
        self.param = torch.nn.Parameter(torch.rand(3, 4))
        self.linear = torch.nn.Linear(4, 5)

    def forward(self, x):
        return self.linear(x + self.param).clamp(min=0.0, max=1.0)


class FeedForward(torch.nn.Module):
    """Kernl's second example: only module calls, one of which (tanh) its rule replaces."""

    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.fc1 = torch.nn.Linear(input_size, hidden_size)
        self.tanh = torch.nn.Tanh()
        self.fc2 = torch.nn.Linear(hidden_size, 1)
        self.sigmoid = torch.nn.Sigmoid()

    def forward(self, x):
        return self.sigmoid(self.fc2(self.tanh(self.fc1(x))))


class ControlFlow(nn.Module):
    """For scripting: a branch and a loop on values, an early exit, lists, dictionaries, tuples and optionals."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.register_buffer("limit", torch.tensor(3.0))

    def forward(self, x: torch.Tensor, bias: Optional[torch.Tensor]) -> Tuple[torch.Tensor, Dict[str, torch.Tensor]]:
        steps: List[torch.Tensor] = []
        for i in range(x.size(0)):
            row = self.linear(x[i])
            if bool(row.sum() > 0):
                row = torch.relu(row)
            else:
                row = torch.tanh(row) * float(i)
            steps.append(row)
        total = torch.stack(steps)
        while bool(total.abs().max() > self.limit):
            total = total / 2
        if bias is not None:
            total = total + bias
        return total, {"mean": total.mean(), "last": steps[-1]}
