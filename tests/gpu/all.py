"""Runs all tests that need a GPU at the same time, and prints a line for each: the operators, their gradients, steps of training and of optimizers, exported
models, captures on several streams, decoders with caches, models traced on a CPU, generated kernels, every kernel of the library under each
of compute-sanitizer's tools, and some generated ones. Exits 1 when one fails, 77 without a GPU.

    cmake --build build --target gpu_launch_all kernels_generated_cuda
    python tests/gpu/all.py build --out results

It writes the output of each test to a file in --out. It takes about three minutes with 16 processors.
"""
import argparse
import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
SOME = {"GRAFT_RANDOM_GRAPHS": "8", "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}  # of generated kernels, each buffer with memory of its own
SKIPPED = 77


def sanitizer():
    """The path of compute-sanitizer, or None where it is not installed."""
    homes = [os.environ.get("CUDA_HOME", ""), "/usr/local/cuda"]
    return shutil.which("compute-sanitizer") or next((p for h in homes if os.access(p := f"{h}/bin/compute-sanitizer", os.X_OK)), None)


def jobs(build, full):
    """Commands by name."""
    python = [sys.executable, "-X", "faulthandler"]
    found = {
        "operators": python + [HERE / "operators_test.py", build / "lib" / "libgraft_ops.so"] + ([] if full else ["--quick"]),
        "backward": python + [HERE / "backward_test.py", build / "lib" / "libgraft_ops.so"],
        "exported": python + [HERE / "exported_test.py", build],
        "pieces": python + [HERE / "pieces_test.py", build],
        "streams": python + [HERE / "streams_test.py", build],
        "caches": python + [HERE / "caches_test.py", build],
        "traced": python + [HERE / "traced_test.py", build],
        "training": python + [HERE / "training_test.py", build / "bin" / "graft", build / "lib" / "libgraft_ops.so"],
        "updates": python + [HERE / "updates_test.py", build / "bin" / "graft", build / "lib" / "libgraft_ops.so"],
    }
    generated = build / "bin" / "tests" / "kernels_generated_cuda"
    if generated.exists():
        found["generated"] = [generated]
    checker, program = sanitizer(), build / "bin" / "tests" / "gpu_launch_all"
    if checker and program.exists():
        # The tools print 100 messages by default; known warnings alone would exceed that.
        found |= {tool: [checker, "--print-limit", "100000", "--tool", tool, program] for tool in TOOLS}
        # initcheck would have to follow what all kernels write. racecheck ends with an internal error of its own in some of the products.
        cases = {"memcheck": "random groups*,matrix products*", "synccheck": "random groups*,matrix products*", "racecheck": "random groups*"}
        if generated.exists():
            found |= {f"generated, {tool}": [checker, "--tool", tool, "--kernel-name", "kns=graft_", generated, which]
                      for tool, which in cases.items()}
    else:
        print(f"no compute-sanitizer: {program if checker else 'the program'} is missing")
    return found


def messages(text):
    """The reports of a sanitizer tool as [(count, kind, where)], by kind and kernel without its template arguments."""
    kinds = collections.Counter()
    for kind, what in re.findall(r"^========= (Error|Warning): (.*)$", text, re.M):
        what = re.sub(r"\+0x[0-9a-f]+|<unnamed>::|graft::cuda::|\(.*?\)", "", what)
        kinds[kind, re.sub(r"<.*", "", what).strip()[:110]] += 1
    return [(n, *key) for key, n in kinds.most_common()]


def verdict(name, code, text):
    """("ok", "skipped" or what failed, further lines to print)"""
    if code == SKIPPED:
        return "skipped", []
    last = next((line for line in reversed(text.splitlines()) if line.strip(" =")), "printed nothing")
    if name.removeprefix("generated, ") not in TOOLS:
        return ("ok", []) if code == 0 else (f"FAILED ({code}): {last}", text.splitlines()[-20:])
    summary = re.search(r"SUMMARY: .*?(\d+) errors?", text)
    fine = code == 0 and summary and summary[1] == "0"
    return "ok" if fine else f"FAILED ({code}): {last.strip(' =')}", [f"{n} x {kind}: {where}" for n, kind, where in messages(text)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("gpu-results"))
    parser.add_argument("--full", action="store_true", help="run all cases of the operators; takes longer")
    parser.add_argument("--limit", type=float, default=900, help="seconds for each test")
    options = parser.parse_args()
    import torch
    if not torch.cuda.is_available():
        print("skipped: no GPU")
        return SKIPPED
    options.out.mkdir(parents=True, exist_ok=True)
    began, running, failed = time.monotonic(), {}, False
    for name, command in jobs(options.build.resolve(), options.full).items():
        log = open(options.out / f"{name}.txt", "w")
        running[name] = subprocess.Popen(list(map(str, command)), stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                         env=os.environ | (SOME if name.startswith("generated, ") else {}))
    while running:
        time.sleep(0.2)
        seconds = time.monotonic() - began
        for name, process in list(running.items()):
            if process.poll() is None:
                if seconds < options.limit:
                    continue
                process.kill()
                process.wait()
            del running[name]
            word, lines = verdict(name, process.returncode, (options.out / f"{name}.txt").read_text(errors="replace"))
            failed |= word.startswith("FAILED")
            print(f"{name:21} {seconds:5.0f} s  {word}", *lines, sep="\n  ", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
