#!/usr/bin/env python3
"""Times models that `graft optimize` exported beside torch.compile of the user's own module.

    samples/zoo/bench.py build --device cuda --dtype float16 -o results bert swin unet
    samples/zoo/bench.py --list

For each model: PyTorch traces it in fp32 on the CPU; `graft optimize` writes a file for the device and dtype; a process of its own
loads that file with `.to(device, dtype)`, compiles the module itself with `torch.compile(mode=MODE)`, and calls the two in turns.
Compilations run in parallel first, and torch.compile reads its cache afterwards; all times are taken one model after another.

It prints one line a model as it comes, and writes results.json and results.md to the folder of -o. The ratio is torch.compile's
time over the exported file's: above 1 the exported file is faster. Its range is the 10th to the 90th percentile over the pairs.
*host* is the exported file's wall time over its time on the GPU, back to back; much above 1, the host is what limits it.
*error* is the exported file's largest difference from fp64 over torch.compile's. A model that fails keeps its message.
"""
import argparse
import concurrent.futures
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
os.environ["HF_HUB_OFFLINE"] = "1"


def built(name, batch):
    import torch
    from models import MODELS
    torch.set_grad_enabled(False)
    torch.manual_seed(0)
    return MODELS[name](batch)


def cast(tensors, device, dtype):
    return tuple(t.to(device=device, dtype=dtype if t.is_floating_point() else t.dtype) for t in tensors)


def first_tensor(value):
    import torch
    while not isinstance(value, torch.Tensor):
        value = next(iter(value.values())) if isinstance(value, dict) else value[0]
    return value


def compiled(module, inputs, mode):
    """`module` compiled and warm, or None and why PyTorch could not."""
    import torch
    run = torch.compile(module, mode=None if mode == "default" else mode)
    for _ in range(4):
        run(*inputs)
    return run


def prepare(options, name):
    """Writes NAME.pt, NAME_in.pt and NAME_fast.pt, and fills torch.compile's cache."""
    import torch
    folder, began = pathlib.Path(options.output), time.perf_counter()
    module, inputs = built(name, options.batch)
    torch.jit.trace(module, inputs, check_trace=False).save(folder / f"{name}.pt")
    torch.save(inputs, folder / f"{name}_in.pt")
    traced = time.perf_counter()
    command = [options.build / "bin/graft", "optimize", folder / f"{name}.pt", "--inputs", folder / f"{name}_in.pt", "-o", folder / f"{name}_fast.pt",
               "--device", options.device, "--dtype", options.dtype, "--allow-unchanged", "--json"]
    run = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=options.timeout)
    (folder / f"{name}.json").write_text(run.stdout)
    (folder / f"{name}.log").write_text(run.stderr)
    if run.returncode:
        raise RuntimeError(f"graft optimize: exit code {run.returncode}: {(run.stderr.strip().splitlines() or [''])[-1]}")
    optimized = time.perf_counter()
    dtype = getattr(torch, options.dtype)
    compiled(module.to(options.device, dtype), cast(inputs, options.device, dtype), options.mode)
    return {"trace": traced - began, "optimize": optimized - traced, "compile": time.perf_counter() - optimized}


def timer(device):
    """A function that runs `call` once and returns milliseconds: between GPU events, or of the wall clock on a CPU."""
    import torch
    if not device.startswith("cuda"):
        def on_cpu(call):
            began = time.perf_counter()
            call()
            return (time.perf_counter() - began) * 1e3
        return on_cpu
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

    def on_gpu(call):
        torch.cuda.synchronize()
        begin.record()
        call()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end)
    return on_gpu


def back_to_back(call, device, times=50):
    """Milliseconds of the wall clock for each of `times` calls without a wait between them."""
    import torch
    wait = torch.cuda.synchronize if device.startswith("cuda") else lambda: None
    wait()
    began = time.perf_counter()
    for _ in range(times):
        call()
    wait()
    return (time.perf_counter() - began) / times * 1e3


def measure(options, name):
    import torch
    folder = pathlib.Path(options.output)
    torch.ops.load_library(next((options.build / "lib").glob("libgraft_ops.so")))
    module, inputs = built(name, options.batch)
    dtype = getattr(torch, options.dtype)
    reference = first_tensor(module.double()(*cast(inputs, "cpu", torch.double)))
    module, inputs = built(name, options.batch)
    inputs = cast(inputs, options.device, dtype)
    theirs = compiled(module.to(options.device, dtype), inputs, options.mode)
    fast = torch.jit.load(folder / f"{name}_fast.pt").to(options.device, dtype)
    began = time.perf_counter()
    for _ in range(5):
        fast(*inputs)
    if options.device.startswith("cuda"):
        torch.cuda.synchronize()
    first = time.perf_counter() - began
    errors = [(first_tensor(run(*inputs)).double().cpu() - reference).abs().max().item() for run in (fast, theirs)]
    scale = reference.abs().max().item()
    once, pairs, until = timer(options.device), [], time.perf_counter() + options.seconds
    while len(pairs) < 20 or time.perf_counter() < until:
        pairs.append((once(lambda: fast(*inputs)), once(lambda: theirs(*inputs))))
    ratios = statistics.quantiles([b / a for a, b in pairs], n=10)
    ours = statistics.median(a for a, _ in pairs)
    return {"ms": ours, "compileMs": statistics.median(b for _, b in pairs), "ratio": statistics.median(b / a for a, b in pairs),
            "ratioP10": ratios[0], "ratioP90": ratios[-1], "pairs": len(pairs), "host": back_to_back(lambda: fast(*inputs), options.device) / ours,
            "error": errors[0] / scale, "compileError": errors[1] / scale, "firstCallsSeconds": first}


