"""Small models of a few operators each: generated kernels beside eager PyTorch and torch.compile, in turns, on this machine's CPU.

    python tests/bench/groups_cpu.py BUILD [--only WORD,WORD] [--rounds N] [--no-inductor] [--other LIBRARY]

Each model is traced, written by `graft apply --recipe Fused`, and checked against eager PyTorch. Figures are the thread's own
time, the 25th percentile of all rounds, on one thread. `--other` is a second libgraft_ops.so, of another version: it runs the
same files in a second process, and takes turns with this one.
"""
import argparse
import math
import pathlib
import subprocess
import sys
import tempfile
import time

import torch
import torch.nn.functional as F

CASES = {}
CHILD = "--in-this-process"


def case(name, *inputs):
    def add(function):
        CASES[name] = (function, inputs)
        return function
    return add


def f32(*shape):
    return lambda: torch.randn(*shape)


def channels_last(*shape):
    return lambda: torch.randn(*shape).to(memory_format=torch.channels_last)


def weights(*shape):
    torch.manual_seed(0)
    return torch.randn(*shape)


NORM = (weights(96) + 1, weights(96))


@case("layer norm behind channels first, 96x56x56", f32(1, 96, 56, 56))
def _(x):
    return F.layer_norm(x.permute(0, 2, 3, 1), (96,), *NORM)


@case("RMS norm behind channels first, and back, 96x56x56", f32(2, 96, 28, 28))
def _(x):
    y = x.permute(0, 2, 3, 1)
    return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6) * NORM[0]).permute(0, 3, 1, 2).contiguous()


@case("softmax over transposed rows, 8x256x256", f32(8, 256, 256))
def _(x):
    return x.transpose(1, 2).softmax(-1)


TABLE = weights(511, 12)
OTHER_TABLE = weights(32, 8)


@case("relative positions from arange, 12x256x256", f32(1, 12, 256, 256))
def _(x):
    i = torch.arange(256)
    return x + TABLE[i[:, None] - i[None, :] + 255].permute(2, 0, 1)


@case("T5 buckets, 8x128x128", f32(1, 8, 128, 128))
def _(x):
    i = torch.arange(128)
    d = i[None, :] - i[:, None]
    n = d.abs()
    large = 8 + (torch.log(n.float().clamp(min=1) / 8) / math.log(16) * 8).long()
    bucket = (d > 0).long() * 16 + torch.where(n < 8, n, large.clamp(max=15))
    return x + OTHER_TABLE[bucket].permute(2, 0, 1)


@case("ALiBi and causal mask from arange, softmax, 8x256x256", f32(8, 256, 256))
def _(x):
    i = torch.arange(256)
    d = i[None, :] - i[:, None]
    slopes = 2.0 ** -torch.arange(1, 9).float()
    return (x + slopes[:, None, None] * d).masked_fill(d > 0, -1e9).softmax(-1)


def angles(steps, size):
    return torch.outer(torch.arange(steps).float(), 10000.0 ** (-torch.arange(0, size, 2).float() / size))


ANGLES = angles(256, 64)
COS, SIN = ANGLES.cos(), ANGLES.sin()
COS2, SIN2 = torch.cat([COS, COS], -1), torch.cat([SIN, SIN], -1)


@case("rotary of neighbours, stack, 12x256x64", f32(1, 12, 256, 64))
def _(x):
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack([a * COS - b * SIN, a * SIN + b * COS], -1).flatten(-2)


COSI, SINI = COS.repeat_interleave(2, -1), SIN.repeat_interleave(2, -1)


@case("rotary of neighbours, turned pairs, 12x256x64", f32(1, 12, 256, 64))
def _(x):
    turned = torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)
    return x * COSI + turned * SINI


@case("rotary of halves, 12x256x64", f32(1, 12, 256, 64))
def _(x):
    a, b = x.chunk(2, -1)
    return x * COS2 + torch.cat([-b, a], -1) * SIN2


@case("complex product of pairs, 512x512x2", f32(512, 512, 2), f32(512, 512, 2))
def _(x, y):
    a, b, c, d = x[..., 0], x[..., 1], y[..., 0], y[..., 1]
    return torch.stack([a * c - b * d, a * d + b * c], -1)


@case("GLU of interleaved halves, 256x2048", f32(256, 2048))
def _(x):
    return F.silu(x[..., ::2]) * x[..., 1::2]


@case("RGB to grey, 512x512x3", f32(512, 512, 3))
def _(x):
    return x[..., 0] * 0.3 + x[..., 1] * 0.59 + x[..., 2] * 0.11


FREQUENCIES = weights(3, 64)


