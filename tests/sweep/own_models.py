"""Models of no library that `./dev sweep models` runs: a diffusion model's UNet, a convolutional segmenter, scans of states."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class ResidualBlock(nn.Module):
    def __init__(self, channels, out, time):
        super().__init__()
        self.first, self.second = nn.GroupNorm(4, channels), nn.GroupNorm(4, out)
        self.into, self.over = nn.Conv2d(channels, out, 3, padding=1), nn.Conv2d(out, out, 3, padding=1)
        self.time, self.skip = nn.Linear(time, out), nn.Conv2d(channels, out, 1) if channels != out else nn.Identity()

    def forward(self, x, time):
        h = self.into(F.silu(self.first(x))) + self.time(F.silu(time))[:, :, None, None]
        return self.skip(x) + self.over(F.silu(self.second(h)))


class CrossAttention(nn.Module):
    def __init__(self, channels, context, heads=4):
        super().__init__()
        self.norm, self.heads = nn.GroupNorm(4, channels), heads
        self.q, self.k, self.v = (nn.Linear(n, channels, bias=False) for n in (channels, context, context))
        self.out, self.gate = nn.Linear(channels, channels), nn.Linear(channels, 8 * channels)
        self.back, self.inner = nn.Linear(4 * channels, channels), nn.LayerNorm(channels)

    def split(self, x):
        return x.view(x.shape[0], -1, self.heads, x.shape[-1] // self.heads).transpose(1, 2)

    def forward(self, x, context):
        batch, channels, height, width = x.shape
        h = self.norm(x).flatten(2).transpose(1, 2)
        a = F.scaled_dot_product_attention(self.split(self.q(h)), self.split(self.k(context)), self.split(self.v(context)))
        h = h + self.out(a.transpose(1, 2).reshape(batch, -1, channels))
        value, gate = self.gate(self.inner(h)).chunk(2, dim=-1)
        h = h + self.back(value * F.gelu(gate))
        return x + h.transpose(1, 2).reshape(batch, channels, height, width)


class Unet(nn.Module):
    """Time as sines, residual blocks with group norms, attention to a text, and skips from the way down to the way up."""

    def __init__(self, base=16, context=32):
        super().__init__()
        time = 4 * base
        self.base, self.first = base, nn.Conv2d(4, base, 3, padding=1)
        self.time = nn.Sequential(nn.Linear(base, time), nn.SiLU(), nn.Linear(time, time))
        self.down = nn.ModuleList([ResidualBlock(base, base, time), ResidualBlock(base, 2 * base, time)])
        self.shrink = nn.Conv2d(base, base, 3, stride=2, padding=1)
        self.attention, self.middle = CrossAttention(2 * base, context), ResidualBlock(2 * base, 2 * base, time)
        self.up = nn.ModuleList([ResidualBlock(4 * base, base, time), ResidualBlock(2 * base, base, time)])
        self.norm, self.last = nn.GroupNorm(4, base), nn.Conv2d(base, 4, 3, padding=1)

    def forward(self, x, step, context):
        half = self.base // 2
        rates = torch.exp(-math.log(10000) * torch.arange(half, dtype=torch.float32, device=x.device) / half)
        angles = step[:, None].float() * rates[None]
        time = self.time(torch.cat([angles.sin(), angles.cos()], dim=-1))
        first = self.down[0](self.first(x), time)
        second = self.attention(self.down[1](self.shrink(first), time), context)
        h = self.up[0](torch.cat([self.middle(second, time), second], dim=1), time)
        h = F.interpolate(h, scale_factor=2.0, mode="nearest")
        return self.last(F.silu(self.norm(self.up[1](torch.cat([h, first], dim=1), time))))


class SkipSegmenter(nn.Module):
    """The older UNet: batch norms, transposed convolutions, a logit for each pixel."""

    def __init__(self, base=8):
        super().__init__()
        def pair(i, o):
            return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True),
                                 nn.Conv2d(o, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True))

        self.down = nn.ModuleList([pair(3, base), pair(base, 2 * base), pair(2 * base, 4 * base)])
        self.grow = nn.ModuleList([nn.ConvTranspose2d(4 * base, 2 * base, 2, stride=2), nn.ConvTranspose2d(2 * base, base, 2, stride=2)])
        self.up, self.last = nn.ModuleList([pair(4 * base, 2 * base), pair(2 * base, base)]), nn.Conv2d(base, 2, 1)

    def forward(self, x):
        first = self.down[0](x)
        second = self.down[1](F.max_pool2d(first, 2))
        h = self.down[2](F.max_pool2d(second, 2))
        h = self.up[0](torch.cat([second, self.grow[0](h)], dim=1))
        return self.last(self.up[1](torch.cat([first, self.grow[1](h)], dim=1)))


class Scan(nn.Module):
    """A selective scan, one step after the other, as Mamba is traced."""

    def __init__(self, width=16, states=4):
        super().__init__()
        self.rates = nn.Parameter(torch.log(torch.arange(1, states + 1).float()).repeat(width, 1))
        self.project, self.skip = nn.Linear(width, 2 * states + width), nn.Parameter(torch.ones(width))
        self.states, self.width = states, width

    def forward(self, x):
        batch, length, width = x.shape
        step, b, c = self.project(x).split([width, self.states, self.states], dim=-1)
        step, decay = F.softplus(step), -torch.exp(self.rates.float())
        kept = torch.exp(step[..., None] * decay)
        added = (step * x)[..., None] * b[:, :, None, :]
        state, out = torch.zeros(batch, width, self.states, device=x.device, dtype=x.dtype), []
        for i in range(length):
            state = kept[:, i] * state + added[:, i]
            out.append((state * c[:, i, None, :]).sum(-1))
        return torch.stack(out, dim=1) + x * self.skip


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.gru = nn.LSTM(8, 16, 2, batch_first=True, bidirectional=True), nn.GRU(32, 8, batch_first=True)

    def forward(self, x):
        return self.gru(self.lstm(x)[0])[0]


class SeqToSeq(nn.Module):
    """PyTorch's own transformer with a causal mask."""

    def __init__(self):
        super().__init__()
        self.model = nn.Transformer(32, 4, 2, 2, 64, batch_first=True)

    def forward(self, x, y):
        mask = nn.Transformer.generate_square_subsequent_mask(y.shape[1])
        return self.model(x, y, tgt_mask=mask, tgt_is_causal=True)


