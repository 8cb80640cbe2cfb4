"""Milliseconds of forward and backward pass of a transformer's pieces, captured in CUDA graphs and replayed in turns: the operators with
backward kernels, with backward operators of ATen's, as their composites, and as PyTorch has them.

    python tests/gpu/backward_bench.py build/lib/libgraft_ops.so [--batch 32] [--length 128] [--dtype bfloat16] [--only norm]
"""
import argparse
import statistics

import torch
import torch.nn.functional as F


def captured(function, leaves, tangent):
    """The forward and backward pass as a CUDA graph."""
    def step():
        out = function()
        out = out if isinstance(out, tuple) else (out,)
        return torch.autograd.grad(out, leaves, [tangent(i, o) for i, o in enumerate(out)], allow_unused=True)

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = step()
    return graph, kept


def milliseconds(graphs, rounds=41):
    times = [[] for _ in graphs]
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for round in range(rounds):
        for graph, row in zip(graphs, times):
            torch.cuda.synchronize()
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            if round > 4:
                row.append(begin.elapsed_time(end))
    return [statistics.median(row) for row in times]


def pieces(batch, length, dtype):
    g, hidden, heads, inner = torch.ops.graft, 768, 12, 3072
    t = lambda *shape, scale=1.0: (torch.randn(*shape, device="cuda") * scale).to(dtype).requires_grad_()
    x, wide, r = t(batch, length, hidden), t(batch, length, inner), t(batch, length, hidden)
    w, b, nw, nb = t(hidden, hidden, scale=0.03), t(hidden), t(hidden), t(hidden)
    up, bu, down, bd = t(inner, hidden, scale=0.03), t(inner), t(hidden, inner, scale=0.02), t(hidden)
    qkv, bq = t(3 * hidden, hidden, scale=0.03), t(3 * hidden)
    split = lambda: t(batch, length, heads, 64).transpose(1, 2).detach().requires_grad_()
    q, k, v = split(), split(), split()
    keep = torch.ones(batch, 1, 1, length, device="cuda", dtype=torch.bool)
    keep[:, ..., length * 3 // 4:] = False
    mask = torch.where(keep, 0.0, torch.finfo(dtype).min).to(dtype)
    tables = [t(n, hidden) for n in (30522, 512, 2)]
    ids = [torch.randint(30522, (batch, length), device="cuda"), torch.arange(length, device="cuda")[None], torch.zeros(batch, length, dtype=torch.long, device="cuda")]
    gate, upper = t(batch, length, 2 * inner), t(batch, length, 2 * inner)
    cos, sin = torch.randn(2, length, 64, device="cuda").unbind()
    scores = t(batch, heads, length, length)
    rotate = lambda z: torch.cat((-z[..., 32:], z[..., :32]), -1)
    norm = lambda z: F.layer_norm(z, (hidden,), nw, nb)

    def layer(ours):
        if ours:
            a, c, d = g.qkv_projection(x, qkv, bq, heads=heads, kv_heads=heads)
            h = g.attention(a, c, d, mask).transpose(1, 2).flatten(2)
            h = g.linear_add_layer_norm(h, w, b, x, nw, nb)
            return g.linear_add_layer_norm(g.linear(h, up, bu, activation="gelu"), down, bd, h, nw, nb)
        a, c, d = F.linear(x, qkv, bq).view(batch, length, 3, heads, 64).permute(2, 0, 3, 1, 4).unbind()
        h = F.scaled_dot_product_attention(a, c, d, mask.expand(batch, heads, length, length)).transpose(1, 2).flatten(2)
        h = norm(F.linear(h, w, b) + x)
        return norm(F.linear(F.gelu(F.linear(h, up, bu)), down, bd) + h)

    return {
        "linear": (lambda: g.linear(x, w, b), lambda: F.linear(x, w, b), [x, w, b]),
        "linear+gelu": (lambda: g.linear(x, up, bu, activation="gelu"), lambda: F.gelu(F.linear(x, up, bu)), [x, up, bu]),
        "linear down": (lambda: g.linear(wide, down, bd), lambda: F.linear(wide, down, bd), [wide, down, bd]),
        "linear+add+norm": (lambda: g.linear_add_layer_norm(x, w, b, r, nw, nb), lambda: norm(F.linear(x, w, b) + r), [x, w, b, r, nw, nb]),
        "add+norm": (lambda: g.add_layer_norm(x, r, nw, nb), lambda: norm(x + r), [x, r, nw, nb]),
        "add+rms norm": (lambda: g.add_rms_norm(x, r, nw), lambda: (lambda s: (F.rms_norm(s, (hidden,), nw, 1e-6), s))(x + r), [x, r, nw]),
        "embedding+norm": (lambda: g.embedding_layer_norm(ids, tables, nw, nb), lambda: norm(sum(F.embedding(i, e) for i, e in zip(ids, tables))), [*tables, nw, nb]),
        "attention": (lambda: g.attention(q, k, v), lambda: F.scaled_dot_product_attention(q, k, v), [q, k, v]),
        "attention causal": (lambda: g.attention(q, k, v, causal=True), lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True), [q, k, v]),
        "attention masked": (lambda: g.attention(q, k, v, mask), lambda: F.scaled_dot_product_attention(q, k, v, mask.expand(batch, heads, length, length)), [q, k, v]),
        "swiglu": (lambda: g.swiglu(gate, upper), lambda: F.silu(gate) * upper, [gate, upper]),
        "rotary": (lambda: g.rotary_embedding(q, k, cos, sin), lambda: tuple((z * cos + rotate(z) * sin).to(dtype) for z in (q, k)), [q, k]),
        "masked softmax": (lambda: g.masked_softmax(scores, mask, scale=0.125), lambda: (scores * 0.125 + mask).softmax(-1), [scores]),
        "BERT layer": (lambda: layer(True), lambda: layer(False), [x, w, b, nw, nb, up, bu, down, bd, qkv, bq]),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--dtype", default="bfloat16", choices=("bfloat16", "float16", "float32"))
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    torch.ops.load_library(options.library)
    torch.manual_seed(0)
    print(f"{torch.cuda.get_device_name()}, {options.batch}x{options.length}, {options.dtype}; ms of forward + backward")
    print(f"{'':18}{'kernels':>9}{'ATen':>9}{'composite':>11}{'PyTorch':>9}{'PyTorch/kernels':>17}{'PyTorch/ATen':>14}", flush=True)
    for name, (ours, theirs, leaves) in pieces(options.batch, options.length, getattr(torch, options.dtype)).items():
        if options.only not in name:
            continue
        tangents = {}

        def tangent(i, out):
            if i not in tangents:
                tangents[i] = torch.randn_like(out)
            return tangents[i]

        kept = []
        for on in (True, False):
            torch.ops.graft.backward_kernels(on)
            kept.append(captured(ours, leaves, tangent))
        torch.ops.graft.own_backward(False)
        kept.append(captured(ours, leaves, tangent))
        torch.ops.graft.own_backward(True)
        kept.append(captured(theirs, leaves, tangent))
        kernels, aten, composite, torchs = milliseconds([graph for graph, _ in kept])
        print(f"{name:18}{kernels:9.4f}{aten:9.4f}{composite:11.4f}{torchs:9.4f}{torchs / kernels:17.2f}{torchs / aten:14.2f}", flush=True)


if __name__ == "__main__":
    main()
