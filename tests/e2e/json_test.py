"""What each command prints with --json is what docs/json says: every document validates against its schema, which allows no key that
it does not describe, and every key is camelCase."""

import json
import re
import sys

import jsonschema
import referencing
import torch

from support import SOURCE, TestCase, graft, main

FOLDER = SOURCE / "docs/json"
NO_DOCUMENTS = {"common", "fusion"}  # what several have in common; a file that people write
SCHEMAS = {path.name.removesuffix(".schema.json"): json.loads(path.read_text()) for path in FOLDER.glob("*.schema.json")}
REGISTRY = referencing.Registry().with_resources(
    (schema["$id"], referencing.Resource.from_contents(schema)) for schema in SCHEMAS.values())
RULES = """import torch
import torch.nn.functional as F
from graft import Recipe, Rule


class Swish(Rule):
    def pattern(x):
        return x * torch.sigmoid(x)

    def replacement(x):
        return F.silu(x)


class Wrong(Rule):
    def pattern(x):
        return torch.tanh(x)

    def replacement(x):
        return torch.relu(x)


class Missed(Rule):
    def pattern(x):
        return torch.softmax(x, dim=0)

    def replacement(x):
        return torch.softmax(x, dim=0)


class All(Recipe):
    steps = [remove_dropout, Swish, Wrong, Missed]
"""


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down, self.dropout = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8), torch.nn.Dropout()

    def forward(self, x):
        y = self.up(x)
        return torch.softmax(torch.tanh(self.down(self.dropout(y * torch.sigmoid(y)))), dim=-1)


def properties(schema):
    """Every key that a schema allows, at any depth."""
    if isinstance(schema, list):
        for part in schema:
            yield from properties(part)
    elif isinstance(schema, dict):
        yield from schema.get("properties", {})
        for key, value in schema.items():
            yield from properties(list(value.values()) if key in ("properties", "$defs") else value)


def open_objects(schema, at=""):
    """Where a schema lists properties and allows others, too."""
    if isinstance(schema, list):
        for k, part in enumerate(schema):
            yield from open_objects(part, f"{at}/{k}")
    elif isinstance(schema, dict):
        if "properties" in schema and schema.get("type") == "object" and schema.get("additionalProperties") is not False:
            yield at
        for key, value in schema.items():
            yield from open_objects(value, f"{at}/{key}")


class Schemas(TestCase):
    """The schemas themselves."""

    def test_each_is_a_schema_that_allows_only_what_it_describes(self):
        for name, schema in SCHEMAS.items():
            with self.subTest(name):
                jsonschema.Draft202012Validator.check_schema(schema)
                self.assertEqual(schema["$id"], f"{name}.schema.json")
                self.assertEqual(list(open_objects(schema)), [])
                if name not in NO_DOCUMENTS:
                    self.assertIn("schema", schema["required"])

    def test_keys_are_camel_case(self):
        for name, schema in SCHEMAS.items():
            wrong = {key for key in properties(schema) if not re.fullmatch(r"[a-z][a-zA-Z0-9]*", key)}
            self.assertEqual(wrong, set(), name)

    def test_each_command_with_json_has_one_and_the_index_names_it(self):
        commands = re.findall(r"(?m)^  ([a-z]+) +\S", self.done("--help").stdout.split("Subcommands:")[1].split("Exit codes")[0])
        wanted = {c for c in commands if "--json" in self.done(c, "--help").stdout}
        self.assertEqual(set(SCHEMAS) - NO_DOCUMENTS, wanted)
        self.assertGreater(len(wanted), 10)
        index = (FOLDER / "README.md").read_text()
        for name in SCHEMAS:
            self.assertIn(f"({name}.schema.json)", index)


