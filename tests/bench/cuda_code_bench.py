#!/usr/bin/env python3
"""Generated CUDA kernels beside those that torch.compile makes with Triton, and ATen's: microseconds in a CUDA graph, and GB/s.

    cuda_code_bench.py build/lib/libgraft_ops.so --groups groups --graft build/bin/graft --only-groups    # writes the groups' texts
    cuda_code_bench.py build/lib/libgraft_ops.so --groups groups [--dtype float16] [--no-compile] [NAME …]

Each case is a group of operators at a size beyond the L2 cache (or small, named so), on random numbers. Bytes are those that the group
must move: each input read once, each output written once. A copy of the largest case's size tells what the memory reaches. Times are
medians of replays of a graph of several calls, each on inputs of its own, so that nothing stays in the cache between them.
"""
import argparse
import inspect
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F

aten = torch.ops.aten
CASES = {}
CHANNELS_LAST = set()


def wide(x):
    """What statistics of x are kept in."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def case(*sizes, last=False):
    """`last`: images lie with their channels side by side."""
    def add(function):
        CASES[function.__name__] = (function, sizes)
        if last:
            CHANNELS_LAST.add(function.__name__)
        return function
    return add


@case((8192, 4096), (4096,))
def pointwise_chain(x, w):
    y = F.silu(x) * w + x
    return torch.tanh(y * 0.5) * y + torch.relu(x)


@case((8192, 4096), (8192, 4096))
def add_relu(x, y):
    return torch.relu(x + y)


@case((16384, 1024),)
def softmax(x):
    return F.softmax(x * 0.125, -1)


@case((49152, 197),)
def softmax_odd(x):
    return F.softmax(x * 0.125, -1)


@case((4096, 8192),)
def softmax_long(x):
    return F.softmax(x * 0.125, -1)


@case((16384, 768), (16384, 768), (768,), (768,))
def add_layer_norm(x, y, w, b):
    return F.layer_norm(x + y, (768,), w, b, 1e-5)


@case((8192, 4096), (4096,))
def rms_norm(x, w):
    return F.rms_norm(x, (4096,), w, 1e-6) * 2


@case((16, 512, 64, 64), (512,), (512,))
def group_norm_silu(x, w, b):
    return F.silu(F.group_norm(x, 32, w, b, 1e-5))


@case((8, 2048, 2048))
def transpose_add(x):
    return x.transpose(1, 2).contiguous() + 1


@case((32, 256, 56, 56))
def to_channels_last(x):
    return (x * 2).permute(0, 2, 3, 1).contiguous() + 1


@case((32, 64, 4096))
def softmax_columns(x):
    return F.softmax(x * 0.5, 1)


@case((64, 512, 28, 28))
def squeeze_scale(x):
    return x * torch.sigmoid(x.mean((2, 3), keepdim=True))


@case((16384, 4096))
def column_sum(x):
    return (x * 2).sum(0)


@case((64, 1 << 20))
def row_sum_long(x):
    return (x * 2).sum(1)


@case((32, 128, 32, 32))
def upsample_silu(x):
    return F.silu(F.interpolate(x, scale_factor=2.0, mode="nearest"))


@case((32, 128, 56, 56), (32, 128, 56, 56))
def cat_relu(x, y):
    return torch.relu(torch.cat([x, y], 1))


@case((128, 768), (128, 768), (768,), (768,))
def small_add_layer_norm(x, y, w, b):
    return F.layer_norm(x + y, (768,), w, b, 1e-5)


@case((128, 3072))
def small_gelu(x):
    return F.gelu(x) * 2


@case((1, 320, 64, 64), (320,), (320,))
def small_group_norm_silu(x, w, b):
    return F.silu(F.group_norm(x, 32, w, b, 1e-5))


@case((1, 256, 32, 32), (256,), (256,), last=True)
def small_group_norm_silu_last(x, w, b):
    return F.silu(F.group_norm(x, 32, w, b, 1e-5))


@case((1, 64, 256, 256), (64,), (64,), last=True)
def group_norm_silu_last(x, w, b):
    return F.silu(F.group_norm(x, 32, w, b, 1e-5))


@case((1, 64, 56, 56), (64,), (64,))
def one_group_norm(x, w, b):
    return F.group_norm(x, 1, w, b, 1e-5) * 2


@case((1, 96, 112, 112), last=True)
def squeeze_last(x):
    return x.mean((2, 3), keepdim=True) * 2


@case((32, 256, 56, 56), last=True)
def squeeze_many_last(x):
    return x.mean((2, 3), keepdim=True) * 2


@case((1, 96, 56, 56), (96, 1, 7, 7), (96,), last=True)
def depthwise_last(x, w, b):
    return F.conv2d(x, w, b, padding=3, groups=96) * 2


@case((1, 96, 8, 56, 56), (96, 1, 3, 3, 3))
def depthwise_three(x, w):
    return F.conv3d(x, w, None, padding=1, groups=96) * 2


@case((512, 1, 12, 64), (512, 1, 12, 64))
def relative_scores(q, k):
    return torch.einsum("ibnd,jbnd->bnij", q, k)


@case((1, 8, 8, 64, 64), (1, 8, 8, 64, 64))
def many_products(q, k):
    return torch.matmul(q, k.transpose(-1, -2))


@case((32, 128, 3072), (32, 128, 3072))
def gelu_gradients(g, x):
    d = aten.gelu_backward(g, x)
    return d, d.view(4096, 3072).sum(0)


@case((12608, 768), (12608, 768), (12608, 768), ("f32", 12608, 1), ("f32", 12608, 1), (768,), (768,))
def layer_norm_gradients(g, x, r, mean, rstd, w, b):
    dx, *others = aten.native_layer_norm_backward(g, x, [768], mean, rstd, w, b, [True, True, True])
    return *others, dx + r


@case((4096, 768), ("f32", 4096, 768), ("f32", 4096, 768), ("f32", 4096, 1), ("f32", 4096, 1), ("f32", 768), ("f32", 768))
def layer_norm_and_bias_gradients(g, x, r, mean, rstd, w, b):
    # of a layer norm in float32, and of the bias of the product before it
    dx, dw, db = torch.ops.aten.native_layer_norm_backward(g.to(x.dtype), x, [768], mean, rstd, w, b, [True, True, True])
    out = (dx + r).to(g.dtype)
    return out, dw, db, out.sum(0)


@case((64, 256, 56, 56), (64, 256, 56, 56), (64, 256, 56, 56), ("f32", 256), ("f32", 256), ("f32", 256), last=True)
def batch_norm_gradients_last(g, y, x, mean, rstd, w):
    t = aten.threshold_backward(g, y, 0)
    return t, *aten.native_batch_norm_backward(t, x, w, mean, rstd, mean, rstd, True, 1e-5, [True, True, True])


@case((64, 12, 197, 64), (64, 12, 197, 64), (64, 12, 197, 64))
def heads_together(q, k, v):
    d = torch.stack([q, k, v]).permute(1, 3, 0, 2, 4).reshape(12608, 2304)
    return d, d.sum(0)


@case((4096, 30522), ("i64", 30522, 4096))
def loss(x, target):
    return aten.nll_loss_forward(aten._log_softmax(x.to(wide(x)), 1, False), target, None, 1, -100)


@case((4096, 30522), ("i64", 30522, 4096), ("f32",), ("f32",))
def loss_gradients(x, target, g, count):
    y = aten._log_softmax(x.to(wide(x)), 1, False)
    d = aten.nll_loss_backward(g, y, target, None, 1, -100, count)
    return aten._log_softmax_backward_data(d, y, 1, wide(x)).to(x.dtype)


@case((4096, 768), (3072, 768), (3072,))
def linear_gelu(x, w, b):
    return F.gelu(F.linear(x, w, b))


@case((4096, 3072), (768, 3072), (768,), (4096, 768))
def linear_residual(x, w, b, r):
    return F.linear(x, w, b) + r


@case((1024, 1024), (4096, 1024), (1024, 4096))
def linear_silu_gate(x, w, g):
    return F.silu(F.linear(x, w)) * g


@case((128, 768), (3072, 768), (3072,))
def linear_gelu_128(x, w, b):
    return F.gelu(F.linear(x, w, b))


@case((16, 4096), (4096, 4096), (16, 4096))
def linear_residual_16(x, w, r):
    return F.linear(x, w) + r


@case((64, 128, 64), (64, 64, 128), (128, 128))
def batched_scale_mask(x, y, m):
    return torch.matmul(x, y) * 0.125 + m


@case((3136, 96), (384, 96), (384,))
def linear_gelu_swin(x, w, b):
    return F.gelu(F.linear(x, w, b))


@case((8, 197, 768), (768, 768), (768,))
def linear_heads(x, w, b):
    return (F.linear(x, w, b) * 0.125).view(8, 197, 12, 64).transpose(1, 2).contiguous() + 1


@case((8192, 4096), (4096, 4096), (4096,))
def linear_relu_large(x, w, b):
    return torch.relu(F.linear(x, w, b)) * 2


class Traced(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def write_group(graft, library, name, folder):
    """The one group that graft makes of a case, as text. Its types are those of the trace; the operator takes others too."""
    function, sizes = CASES[name]
    inputs = tuple(torch.zeros_like(made(s, torch.float16, "cpu")) for s in sizes)
    with tempfile.TemporaryDirectory() as scratch, torch.no_grad():
        model = f"{scratch}/model.pt"
        try:
            torch.jit.trace(Traced(function), inputs, check_trace=False).save(model)
        except RuntimeError:  # no trace holds a list of truth values
            model += "2"
            torch.export.save(torch.export.export(Traced(function), inputs), model)
        torch.save(inputs, f"{scratch}/inputs.pt")
        taken = ["--inputs", f"{scratch}/inputs.pt"] if model.endswith(".pt") else []  # an export says what it takes
        shown = subprocess.run([graft, "code", model, *taken, "--as", "groups", "--gpu"],
                               capture_output=True, text=True, check=True, env={**os.environ, "GRAFT_OPS": str(library)}).stdout
    begin = shown.index("generated 1\n")
    (folder / f"{name}.group").write_text(shown[begin:shown.index("\n}\n", begin) + 3])


def milliseconds(function, inputs, calls):
    """Of one call: a graph of `calls` calls, one for each set of inputs."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            for k in range(calls):
                function(*inputs[k % len(inputs)])
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for k in range(calls):
            function(*inputs[k % len(inputs)])
    times = []
    for i in range(13):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        if i > 2:
            times.append(begin.elapsed_time(end) / calls)
    del graph
    return statistics.median(times)


