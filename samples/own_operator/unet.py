"""A small UNet as diffusion models have it, with random weights: writes unet.pt, unet.pt2 and its inputs."""
import argparse
import math
import pathlib
import warnings

import torch
import torch.nn.functional as F
from torch import nn


class ResidualBlock(nn.Module):
    def __init__(self, channels, out, time):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(8, channels), nn.Conv2d(channels, out, 3, padding=1)
        self.time = nn.Linear(time, out)
        self.norm2, self.conv2 = nn.GroupNorm(8, out), nn.Conv2d(out, out, 3, padding=1)
        self.skip = nn.Conv2d(channels, out, 1) if channels != out else nn.Identity()

    def forward(self, x, t):
        y = self.conv1(F.silu(self.norm1(x)))
        y = y + self.time(F.silu(t))[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(y)))


class Attention(nn.Module):
    def __init__(self, channels, heads=4):
        super().__init__()
        self.heads, self.norm = heads, nn.GroupNorm(8, channels)
        self.qkv, self.out = nn.Conv2d(channels, 3 * channels, 1), nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x)).reshape(b, 3, self.heads, c // self.heads, h * w).transpose(-1, -2).unbind(1)
        y = F.scaled_dot_product_attention(q, k, v)
        return x + self.out(y.transpose(-1, -2).reshape(b, c, h, w))


class UNet(nn.Module):
    """Predicts the noise in `x` at time step `t`."""

    def __init__(self, channels=3, width=32, depth=3):
        super().__init__()
        time = 4 * width
        self.width = width
        self.time1, self.time2 = nn.Linear(width, time), nn.Linear(time, time)
        self.first = nn.Conv2d(channels, width, 3, padding=1)
        widths = [width * 2**i for i in range(depth)]
        self.down, self.shrink = nn.ModuleList(), nn.ModuleList()
        for i, w in enumerate(widths):
            self.down.append(ResidualBlock(widths[max(i - 1, 0)], w, time))
            self.shrink.append(nn.Conv2d(w, w, 3, stride=2, padding=1) if i + 1 < depth else nn.Identity())
        self.middle1, self.attention = ResidualBlock(widths[-1], widths[-1], time), Attention(widths[-1])
        self.middle2 = ResidualBlock(widths[-1], widths[-1], time)
        self.up = nn.ModuleList(ResidualBlock(2 * w, widths[max(i - 1, 0)], time) for i, w in reversed(list(enumerate(widths))))
        self.norm, self.last = nn.GroupNorm(8, width), nn.Conv2d(width, channels, 3, padding=1)

    def forward(self, x, t):
        half = self.width // 2
        steps = torch.arange(half, dtype=torch.float32, device=x.device)
        angles = t[:, None] * torch.exp(steps * (-math.log(10000) / half))
        t = self.time2(F.silu(self.time1(torch.cat([angles.sin(), angles.cos()], dim=-1))))
        x, kept = self.first(x), []
        for block, shrink in zip(self.down, self.shrink):
            x = block(x, t)
            kept.append(x)
            x = shrink(x)
        x = self.middle2(self.attention(self.middle1(x, t)), t)
        for i, block in enumerate(self.up):
            x = block(torch.cat([x, kept.pop()], dim=1), t)
            if i + 1 < len(self.up):
                x = F.interpolate(x, scale_factor=2.0, mode="nearest")
        return self.last(F.silu(self.norm(x)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-o", "--output", type=pathlib.Path, default=pathlib.Path("build/samples/own_operator"))
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    model, inputs = UNet().eval(), (torch.randn(2, 3, 64, 64), torch.tensor([10.0, 500.0]))
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.trace(model, inputs, check_trace=False).save(folder / "unet.pt")
        torch.export.save(torch.export.export(model, inputs), folder / "unet.pt2")
    torch.save(inputs, folder / "unet_inputs.pt")


if __name__ == "__main__":
    main()