class Documents(TestCase):
    """What the commands print."""

    def setUp(self):
        super().setUp()
        torch.manual_seed(0)
        net, x = Net().eval(), torch.randn(4, 8)
        self.net, self.x, self.inputs = self.folder / "net.pt", x, self.folder / "in.pt"
        torch.jit.trace(net, x).save(str(self.net))
        torch.export.save(torch.export.export(net, (x,), dynamic_shapes=({0: torch.export.Dim.AUTO},)), self.folder / "net.pt2")
        with torch.no_grad():
            net.down.weight.mul_(1.5)
        self.other = self.folder / "other.pt"
        torch.jit.trace(net, x).save(str(self.other))
        torch.save((x,), self.inputs)
        self.rules = self.file("rules.py", RULES)
        self.given = ("--inputs", self.inputs)

    def valid(self, document, command):
        jsonschema.Draft202012Validator(SCHEMAS[command], registry=REGISTRY).validate(document)
        self.assertEqual(document["schema"], 1)
        return document

    def check(self, command, *arguments, code=0):
        run = graft(command, *arguments, "--json")
        self.assertEqual(run.returncode, code, run.stderr)
        return self.valid(json.loads(run.stdout), command)

    def test_looking(self):
        for model in (self.net, self.folder / "net.pt2"):
            self.check("info", model)
            for command in ("report", "code", "text", "modules"):
                self.assertNotIn("verification", self.check(command, model))
                self.assertIn("verification", self.check(command, model, "--rules", self.rules))
        for form in ("groups", "loops", "cpp", "cuda", "ptx"):
            self.assertEqual(self.check("code", self.net, *self.given, "--as", form)["as"], form)
        self.check("draw", self.net, "-o", self.folder / "g.svg")
        self.check("check", self.rules)
        self.check("check", self.file("wrong.py", RULES.replace("F.silu", "F.siluu")), code=3)
        cases = 'class Swish(Rule):\n    """\n    cases:\n        given x: f32[2]\n        matches 1\n            return {}\n    """\n'
        for body, code in (("x * torch.sigmoid(x)", 0), ("x", 4), ("y", 4)):
            self.check("test", self.file("cases.py", RULES.replace("class Swish(Rule):\n", cases.format(body))), code=code)
        self.check("test", self.file("wrong.py", RULES.replace("F.silu", "F.siluu")), code=3)
        self.check("kernels")

    def test_branches_and_loops(self):
        @torch.jit.script
        def loop(x: torch.Tensor, n: int):
            for i in range(n):
                if i > 1:
                    x = x * i
            return {"x": x, "pair": (x, 1.5)}

        loop.save(str(self.folder / "loop.pt"))
        self.check("info", self.folder / "loop.pt")
        self.assertIn("blocks", json.dumps(self.check("text", self.folder / "loop.pt")))

    def test_matching(self):
        found = self.check("match", self.net, "--rules", self.rules, *self.given)["models"][0]
        self.assertEqual({r["name"]: (r["matches"], len(r["at"])) for r in found["rules"]},
                         {"Swish": (1, 1), "Wrong": (1, 1), "Missed": (0, 0)})
        self.assertEqual(len(self.check("match", self.net, self.other, "--rules", self.rules)["models"]), 2)
        why = self.check("explain", self.net, "--rules", self.rules, "--rule", "Missed")
        self.assertTrue(why["nearMisses"][0]["edits"])

    def test_without_rules(self):
        found = self.check("match", self.net, *self.given)["models"][0]
        self.assertIn({"name": "Linear", "rewrites": 2}, found["recipes"][0]["rules"])
        self.assertEqual(found["rules"], [])
        common = (*self.given, "--seconds", "0.05", "--budget", "2", "-o", self.folder / "fast.pt", "--allow-unchanged")
        report = self.folder / "report.json"
        document = self.check("optimize", self.net, *common, "--report", report)
        self.assertEqual(self.valid(json.loads(report.read_text()), "optimize"), document)
        self.assertTrue(document["recipes"] and document["result"]["output"])
        alone = self.folder / "alone.pt"
        torch.jit.trace(torch.nn.Sigmoid(), self.x).save(str(alone))
        self.assertEqual(self.check("match", alone, *self.given)["models"][0]["recipes"], [])
        unchanged = self.check("optimize", alone, *self.given, "-o", self.folder / "none.pt", code=7)
        self.assertTrue(unchanged["advice"] and unchanged["result"]["unchanged"])

    def test_rewriting(self):
        out, report = self.folder / "out.pt", self.folder / "report.json"
        common = ("--rules", self.rules, "--recipe", "All", *self.given, "-o", out)
        document = self.check("apply", self.net, *common, "--seconds", "0.05", "--report", report)
        self.assertEqual(self.valid(json.loads(report.read_text()), "apply"), document)
        [model] = document["models"]
        self.assertTrue(model["verification"]["passed"])
        steps = {s["name"]: s for s in model["steps"]}
        self.assertEqual(steps["Swish"]["records"][0]["verification"]["verdict"], "verified")
        self.assertEqual(steps["Wrong"]["rolledBack"][0]["verification"]["verdict"], "failed")
        skipped = self.check("apply", self.net, *common, "--no-verify")["models"][0]
        self.assertEqual(skipped["verification"], {"passed": None, "skipped": True})
        refused = self.check("apply", self.net, *common, "--whole-only", "--no-timing", code=5)["models"][0]
        self.assertFalse(refused["verification"]["passed"] or "output" in refused)
        missed = self.file("missed.py", RULES.split("class Swish")[0] + "class Missed" + RULES.split("class Missed")[1].split("class All")[0])
        for allowed, code in (((), 7), (("--allow-unchanged",), 0)):
            unchanged = self.check("apply", self.net, "--rules", missed, *self.given, "-o", out, *allowed, code=code)["models"][0]
            self.assertTrue(unchanged["unchanged"])
            self.assertEqual("output" in unchanged, bool(allowed))

    def test_batches(self):
        broken, report = self.file("broken.pt", "no model"), self.folder / "report.json"
        common = (self.net, broken, "--rules", self.rules, "-o", self.folder / "fast", "--no-timing", "--report", report)
        document = self.check("batch", *common, code=3)
        self.assertEqual(self.valid(json.loads(report.read_text()), "batch"), document)
        self.assertEqual([m["outcome"] for m in document["models"]], ["done", "failed"])
        self.assertEqual([m["resumed"] for m in self.check("batch", *common, code=3)["models"]], [True, False])

    def test_other_numbers_on_purpose(self):
        rules = self.file("purpose.py", RULES.replace("class Wrong(Rule):\n", "class Wrong(Rule):\n    changes_numbers = True\n\n"))
        model = self.check("apply", self.net, "--rules", rules, *self.given, "--no-timing", "-o", self.folder / "out.pt")["models"][0]
        verdicts = {r["verification"]["verdict"] for s in model["steps"] for r in s["records"]}
        self.assertIn("measured", verdicts)

    def test_writing_and_running(self):
        self.check("convert", self.net, "-o", self.folder / "c.pt2")
        out = self.folder / "out.pt"
        self.check("run", self.net, *self.given, "-o", out)
        self.check("run", self.net, *self.given, "--expect", out)
        torch.save(torch.full((4, 8), float("nan")), out)
        self.check("run", self.net, *self.given, "--expect", out, code=5)
        torch.save(torch.zeros(4, 9), out)
        self.check("run", self.net, *self.given, "--expect", out, code=5)
        self.check("profile", self.net, *self.given, "--repetitions", "2")

    def test_training(self):
        sys.path.insert(0, str(SOURCE / "resources/python"))
        import graft_fx

        step = self.folder / "step.fx"
        net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.1)).train()
        graft_fx.capture(net, (torch.randn(3, 4),), step, joint=True)
        for method in ("joint", "forward", "backward"):
            self.assertIsNotNone(self.check("info", step, "--method", method)["signature"])
        self.check("partition", step, "-o", self.folder / "half.pt")
        self.check("partition", step, "--no-verify", "--curve")

    def test_comparing(self):
        self.check("compare", self.net, self.net, *self.given, "--seconds", "0.05")
        self.check("compare", self.net, self.other, *self.given, "--seconds", "0.05", "--layers", code=5)
        table = self.check("compare", self.net, self.net, self.other, *self.given, "--seconds", "0.05", code=5)
        self.assertEqual([row["passed"] for row in table["models"]], [True, True, False])

    def test_benchmarks(self):
        rules = self.file("swish.py", RULES.split("class Wrong")[0])
        common = (self.net, "--rules", rules, *self.given, "--seconds", "0.05")
        self.check("bench", *common)
        document = self.check("bench", *common, "--against", "eager,jit")
        self.assertEqual([m["mode"] for m in document["models"][0]["baselines"]["modes"]], ["eager", "jit"])

    def test_benchmarks_of_training(self):
        net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 2))
        path = self.folder / "train.pt2"
        torch.export.save(torch.export.export(net, (torch.randn(3, 4),)), path)
        document = self.check("bench", path, "--train", "--against", "eager,graft", "--seconds", "0.05")
        eager, own = document["models"][0]["training"]["modes"]
        self.assertEqual([eager["mode"], own["mode"]], ["eager", "graft"])
        self.assertEqual(len(eager["losses"]), len(own["losses"]))
        for a, b in zip(eager["losses"], own["losses"]):
            self.assertAlmostEqual(a, b, places=5)
        self.assertGreater(eager["peakBytes"], 0)
        self.assertGreater(own["ratio"], 0)


main()
