"""samples/zoo/bench.py measures a row, keeps it for --resume, and names the contenders that took too long.

    zoo_test.py BUILD_FOLDER
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import unittest

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
ZOO = pathlib.Path(__file__).resolve().parents[2] / "samples/zoo"
sys.path.insert(0, str(ZOO))
os.environ["HF_HUB_OFFLINE"] = "1"


def bench(folder, *arguments):
    command = [sys.executable, ZOO / "bench.py", BUILD, "--set", "zoo", "--only", "tcn", "--contenders", "graft,eager,frozen", "--seconds", "0.1", "--budget", "2", "-o", folder, *arguments]
    return subprocess.run([str(c) for c in command], capture_output=True, text=True)


class Zoo(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="graft-zoo-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def rows(self):
        return json.loads((self.folder / "results.json").read_text())["rows"]

    def test_a_row_is_measured_and_kept(self):
        run = bench(self.folder, "--threads", "1")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        [row] = self.rows()
        self.assertEqual((row["model"], row["batch"], row["device"], row["threads"]), ("tcn", 1, "cpu", 1))
        self.assertIn("torch", row["machine"])
        for name in ("graft", "eager", "frozen"):
            found = row["contenders"][name]
            self.assertGreater(found["ms"], 0)
            self.assertLess(found["difference"], 1e-4, name)
            self.assertGreater(found["kernels"], 0)
        self.assertGreater(row["contenders"]["eager"]["bytes"], 1e6)
        self.assertGreater(len(row["contenders"]["graft"]["callsWarm"]), 1)
        self.assertIn("| tcn |", (self.folder / "results.md").read_text())
        self.assertFalse(any((self.folder / "work").iterdir()), "files of the row are left")

        again = bench(self.folder, "--threads", "1", "--resume")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual(self.rows(), [row])

    def test_a_contender_that_takes_too_long_says_so(self):
        run = bench(self.folder, "--timeout", "0.05")
        self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
        [row] = self.rows()
        self.assertIn("did not end within 0.05 s", row["contenders"]["eager"]["why"])
        self.assertIn("did not end within 0.05 s", (self.folder / "results.md").read_text())

    def test_a_run_ends_in_time(self):
        run = bench(self.folder, "--minutes", "0.02")
        self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
        self.assertIn("1 rows were not reached", run.stdout)
        self.assertFalse((self.folder / "results.json").exists())

    def test_rows_on_a_gpu_are_timed_alone(self):
        from bench import Quiet
        quiet, lock, preparing, timed, wrong = Quiet(True), threading.Lock(), set(), [], []

        def prepare(row):
            with lock:
                preparing.add(row)
            time.sleep(0.01 * (1 + row % 3))
            with lock:
                preparing.discard(row)

        def alone(row):
            with lock:
                wrong.extend(preparing)
                timed.append(row)
            time.sleep(0.01)
            with lock:
                wrong.extend(preparing if timed[-1] == row else [row])

        def work(rows):
            for row in rows:
                quiet.prepare(lambda: prepare(row))
                quiet.alone(lambda: alone(row))

        threads = [threading.Thread(target=work, args=(range(first, 20, 4),)) for first in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        self.assertEqual(sorted(timed), list(range(20)))
        self.assertEqual(wrong, [])

    def test_calls_without_a_wait_have_a_table_of_their_own(self):
        import table
        found = {"graft": {"ms": 1.0, "queued": 0.5, "kernels": 2, "bytes": None, "ran": [["a", 1, 300.0], ["b", 1, 150.0]]},
                 "compile:default": {"ms": 2.0, "ratio": 2.0, "ratioP10": 1.9, "ratioP90": 2.1, "queued": 0.4, "queuedRatio": 0.8, "queuedRatioP10": 0.7, "queuedRatioP90": 0.9}}
        row = {"model": "tcn", "batch": 1, "device": "cuda", "dtype": "float16", "threads": 0, "machine": {}, "contenders": found}
        text = table.document([row], list(found))
        self.assertIn("| tcn | 1 | 2, 2.00 (1.90 to 2.10) |", text)
        self.assertIn("| tcn | 0.5 | 0.4, 0.80 (0.70 to 0.90) |", text)
        self.assertIn("calls without a wait: geometric mean 0.80", text)
        self.assertIn("| tcn | 2, 450 us |", text)
        del found["graft"]["queued"], found["compile:default"]["queued"]
        self.assertNotIn("nobody waits", table.document([row], list(found)))

    def test_sets_name_models_that_exist(self):
        import models
        self.assertGreaterEqual(len(models.ZOO), 24)
        self.assertEqual([name for name in models.SETS["all"] if not models.known(name)], [])
        self.assertEqual(len(set(models.SETS["all"])), len(models.SETS["zoo"]) + len(models.SETS["rules"]))


if __name__ == "__main__":
    unittest.main()
