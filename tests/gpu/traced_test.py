"""Models that PyTorch traced on the CPU, in fp32 and with its own attention, run on a GPU in half precision: in Graft's executor, and as
exported files that follow `.to("cuda", torch.float16)`. 

    python tests/gpu/traced_test.py build [MODEL...] [--jobs 4]

It takes those models of samples/zoo that rules were written for. For each it prints the largest difference from fp32 on the CPU relative to the largest output, of the
executor and of the exported file, the seconds of the exported file's first three calls, and what Graft says about capturing. It
exits 1 when a model fails, 77 without a GPU.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

os.environ["HF_HUB_OFFLINE"] = "1"
import torch

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "samples" / "zoo"))
ALLOWED = 0.05  # fp16 over a whole model, relative to its largest output; where PyTorch itself is further off, twice as much as that
SECONDS = 120   # that one command, or the first calls of a file, may take
RULES = {"transformer": "bert mpnet deberta whisper_encoder wav2vec2 clip_vision segformer vit swin", "decoders": "opt qwen3 gemma3 llama mpt t5_encoder",
         "conv": "densenet efficientnet convnext regnet unet"}


def first_tensor(value):
    while not isinstance(value, torch.Tensor):
        value = next(iter(value.values())) if isinstance(value, dict) else value[0]
    return value


def distance(value, expected):
    return ((first_tensor(value).float().cpu() - expected).abs().max() / expected.abs().max()).item()


def graft(build, *arguments):
    run = subprocess.run([str(a) for a in (build / "bin" / "graft", *arguments)], capture_output=True, text=True, timeout=SECONDS)
    if run.returncode:
        raise RuntimeError(f"graft {arguments[0]}: exit code {run.returncode}: {(run.stderr.strip().splitlines() or [''])[-1]}")
    return run


def calls(build, path, inputs):
    """Loads an exported file in half precision on the GPU and calls it three times."""
    torch.ops.load_library(build / "lib" / "libgraft_ops.so")
    torch.set_grad_enabled(False)
    given = tuple(t.to("cuda", torch.float16) if t.is_floating_point() else t.cuda() for t in torch.load(inputs, weights_only=True))
    model, began = torch.jit.load(path).to("cuda", torch.float16), time.perf_counter()
    for _ in range(3):
        out = model(*given)
    torch.cuda.synchronize()
    seconds = time.perf_counter() - began
    torch.save(first_tensor(out).float().cpu(), f"{path}.out")
    expected = torch.load(path.replace("_fast.pt", "_expected.pt"), weights_only=True)
    try:
        eager = distance(torch.jit.load(path.replace("_fast.pt", ".pt")).to("cuda", torch.float16)(*given), expected)
    except RuntimeError:  # what was traced on a CPU need not run on a GPU
        eager = 0
    print(json.dumps({"seconds": seconds, "eager": eager}))


def check(build, folder, name):
    model, inputs, out, fast = (folder / f"{name}{end}" for end in (".pt", "_in.pt", "_out.pt", "_fast.pt"))
    expected = torch.load(folder / f"{name}_expected.pt", weights_only=True)
    on_gpu = ("--device", "cuda", "--dtype", "float16")
    graft(build, "run", model, "--inputs", inputs, *on_gpu, "-o", out)
    ran = distance(torch.load(out, weights_only=True), expected)
    family = next(f for f, names in RULES.items() if name in names.split())
    report = graft(build, "apply", model, "--rules", SOURCE / f"resources/rules/{family}.py", "--inputs", inputs, *on_gpu, "--no-timing", "-o", fast)
    captured = next((line.strip() for line in report.stdout.splitlines() if "CUDA graph" in line or "operator by operator" in line), "")
    child = subprocess.run([sys.executable, __file__, str(build), "--call", fast, inputs], capture_output=True, text=True, timeout=SECONDS)
    if child.returncode:
        raise RuntimeError(f"the exported file: {(child.stderr.strip().splitlines() or [''])[-1]}")
    exported = distance(torch.load(f"{fast}.out", weights_only=True), expected)
    notes = " | ".join(line for line in child.stderr.splitlines() if "graft" in line.lower())[:300]
    called = json.loads(child.stdout)
    allowed = max(ALLOWED, 2 * called["eager"])
    if not (ran < allowed and exported < allowed):
        raise RuntimeError(f"differs by {ran:.2g} in the executor, {exported:.2g} exported, where {allowed:.2g} is allowed")
    return f"{ran:.1e}, exported {exported:.1e}, PyTorch's own {called['eager']:.1e}, first calls {called['seconds']:.1f} s; {captured} {notes}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--call", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    build = options.build.resolve()
    if not torch.cuda.is_available():
        print("skipped: no GPU")
        return 77
    if options.call:
        calls(build, *options.call)
        return 0
    from models import MODELS
    torch.set_grad_enabled(False)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="graft-traced-") as holder, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        folder, waiting = pathlib.Path(holder), {}
        for name in options.models or " ".join(RULES.values()).split():
            torch.manual_seed(0)
            module, inputs = MODELS[name](1)
            torch.save(inputs, folder / f"{name}_in.pt")
            torch.save(first_tensor(module(*inputs)), folder / f"{name}_expected.pt")
            torch.jit.trace(module, inputs, check_trace=False).save(folder / f"{name}.pt")
            waiting[pool.submit(check, build, folder, name)] = name
        for done in concurrent.futures.as_completed(waiting):
            error = done.exception()
            failed += error is not None
            print(f"{waiting[done]}: {f'FAILED: {error}' if error else done.result()}", flush=True)
    print(f"{len(waiting) - failed} of {len(waiting)} models ran")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
