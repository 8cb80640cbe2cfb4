"""An optimizer's step on a GPU, in turns: eager foreach, PyTorch's fused kernel, torch.compile and Graft's backend, each as it is called and
as a CUDA graph.

    optimizer_bench.py build --models bert,gpt2 --json out.json

Prints the median ms of a step, the 10th and the 90th percentile, and the bytes that AdamW has to move over the time of the CUDA graph.
"""
import argparse
import json
import pathlib
import statistics
import sys
import time
import warnings

import torch

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "resources/python"))
import graft_fx

MOVED = 7 * 4  # bytes of a parameter in fp32: reads it, its gradient and two moments, writes all but the gradient


def transformer(layers, width, words, places):
    """The parameters of an encoder, or of GPT-2, by shape."""
    shapes = [(words, width), (places, width), (width,), (width,)]
    for _ in range(layers):
        shapes += [(width, width), (width,)] * 4 + [(4 * width, width), (4 * width,), (width, 4 * width), (width,)] + [(width,)] * 4
    return shapes


def convolutions():
    """About the parameters of a ResNet-50."""
    shapes, channels = [(64, 3, 7, 7), (64,), (64,)], 64
    for blocks, width in ((3, 64), (4, 128), (6, 256), (3, 512)):
        for _ in range(blocks):
            shapes += [(width, channels, 1, 1), (width, width, 3, 3), (4 * width, width, 1, 1)] + [(width,)] * 4 + [(4 * width,)] * 2
            channels = 4 * width
    return [*shapes, (1000, 2048), (1000,)]


MODELS = {"bert": lambda: transformer(12, 768, 30522, 512), "gpt2": lambda: transformer(12, 768, 50257, 1024), "resnet50": convolutions}


def step_of(way, shapes, options):
    torch.manual_seed(0)
    parameters = [torch.nn.Parameter(torch.randn(s, device="cuda") * 0.02) for s in shapes]
    for p in parameters:
        p.grad = torch.randn_like(p)
    how = {"fused": True} if way == "fused" else {"foreach": True}
    optimizer = torch.optim.AdamW(parameters, torch.tensor(1e-3, device="cuda"), capturable=True, **how)
    if way == "compile":
        optimizer.step = torch.compile(optimizer.step)
    elif way == "graft":
        backend = graft_fx.backend(None, graft=str(options.build / "bin/graft"), library=str(options.build / "lib/libgraft_ops.so"), training=True)
        optimizer.step = torch.compile(optimizer.step, backend=backend)
        optimizer.reports = backend.reports
    began = time.perf_counter()
    for _ in range(3):
        optimizer.step()
    torch.cuda.synchronize()
    return optimizer, time.perf_counter() - began


def recorded(optimizer):
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        optimizer.step()
    return graph.replay


def timed(functions, seconds):
    """Milliseconds of each, in turns."""
    samples, until = [[] for _ in functions], time.perf_counter() + seconds
    while time.perf_counter() < until:
        for function, times in zip(functions, samples):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            function()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end))
    return samples


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--models", default="bert,gpt2,resnet50")
    parser.add_argument("--ways", default="foreach,fused,compile,graft")
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("no GPU")
        return 77
    warnings.simplefilter("ignore")
    rows, ways = [], options.ways.split(",")
    for model in options.models.split(","):
        shapes = MODELS[model]()
        count = sum(torch.Size(s).numel() for s in shapes)
        torch._dynamo.reset()
        made = [step_of(way, shapes, options) for way in ways]
        called = timed([o.step for o, _ in made], options.seconds)
        replayed = timed([recorded(o) for o, _ in made], options.seconds)
        for way, (optimizer, ready), a, b in zip(ways, made, called, replayed):
            tenth = [statistics.quantiles(t, n=10) for t in (a, b)]
            row = {"model": model, "tensors": len(shapes), "parameters": count, "way": way, "ready": ready,
                   "ms": statistics.median(a), "range": [tenth[0][0], tenth[0][-1]],
                   "graphMs": statistics.median(b), "graphRange": [tenth[1][0], tenth[1][-1]], "report": getattr(optimizer, "reports", None)}
            rows.append(row)
            speed = count * MOVED / row["graphMs"] / 1e9
            print(f"{model:9} {way:8} called {row['ms']:.3f} ms ({tenth[0][0]:.3f} to {tenth[0][-1]:.3f}), as a CUDA graph {row['graphMs']:.3f} "
                  f"({tenth[1][0]:.3f} to {tenth[1][-1]:.3f}), {speed:.2f} TB/s, ready after {ready:.1f} s", flush=True)
        if options.json:
            options.json.write_text(json.dumps(rows, indent=1, default=str))
    return 0


if __name__ == "__main__":
    sys.exit(main())
