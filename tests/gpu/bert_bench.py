"""Times BERT on graft:: operators against PyTorch baselines (SDPA, eager, torch.compile), as CUDA graphs, and compares errors with fp64.

    python tests/gpu/bert_bench.py build/lib/libgraft_ops.so --out results --against sdpa,compile

Random weights, exact GELU, a padding mask that hides every fourth key of the last fifth. All are captured with static inputs and
replayed in turn (A B A B), with a synchronisation after each replay. The result is median, p10 and p90 of a replay's GPU time by events
and of the host's wall time. Graft's graphs are captured as graft.Runner captures them. `flushed` fills 256 MB between replays. Writes
bert.json and bert.md into --out. Without a GPU it prints "skipped: no GPU" and exits 77.
"""
import argparse
import ctypes
import json
import math
import os
import statistics
import subprocess
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Layer(nn.Module):
    def __init__(self, hidden, heads, inner, explicit):
        super().__init__()
        self.query, self.key, self.value, self.output = (nn.Linear(hidden, hidden) for _ in range(4))
        self.norm1, self.norm2 = nn.LayerNorm(hidden, eps=1e-12), nn.LayerNorm(hidden, eps=1e-12)
        self.up, self.down = nn.Linear(hidden, inner), nn.Linear(inner, hidden)
        self.heads, self.explicit = heads, explicit

    def forward(self, x, mask):
        b, s, h = x.shape
        q, k, v = (f(x).view(b, s, self.heads, -1).transpose(1, 2) for f in (self.query, self.key, self.value))
        if self.explicit:
            scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + mask
            a = torch.softmax(scores, -1) @ v
        else:
            a = F.scaled_dot_product_attention(q, k, v, mask)
        x = self.norm1(self.output(a.transpose(1, 2).reshape(b, s, h)) + x)
        return self.norm2(self.down(F.gelu(self.up(x))) + x)


class Bert(nn.Module):
    def __init__(self, layers=12, hidden=768, heads=12, inner=3072, vocabulary=30522, explicit=False):
        super().__init__()
        self.words, self.places, self.types = nn.Embedding(vocabulary, hidden), nn.Embedding(512, hidden), nn.Embedding(2, hidden)
        self.norm = nn.LayerNorm(hidden, eps=1e-12)
        self.layers = nn.ModuleList(Layer(hidden, heads, inner, explicit) for _ in range(layers))
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)
            elif p is not None and p.requires_grad:
                nn.init.normal_(p, mean=0.0, std=0.02)
        for m in self.modules():
            if isinstance(m, nn.LayerNorm):
                nn.init.normal_(m.weight, mean=1.0, std=0.05)

    def forward(self, ids, types, places, mask):
        x = self.norm(self.words(ids) + self.places(places) + self.types(types))
        for layer in self.layers:
            x = layer(x, mask)
        return x


class GraftBert:
    """The same model on graft:: operators."""

    def __init__(self, model):
        self.model, self.ops = model, torch.ops.graft
        self.layers = []
        for l in model.layers:
            w = torch.cat([l.query.weight, l.key.weight, l.value.weight]).contiguous()
            b = torch.cat([l.query.bias, l.key.bias, l.value.bias]).contiguous()
            self.layers.append((l, w, b))

    def __call__(self, ids, types, places, mask):
        ops, m = self.ops, self.model
        x = ops.embedding_layer_norm([ids, places, types], [m.words.weight, m.places.weight, m.types.weight], m.norm.weight,
                                     m.norm.bias, m.norm.eps)
        l, w, b = self.layers[0]
        q, k, v = ops.qkv_projection(x, w, b, heads=l.heads, kv_heads=l.heads)
        for i, (l, w, b) in enumerate(self.layers):
            x, h = ops.attention_norm_linear(q, k, v, mask, l.output.weight, l.output.bias, x, l.norm1.weight, l.norm1.bias, l.up.weight,
                                             l.up.bias, l.norm1.eps, activation="gelu")
            if i + 1 == len(self.layers):
                return ops.linear_add_layer_norm(h, l.down.weight, l.down.bias, x, l.norm2.weight, l.norm2.bias, l.norm2.eps)
            _, w, b = self.layers[i + 1]
            x, product = ops.linear_norm_linear(h, l.down.weight, l.down.bias, x, l.norm2.weight, l.norm2.bias, w, b, l.norm2.eps)
            q, k, v = product.view(*x.shape[:2], 3 * l.heads, -1).transpose(1, 2).chunk(3, 1)


