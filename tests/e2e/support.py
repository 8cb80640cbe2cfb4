"""What the end-to-end tests share: where things are, running the program, and what every failure must look like."""

import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else SOURCE / "build"
GRAFT = BUILD / "bin" / "graft"
OPERATORS = BUILD / "lib" / "libgraft_ops.so"
SAMPLES = BUILD / "samples"
MINILM, SENTENCES = SAMPLES / "minilm.pt", SAMPLES / "sentences.pt"
RULES = SOURCE / "resources" / "rules" / "transformer.py"

sys.path.insert(0, str(SOURCE / "tests" / "support"))
import warm  # noqa: E402

warm.up(BUILD)


def graft(*arguments, timeout=120):
    """Runs the program to its end. Output is text; a signal's number comes back negative, as subprocess has it."""
    command = [str(GRAFT), *map(str, arguments)]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout)


class TestCase(unittest.TestCase):
    """A test with a folder of its own, `self.folder`, and the checks that all commands share."""

    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="graft-e2e-")
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)

    def file(self, name, content):
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def done(self, *arguments):
        run = graft(*arguments)
        self.assertEqual(run.returncode, 0, f"graft {' '.join(map(str, arguments))}\n{run.stdout}{run.stderr}")
        return run

    def json(self, *arguments):
        return json.loads(self.done(*arguments, "--json").stdout)

    def of_model(self, *arguments):
        """The report of the one model that a command was given which takes several."""
        document = self.json(*arguments)
        self.assertEqual(len(document["models"]), 1)
        return document["models"][0]

    def interrupt(self, command, delay, timeout=120):
        """Starts the command and presses Ctrl-C after `delay` seconds. A machine that is done by then skips the test."""
        process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=timeout)[1].decode()
        if process.returncode == 0:
            self.skipTest("this machine is done before it can be interrupted")
        # While libraries are still being loaded the signal itself ends the program, which a shell calls 130 too.
        self.assertIn(process.returncode, (130, -signal.SIGINT), said)

    def fails(self, code, *arguments, says=()):
        """Exits with `code`, says each of `says` on stderr (in any case of letters), and leaves no new file behind."""
        before = {path: path.stat().st_mtime_ns for path in self.folder.rglob("*")}
        run = graft(*arguments)
        what = f"graft {' '.join(map(str, arguments))}\nstdout: {run.stdout}\nstderr: {run.stderr}"
        self.assertEqual(run.returncode, code, what)
        self.assertTrue(run.stderr.strip(), f"said nothing on stderr: {what}")
        for word in [says] if isinstance(says, str) else says:
            self.assertIn(word.lower(), run.stderr.lower(), what)
        for noise in ("terminate called", "what():", "Exception raised from", "Segmentation"):
            self.assertNotIn(noise, run.stderr, what)
        after = {path: path.stat().st_mtime_ns for path in self.folder.rglob("*")}
        self.assertEqual(before, after, f"files were written or changed: {what}")
        return run


def main():
    unittest.main(verbosity=2)