@case("sine and cosine behind a product, 4096x3x64", f32(4096, 3))
def _(x):
    y = (x @ FREQUENCIES) * 6.28
    return torch.cat([y.sin(), y.cos()], -1)


@case("SIREN: sin(30 (x W + b)), 4096x64x64", f32(4096, 64))
def _(x):
    return torch.sin(30 * (x @ SQUARE + SQUARE[0]))


SQUARE = weights(64, 64) / 8


@case("timestep embedding, 256x320", f32(256))
def _(t):
    y = t[:, None] * torch.exp(-math.log(10000) * torch.arange(160).float() / 160)
    return torch.cat([y.cos(), y.sin()], -1)


@case("softmax, then a transposed copy, 8x256x256", f32(8, 256, 256))
def _(x):
    y = x.softmax(-1)
    return y, y.transpose(1, 2).contiguous()


@case("a transposed copy of layer norm, 8x256x256", f32(8, 256, 256))
def _(x):
    return F.layer_norm(x, (256,)).transpose(1, 2).contiguous()


@case("softmax over the second of three dimensions, 16x128x256", f32(16, 128, 256))
def _(x):
    return x.softmax(1)


@case("log softmax over dim 1, images, 4x21x64x64", f32(4, 21, 64, 64))
def _(x):
    return x.log_softmax(1)


@case("normalise over dim 1, 4x256x32x32", f32(4, 256, 32, 32))
def _(x):
    return F.normalize(x, dim=1)


HEADS, NODES = 8, 256


@case("graph attention, 8 heads, 256 nodes", f32(NODES, HEADS), f32(NODES, HEADS), lambda: torch.rand(NODES, NODES) < 0.1)
def _(a, b, edges):
    e = F.leaky_relu(a[:, None, :] + b[None, :, :], 0.2)
    return e.masked_fill(~edges[:, :, None], -1e9).softmax(1)


@case("graph attention, heads first, 256 nodes", f32(HEADS, NODES), f32(HEADS, NODES), lambda: torch.rand(NODES, NODES) < 0.1)
def _(a, b, edges):
    e = F.leaky_relu(a[:, :, None] + b[:, None, :], 0.2)
    return e.masked_fill(~edges, -1e9).softmax(-1)


@case("messages of a graph: gather, softmax, 256x16 neighbours, 64", f32(256, 64), lambda: torch.randint(0, 256, (256, 16)), f32(256, 16))
def _(x, neighbours, score):
    return (x[neighbours] * score.softmax(-1)[..., None]).sum(1)


@case("pow 1.7, 64x1024", f32(64, 1024))
def _(x):
    return (x.abs() + 0.1).pow(1.7) + x


@case("tensor to the power of a tensor, 64x1024", f32(64, 1024), f32(64, 1024))
def _(x, y):
    return (x.abs() + 0.1) ** y * 2


@case("flip of the last dimension, 64x1024", f32(64, 1024))
def _(x):
    return x.flip(-1) * 2 + x


@case("flip alone, 64x1024", f32(64, 1024))
def _(x):
    return x.flip(-1) * 2


@case("reflect pad by 3, 64x56x56", f32(1, 64, 56, 56))
def _(x):
    return F.pad(x, (3, 3, 3, 3), mode="reflect") * 2


@case("replicate pad by 1, 64x56x56", f32(1, 64, 56, 56))
def _(x):
    return F.relu(F.pad(x, (1, 1, 1, 1), mode="replicate"))


@case("circular pad by 2, 64x56x56", f32(1, 64, 56, 56))
def _(x):
    return F.relu(F.pad(x, (2, 2, 2, 2), mode="circular"))


@case("grid_sample, 32x64x64", f32(1, 32, 64, 64), lambda: torch.rand(1, 64, 64, 2) * 2 - 1)
def _(x, grid):
    return F.grid_sample(x, grid, align_corners=False) * 2


@case("adaptive average pooling to 7x7, 64x32x32", f32(1, 64, 32, 32))
def _(x):
    return F.adaptive_avg_pool2d(x, 7) * 2


@case("adaptive average pooling to 8x8, 64x32x32", f32(1, 64, 32, 32))
def _(x):
    return F.adaptive_avg_pool2d(x, 8) * 2


@case("pixel_shuffle, 64x32x32", f32(1, 64, 32, 32))
def _(x):
    return F.relu(F.pixel_shuffle(x, 2))


@case("pixel_shuffle of channels-last, 64x32x32", channels_last(1, 64, 32, 32))
def _(x):
    return F.relu(F.pixel_shuffle(x, 2))


@case("unfold 3x3 of channels-last, 64x32x32", channels_last(1, 64, 32, 32))
def _(x):
    return F.unfold(x, 3, padding=1) * 2


@case("unfold 3x3, 64x32x32", f32(1, 64, 32, 32))
def _(x):
    return F.unfold(x, 3, padding=1) * 2


