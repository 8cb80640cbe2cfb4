#!/usr/bin/env python3
"""Steps of training with graft_fx.backend(training=True) beside eager ones: gradients in fp64, memory, and losses.

    steps.py BUILD [--steps N] [--device cpu|cuda] [MODEL...]

Prints a table in Markdown. Models are those of cuts.py, without dropout. On a GPU the backend also generates kernels and records both
halves in CUDA graphs.

Gradients: the largest difference of a parameter's gradient to eager's in fp64, relative to its largest value. Memory, as PyTorch's
allocator counts it beside what is there before a step: the most during the step, and what is there between forward and backward pass.
Losses: the largest difference over N steps of SGD under autocast to bfloat16 and three seeds, and that of eager's bfloat16 to eager's
float32.
"""

import argparse
import copy
import pathlib
import sys
import warnings

import torch

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / "resources/python"), str(SOURCE / "tests/sweep")]
import cuts
import graft_fx
from graft_baselines import bytes_of


def without_dropout(model):
    for m in model.modules():
        for name, value in vars(m).items():
            if isinstance(value, float) and (name == "p" and isinstance(m, torch.nn.modules.dropout._DropoutNd) or "dropout" in name):
                setattr(m, name, 0.0)
    return model


def loss_of(out):
    if getattr(out, "loss", None) is not None:
        return out.loss
    tensors = [t for t in torch.utils._pytree.tree_leaves(out.logits if hasattr(out, "logits") else out) if torch.is_tensor(t)]
    return sum(t.float().pow(2).mean() if t.dtype is not torch.float64 else t.pow(2).mean() for t in tensors)


def gradients(call, model, inputs):
    model.zero_grad(set_to_none=True)
    loss_of(call(**inputs)).backward()
    return {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


def wide(inputs):
    return {k: v.double() if torch.is_tensor(v) and v.is_floating_point() else v for k, v in inputs.items()}


def apart(a, b):
    """The largest difference of two sets of gradients, each relative to its largest value; what is only rounding counts as that."""
    assert a.keys() == b.keys()
    most = max(float(t.abs().max()) for t in a.values())
    return max(float((a[n] - b[n]).abs().max()) / max(float(a[n].abs().max()), 1e-6 * most) for n in a)


def memory_of(work, device):
    """Bytes during and behind `work`, beside what was there before it."""
    if device == "cpu":
        return bytes_of(work)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    kept = work()
    torch.cuda.synchronize()
    most, now = torch.cuda.max_memory_allocated() - before, torch.cuda.memory_allocated() - before
    del kept
    return most, now


def losses(call, model, inputs, steps, device, half=True):
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    out = []
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, torch.bfloat16, enabled=half):
            loss = loss_of(call(**inputs))
        loss.backward()
        optimizer.step()
        out.append(loss.detach().float())
    return torch.stack(out).cpu()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("models", nargs="*")
    given = parser.parse_intermixed_args()
    warnings.simplefilter("ignore")
    build, device = given.build.resolve(), given.device

    def compiled(model, memory="100%"):
        torch._dynamo.reset()
        backend = graft_fx.backend(graft=str(build / "bin/graft"), library=str(build / "lib/libgraft_ops.so"), training=True, memory=memory,
                                   fuse=device == "cuda")
        return torch.compile(model, backend=backend)

    print("| model | gradients apart, 100 % | 50 % | MB a step, eager | 100 % | 50 % | MB behind the forward pass, eager | 100 % | 50 % | bf16 losses apart | eager bf16 to fp32 |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for name, make, inputs in cuts.models():
        if given.models and name not in given.models:
            continue
        torch.manual_seed(0)
        inputs = {k: v.to(device) if torch.is_tensor(v) else v for k, v in inputs.items()}
        model = without_dropout(make().to(device).train())
        row = []
        for memory in ("100%", "50%"):
            double = copy.deepcopy(model).double()
            own = gradients(double, double, wide(inputs))
            double = copy.deepcopy(model).double()
            row.append(f"{apart(own, gradients(compiled(double, memory), double, wide(inputs))):.1e}")
        held = []
        for memory in (None, "100%", "50%"):
            one = copy.deepcopy(model)
            call = one if memory is None else compiled(one, memory)

            def forward():
                return loss_of(call(**inputs))

            def step():
                forward().backward()

            for _ in range(2):
                one.zero_grad(set_to_none=True)
                step()
            one.zero_grad(set_to_none=True)
            row.append(f"{memory_of(step, device)[0] / 1e6:.2f}")
            held.append(f"{memory_of(forward, device)[1] / 1e6:.2f}")
        row += held
        if given.steps:
            off, bound = [], []
            for seed in range(3):
                torch.manual_seed(seed)
                start = without_dropout(make().to(device).train())
                one, two, three = (copy.deepcopy(start) for _ in range(3))
                eager = losses(one, one, inputs, given.steps, device)
                off.append(float((losses(compiled(two), two, inputs, given.steps, device) - eager).abs().max()))
                bound.append(float((eager - losses(three, three, inputs, given.steps, device, half=False)).abs().max()))
            row += [f"{max(off):.1e}", f"{max(bound):.1e}"]
        print(f"| {name} | {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
