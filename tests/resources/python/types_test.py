"""Types for editors: the stubs of the operators are those of the program, and mypy and pyright find nothing wrong in the shipped rule
files."""

import importlib.util
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else SOURCE / "build"


class Stubs(unittest.TestCase):
    def test_they_are_those_of_the_operators(self):
        made = subprocess.run([sys.executable, SOURCE / "resources/package/write_stubs.py", BUILD / "bin/graft"], capture_output=True,
                              text=True, check=True).stdout
        self.assertEqual(made, (SOURCE / "resources/python/graft/kernels.pyi").read_text(), "run write_stubs.py PROGRAM --write")
        for rules in (SOURCE / "resources/rules").glob("*.py"):
            for name in re.findall(r"\bkernels\.(\w+)\(", rules.read_text()):
                self.assertIn(f"def {name}(", made)


WRONG = """from graft import Rule, kernels


class Wrong(Rule):
    def pattern(x, n: int):
        return kernels.linear(x, no_such_name, scale='a')
"""


@unittest.skipIf(importlib.util.find_spec("mypy") is None, "mypy is not installed")
class Types(unittest.TestCase):
    def mypy(self, *files):
        return subprocess.run([sys.executable, "-m", "mypy", "--config-file", SOURCE / "pyproject.toml", "--cache-dir",
                               BUILD / "mypy_cache", *files], capture_output=True, text=True, cwd=SOURCE)

    def test_the_shipped_rules_have_no_mistake_and_a_wrong_one_is_found(self):
        shipped = sorted((SOURCE / "resources/rules").glob("*.py"))
        self.assertGreaterEqual(len(shipped), 4)
        with tempfile.TemporaryDirectory() as folder:
            wrong = pathlib.Path(folder) / "wrong.py"
            wrong.write_text(WRONG)
            run = self.mypy(*shipped, wrong)
        lines = [line for line in run.stdout.splitlines() if ": error:" in line]
        self.assertTrue(lines, run.stdout + run.stderr)
        self.assertEqual([line for line in lines if "wrong.py" not in line], [])
        self.assertIn('"no_such_name" is not defined', run.stdout)
        self.assertIn('keyword argument "scale"', run.stdout)


# No package of requirements.txt, as it needs Node.js: run this test by a Python that has `pyright[nodejs]`.
@unittest.skipIf(importlib.util.find_spec("pyright") is None, "pyright is not installed")
class Pyright(unittest.TestCase):
    def mistakes(self, *files):
        """The file and the rule of each mistake that it finds with the settings of pyproject.toml."""
        run = subprocess.run([sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, *files], capture_output=True,
                             text=True, cwd=SOURCE)
        found = json.loads(run.stdout)
        self.assertEqual(found["summary"]["filesAnalyzed"], len(files), run.stderr)
        return [(pathlib.Path(f["file"]).name, f.get("rule")) for f in found["generalDiagnostics"]]

    def test_the_shipped_rules_have_no_mistake_and_a_wrong_one_is_found(self):
        self.assertEqual(self.mistakes(*sorted((SOURCE / "resources/rules").glob("*.py"))), [])
        with tempfile.TemporaryDirectory(dir=BUILD) as folder:
            wrong = pathlib.Path(folder) / "wrong.py"
            wrong.write_text(WRONG)
            found = self.mistakes(wrong)
        self.assertIn(("wrong.py", "reportUndefinedVariable"), found)
        self.assertIn(("wrong.py", "reportCallIssue"), found)


if __name__ == "__main__":
    unittest.main(verbosity=2)