class Graphs:
    """Graft's captures (GraftCudaGraphs in kernels/capture/cuda_graphs.h), which tune GEMM algorithms inside the model."""

    def __init__(self, library):
        class Table(ctypes.Structure):
            _fields_ = [("version", ctypes.c_int)] + [(n, ctypes.c_void_p) for n in (
                "makePool", "freePool", "capture", "beginUse", "endUse", "addCopies", "replay", "replayTimed", "kernelCount", "streamCount")]

        cuda = ctypes.CDLL(os.path.join(os.path.dirname(os.path.abspath(library)), "libgraft_ops_cuda.so"))
        cuda.graft_cuda_graphs.restype = ctypes.POINTER(Table)
        table = cuda.graft_cuda_graphs().contents
        text = (ctypes.c_char_p, ctypes.c_size_t)
        self.body = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
        self.begin = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, self.body, ctypes.c_void_p, *text)(table.capture)
        self.again = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, *text)(table.replay)
        self.counts = [ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_void_p)(f) for f in (table.kernelCount, table.streamCount)]
        self.kernels = self.streams = 0  # of the last capture
        self.pool = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int)(table.makePool)(torch.cuda.current_device())

    def capture(self, f):
        out, error = [None], ctypes.create_string_buffer(1024)

        def body(_):
            out[0] = f()
            return 1

        graph = self.begin(self.pool, self.body(body), None, error, len(error))
        if not graph:
            raise RuntimeError(error.value.decode())
        self.kernels, self.streams = (count(graph) for count in self.counts)

        def replay():
            if not self.again(graph, None, None, error, len(error)):
                raise RuntimeError(error.value.decode())

        return replay, out[0]


def capture(f):
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            f()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = f()
    return graph.replay, out