def kernels_of(function, inputs):
    """Of one call on cold inputs, by PyTorch's profiler: "NAME MICROSECONDS", in the order in which they ran."""
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        for i in inputs[:2]:
            function(*i)
        torch.cuda.synchronize()
    ran = sorted((e for e in seen.events() if e.device_type == DeviceType.CUDA), key=lambda e: e.time_range.start)
    return [f"{e.name[:60]} {e.time_range.elapsed_us():.1f}" for e in ran[len(ran) // 2:]]


def places(function, text):
    """Which argument of the function each input of the group is: the group may read them in another order. A trace names some
    argument_2, from 1 on, and an export all inputs_1, from 0 on. What has another name comes in the order of arguments."""
    names = list(inspect.signature(function).parameters)

    def place(name):
        numbered = re.fullmatch(r"(argument|inputs)_(\d+)", name)
        return names.index(name) if name in names else int(numbered[2]) - (numbered[1] == "argument") if numbered else None
    known = [place(n) for n in re.findall(r"^  input %(\w+)", text, re.M)]
    rest = iter(i for i in range(len(names)) if i not in known)
    return [next(rest) if i is None else i for i in known]


def made(sizes, dtype, device):
    """Random numbers of the dtype; ("f32", sizes) are of float32, and ("i64", n, sizes) integers below n."""
    if sizes and sizes[0] == "i64":
        return torch.randint(sizes[1], sizes[2:], device=device)
    if sizes and sizes[0] == "f32":
        return torch.rand(sizes[1:], device=device) + 0.5
    return torch.randn(*sizes, device=device, dtype=dtype)


def several(result):
    return result if isinstance(result, tuple) else (result,)


def bytes_of(tensors):
    return sum(t.numel() * t.element_size() for t in tensors)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("library")
    p.add_argument("--dtype", default="float16")
    p.add_argument("--groups", required=True, type=pathlib.Path, help="the folder of NAME.group, the text of each group")
    p.add_argument("--graft", help="makes the groups that are missing there")
    p.add_argument("--only-groups", action="store_true", help="and times nothing")
    p.add_argument("--no-compile", action="store_true", help="without torch.compile")
    p.add_argument("--kernels", action="store_true", help="print the kernels of each case, with their microseconds")
    p.add_argument("names", nargs="*")
    a = p.parse_args()
    a.groups.mkdir(exist_ok=True)
    for name in CASES:
        if a.graft and not (a.groups / f"{name}.group").exists():
            write_group(a.graft, pathlib.Path(a.library).resolve(), name, a.groups)
    if a.only_groups:
        return
    torch.ops.load_library(a.library)
    dtype = getattr(torch, a.dtype)
    torch.manual_seed(0)
    big = torch.empty(1 << 28, dtype=torch.uint8, device="cuda")
    other = torch.empty_like(big)
    ms = milliseconds(lambda: other.copy_(big), [()], 4)
    print(f"copy: {2 * big.numel() / ms / 1e6:.0f} GB/s", flush=True)
    del big, other
    print("case                     MB  generated us  GB/s   triton us  GB/s  aten us  triton/generated  error", flush=True)
    for name, (function, sizes) in CASES.items():
        if a.names and name not in a.names:
            continue
        def laid(t):
            return t.contiguous(memory_format=torch.channels_last) if t.dim() == 4 and name in CHANNELS_LAST else t
        inputs = [[laid(made(s, dtype, "cuda")) for s in sizes]]
        with torch.no_grad():
            wanted = several(function(*[t.double() if t.is_floating_point() else t for t in inputs[0]]))
            moved = bytes_of(inputs[0]) + sum(t.numel() for t in wanted) * inputs[0][0].element_size()
            copies = max(1, min(8, int(3e8 / moved)))
            if moved < 3e7:
                copies = 8
            while len(inputs) < copies:
                inputs.append([t.clone() if t.dtype != dtype else torch.randn_like(t) for t in inputs[0]])
            text = (a.groups / f"{name}.group").read_text()
            order = places(function, text)
            generated = lambda *x: torch.ops.graft.generated([x[i] for i in order], text)  # noqa: E731
            try:
                got = generated(*inputs[0])
                error = max(((a.double() - b).norm() / b.norm()).item() for a, b in zip(got, wanted, strict=True))
                mine = milliseconds(generated, inputs, 8)
            except Exception as e:  # the others are still worth their time
                print(f"{name}: {e}", flush=True)
                continue
            aten = milliseconds(function, inputs, 8)
            triton = float("nan")
            if not a.no_compile:
                torch._dynamo.reset()
                compiled = torch.compile(function, dynamic=False)
                triton = milliseconds(compiled, inputs, 8)
            ran = {"generated": generated} | ({} if a.no_compile else {"triton": compiled}) if a.kernels else {}
            ran = {of: kernels_of(call, inputs) for of, call in ran.items()}
        rate = lambda t: moved / t / 1e6  # noqa: E731
        print(f"{name:22s} {moved / 1e6:6.1f}  {mine * 1e3:8.2f}  {rate(mine):9.0f}  {triton * 1e3:8.2f}  {rate(triton):6.0f}  "
              f"{aten * 1e3:8.2f}  {triton / mine:6.2f}  {error:.1e}", flush=True)
        for of, kernels in ran.items():
            print(*(f"    {of}: {k}" for k in kernels), sep="\n", flush=True)


if __name__ == "__main__":
    sys.exit(main())
