"""Models written here, of families that no library above has: recommendation, sequences without attention, fields, experts, warping."""
import math

import torch
from torch import nn
from torch.nn import functional as F

from .common import model


class DetrLayer(nn.Module):
    """A layer of DETR's transformer, post-norm: positions are added to queries and keys alone. A decoder's layer also looks at `memory`."""

    def __init__(self, width, heads, inner, decodes):
        super().__init__()
        self.own = nn.MultiheadAttention(width, heads, batch_first=True)
        self.cross = nn.MultiheadAttention(width, heads, batch_first=True) if decodes else None
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3 if decodes else 2))
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x, positions, memory=None, memory_positions=None):
        q = x + positions
        x = self.norms[0](x + self.own(q, q, x, need_weights=False)[0])
        if self.cross is not None:
            x = self.norms[1](x + self.cross(x + positions, memory + memory_positions, memory, need_weights=False)[0])
        return self.norms[-1](x + self.down(F.relu(self.up(x))))


class DetrTransformer(nn.Module):
    """Encoder over a backbone's map, decoder of 100 queries, and the heads for classes and boxes."""

    def __init__(self, width=256, heads=8, inner=2048, layers=6, queries=100):
        super().__init__()
        self.encoder = nn.ModuleList(DetrLayer(width, heads, inner, False) for _ in range(layers))
        self.decoder = nn.ModuleList(DetrLayer(width, heads, inner, True) for _ in range(layers))
        self.rows, self.columns = nn.Parameter(torch.rand(50, width // 2)), nn.Parameter(torch.rand(50, width // 2))
        self.queries, self.norm = nn.Embedding(queries, width), nn.LayerNorm(width)
        self.classes, self.boxes = nn.Linear(width, 92), nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4))

    def forward(self, features):
        b, _, h, w = features.shape
        places = torch.cat([self.columns[:w].unsqueeze(0).repeat(h, 1, 1), self.rows[:h].unsqueeze(1).repeat(1, w, 1)], -1).flatten(0, 1).unsqueeze(0)
        memory = features.flatten(2).transpose(1, 2)
        for layer in self.encoder:
            memory = layer(memory, places)
        queries = self.queries.weight.unsqueeze(0).repeat(b, 1, 1)
        x = torch.zeros_like(queries)
        for layer in self.decoder:
            x = layer(x, queries, memory, places)
        x = self.norm(x)
        return self.classes(x), self.boxes(x).sigmoid()


@model
def detr_transformer(batch):
    """Over a map of 25x25, an image of 800x800."""
    return DetrTransformer().eval(), (torch.randn(batch, 256, 25, 25),)


class LinearAttention(nn.Module):
    """A causal transformer block whose attention is a running sum: elu(q) + 1 times the sum of elu(k) + 1 and v so far, in chunks."""

    def __init__(self, width, heads, chunk=64):
        super().__init__()
        self.heads, self.chunk = heads, chunk
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, length, width = x.shape
        parts = self.qkv(self.norm1(x)).view(b, length // self.chunk, self.chunk, 3, self.heads, -1).permute(3, 0, 4, 1, 2, 5)
        q, k, v = F.elu(parts[0]) + 1, F.elu(parts[1]) + 1, parts[2]
        states = k.transpose(-1, -2) @ v
        before = states.cumsum(2) - states
        sums = k.sum(-2, keepdim=True)
        inside = (q @ k.transpose(-1, -2)).tril()
        above = q @ before + inside @ v
        below = (q * (sums.cumsum(2) - sums)).sum(-1, keepdim=True) + inside.sum(-1, keepdim=True)
        x = x + self.out((above / below).permute(0, 2, 3, 1, 4).reshape(b, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


@model
def linear_attention(batch):
    return nn.Sequential(*(LinearAttention(512, 8) for _ in range(6))).eval(), (torch.randn(batch, 512, 512),)


class Dlrm(nn.Module):
    """Clicks: an MLP over numbers, embeddings of categories, the products of all pairs, an MLP over these."""

    def __init__(self, dense=13, tables=26, rows=10000, width=64):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, width) for _ in range(tables))
        self.bottom = nn.Sequential(nn.Linear(dense, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, width), nn.ReLU())
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(nn.Linear(width + pairs, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 1))
        self.register_buffer("pairs", torch.tril_indices(tables + 1, tables + 1, -1))

    def forward(self, numbers, categories):
        x = self.bottom(numbers)
        vectors = torch.stack([x, *(table(categories[:, i]) for i, table in enumerate(self.tables))], 1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))
        return self.top(torch.cat([x, products[:, self.pairs[0], self.pairs[1]]], 1)).sigmoid()


@model
def dlrm(batch):
    """A request ranks 64 candidates."""
    return Dlrm().eval(), (torch.rand(64 * batch, 13), torch.randint(0, 10000, (64 * batch, 26)))