class NumbersBesideTensors(nn.Module):
    """Whole numbers, floats and truth values in one calculation: what each result's dtype is says PyTorch's promotion."""

    def forward(self, ids, x):
        count, length = ids.shape[0] * 0.5, ids.shape[1]
        scaled, half = ids * 0.5 + count, x.half() * 2.5
        last = ids.sum() * 0.25  # no dimensions
        positions = torch.arange(length) / length
        kept = torch.where(ids > 3, scaled, 1.5)
        return (scaled, ids / 3, ids * 2 - 1, half + 1, last, positions * scaled[0], kept, (ids > 3) * 0.5, 1.0 / (ids + 1),
                x * math.sqrt(length) + ids, 2.0 ** x, (length / 2) * ids, ids.to(torch.int32) * 3 + 0.5, last * x, x.double() * 0.1)


MODELS = {
    "diffusion UNet": (Unet, lambda n: (torch.randn(n, 4, 16, 16), torch.randint(0, 1000, (n,)), torch.randn(n, 7, 32))),
    "segmenting UNet": (SkipSegmenter, lambda n: (torch.randn(n, 3, 32, 32),)),
    "selective scan": (Scan, lambda n: (torch.randn(n, 12, 16),)),
    "LSTM and GRU": (Recurrent, lambda n: (torch.randn(n, 9, 8),)),
    "nn.Transformer": (SeqToSeq, lambda n: (torch.randn(n, 9, 32), torch.randn(n, 6, 32))),
    "numbers beside tensors": (NumbersBesideTensors, lambda n: (torch.randint(0, 9, (n, 5)), torch.randn(n, 5))),
}
