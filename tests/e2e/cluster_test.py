"""graft batch --on: Dask and Ray with real workers, one of them killed, and Slurm's job arrays with an sbatch that stands in for it."""

import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

import torch

from support import GRAFT, TestCase, main
from swish import RULES, Net

HAS_DASK = importlib.util.find_spec("distributed") is not None
HAS_RAY = importlib.util.find_spec("ray") is not None  # no package of requirements.txt: run this test by a Python that has it

# Runs the tasks of an array side by side, and says the job's number at once, as `sbatch --parsable --wait` does. It ends the tasks that
# SBATCH_KILL names before they do anything, as a node that fails does.
SBATCH = """#!{python}
import os, re, subprocess, sys
array = next(a for a in sys.argv if a.startswith("--array=")).partition("=")[2].partition("%")[0]
output = next(a for a in sys.argv if a.startswith("--output=")).partition("=")[2]
assert "--wait" in sys.argv and "--parsable" in sys.argv
print("4711;cluster", flush=True)
first, last = map(int, array.split("-"))
killed = set(filter(None, os.environ.get("SBATCH_KILL", "").split(",")))
log = open(os.environ["SBATCH_LOG"], "a")
tasks = []
for i in range(first, last + 1):
    log.write(str(i) + "\\n")
    if str(i) in killed:
        continue
    with open(output.replace("%a", str(i)), "w") as out:
        tasks.append(subprocess.Popen(["sh", sys.argv[-1]], env=dict(os.environ, SLURM_ARRAY_TASK_ID=str(i)), stdout=out, stderr=out))
    if len(tasks) % 2 == 0:
        for t in tasks:
            t.wait()
sys.exit(max([t.wait() for t in tasks], default=1))
"""


