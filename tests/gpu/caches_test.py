"""Decoders that keep keys and values in buffers (tests/e2e/cached_decoders.py) run on a GPU in half precision as exported files: right over
several steps, and captured as CUDA graphs although they write their buffers.

    python tests/gpu/caches_test.py build [NAME...]

For each decoder it prints how many attentions the recipe rewrote, the largest difference from fp32 on the CPU relative to the largest
output, the milliseconds of a step, and what the file says about capturing. It exits 1 when a decoder fails, 77 without a GPU.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import warnings

os.environ["HF_HUB_OFFLINE"] = "1"
import torch

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests/e2e"))
ALLOWED = 0.02  # fp16 over a whole model, relative to its largest output


def check(build, folder, name):
    import cached_decoders
    torch.manual_seed(0)
    exported = cached_decoders.DECODERS[name](folder)
    fast = pathlib.Path(folder) / "fast.pt"
    recipe = cached_decoders.RECIPES[name.removesuffix("_filled")]
    run = subprocess.run([str(a) for a in (build / "bin/graft", "apply", exported.archive, "--rules", SOURCE / "resources/rules/decoders.py", "--recipe", recipe, "--inputs",
                                           exported.inputs, "--device", "cuda", "--dtype", "float16", "--no-timing", "--json", "-o", fast)], capture_output=True, text=True, timeout=300)
    if run.returncode:
        raise RuntimeError(f"graft apply: exit code {run.returncode}: {run.stderr.strip().splitlines()[-1:]}")
    [report] = json.loads(run.stdout)["models"]
    attentions = sum(step["rewrites"] for step in report["steps"] if step["isRule"] and "Attention" in step["name"])
    model, outputs = torch.jit.load(fast).to("cuda"), []
    steps = [tuple(t.to("cuda", torch.float16) if t.is_floating_point() else t.cuda() for t in step) for step in exported.steps]
    for step in steps:
        outputs.append(model(*step).float().cpu())  # the second step captures, the others are replayed
    difference = ((torch.cat(outputs, 1) - exported.expected).abs().max() / exported.expected.abs().max()).item()
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(50):
        model(*steps[-1])
    torch.cuda.synchronize()
    ms = (time.perf_counter() - began) / 50 * 1e3
    runner = getattr(model, "graft_runner", None)
    status = runner.status().strip() if runner is not None else "no capture was asked for"
    said = f"{attentions} attentions, {difference:.1e}, {ms:.3f} ms a step, {status}"
    if attentions != exported.attentions or not difference < ALLOWED:
        raise RuntimeError(f"{said}; {exported.attentions} attentions and at most {ALLOWED} are right")
    if "nothing captured" in status or "not captured" in status:
        raise RuntimeError(said)
    return said


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("skipped: no GPU")
        return 77
    warnings.simplefilter("ignore")
    torch.set_grad_enabled(False)
    sys.argv = sys.argv[:1]
    import cached_decoders
    build, failed = options.build.resolve(), 0
    torch.ops.load_library(build / "lib/libgraft_ops.so")
    for name in options.names or cached_decoders.DECODERS:
        with tempfile.TemporaryDirectory(prefix="graft-caches-") as folder:
            try:
                print(f"{name}: {check(build, folder, name)}", flush=True)
            except Exception as error:
                failed += 1
                print(f"{name}: FAILED: {error}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
