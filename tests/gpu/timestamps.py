"""Where the time of each kernel of a captured BERT-base goes: stamps that its blocks leave (kernels/cuda/tuning/timestamps.cuh).

    cmake --preset default -DGRAFT_STAMPS=ON && cmake --build build --target graft_ops graft_ops_cuda
    python tests/gpu/timestamps.py build/lib/libgraft_ops.so --shapes 1x128,1x512 --kernels 14

Prints, for the kernels of two layers in the middle, how many blocks left a record and when they passed each stage: least, median
and most, in microseconds after the last block of the kernel before had ended. Processors' clocks start anywhere; they are aligned by the
end of the wait for the kernel before, which all blocks see at once. Stages of blocks that start late have later times.
"""
import argparse
import ctypes
import os
import sys

import numpy
import torch

from bert_bench import Bert, GraftBert, Graphs, inputs_of

PROCESSORS, RECORDS, FIELDS = 160, 8192, 10
STAGES = ("entry", "before wait", "after wait", "first data", "multiplied", "gathered", "leaving", "end")
AFTER_WAIT, END = STAGES.index("after wait"), STAGES.index("end")
KERNELS = {1: "product", 2: "norm", 3: "attention"}
NOT_PASSED = {2: ("first data", "multiplied", "gathered", "leaving"), 3: ("leaving",)}
APART_US = 2.5  # between the ends of one kernel's blocks and those of its next run


def launches(records, ghz):
    """[(kernel, detail, blocks' times [blocks, stages] in us)], in the order in which they ran."""
    processor, times = records[:, 0], records[:, 1:1 + len(STAGES)] / (ghz * 1e3)
    clock, what = records[:, -2] / 1e3, records[:, -1]
    times = times.astype(float)
    for p in numpy.unique(processor):
        mine = processor == p
        times[mine] -= numpy.median(times[mine, END] - (clock[mine] - clock.min()))
    groups = []
    for w in numpy.unique(what):
        index = numpy.where(what == w)[0]
        index = index[numpy.argsort(times[index, END])]
        groups += numpy.split(index, numpy.where(numpy.diff(times[index, END]) > APART_US)[0] + 1)
    group_of = numpy.zeros(len(records), int)
    for i, g in enumerate(groups):
        group_of[g] = i
    for _ in range(8):
        median = numpy.array([numpy.median(times[g, AFTER_WAIT]) for g in groups])
        for p in numpy.unique(processor):
            mine = processor == p
            times[mine] -= numpy.median(times[mine, AFTER_WAIT] - median[group_of[mine]])
    groups.sort(key=lambda g: numpy.median(times[g, AFTER_WAIT]))
    return [(int(what[g[0]]) >> 32, int(what[g[0]]) & 0xFFFFFFFF, times[g]) for g in groups]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--shapes", default="1x128,1x512")
    parser.add_argument("--kernels", type=int, default=14, help="how many are shown")
    parser.add_argument("--ghz", type=float, default=1.98, help="the processors' clock")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("skipped: no GPU")
        sys.exit(77)
    torch.ops.load_library(options.library)
    library = ctypes.CDLL(os.path.join(os.path.dirname(os.path.abspath(options.library)), "libgraft_ops_cuda.so"))
    if not hasattr(library, "graft_cuda_stamps_read"):
        sys.exit("this library was configured without -DGRAFT_STAMPS=ON")
    library.graft_cuda_stamps_read.restype = ctypes.c_size_t
    torch.set_grad_enabled(False)
    torch.manual_seed(1)
    model = GraftBert(Bert().eval().cuda().half())
    torch.ops.graft.cuda_options(constant_weights=True)
    graphs = Graphs(options.library)
    for shape in options.shapes.split(","):
        batch, length = map(int, shape.split("x"))
        inputs = inputs_of(batch, length)
        replay, _ = graphs.capture(lambda: model(*inputs))
        for _ in range(20):  # warm, and the clocks up
            replay()
        library.graft_cuda_stamps_clear()
        replay()
        memory = numpy.zeros((PROCESSORS * RECORDS, FIELDS), dtype=numpy.int64)
        assert library.graft_cuda_stamps_read(None) == memory.nbytes
        library.graft_cuda_stamps_read(memory.ctypes.data_as(ctypes.c_void_p))
        found = numpy.nonzero(memory[:, -1])[0]
        if len(found) == 0:
            sys.exit(f"{shape}: no kernel with stamps ran")
        run = launches(numpy.concatenate([(found // RECORDS)[:, None], memory[found]], 1), options.ghz)
        first = max(len(run) // 2 - options.kernels // 2, 1)
        print(f"{shape}: {len(run)} kernels with stamps; from number {first}")
        for i in range(first, min(first + options.kernels, len(run))):
            kernel, detail, times = run[i]
            before = run[i - 1][2][:, END].max()
            cells = [f"{name} " + " ".join(f"{v:.2f}" for v in (t.min(), numpy.median(t), t.max()))
                     for name, t in zip(STAGES, (times - before).T) if name not in NOT_PASSED.get(kernel, ())]
            print(f"  {KERNELS.get(kernel, kernel)} {detail or ''} x{len(times)}: " + " | ".join(cells))


if __name__ == "__main__":
    main()
