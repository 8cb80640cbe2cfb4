"""Everything that needs a GPU to be tested, side by side, and a line for each: the operators, exported models, captures on several
streams, and every kernel once under each of compute-sanitizer's tools. Exits 1 where something failed, 77 where there is no GPU.

    cmake --build build --target gpu_launch_all
    python tests/gpu/all.py build --out results

What each has printed lies in --out. Takes about three minutes with 16 processors.
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
SKIPPED = 77


def sanitizer():
    """The program, or nothing where it is not installed."""
    homes = [os.environ.get("CUDA_HOME", ""), "/usr/local/cuda"]
    return shutil.which("compute-sanitizer") or next((p for h in homes if os.access(p := f"{h}/bin/compute-sanitizer", os.X_OK)), None)


def jobs(build, full):
    """Name to command."""
    python = [sys.executable]
    found = {
        "operators": python + [HERE / "test_operators.py", build / "lib" / "libgraft_ops.so"] + ([] if full else ["--quick"]),
        "exported": python + [HERE / "exported_test.py", build],
        "streams": python + [HERE / "streams_test.py", build],
    }
    checker, program = sanitizer(), build / "bin" / "tests" / "gpu_launch_all"
    if checker and program.exists():
        # Its own limit is 100 messages, which known warnings alone would fill.
        found |= {tool: [checker, "--print-limit", "100000", "--tool", tool, program] for tool in TOOLS}
    else:
        print(f"no compute-sanitizer: {program if checker else 'the program'} is missing")
    return found


def messages(text):
    """What a sanitizer's tool reports, by kind and kernel: [(how often, kind, where)]. Kernels without their template arguments."""
    kinds = collections.Counter()
    for kind, what in re.findall(r"^========= (Error|Warning): (.*)$", text, re.M):
        what = re.sub(r"\+0x[0-9a-f]+|<unnamed>::|graft::cuda::|\(.*?\)", "", what)
        kinds[kind, re.sub(r"<.*", "", what).strip()[:110]] += 1
    return [(n, *key) for key, n in kinds.most_common()]


def verdict(name, code, text):
    """"ok", "skipped" or what is wrong; and what else is worth a line."""
    if code == SKIPPED:
        return "skipped", []
    last = next((line for line in reversed(text.splitlines()) if line.strip(" =")), "printed nothing")
    if name not in TOOLS:
        return "ok" if code == 0 else f"FAILED ({code}): {last}", []
    said = re.search(r"SUMMARY: .*?(\d+) errors?", text)
    fine = code == 0 and said and said[1] == "0"
    return "ok" if fine else f"FAILED ({code}): {last.strip(' =')}", [f"{n} x {kind}: {where}" for n, kind, where in messages(text)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("gpu-results"))
    parser.add_argument("--full", action="store_true", help="all cases of the operators, which takes longer")
    parser.add_argument("--limit", type=float, default=900, help="seconds for each")
    options = parser.parse_args()
    import torch
    if not torch.cuda.is_available():
        print("skipped: no GPU")
        return SKIPPED
    options.out.mkdir(parents=True, exist_ok=True)
    began, running, failed = time.monotonic(), {}, False
    for name, command in jobs(options.build.resolve(), options.full).items():
        log = open(options.out / f"{name}.txt", "w")
        running[name] = subprocess.Popen(list(map(str, command)), stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
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
            print(f"{name:10} {seconds:5.0f} s  {word}", *lines, sep="\n  ", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