class TcnBlock(nn.Module):
    """Two dilated convolutions that look back alone, and a residual."""

    def __init__(self, into, out, dilation):
        super().__init__()
        self.back = 2 * dilation
        self.conv1, self.conv2 = nn.Conv1d(into, out, 3, dilation=dilation), nn.Conv1d(out, out, 3, dilation=dilation)
        self.skip = nn.Conv1d(into, out, 1) if into != out else nn.Identity()

    def forward(self, x):
        y = F.relu(self.conv1(F.pad(x, (self.back, 0))))
        return F.relu(self.skip(x) + F.relu(self.conv2(F.pad(y, (self.back, 0)))))


@model
def tcn(batch):
    blocks = [TcnBlock(32 if i == 0 else 128, 128, 2 ** i) for i in range(8)]
    return nn.Sequential(*blocks, nn.Conv1d(128, 32, 1)).eval(), (torch.randn(batch, 32, 1024),)


class FourierMlp(nn.Module):
    """A field: places, as sines and cosines of random frequencies, to colour and density."""

    def __init__(self, features=128, width=256, layers=6):
        super().__init__()
        self.register_buffer("frequencies", torch.randn(3, features) * 4)
        self.layers = nn.ModuleList(nn.Linear(2 * features if i == 0 else width, width) for i in range(layers))
        self.last = nn.Linear(width, 4)

    def forward(self, places):
        angles = 2 * math.pi * places @ self.frequencies
        x = torch.cat([angles.sin(), angles.cos()], -1)
        for layer in self.layers:
            x = F.silu(layer(x))
        colour, density = self.last(x).split([3, 1], -1)
        return torch.cat([colour.sigmoid(), F.softplus(density)], -1)


@model
def fourier_mlp(batch):
    return FourierMlp().eval(), (torch.rand(4096 * batch, 3) * 2 - 1,)


class Experts(nn.Module):
    """Eight SwiGLU experts, of which each token's result weighs two. All are computed, as small mixtures are on a CPU."""

    def __init__(self, width=512, inner=1024, experts=8):
        super().__init__()
        self.norm, self.gate = nn.LayerNorm(width), nn.Linear(width, experts, bias=False)
        self.up, self.side = (nn.Parameter(torch.randn(experts, width, inner) / width ** 0.5) for _ in range(2))
        self.down = nn.Parameter(torch.randn(experts, inner, width) / inner ** 0.5)

    def forward(self, x):
        y = self.norm(x).flatten(0, 1)
        best, chosen = self.gate(y).topk(2, dim=-1)
        weights = torch.zeros_like(y[:, :1]).expand(-1, self.gate.out_features).scatter(1, chosen, best.softmax(-1))
        each = torch.bmm(F.silu(torch.matmul(y, self.up)) * torch.matmul(y, self.side), self.down)
        return x + torch.einsum("te,etc->tc", weights, each).view_as(x)


@model
def moe(batch):
    return nn.Sequential(*(Experts() for _ in range(2))).eval(), (torch.randn(batch, 64, 512),)


class FlowWarp(nn.Module):
    """Interpolates a frame: warps two frames along their flows and blends them where both are seen."""

    def __init__(self, channels=32):
        super().__init__()
        self.mask = nn.Sequential(nn.Conv2d(10, channels, 3, padding=1), nn.PReLU(channels), nn.Conv2d(channels, channels, 3, padding=1), nn.PReLU(channels),
                                  nn.Conv2d(channels, 4, 3, padding=1))

    def warp(self, frame, flow):
        b, _, h, w = frame.shape
        ys, xs = torch.meshgrid(torch.arange(h, device=frame.device, dtype=frame.dtype), torch.arange(w, device=frame.device, dtype=frame.dtype), indexing="ij")
        x = (xs + flow[:, 0]) * (2.0 / (w - 1)) - 1
        y = (ys + flow[:, 1]) * (2.0 / (h - 1)) - 1
        return F.grid_sample(frame, torch.stack([x, y], -1), mode="bilinear", padding_mode="border", align_corners=True)

    def forward(self, first, second, flow):
        small = F.interpolate(flow, scale_factor=4.0, mode="bilinear", align_corners=False) * 4.0
        one, two = self.warp(first, small[:, :2]), self.warp(second, small[:, 2:])
        found = self.mask(torch.cat([one, two, small], 1))
        weight = found[:, :1].sigmoid()
        return (weight * one + (1 - weight) * two + 0.1 * found[:, 1:].tanh()).clamp(0, 1)


@model
def flow_warp(batch):
    return FlowWarp().eval(), (torch.rand(batch, 3, 256, 256), torch.rand(batch, 3, 256, 256), torch.randn(batch, 4, 64, 64))