def inputs_of(batch, length, device="cuda"):
    """Ids, token types, positions, and a padding mask in fp16 that hides every fourth key of the last fifth."""
    ids = torch.randint(30522, (batch, length), device=device)
    mask = torch.zeros(batch, 1, 1, length, device=device, dtype=torch.half)
    mask[..., length * 4 // 5::4] = torch.finfo(torch.half).min
    return ids, torch.zeros_like(ids), torch.arange(length, device=device).unsqueeze(0), mask


def summary(times):
    times = sorted(times)
    return {"median": statistics.median(times), "p10": times[len(times) // 10], "p90": times[len(times) * 9 // 10]}


def interleave(runs, rounds, flush):
    """{name: callable} -> {name: {gpu: summary, wall: summary}}, one replay of each in turn, synchronised after each."""
    gpu, wall = {n: [] for n in runs}, {n: [] for n in runs}
    junk = torch.empty(256 << 20, dtype=torch.uint8, device="cuda") if flush else None
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for r in range(rounds + 5):
        for name, run in runs.items():
            if flush:
                junk.fill_(r & 1)
                torch.cuda.synchronize()
            t = time.perf_counter()
            begin.record()
            run()
            end.record()
            end.synchronize()
            t = time.perf_counter() - t
            if r >= 5:
                gpu[name].append(begin.elapsed_time(end))
                wall[name].append(t * 1e3)
    return {n: {"gpu": summary(gpu[n]), "wall": summary(wall[n])} for n in runs}


def kernels(run):
    """[(kernel, (count, total microseconds))] of one replay, from a trace."""
    from torch.profiler import ProfilerActivity, profile
    run()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as p:
        run()
        torch.cuda.synchronize()
    rows = {}
    for e in p.events():
        if e.device_type == torch.autograd.DeviceType.CUDA:
            n, t = rows.get(e.name, (0, 0.0))
            rows[e.name] = (n + 1, t + e.device_time)
    return sorted(rows.items(), key=lambda kv: -kv[1][1])


def clocks():
    try:
        q = "clocks.sm,clocks.mem,power.draw,temperature.gpu"
        return subprocess.run(["nvidia-smi", f"--query-gpu={q}", "--format=csv,noheader"], capture_output=True, text=True).stdout.strip()
    except OSError:
        return "?"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("libraries", nargs="+")
    parser.add_argument("--out", default=".")
    parser.add_argument("--shapes", default="1x16,1x128,1x512,8x128,32x128,32x512")
    parser.add_argument("--against", default="sdpa", help="baselines, some of eager, sdpa, compile, autotune")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--large", action="store_true", help="BERT-large")
    parser.add_argument("--trace", default="", help="shapes for which to list kernels")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("skipped: no GPU")
        sys.exit(77)
    for library in options.libraries:
        torch.ops.load_library(library)
    torch.set_grad_enabled(False)
    torch.manual_seed(1)
    size = dict(layers=24, hidden=1024, heads=16, inner=4096) if options.large else {}
    model = Bert(**size).eval().cuda()
    half = Bert(**size).eval().cuda()
    half.load_state_dict(model.state_dict())
    half = half.half()
    exact = Bert(explicit=True, **size).eval().cuda().double()
    exact.load_state_dict({k: v.double() for k, v in half.state_dict().items()})
    explicit = Bert(explicit=True, **size).eval().cuda().half()
    explicit.load_state_dict(half.state_dict())
    del model
    torch.ops.graft.cuda_options(constant_weights=True)
    graft, graphs = GraftBert(half), Graphs(options.libraries[0])
    report = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "idle": clocks(), "shapes": {}}
    for shape in options.shapes.split(","):
        b, s = map(int, shape.split("x"))
        ids, types, places, mask = inputs = inputs_of(b, s)
        t = time.perf_counter()
        runs, outs = {}, {}
        runs["graft"], outs["graft"] = graphs.capture(lambda: graft(*inputs))
        torch.cuda.synchronize()
        row = {"first_call_s": time.perf_counter() - t}
        baselines = options.against.split(",")
        if "sdpa" in baselines:
            runs["sdpa in a graph"], outs["sdpa in a graph"] = capture(lambda: half(*inputs))
        if "eager" in baselines:
            runs["eager"] = lambda: explicit(*inputs)
        for name, mode in (("compile", "reduce-overhead"), ("autotune", "max-autotune")):
            if name in baselines:
                torch._dynamo.reset()
                t = time.perf_counter()
                compiled = torch.compile(half, mode=mode)
                for _ in range(4):
                    compiled(*inputs)
                torch.cuda.synchronize()
                row[f"{mode}_compile_s"] = time.perf_counter() - t
                runs[mode] = lambda compiled=compiled: compiled(*inputs)
        row["warm"] = interleave(runs, options.rounds, False)
        row["flushed"] = interleave(runs, max(options.rounds // 3, 5), True)
        row["after"] = clocks()
        runs["graft"]()
        torch.cuda.synchronize()
        few = slice(0, min(b, 4))  # fp64 attention of 32x512 would take long
        ref = exact(ids[few], types[few], places, mask[few].double())
        rmse = lambda y: (y[few].double() - ref).square().mean().sqrt().item()
        torch_out = half(*inputs)
        out = outs["graft"].clone()
        row["rmse"] = {"graft": rmse(out), "torch half": rmse(torch_out)}
        row["max_abs"] = (out[few].double() - ref).abs().max().item()
        row["cosine"] = F.cosine_similarity(out[few].double().flatten(), ref.flatten(), dim=0).item()
        runs["graft"]()
        torch.cuda.synchronize()
        row["repeats"] = torch.equal(out, outs["graft"])
        report["shapes"][shape] = row
        best = min((v["gpu"]["median"], n) for n, v in row["warm"].items() if n != "graft") if len(runs) > 1 else (0, "-")
        mine = row["warm"]["graft"]["gpu"]
        print(f"{shape}: graft {mine['median']:.4f} ms (p10 {mine['p10']:.4f} p90 {mine['p90']:.4f}) flushed "
              f"{row['flushed']['graft']['gpu']['median']:.4f} | " +
              " | ".join(f"{n} {v['gpu']['median']:.4f}" for n, v in row["warm"].items() if n != "graft") +
              f" | x{best[0] / mine['median']:.2f} | rmse {row['rmse']['graft']:.2e} vs {row['rmse']['torch half']:.2e} "
              f"repeats {row['repeats']} first call {row['first_call_s']:.1f}s", flush=True)
        if shape in options.trace.split(","):
            row["kernels"] = kernels(runs["graft"])
            for name, (n, t) in row["kernels"][:8]:
                print(f"    {n:4d} x {t / n:8.2f} us  {name[:110]}")
        with open(os.path.join(options.out, "bert.json"), "w") as f:
            json.dump(report, f, indent=1)
    with open(os.path.join(options.out, "bert.md"), "w") as f:
        names = list(dict.fromkeys(n for r in report["shapes"].values() for n in r["warm"]))
        f.write(f"{report['gpu']}, torch {report['torch']}; ms, medians (p10–p90), warm L2\n\n")
        f.write("| |" + "|".join(options.shapes.split(",")) + "|\n|---" * (len(options.shapes.split(",")) + 1) + "|\n")
        for n in names:
            cells = [r["warm"].get(n, {}).get("gpu") for r in report["shapes"].values()]
            f.write(f"| {n} |" + "|".join(f"{c['median']:.3f} ({c['p10']:.3f}–{c['p90']:.3f})" if c else "–" for c in cells) + "|\n")


if __name__ == "__main__":
    main()
