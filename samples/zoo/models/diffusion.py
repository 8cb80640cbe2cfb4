"""Diffusion models' parts: UNets, and the decoder of a variational autoencoder."""
import torch
from torch import nn
from torch.nn import functional as F

from .common import model


class ResBlock(nn.Module):
    """GroupNorm, SiLU and a convolution twice, shifted by an embedding of the time step: a diffusion model's block."""

    def __init__(self, into, out, time):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(32, into), nn.Conv2d(into, out, 3, padding=1)
        self.time = nn.Linear(time, out)
        self.norm2, self.conv2 = nn.GroupNorm(32, out), nn.Conv2d(out, out, 3, padding=1)
        self.skip = nn.Conv2d(into, out, 1) if into != out else nn.Identity()

    def forward(self, x, time):
        h = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(time))[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(h)))


class SelfAttention(nn.Module):
    """Attention between all places of a picture, with a residual."""

    def __init__(self, channels, heads=8):
        super().__init__()
        self.heads = heads
        self.norm, self.qkv, self.out = nn.GroupNorm(32, channels), nn.Conv2d(channels, 3 * channels, 1), nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, 3, self.heads, c // self.heads, h * w).transpose(3, 4).unbind(1)
        return x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(2, 3).reshape(b, c, h, w))


class UNet(nn.Module):
    """A diffusion UNet of three resolutions: blocks down, attention at the coarsest, blocks up beside what was kept."""

    def __init__(self, channels=128, time=512):
        super().__init__()
        sizes = [channels, 2 * channels, 4 * channels]
        self.width = channels
        self.time = nn.Sequential(nn.Linear(channels, time), nn.SiLU(), nn.Linear(time, time))
        self.first = nn.Conv2d(4, channels, 3, padding=1)
        self.down, self.up, into, kept = nn.ModuleList(), nn.ModuleList(), channels, [channels]
        for size in sizes:
            self.down.append(nn.ModuleList([ResBlock(into, size, time), nn.Conv2d(size, size, 3, stride=2, padding=1)]))
            kept.append(size)
            into = size
        self.middle = nn.ModuleList([ResBlock(into, into, time), SelfAttention(into), ResBlock(into, into, time)])
        for size in reversed(sizes):
            self.up.append(ResBlock(into + kept.pop(), size, time))
            into = size
        self.norm, self.last = nn.GroupNorm(32, into), nn.Conv2d(into, 4, 3, padding=1)

    def embedded(self, step, x):
        angles = step[:, None].to(x.dtype) * torch.exp(torch.arange(self.width // 2, device=x.device, dtype=x.dtype) * (-9.2 / (self.width // 2)))
        return self.time(torch.cat([angles.sin(), angles.cos()], -1))

    def forward(self, x, step):
        time = self.embedded(step, x)
        x, kept = self.first(x), []
        for block, smaller in self.down:
            x = block(x, time)
            kept.append(x)
            x = smaller(x)
        x = self.middle[2](self.middle[1](self.middle[0](x, time)), time)
        for block in self.up:
            x = block(torch.cat([F.interpolate(x, scale_factor=2.0, mode="nearest"), kept.pop()], 1), time)
        return self.last(F.silu(self.norm(x)))


@model
def unet(batch):
    return UNet().eval(), (torch.randn(batch, 4, 64, 64), torch.randint(0, 1000, (batch,)))


class Attention(nn.Module):
    """Attention of many heads from `x` to `context`, projected in and out."""

    def __init__(self, channels, context, heads=8):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = nn.Linear(channels, channels, bias=False), nn.Linear(context, channels, bias=False), nn.Linear(context, channels, bias=False)
        self.out = nn.Linear(channels, channels)

    def forward(self, x, context):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (self.q(x), self.k(context), self.v(context)))
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class TextBlock(nn.Module):
    """A transformer block over all places of a picture, which looks at a text: attention to itself, to the text, and a GEGLU."""

    def __init__(self, channels, context):
        super().__init__()
        self.norm, self.into, self.out = nn.GroupNorm(32, channels), nn.Linear(channels, channels), nn.Linear(channels, channels)
        self.norms = nn.ModuleList(nn.LayerNorm(channels) for _ in range(3))
        self.own, self.cross = Attention(channels, channels), Attention(channels, context)
        self.up, self.down = nn.Linear(channels, 8 * channels), nn.Linear(4 * channels, channels)

    def forward(self, x, context):
        b, c, h, w = x.shape
        y = self.into(self.norm(x).flatten(2).transpose(1, 2))
        normed = self.norms[0](y)
        y = y + self.own(normed, normed)
        y = y + self.cross(self.norms[1](y), context)
        value, gate = self.up(self.norms[2](y)).chunk(2, dim=-1)
        y = y + self.down(value * F.gelu(gate))
        return x + self.out(y).transpose(1, 2).reshape(b, c, h, w)


class TextUNet(UNet):
    """The UNet of a text-to-image model: each block is followed by one that looks at the text."""

    def __init__(self, channels=128, time=512, context=768):
        super().__init__(channels, time)
        self.down_text = nn.ModuleList(TextBlock(size, context) for size in (channels, 2 * channels, 4 * channels))
        self.up_text = nn.ModuleList(TextBlock(size, context) for size in (4 * channels, 2 * channels, channels))

    def forward(self, x, step, context):
        time = self.embedded(step, x)
        x, kept = self.first(x), []
        for (block, smaller), text in zip(self.down, self.down_text):
            x = text(block(x, time), context)
            kept.append(x)
            x = smaller(x)
        x = self.middle[2](self.middle[1](self.middle[0](x, time)), time)
        for block, text in zip(self.up, self.up_text):
            x = text(block(torch.cat([F.interpolate(x, scale_factor=2.0, mode="nearest"), kept.pop()], 1), time), context)
        return self.last(F.silu(self.norm(x)))


@model
def unet_cross(batch):
    return TextUNet().eval(), (torch.randn(batch, 4, 32, 32), torch.randint(0, 1000, (batch,)), torch.randn(batch, 77, 768))


class PlainBlock(nn.Module):
    """GroupNorm, SiLU and a convolution twice, with a residual."""

    def __init__(self, into, out):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(32, into), nn.Conv2d(into, out, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(32, out), nn.Conv2d(out, out, 3, padding=1)
        self.skip = nn.Conv2d(into, out, 1) if into != out else nn.Identity()

    def forward(self, x):
        return self.skip(x) + self.conv2(F.silu(self.norm2(self.conv1(F.silu(self.norm1(x))))))


class Upsample(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x):
        return self.conv(F.interpolate(x, scale_factor=2.0, mode="nearest"))


@model
def vae_decoder(batch):
    """From 4 channels of 32x32 to a picture of 256x256."""
    layers, into = [nn.Conv2d(4, 256, 3, padding=1), PlainBlock(256, 256), SelfAttention(256), PlainBlock(256, 256)], 256
    for out in (256, 128, 64):
        layers += [PlainBlock(into, out), PlainBlock(out, out), Upsample(out)]
        into = out
    layers += [nn.GroupNorm(32, into), nn.SiLU(), nn.Conv2d(into, 3, 3, padding=1)]
    return nn.Sequential(*layers).eval(), (torch.randn(batch, 4, 32, 32),)