class Cluster(TestCase):
    def setUp(self):
        super().setUp()
        self.models = self.folder / "models"
        self.models.mkdir()
        self.rules = self.file("rules.py", RULES)
        self.fast = self.folder / "fast"
        self.names = []

    def make(self, count, broken=()):
        for i in range(count):
            path = self.models / f"m{i:02}.pt"
            if i in broken:
                path.write_bytes(b"no model at all")
            else:
                torch.jit.trace(Net(4 + i).eval(), torch.randn(2, 4 + i)).save(str(path))
            self.names.append(path.name)

    def words(self, *more):
        return [str(GRAFT), "batch", str(self.models), "--rules", str(self.rules), "-o", str(self.fast), "--no-timing", "--json",
                "--python", sys.executable, *more]

    def document(self, run, code=0):
        self.assertEqual(run.returncode, code, run.stderr)
        found = json.loads(run.stdout)
        self.assertEqual([pathlib.Path(m["model"]).name for m in found["models"]], self.names)
        return found

    def outcomes(self, found):
        return {pathlib.Path(m["model"]).name: m["outcome"] for m in found["models"]}

    def runs(self):
        """How often each model was done well, by the state's lines."""
        counts = {}
        for line in (self.fast / "graft-batch.jsonl").read_text().splitlines():
            entry = json.loads(line)
            if entry["outcome"] == "done":
                name = pathlib.Path(entry["words"][1]).name
                counts[name] = counts.get(name, 0) + 1
        return counts

    def worker(self, run):
        """The process of a worker that runs a part of the batch, once there is one."""
        deadline = time.monotonic() + 200
        while time.monotonic() < deadline and run.poll() is None:
            for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    words = path.read_bytes().split(b"\0")
                    if b"--part" in words and str(self.fast).encode() in b" ".join(words):
                        return int((path.parent / "stat").read_text().rpartition(")")[2].split()[1])
                except (OSError, ValueError):
                    continue
            time.sleep(0.01)
        raise AssertionError(run.communicate()[1] if run.poll() is not None else "no part ran")

    def parts_that_run(self):
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                found += [path] if str(self.fast).encode() in path.read_bytes() else []
            except OSError:
                continue
        return found

    def loses_a_worker_and_nothing_else(self, scheduler):
        self.make(16, broken=(5,))
        run = subprocess.Popen(self.words("--on", scheduler, "--workers", "3"), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True)
        os.kill(self.worker(run), signal.SIGKILL)
        out, err = run.communicate(timeout=250)
        found = self.document(subprocess.CompletedProcess([], run.returncode, out, err), code=3)
        self.assertEqual(self.outcomes(found), {n: "failed" if n == "m05.pt" else "done" for n in self.names})
        self.assertEqual(self.runs(), {n: 1 for n in self.names if n != "m05.pt"})
        for name in self.names:
            self.assertEqual((self.fast / name).exists(), name != "m05.pt")
        self.assertFalse((self.fast / "graft-batch.jsonl.parts").exists())
        # The same command again does what is left.
        torch.jit.trace(Net(9).eval(), torch.randn(2, 9)).save(str(self.models / "m05.pt"))
        again = self.document(subprocess.run(self.words("--on", scheduler, "--workers", "1"), capture_output=True, text=True))
        self.assertEqual([m["resumed"] for m in again["models"]].count(False), 1)

    @unittest.skipIf(not HAS_DASK, "dask's distributed is not installed")
    def test_dask_loses_a_worker_and_nothing_else(self):
        self.loses_a_worker_and_nothing_else("dask")

    @unittest.skipIf(not HAS_RAY, "ray is not installed")
    def test_ray_loses_a_worker_and_nothing_else(self):
        self.loses_a_worker_and_nothing_else("ray")

    @unittest.skipIf(not HAS_RAY, "ray is not installed")
    def test_ray_is_interrupted_and_goes_on(self):
        self.make(12)
        run = subprocess.Popen(self.words("--on", "ray", "--workers", "2"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.worker(run)
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=120)
        self.assertEqual(run.returncode, 130, err)
        deadline = time.monotonic() + 30
        while self.parts_that_run() and time.monotonic() < deadline:
            time.sleep(0.1)
        self.assertEqual(self.parts_that_run(), [])
        done = self.document(subprocess.run(self.words("--on", "ray", "--workers", "2"), capture_output=True, text=True))
        self.assertEqual(set(self.outcomes(done).values()), {"done"})
        self.assertEqual(self.runs(), {n: 1 for n in self.names})

    def slurm(self, kill="", code=0):
        folder = self.folder / "bin"
        folder.mkdir(exist_ok=True)
        sbatch = folder / "sbatch"
        sbatch.write_text(SBATCH.format(python=sys.executable))
        sbatch.chmod(0o755)
        self.log = self.folder / "sbatch.log"
        environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}", "SBATCH_LOG": str(self.log), "SBATCH_KILL": kill}
        return self.document(subprocess.run(self.words("--on", "slurm"), capture_output=True, text=True, env=environment), code)

    def test_slurm_runs_an_array_and_a_task_that_died_is_done_by_the_next_call(self):
        self.make(6)
        found = self.slurm(kill="2", code=3)
        self.assertEqual(self.outcomes(found), {n: "failed" if n == "m02.pt" else "done" for n in self.names})
        self.assertIn("did not run", found["models"][2]["error"])
        self.assertEqual(len(self.log.read_text().split()), 6)
        found = self.slurm()
        self.assertEqual(set(self.outcomes(found).values()), {"done"})
        self.assertEqual(len(self.log.read_text().split()), 7)
        self.assertEqual(self.runs(), {n: 1 for n in self.names})

    @unittest.skipIf(HAS_RAY, "ray is installed")
    def test_without_the_package_it_says_how_to_get_it(self):
        self.make(1)
        run = subprocess.run(self.words("--on", "ray"), capture_output=True, text=True)
        self.assertEqual(run.returncode, 3)
        self.assertIn("-m pip install ray", run.stderr)

    def test_without_a_scheduler_it_says_what_is_missing(self):
        self.make(1)
        empty = self.folder / "empty"
        empty.mkdir()
        run = subprocess.run(self.words("--on", "slurm"), capture_output=True, text=True, env={"PATH": str(empty), "HOME": "/"})
        self.assertEqual(run.returncode, 3)
        self.assertIn("sbatch", run.stderr)


main()