@case("patch merging: cat of four slices, layer norm", f32(1, 56, 56, 96))
def _(x):
    y = torch.cat([x[:, ::2, ::2], x[:, 1::2, ::2], x[:, ::2, 1::2], x[:, 1::2, 1::2]], -1)
    return F.layer_norm(y, (384,))


@case("windows of 7x7 behind a layer norm, 56x56x96", f32(1, 56, 56, 96))
def _(x):
    return F.layer_norm(x, (96,), *NORM).view(1, 8, 7, 8, 7, 96).permute(0, 1, 3, 2, 4, 5).contiguous()


@case("roll and layer norm, 56x56x96", f32(1, 56, 56, 96))
def _(x):
    return torch.roll(F.layer_norm(x, (96,)), (-3, -3), (1, 2))


@case("softmax(30 tanh(x / 30) + mask), 8x256x256", f32(8, 256, 256), f32(256, 256))
def _(x, mask):
    return (30 * torch.tanh(x / 30) + mask).softmax(-1)


@case("transpose and add, 1024x1024", f32(1024, 1024), f32(1024, 1024))
def _(x, y):
    return x + y.t()


@case("channel shuffle and ReLU, 116x28x28", f32(1, 116, 28, 28))
def _(x):
    return F.relu(x.view(1, 2, 58, 28, 28).transpose(1, 2).reshape(1, 116, 28, 28))


@case("causal mask and softmax, 8x256x256", f32(8, 256, 256))
def _(x):
    return x.masked_fill(torch.ones(256, 256).triu(1).bool(), -1e9).softmax(-1)


@case("mean over dim 1, 64x256x56", f32(64, 256, 56))
def _(x):
    return x.mean(1)


# Of the same kinds, chosen after the kernels were made faster


@case("fresh: layer norm and GELU of a video behind channels first, 64x8x28x28", f32(1, 64, 8, 28, 28))
def _(x):
    return F.gelu(F.layer_norm(x.permute(0, 2, 3, 4, 1), (64,)))


@case("fresh: log softmax of 500 classes, stored classes first, 16x100", f32(16, 100, 500))
def _(x):
    return x.log_softmax(-1).transpose(1, 2).contiguous()


@case("fresh: standardise rows, and both orders, 4x196x384", f32(4, 196, 384))
def _(x):
    y = (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-5)
    return y, y.transpose(1, 2).contiguous()


CLAMPED = weights(65, 64)


@case("fresh: clamped relative positions, 128x128x64", f32(128, 128, 64))
def _(x):
    i = torch.arange(128)
    return x + CLAMPED[(i[None, :] - i[:, None]).clamp(-32, 32) + 32]


DISTANCES = weights(128, 16)


@case("fresh: distances from arange, 16 heads, 4x16x128x128", f32(4, 16, 128, 128))
def _(x):
    i = torch.arange(128)
    return F.relu(x - DISTANCES[(i[:, None] - i[None, :]).abs()].permute(2, 0, 1))


@case("fresh: YUV from RGB, 512x512x3", f32(512, 512, 3))
def _(x):
    r, g, b = x.unbind(-1)
    y = 0.299 * r + 0.587 * g + 0.114 * b
    return torch.stack([y, 0.493 * (b - y), 0.877 * (r - y)], -1)


@case("fresh: quaternion product, 65536x4", f32(65536, 4), f32(65536, 4))
def _(p, q):
    a, b, c, d = p.unbind(-1)
    e, f, g, h = q.unbind(-1)
    return torch.stack([a * e - b * f - c * g - d * h, a * f + b * e + c * h - d * g,
                        a * g - b * h + c * e + d * f, a * h + b * g - c * f + d * e], -1)


@case("fresh: mid and side of stereo, gamma, 2x200000", f32(200000, 2))
def _(x):
    left, right = x[:, 0], x[:, 1]
    return (left + right).abs() ** 0.8, (left - right).abs() ** 0.8


@case("fresh: backwards in time and gated, 32x64x256", f32(32, 64, 256))
def _(x):
    return x.flip(-1).sigmoid() * x.flip(1)


@case("fresh: reflect pad of audio by 400, 16x16000", f32(16, 16000))
def _(x):
    return F.pad(x, (400, 400), mode="reflect").abs().add(1e-5).log()


@case("fresh: rolled rows and a difference, 64x1024", f32(64, 1024))
def _(x):
    return x - torch.roll(x, 1, -1)


@case("fresh: windows of 5x5 of channels-last, 32x24x24", channels_last(1, 32, 24, 24))
def _(x):
    return F.relu(F.unfold(x, 5, padding=2))


