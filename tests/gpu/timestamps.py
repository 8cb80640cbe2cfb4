"""Shows where the time of each kernel of a captured BERT-base goes, from timestamps inside the kernels (kernels/cuda/tuning/timestamps.cuh).

    cmake --preset default -DGRAFT_TIMESTAMPS=ON && cmake --build build --target graft_ops graft_ops_cuda
    python tests/gpu/timestamps.py build/lib/libgraft_ops.so --shapes 1x128,1x512 --kernels 14

For the kernels of two layers in the middle it prints the number of blocks with a record, and when they passed each stage: minimum, median
and maximum, in microseconds after the last block of the previous kernel ended. The SMs' clocks have different origins; they are aligned by
the end of the wait for the previous kernel, which all blocks see at the same time. Blocks that start late pass all stages late. Without a
GPU it prints "skipped: no GPU" and exits 77.
"""
import argparse
import ctypes
import os
import sys

import numpy
import torch

from bert_bench import Bert, GraftBert, Graphs, inputs_of

SMS, RECORDS, FIELDS = 160, 8192, 10  # as in timestamps.cuh
STAGES = ("entry", "before wait", "after wait", "first data", "multiplied", "gathered", "leaving", "end")
AFTER_WAIT, END = STAGES.index("after wait"), STAGES.index("end")
KERNELS = {1: "product", 2: "norm", 3: "attention"}
STAGES_NOT_USED = {2: ("first data", "multiplied", "gathered", "leaving"), 3: ("leaving",)}
GAP_US = 2.5  # at least, between the ends of a kernel's blocks and those of its next launch


def launches(records, ghz):
    """[(kernel, detail, times [blocks, stages] in us)] of each launch, in order."""
    sm, times = records[:, 0], records[:, 1:1 + len(STAGES)] / (ghz * 1e3)
    clock, what = records[:, -2] / 1e3, records[:, -1]
    times = times.astype(float)
    for p in numpy.unique(sm):
        mine = sm == p
        times[mine] -= numpy.median(times[mine, END] - (clock[mine] - clock.min()))
    groups = []
    for w in numpy.unique(what):
        index = numpy.where(what == w)[0]
        index = index[numpy.argsort(times[index, END])]
        groups += numpy.split(index, numpy.where(numpy.diff(times[index, END]) > GAP_US)[0] + 1)
    group_of = numpy.zeros(len(records), int)
    for i, g in enumerate(groups):
        group_of[g] = i
    for _ in range(8):
        median = numpy.array([numpy.median(times[g, AFTER_WAIT]) for g in groups])
        for p in numpy.unique(sm):
            mine = sm == p
            times[mine] -= numpy.median(times[mine, AFTER_WAIT] - median[group_of[mine]])
    groups.sort(key=lambda g: numpy.median(times[g, AFTER_WAIT]))
    return [(int(what[g[0]]) >> 32, int(what[g[0]]) & 0xFFFFFFFF, times[g]) for g in groups]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--shapes", default="1x128,1x512")
    parser.add_argument("--kernels", type=int, default=14, help="how many kernels to show")
    parser.add_argument("--ghz", type=float, default=1.98, help="the SM clock")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("skipped: no GPU")
        sys.exit(77)
    torch.ops.load_library(options.library)
    library = ctypes.CDLL(os.path.join(os.path.dirname(os.path.abspath(options.library)), "libgraft_ops_cuda.so"))
    if not hasattr(library, "graft_cuda_timestamps_read"):
        sys.exit("this library was configured without -DGRAFT_TIMESTAMPS=ON")
    library.graft_cuda_timestamps_read.restype = ctypes.c_size_t
    torch.set_grad_enabled(False)
    torch.manual_seed(1)
    model = GraftBert(Bert().eval().cuda().half())
    torch.ops.graft.cuda_options(constant_weights=True)
    graphs = Graphs(options.library)
    for shape in options.shapes.split(","):
        batch, length = map(int, shape.split("x"))
        inputs = inputs_of(batch, length)
        replay, _ = graphs.capture(lambda: model(*inputs))
        for _ in range(20):  # warm up, and raise the clocks
            replay()
        library.graft_cuda_timestamps_clear()
        replay()
        memory = numpy.zeros((SMS * RECORDS, FIELDS), dtype=numpy.int64)
        assert library.graft_cuda_timestamps_read(None) == memory.nbytes
        library.graft_cuda_timestamps_read(memory.ctypes.data_as(ctypes.c_void_p))
        found = numpy.nonzero(memory[:, -1])[0]
        if len(found) == 0:
            sys.exit(f"{shape}: no kernel wrote timestamps")
        run = launches(numpy.concatenate([(found // RECORDS)[:, None], memory[found]], 1), options.ghz)
        first = max(len(run) // 2 - options.kernels // 2, 1)
        print(f"{shape}: {len(run)} kernels with timestamps; from number {first}")
        for i in range(first, min(first + options.kernels, len(run))):
            kernel, detail, times = run[i]
            before = run[i - 1][2][:, END].max()
            cells = [f"{name} " + " ".join(f"{v:.2f}" for v in (t.min(), numpy.median(t), t.max()))
                     for name, t in zip(STAGES, (times - before).T) if name not in STAGES_NOT_USED.get(kernel, ())]
            print(f"  {KERNELS.get(kernel, kernel)} {detail or ''} x{len(times)}: " + " | ".join(cells))


if __name__ == "__main__":
    main()
