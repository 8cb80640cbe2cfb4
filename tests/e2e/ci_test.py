"""What users' CI asks for: a linter of rule files, their cases, expectations that fail a job, JUnit XML."""

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


def swish(cases, replacement="F.silu(x)", more=""):
    """A rule file whose rule has these cases, of which the first line is line 10."""
    indented = "".join(f"        {line}\n" if line else "\n" for line in cases.splitlines())
    return HEAD + f'''class Swish(Rule):
    """x times its sigmoid.

    cases:
{indented}    """
{more}
    def pattern(x):
        return x * torch.sigmoid(x)

    def replacement(x):
        return {replacement}
'''


RIGHT = """given x: f32[2,8]; w: weight f32[8]
matches 1
    return x * torch.sigmoid(x)

matches 2    # the order of factors is free
    # a remark
    y = torch.sigmoid(x) * x

    return y * torch.sigmoid(y)
none operator
    return x * torch.tanh(x)
given i: i64[4]; t: weight b8[4]; x: f16[4]; n: weight i32[4]
none
    return torch.where(t, x, 0.0), i + n
"""


class Cases(TestCase):
    """graft test"""

    def fails_at(self, line, says, text, code=4):
        path = self.file("rules.py", text)
        run = graft("test", path)
        self.assertEqual(run.returncode, code, run.stdout + run.stderr)
        self.assertRegex(run.stdout, rf"(?m)^{path}:{line}:.*{says}")
        return run

    def test_cases_that_pass(self):
        path = self.file("rules.py", swish(RIGHT) + "\n\n" + SWISH[len(HEAD):].replace("Swish", "Other"))
        run = self.done("test", path)
        self.assertEqual(run.stdout, f"{path}: 4 of 4 cases passed; without cases: Other\n")
        document = self.json("test", path)["files"][0]
        self.assertEqual([(c["rule"], c["line"], c["passed"], c["failure"]) for c in document["cases"]],
                         [("Swish", line, True, None) for line in (11, 14, 19, 22)])
        self.assertEqual((document["untested"], document["mistakes"]), (["Other"], []))
        # The window and `graft check` see the description without them.
        self.done("check", path)

    def test_a_rule_that_matches_otherwise_than_its_case_says(self):
        self.fails_at(11, "Swish matches 1 time, expected 2", swish("given x: f32[2]\nmatches 2\n    return x * torch.sigmoid(x)\n"))
        self.fails_at(11, "Swish matches 0 times, expected 1; .*tanh", swish("given x: f32[2]\nmatches 1\n    return x * torch.tanh(x)\n"))
        self.fails_at(11, "Swish matches 1 time, expected 0", swish("given x: f32[2]\nnone\n    return x * torch.sigmoid(x)\n"))
        self.fails_at(11, 'for the reason "operator", expected "literal"', swish("given x: f32[2]\nnone literal\n    return x * torch.tanh(x)\n"))

    def test_a_replacement_that_computes_something_else(self):
        run = self.fails_at(11, "the replacement computes something else", swish(RIGHT, "F.gelu(x)"))
        self.assertIn("2 of 4 cases passed", run.stdout)
        self.assertIn("2 of 4 cases failed", run.stderr)
        self.done("test", self.file("rules.py", swish(RIGHT, "F.gelu(x)", more="\n    changes_numbers = True\n")))
        # Off by a little: `tolerance` allows for it, and no more than that.
        self.done("test", self.file("rules.py", swish(RIGHT, "F.silu(x) * 1.01", more="\n    tolerance = 0.02\n")))
        self.fails_at(11, "something else", swish(RIGHT, "F.silu(x) * 1.05", more="\n    tolerance = 0.02\n"))

    def test_a_case_that_is_wrong_is_told_at_its_own_line(self):
        case = "given x: f32[2,8]; w: weight f32[9]\nmatches 1\n"
        self.fails_at(13, "sigmoidd", swish(case + "    y = x\n    return torch.sigmoidd(y)\n"))
        self.fails_at(11, "size|shape", swish(case + "    return x + w\n"))
        self.fails_at(12, "q", swish(case + "    return q\n"))
        for text, line, says in ((case, 11, "has no model"), ("    return x\nnone\n", 11, "has no model|no `return`"),
                                 ("given x: bool[2]\n", 10, "b8 for bool"), ("given x\n", 10, "`x` gives no tensor"), ("given x: f32\n", 10, "gives no tensor"),
                                 ("given x: f32[s]\n", 10, "gives no tensor"), ("given 2x: f32[2]\n", 10, "gives no tensor"),
                                 ("matches\n", 10, "how often"), ("matches -1\n", 10, "how often"),
                                 ("none litteral\n    return x\n", 10, "did you mean literal"), ("nome\n", 10, "did you mean none")):
            with self.subTest(text):
                self.fails_at(line, says, swish(text), code=3)

    def test_a_file_without_cases_says_how_to_write_one(self):
        path = self.file("rules.py", SWISH)
        run = graft("test", path)
        self.assertEqual(run.returncode, 3)
        for line in ('"""', "cases:", "given x: f32[2,8]", "matches 1"):
            self.assertIn(line, run.stderr)
        # What it shows is a case that runs.
        shown = run.stderr[run.stderr.index("    class Swish"):].replace("\n    ", "\n")[4:]
        self.done("test", self.file("shown.py", HEAD + shown.rstrip() + SWISH[len(HEAD) + len("class Swish(Rule):"):]))
        # Beside one that has cases, it is no error.
        self.done("test", path, self.file("right.py", swish(RIGHT)))

    def test_several_files_and_what_ci_reads(self):
        good, bad = self.file("good.py", swish(RIGHT)), self.file("bad.py", swish(RIGHT.replace("matches 2", "matches 3")))
        broken, junit = self.file("broken.py", BROKEN), self.folder / "junit.xml"
        run = graft("test", good, bad, "--format", "github", "--junit", junit)
        self.assertEqual(run.returncode, 4)
        self.assertRegex(run.stdout, rf"^::error file={bad},line=14,col=1,title=graft test::Swish matches 2 times, expected 3")
        self.assertEqual(len(run.stdout.splitlines()), 1)
        suite = xml.etree.ElementTree.parse(junit).getroot().find("testsuite")
        self.assertEqual((suite.get("tests"), suite.get("failures")), ("8", "1"))
        self.assertIn(f"{bad}:14 Swish", [case.get("name") for case in suite])
        # A file that cannot be read stops no other.
        run = graft("test", broken, good)
        self.assertEqual(run.returncode, 3)
        self.assertIn(f"{broken}:8:", run.stdout)
        self.assertIn("4 of 4", run.stdout)
        self.assertEqual(graft("test", good, "--rule", "Swich").returncode, 2)

    def test_rules_are_tested_where_they_are_written(self):
        self.file("base.py", swish(RIGHT))
        path = self.file("more.py", HEAD + "from base import Swish\n\n\nclass Fast(Recipe):\n    steps = [Swish]\n")
        self.assertIn("no cases", graft("test", path).stderr)

    def test_the_shipped_examples(self):
        files = [path for path in sorted((SOURCE / "samples").glob("*/rules.py")) if "cases:" in path.read_text()]
        self.assertTrue(files)
        self.done("test", *files)


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
