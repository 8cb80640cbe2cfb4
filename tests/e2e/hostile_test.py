"""Files that lie, from outside: exit code 3, one message that names the file, at most 5 s, at most twice the file's size and 200 MB of
memory more than a good file takes, and nothing written. The files are those of tests/core/formats/make_fixtures.py."""

import os
import pathlib
import subprocess
import time

from support import BUILD, GRAFT, TestCase, main

FIXTURES = BUILD / "tests/core/formats/fixtures"
MARK = pathlib.Path("/tmp/graft_fixture_was_run")  # what the file with __setstate__ would write


def run(path, folder):
    """Exit code, stderr, seconds and peak memory of `graft info`."""
    with open(folder / "stderr", "w+b") as errors:
        start = time.monotonic()
        process = subprocess.Popen([GRAFT, "info", path], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, cwd=folder)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - start
        errors.seek(0)
        return process.returncode, errors.read().decode(errors="replace"), seconds, usage.ru_maxrss * 1024


class Hostile(TestCase):
    def test_each_is_refused_in_time_and_memory(self):
        names = (FIXTURES / "hostile.txt").read_text().split()
        self.assertGreater(len(names), 45)
        MARK.unlink(missing_ok=True)
        code, said, _, usual = run(FIXTURES / "net.pt", self.folder)
        self.assertEqual(code, 0, said)
        slowest = biggest = 0
        for name in names:
            with self.subTest(name):
                path = FIXTURES / name
                code, said, seconds, memory = run(path, self.folder)
                self.assertEqual(code, 3, said)
                self.assertIn(name, said)
                for noise in ("terminate called", "what():", "Exception raised from", "Segmentation"):
                    self.assertNotIn(noise, said)
                size = path.stat().st_size if path.is_file() else 0
                self.assertLess(seconds, 5)
                self.assertLess(memory, usual + 2 * size + (200 << 20))
                slowest, biggest = max(slowest, seconds), max(biggest, memory - usual - 2 * size)
        self.assertEqual([p.name for p in self.folder.iterdir()], ["stderr"])
        self.assertFalse(MARK.exists())
        print(f"{len(names)} files, at most {slowest:.1f} s and {biggest / 2**20:.0f} MB more than a good one")


main()
