"""What users' CI asks for: a linter of rule files, expectations that fail a job, JUnit XML."""

import json
import unittest
import xml.etree.ElementTree

import torch

from support import SOURCE, TestCase, graft, main

HEAD = "import torch\nimport torch.nn.functional as F\nfrom graft import Recipe, Rule\n\n\n"
SWISH = HEAD + """class Swish(Rule):
    def pattern(x):
        return x * torch.sigmoid(x)

    def replacement(x):
        return F.silu(x)


class Fast(Recipe):
    steps = [Swish]
"""
BROKEN = HEAD + "class Swish(Rule):\n    def pattern(x):\n        return torch.sigmoidd(x)\n"


class Net(torch.nn.Module):
    def forward(self, x):
        y = x + 1
        return y * torch.sigmoid(y)


class Check(TestCase):
    def test_the_shipped_rules_are_right(self):
        files = sorted((SOURCE / "resources/rules").glob("*.py"))
        document = self.json("check", *files)
        self.assertEqual([f["mistakes"] for f in document["files"]], [[]] * len(files))
        self.assertIn("Attention", next(f for f in document["files"] if f["file"].endswith("transformer.py"))["rules"])

    def test_a_mistake_is_said_at_its_place_in_three_forms(self):
        good, bad = self.file("good.py", SWISH), self.file("bad.py", BROKEN)
        run = graft("check", good, bad)
        self.assertEqual(run.returncode, 3)
        self.assertIn("good.py: 1 rule, 1 recipe", run.stdout)
        self.assertIn(f"{bad}:8:", run.stdout)
        self.assertIn("1 of 2 rule files are wrong", run.stderr)

        run = graft("check", good, bad, "--json")
        self.assertEqual(run.returncode, 3)
        mistake = json.loads(run.stdout)["files"][1]["mistakes"][0]
        self.assertEqual((mistake["file"], mistake["line"]), (str(bad), 8))
        self.assertIn("sigmoidd", mistake["message"])

        run = graft("check", good, bad, "--format", "github")
        self.assertEqual(run.returncode, 3)
        self.assertRegex(run.stdout, rf"^::error file={bad},line=8,col=\d+,title=graft check::.*sigmoidd")
        self.assertEqual(len(run.stdout.splitlines()), 1)

    def test_checking_loads_no_library_unless_told_to(self):
        mark = self.folder / "ran"
        own = self.file("own.py", f"open({str(mark)!r}, 'w')\n")
        rules = self.file("rules.py", HEAD.replace("Rule\n", "Rule, library\n") + f"library('{own.name}')\n\n\n" + SWISH[len(HEAD):])
        graft("check", rules)
        self.assertFalse(mark.exists())
        graft("check", rules, "--load-libraries")
        self.assertTrue(mark.exists())


class Junit(TestCase):
    def setUp(self):
        super().setUp()
        self.models = self.folder / "models"
        self.models.mkdir()
        torch.jit.trace(Net(), torch.randn(4)).save(str(self.models / "a.pt"))
        torch.jit.trace(torch.nn.ReLU(), torch.randn(4)).save(str(self.models / "b.pt"))
        (self.models / "c.pt").write_bytes(b"no <model> & nothing")
        self.rules = self.file("rules.py", SWISH)
        self.out = self.folder / "fast"
        self.out.mkdir()

    def cases(self, path):
        suite = xml.etree.ElementTree.parse(path).getroot().find("testsuite")
        found = {}
        for case in suite.findall("testcase"):
            name = case.get("name").rpartition("/")[2]
            found[name] = next((child.tag for child in case), "passed")
            self.assertGreaterEqual(float(case.get("time")), 0)
        self.assertEqual(int(suite.get("tests")), len(found))
        self.assertEqual(int(suite.get("failures")), sum(kind == "failure" for kind in found.values()))
        return found

    def test_each_model_is_a_test(self):
        path = self.folder / "junit.xml"
        run = graft("apply", self.models, "--rules", self.rules, "-o", self.out, "--no-timing", "--junit", path)
        self.assertEqual(run.returncode, 3)
        self.assertEqual(self.cases(path), {"a.pt": "passed", "b.pt": "skipped", "c.pt": "failure"})

        run = graft("match", self.models, "--rules", self.rules, "--expect", "Swish=1", "--junit", path)
        self.assertNotEqual(run.returncode, 0)
        self.assertEqual(self.cases(path), {"a.pt": "passed", "b.pt": "failure", "c.pt": "failure"})
        kinds = {f.get("type") for f in xml.etree.ElementTree.parse(path).getroot().iter("failure")}
        self.assertEqual(kinds, {"expectation", "input"})

        graft("batch", self.models, "--rules", self.rules, "-o", self.folder / "batch", "--no-timing", "--junit", path)
        self.assertEqual(self.cases(path), {"a.pt": "passed", "b.pt": "skipped", "c.pt": "failure"})

    def test_a_result_that_is_too_slow_fails_and_one_that_may_be_fast_enough_does_not(self):
        words = ("apply", self.models / "a.pt", "--rules", self.rules, "-o", self.out / "a.pt", "--seconds", "0.2", "--input",
                 "f32[64]:randn")
        run = graft(*words, "--expect-speed", "1000")
        self.assertEqual(run.returncode, 4, run.stderr)
        self.assertIn("expected 1000 times", run.stderr)
        self.done(*words, "--expect-speed", "0.001")
        run = graft(*words[:6], "--no-timing", "--expect-speed", "2")
        self.assertEqual(run.returncode, 4)
        self.assertIn("not timed", run.stderr)


main()
