#!/usr/bin/env python3
"""Trains a small model with DistributedDataParallel, eager and by graft_fx.backend(training=True), and compares losses and parameters.

    torchrun --nproc-per-node 2 tests/e2e/ddp_steps.py build/bin/graft build/lib/libgraft_ops.so [--device cuda] [--steps 20]

Each process has batches of its own. Exit code 1 where a loss or a parameter differs, or where the processes' parameters do.
"""

import argparse
import os
import pathlib
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "resources/python"))
import graft_fx


class Net(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.embedding = torch.nn.Embedding(50, width)
        self.layers = torch.nn.ModuleList(torch.nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, "gelu", batch_first=True) for _ in range(3))
        self.head = torch.nn.Linear(width, 50)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy(self.head(x).flatten(0, 1).float(), tokens.flatten())


def losses(device, steps, backend, width, bucket):
    torch.manual_seed(0)
    model = DistributedDataParallel(Net(width).to(device), device_ids=[device.index] if device.type == "cuda" else None, bucket_cap_mb=bucket)
    call = torch.compile(model, backend=backend) if backend else model
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    torch.manual_seed(100 + dist.get_rank())
    out = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = call(torch.randint(0, 50, (4, 16)).to(device))
        loss.backward()
        optimizer.step()
        out.append(loss.detach().clone())
    return torch.stack(out).cpu(), torch.cat([p.detach().flatten() for p in model.parameters()])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("library")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--bucket", type=float, default=25, help="MB of gradients that are sent together; torch.compile parts the graph there")
    parser.add_argument("--report", type=pathlib.Path, help="a folder: each process writes its line into rank_N.txt there")
    options = parser.parse_args()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if options.device == "cuda" else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    backend = graft_fx.backend(training=True, graft=options.program, library=options.library, fuse=device.type == "cuda")
    ours, parameters = losses(device, options.steps, backend, options.width, options.bucket)
    theirs, expected = losses(device, options.steps, None, options.width, options.bucket)
    others = [torch.empty_like(parameters) for _ in range(dist.get_world_size())]
    dist.all_gather(others, parameters)
    apart, moved = float((ours - theirs).abs().max()), float((parameters - expected).abs().max())
    same = all(torch.equal(others[0], p) for p in others)
    told = [{k: r.get(k) for k in ("reason", "recordings", "forward", "backward") if r.get(k)} for r in backend.reports]
    tolerance = 1e-4 if device.type == "cpu" else 5e-3  # generated kernels round less often
    right = apart <= tolerance * float(theirs.abs().max()) and moved < 1e-2 and same and len(told) > 0 and not any("reason" in r for r in told)
    line = (f"rank {dist.get_rank()}: losses {ours[0]:.5f} to {ours[-1]:.5f}, off by {apart:.2g}; parameters off by {moved:.2g}, "
            f"{'the same' if same else 'OTHERS'} in all processes; {len(told)} graphs {told}")
    print(line, flush=True)
    if options.report:  # the processes and gloo share one standard output, where their lines may run into one another
        (options.report / f"rank_{dist.get_rank()}.txt").write_text(line)
    dist.destroy_process_group()
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
