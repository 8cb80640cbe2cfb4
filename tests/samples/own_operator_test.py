"""The sample with an operator of one's own: the commands of its README, as they are printed, from a folder like the repository's.

    own_operator_test.py BUILD_FOLDER
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import torch

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
SOURCE = pathlib.Path(__file__).resolve().parents[2]
SAMPLE = SOURCE / "samples/own_operator"


def commands(text):
    """The indented lines, those that end in a backslash joined."""
    lines = "\n".join(line for line in text.splitlines() if line.startswith("    "))
    return [" ".join(c.split()) for c in re.sub(r"\\\n", " ", lines).splitlines()]


class Readme(unittest.TestCase):
    @unittest.skipUnless(os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++"), "there is no C++ compiler")
    def test_the_commands_work_as_printed(self):
        with tempfile.TemporaryDirectory() as holder:
            folder = pathlib.Path(holder)
            shutil.copytree(SAMPLE, folder / "samples/own_operator", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
            (folder / "build").mkdir()
            for name in ("bin", "lib"):
                (folder / "build" / name).symlink_to(BUILD / name)
            said = {}
            for command in commands((SAMPLE / "README.md").read_text()):
                words = command.split()
                program = [sys.executable] if words[0] == ".venv/bin/python" else [words[0]]
                run = subprocess.run(program + words[1:], cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                                     env=os.environ | {"GRAFT_PYTHON": sys.executable})
                self.assertEqual(run.returncode, 0, f"{command}\n{run.stdout}{run.stderr}")
                said[command] = run.stdout + run.stderr
            self.assertEqual(len(said), 7)
            apply, = [text for command, text in said.items() if " apply " in command]
            self.assertRegex(apply, r"GroupNormSilu +17 +17 of 17 ")
            self.assertNotIn("not verified", apply)
            info, = [text for command, text in said.items() if " info " in command]
            self.assertIn("lacks own.group_norm_silu.default", info)
            self.assertIn("libown_ops.so", info)
            difference, = [text for command, text in said.items() if "run.py" in command]
            self.assertLess(float(difference.split(":")[1]), 1e-4)

    def test_the_operator_in_python_says_what_it_computes(self):
        sys.path.insert(0, str(SAMPLE))
        import own_ops  # noqa: F401
        x, w, b = torch.randn(2, 8, 5, 5), torch.randn(8), torch.randn(8)
        expected = torch.nn.functional.silu(torch.nn.functional.group_norm(x, 4, w, b, 1e-5))
        torch.testing.assert_close(torch.ops.own.group_norm_silu(x, 4, w, b, 1e-5), expected)
        torch.library.opcheck(torch.ops.own.group_norm_silu.default, (x, 4, w, b, 1e-5), test_utils=("test_schema", "test_faketensor"))


unittest.main(verbosity=2)
