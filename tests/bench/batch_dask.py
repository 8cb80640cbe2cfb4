"""Many small models through `graft batch --on dask`: by one worker, and by several of which one is killed in the middle.

    python tests/bench/batch_dask.py PROGRAM [--models 1000] [--alone 100] [--workers 4]

PROGRAM is `graft`. It checks that each model was done exactly once and that every result computes the same as its model, then prints the
wall time and the processor's seconds of each batch. One worker takes --alone of the models.
"""

import argparse
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import time

import torch

RULES = """import torch
import torch.nn.functional as F
from graft import Rule


class Swish(Rule):
    def pattern(x):
        return x * torch.sigmoid(x)

    def replacement(x):
        return F.silu(x)
"""


class Net(torch.nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
            x = x * torch.sigmoid(x)
        return x


def width(i):
    return 4 + i % 29


def write_models(folder, count):
    folder.mkdir()
    for i in range(count):
        torch.manual_seed(i)
        torch.jit.trace(Net(width(i), 1 + i % 3).eval(), torch.randn(2, width(i)), check_trace=False).save(str(folder / f"m{i:04}.pt"))


def kill_a_worker(out):
    """The parent of a process that runs a part of this batch. True where there was one."""
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
            if b"--part" in words and str(out).encode() in b" ".join(words):
                os.kill(int((path.parent / "stat").read_text().rpartition(")")[2].split()[1]), signal.SIGKILL)
                return True
        except (OSError, ValueError):
            continue
    return False


def batch(program, models, rules, out, workers, killed_after=None):
    """Its report, wall time and processor's seconds; a worker dies when so many models are done."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    run = subprocess.Popen([program, "batch", *models, "--rules", rules, "-o", out, "--no-timing", "--json", "--quiet", "--on", "dask",
                            "--workers", str(workers), "--python", sys.executable], stdout=subprocess.PIPE, text=True)
    while killed_after is not None and run.poll() is None:
        time.sleep(0.05)
        if out.exists() and len(list(out.glob("*.pt"))) >= killed_after and kill_a_worker(out):
            killed_after = None
    said = run.communicate()[0]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if run.returncode != 0 or killed_after is not None:
        raise SystemExit(f"the batch ended with {run.returncode}; killed: {killed_after is None}")
    return json.loads(said), time.monotonic() - begin, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def check(document, models, out):
    assert [m["outcome"] for m in document["models"]] == ["done"] * len(models), "not all are done"
    done = [json.loads(line)["words"][1] for line in (out / "graft-batch.jsonl").read_text().splitlines()]
    assert sorted(done) == sorted(map(str, models)), "a model was done twice"
    for i, path in enumerate(models):
        x = torch.randn(2, width(i), generator=torch.Generator().manual_seed(i))
        result = torch.jit.load(str(out / path.name))
        assert "aten::silu" in str(result.inlined_graph), f"{path.name} was not rewritten"
        torch.testing.assert_close(result(x), torch.jit.load(str(path))(x), rtol=1e-5, atol=1e-6)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--alone", type=int, default=100)
    parser.add_argument("--workers", type=int, default=4)
    o = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="graft-bench-") as name:
        folder = pathlib.Path(name)
        write_models(folder / "models", o.models)
        models = sorted((folder / "models").iterdir())
        rules = folder / "rules.py"
        rules.write_text(RULES)
        for workers, some, killed_after in ((1, models[: o.alone], None), (o.workers, models, o.models // 2)):
            out = folder / f"by{workers}"
            document, wall, processor = batch(o.program, some, rules, out, workers, killed_after)
            check(document, some, out)
            print(f"{workers} workers on {os.cpu_count()} cores, {len(some)} models{', one worker killed' if killed_after else ''}: "
                  f"{wall:.1f} s, {1000 * wall / len(some):.0f} ms a model, {1000 * processor / len(some):.0f} ms of a processor a model; "
                  "all right", flush=True)


if __name__ == "__main__":
    main()
