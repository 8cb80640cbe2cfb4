"""The cost of a call of an exported model compared with a replay of its CUDA graph alone: BERT-base in fp16, random weights.

    python tests/gpu/exported_bench.py build --shapes 1x16,1x128,1x512

Exports the traced model with `graft apply`, then prints median times in us: of a call and of a replay by events, with a wait before
each; of both back to back without waits; of the host in a call; and of the host in a call of an empty script.
"""
import argparse
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import torch

from bert_bench import Bert, Graphs

SOURCE = pathlib.Path(__file__).resolve().parents[2]


class Empty(torch.nn.Module):
    def forward(self, ids, types, places, mask):
        return ids


def inputs(batch, length, device="cpu", dtype=torch.float32):
    ids, mask = torch.randint(30000, (batch, length)), torch.zeros(batch, 1, 1, length, dtype=dtype)
    mask[..., length * 4 // 5::4] = -10000.0
    return tuple(t.to(device) for t in (ids, torch.zeros_like(ids), torch.arange(length)[None], mask))


def by_events(run, times=200):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    found = []
    for _ in range(times):
        torch.cuda.synchronize()
        begin.record()
        run()
        end.record()
        end.synchronize()
        found.append(begin.elapsed_time(end) * 1e3)
    return statistics.median(found)


def back_to_back(run, times=300):
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(times):
        run()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / times * 1e6


def on_host(run, times=300):
    found = []
    for _ in range(times):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        run()
        found.append((time.perf_counter() - begin) * 1e6)
    return statistics.median(found)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--shapes", default="1x16,1x128,1x512")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("skipped: no GPU")
        sys.exit(77)
    library = options.build / "lib" / "libgraft_ops.so"
    torch.ops.load_library(library)
    torch.set_grad_enabled(False)
    torch.manual_seed(0)
    model, empty = Bert(explicit=True).eval(), torch.jit.script(Empty())
    graphs = Graphs(str(library))
    with tempfile.TemporaryDirectory(prefix="graft-exported-") as name:
        folder = pathlib.Path(name)
        for shape in options.shapes.split(","):
            batch, length = map(int, shape.split("x"))
            torch.jit.trace(model, inputs(batch, length)).save(str(folder / "traced.pt"))
            torch.save(inputs(batch, length), folder / "in.pt")
            subprocess.run([options.build / "bin" / "graft", "apply", folder / "traced.pt", "--rules", SOURCE / "resources/rules/transformer.py",
                            "--recipe", "Encoder", "--inputs", folder / "in.pt", "--no-timing", "-o", folder / "fast.pt"],
                           check=True, stdout=subprocess.DEVNULL)
            fast = torch.jit.load(str(folder / "fast.pt")).half().cuda()
            x = inputs(batch, length, "cuda", torch.half)
            for _ in range(5):
                fast(*x)
            torch.ops.graft.cuda_options(constant_weights=True)  # as the model's runner does
            replay, out = graphs.capture(lambda: fast(*x))
            torch.ops.graft.cuda_options(constant_weights=False)
            replay()
            assert torch.equal(fast(*x), out), "the call and the graph differ"
            call = lambda: fast(*x)  # noqa: E731
            by_events(call), by_events(replay)
            a, b, c, d = by_events(call), by_events(replay), back_to_back(call), back_to_back(replay)
            print(f"{shape}: call {a:.1f} us, graph {b:.1f} (+{100 * (a / b - 1):.1f} %); back to back {c:.1f} and {d:.1f} "
                  f"(+{100 * (c / d - 1):.1f} %); the host's time {on_host(call):.1f}, an empty script's {on_host(lambda: empty(*x)):.1f}",
                  flush=True)


if __name__ == "__main__":
    main()