@case("fresh: nearest upsampling by 2 of channels-last, stored channels first", channels_last(1, 64, 28, 28))
def _(x):
    return F.silu(F.interpolate(x, scale_factor=2)).contiguous(memory_format=torch.contiguous_format)


@case("fresh: Fourier features in 2 dimensions, 4096x2x32", f32(4096, 2))
def _(x):
    y = x[:, :, None] * 2.0 ** torch.arange(32).float().div(8)
    return torch.cat([y.sin(), y.cos()], 1).flatten(1)


class Module(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def inputs_of(name):
    torch.manual_seed(1)
    return [make() for make in CASES[name][1]]


def child(library):
    """Runs files as it is asked: `load FILE INPUTS`, then an empty line for each call; answers with the thread's seconds."""
    torch.set_num_threads(1)
    torch.ops.load_library(library)
    for line in sys.stdin:
        if line.strip():
            model, inputs = line.split()
            model, inputs = torch.jit.load(model), torch.load(inputs)
            print("loaded", flush=True)
            continue
        with torch.inference_mode():
            print(timed(model, inputs), flush=True)


def timed(call, inputs, calls=10):
    for _ in range(2):  # another contender's data is in the caches
        call(*inputs)
    start = time.thread_time()
    for _ in range(calls):
        call(*inputs)
    return (time.thread_time() - start) / calls


def tensors(x):
    return list(x) if isinstance(x, (tuple, list)) else [x]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build")
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--no-inductor", action="store_true")
    parser.add_argument("--other", default="")
    parser.add_argument("--keep", default="", help="a folder for the files that are timed")
    parser.add_argument(CHILD, action="store_true", dest="child", help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.child:
        return child(a.build)
    torch.set_num_threads(1)
    words = [w for w in a.only.split(",") if w]
    names = [n for n in CASES if not words or any(w in n for w in words)]
    libraries = [f"{a.build}/lib/libgraft_ops.so"] + ([a.other] if a.other else [])
    torch.ops.load_library(libraries[0])
    runners = [subprocess.Popen([sys.executable, __file__, l, CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
               for l in libraries]

    def ask(runner, line):
        runner.stdin.write(line + "\n")
        runner.stdin.flush()
        answer = runner.stdout.readline().strip()
        if not answer:
            sys.exit("a process that runs files ended")
        return answer

    print(f"{'µs':60}{'Graft':>9}" + (f"{'other':>9}{'ratio':>7}" if a.other else "") + f"{'eager':>9}{'ratio':>7}{'Inductor':>10}{'ratio':>7}")
    logs = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(a.keep or temporary)
        for number, name in enumerate(names):
            inputs, module = inputs_of(name), Module(CASES[name][0]).eval()
            model, given, fast = folder / f"{number}.pt", folder / f"{number}.in.pt", folder / f"{number}.fast.pt"
            torch.save(inputs, given)
            torch.jit.trace(module, inputs).save(str(model))
            made = subprocess.run([f"{a.build}/bin/graft", "apply", model, "--rules", "resources/rules/generated.py", "--recipe", "Fused",
                                   "--inputs", given, "-o", fast, "--no-timing", "-q"], capture_output=True, text=True)
            if made.returncode != 0:
                print(f"{name:60} left to ATen: {made.stderr.strip()[:200]}")
                continue
            for runner in runners:
                ask(runner, f"{fast} {given}")
            calls = {"eager": module}
            if not a.no_inductor:
                torch._dynamo.reset()
                calls["Inductor"] = torch.compile(module)
            with torch.inference_mode():
                expected = tensors(module(*inputs))
                for x, y in zip(tensors(torch.jit.load(fast)(*inputs)), expected):
                    torch.testing.assert_close(x, y, rtol=1e-3, atol=1e-4)
                times = {key: [] for key in ["Graft", "other", *calls]}
                for _ in range(a.rounds + 2):
                    for key, runner in zip(["Graft", "other"], runners):
                        times[key].append(float(ask(runner, "")))
                    for key, call in calls.items():
                        times[key].append(timed(call, inputs))
            at = {key: sorted(t[2:])[len(t[2:]) // 4] * 1e6 for key, t in times.items() if t}
            line = f"{name:60}{at['Graft']:9.1f}"
            for key in ["other", "eager", "Inductor"]:
                if key in at:
                    line += f"{at[key]:9.1f}{at[key] / at['Graft']:7.2f}"
            print(line, flush=True)
            if "Inductor" in at:
                logs.append(math.log(at["Inductor"] / at["Graft"]))
    if logs:
        print(f"geometric mean of Inductor's time over Graft's: {math.exp(sum(logs) / len(logs)):.2f}")
    for runner in runners:
        runner.stdin.close()
        runner.wait()


if __name__ == "__main__":
    main()
