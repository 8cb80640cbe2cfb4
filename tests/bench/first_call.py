"""The first calls of a file with generated kernels, each in a new process: with an empty cache, with the cache that this left, with
other sizes (the first dimension of each input halved or doubled), and as ATen operators.

    python tests/bench/first_call.py BUILD MODEL.pt INPUTS.pt [--threads N]

It prints seconds of the first and of the second call, the processor's seconds of the first, and how many kernels lie in the cache.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

CHILD = "--in-this-process"


def measure(build, model, inputs, threads, other):
    import torch

    torch.set_num_threads(threads)
    torch.ops.load_library(f"{build}/lib/libgraft_ops.so")
    module, given = torch.jit.load(model), torch.load(inputs)
    if other:
        given = [torch.cat([x, x]) if x.dim() and x.shape[0] == 1 else x[: x.shape[0] // 2] if x.dim() else x for x in given]
    with torch.no_grad():
        times = []
        for _ in range(2):
            wall, processor = time.perf_counter(), time.process_time()
            module(*given)
            times.append((time.perf_counter() - wall, time.process_time() - processor))
    print(times[0][0], times[1][0], times[0][1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build")
    parser.add_argument("model")
    parser.add_argument("inputs")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--other", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument(CHILD, action="store_true", dest="child", help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.child:
        return measure(a.build, a.model, a.inputs, a.threads, a.other)
    with tempfile.TemporaryDirectory() as cache:
        print(f"{'':24}{'first call':>12}{'second':>12}{'processor':>12}{'kernels':>9}")
        for name, more, environment in (("empty cache", [], {}), ("with the cache", [], {}), ("other sizes", ["--other"], {}),
                                        ("again, with the cache", ["--other"], {}), ("ATen operators", [], {"GRAFT_GENERATED": "0"})):
            command = [sys.executable, __file__, a.build, a.model, a.inputs, "--threads", str(a.threads), CHILD, *more]
            run = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "GRAFT_CACHE_DIR": cache, **environment})
            if run.returncode != 0:
                sys.exit(run.stderr)
            first, second, processor = map(float, run.stdout.split())
            kernels = len(list(pathlib.Path(cache).rglob("*.code")))
            print(f"{name:24}{first:11.3f}s{second:11.3f}s{processor:11.3f}s{kernels:9}")


if __name__ == "__main__":
    main()