STAGES = {"prepare": prepare, "measure": measure}


def child(stage, options, name):
    """What STAGES[stage] returns for one model, from a process of its own; {"error"} where it failed or took too long."""
    command = [sys.executable, __file__, str(options.build), "--device", options.device, "--dtype", options.dtype, "--batch", options.batch,
               "--mode", options.mode, "--seconds", options.seconds, "--timeout", options.timeout, "-o", options.output, "--stage", stage, name]
    try:
        run = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=options.timeout)
    except subprocess.TimeoutExpired:
        return {"error": f"{stage} did not end within {options.timeout} s"}
    last = (run.stdout.strip().splitlines() or [""])[-1]
    if run.returncode == 0 and last.startswith("{"):
        return json.loads(last)
    (pathlib.Path(options.output) / f"{name}_{stage}.txt").write_text(run.stdout + run.stderr)
    return {"error": f"{stage}: {(run.stderr.strip().splitlines() or [f'exit code {run.returncode}'])[-1]}"}


def row(name, found):
    if "error" in found and "ms" not in found:
        return f"| {name} | {found['error']} | | | | | |"
    return (f"| {name} | {found['ms']:.3f} | {found['compileMs']:.3f} | {found['ratio']:.2f} ({found['ratioP10']:.2f} to {found['ratioP90']:.2f}) | {found['host']:.2f} | "
            f"{found['error'] / max(found['compileError'], 1e-30):.2f} | {found['rewrites']} |")


def rewrites(path):
    """How many rewrites `graft optimize --json` kept."""
    try:
        report = json.loads(path.read_text())
        steps = (report["models"][0] if "models" in report else report)["steps"]
        return sum(step.get("rewrites", 0) for step in steps)
    except (OSError, ValueError, KeyError, IndexError):
        return "?"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, nargs="?", default=HERE.parents[1] / "build", help="where Graft was built")
    parser.add_argument("models", nargs="*", metavar="MODEL", help="all of them by default")
    parser.add_argument("--list", action="store_true", help="print the models' names and exit")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", default="float16")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--mode", default="reduce-overhead", help="torch.compile's mode")
    parser.add_argument("--seconds", type=float, default=2, help="how long to time each pair")
    parser.add_argument("--timeout", type=float, default=180, help="seconds that one model may take in one stage")
    parser.add_argument("-j", "--jobs", type=int, default=4, help="how many models are prepared at once")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=pathlib.Path("zoo"))
    parser.add_argument("--stage", choices=STAGES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.build = options.build.resolve()
    if options.stage:
        print(json.dumps(STAGES[options.stage](options, options.models[0])))
        return 0
    sys.path.insert(0, str(HERE))
    from models import MODELS
    if options.list:
        print(*MODELS, sep="\n")
        return 0
    if unknown := set(options.models) - set(MODELS):
        parser.error(f"no model {', '.join(sorted(unknown))}; --list names them")
    names = options.models or list(MODELS)
    options.output.mkdir(parents=True, exist_ok=True)
    results = {}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        waiting = {pool.submit(child, "prepare", options, name): name for name in names}
        for done in concurrent.futures.as_completed(waiting):
            name = waiting[done]
            results[name] = done.result()
            print(f"prepared {name}: {results[name].get('error', 'done')}", flush=True)
    head = ["| model | exported, ms | torch.compile, ms | ratio (p10 to p90) | host | error | rewrites |", "|---|---|---|---|---|---|---|"]
    print(*head, sep="\n", flush=True)
    lines = []
    for name in names:
        if "error" not in results[name]:
            seconds = results[name]
            results[name] = child("measure", options, name) | {"seconds": seconds, "rewrites": rewrites(options.output / f"{name}.json")}
        lines.append(row(name, results[name]))
        print(lines[-1], flush=True)
        (options.output / "results.json").write_text(json.dumps({"device": options.device, "dtype": options.dtype, "batch": options.batch,
                                                                 "mode": options.mode, "models": results}, indent=1))
    timed = [r["ratio"] for r in results.values() if "ratio" in r]
    if timed:
        lines.append(f"\n{len(timed)} of {len(names)} models ran; geometric mean of the ratios {math.exp(statistics.fmean(map(math.log, timed))):.2f}, worst {min(timed):.2f}")
        print(lines[-1])
    (options.output / "results.md").write_text("\n".join(head + lines) + "\n")
    return 0 if len(timed) == len(names) else 1


if __name__ == "__main__":
    sys.exit(main())
