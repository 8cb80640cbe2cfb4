"""The scripted engine speaks like the real one: the same keys, nested, and the same types of values.

    fake_engine_test.py BUILD       BUILD/bin/graft tells what notices look like; without it only answers are compared

The real answers are the recorded transcripts of tests/app/engine. For each method that the scripted engine knows,
  - every key that it sends is in a real answer at the same place, with a value of the same JSON type;
  - every key that all real answers have there, and that the window reads, is in each of its answers.
What the window reads are the keys that stand as literals in the sources of views/ and in the reader of graphs.
"""

import json
import pathlib
import re
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[2]
sys.path.insert(0, str(SOURCE / "tests" / "support"))
from engine_client import Engine  # noqa: E402

BUILD = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else None
TRANSCRIPTS = SOURCE / "tests" / "app" / "engine" / "transcripts"
ANY = "<any>"  # in a transcript: a value that differs from run to run

# Objects whose keys are names of nodes, operators or symbols, not words of the protocol.
MAPS = {"map", "patternLines", "operators", "symbols"}
MAPS_BY_SIDE = {"calls", "nodeTimes"}  # "original" and "rewritten", each a map
# A node's arguments are of any type: tests of core/json hold their form.
ARGUMENTS = {"args", "kwargs", "returns", "constructor"}

RULES = """class Attention(Rule):
    # match: matmul, div, add, softmax, matmul
    def pattern(q, k, v, mask):
        return torch.matmul(torch.softmax(torch.matmul(q, k) / 4 + mask, dim=-1), v)

    def replacement(q, k, v, mask):
        return kernels.attention(q, k, v, mask)
"""
NEAR = RULES.replace("dim=-1", "dim=1")
WRONG = RULES.replace("class Attention", "class WrongAttention")


class Shape:
    """What values at one place of all answers look like."""

    def __init__(self):
        self.types, self.fields, self.objects, self.items, self.is_any = set(), {}, 0, None, False

    def add(self, value, name=""):
        if value == ANY or name in ARGUMENTS:
            self.is_any = True
        elif isinstance(value, dict):
            self.types.add("object")
            self.objects += 1
            for key, inner in value.items():
                place = "*" if name in MAPS else key
                inner_name = "map" if name in MAPS_BY_SIDE else "" if name in MAPS else key
                shape, count = self.fields.get(place, (Shape(), 0))
                shape.add(inner, inner_name)
                self.fields[place] = (shape, count + 1)
        elif isinstance(value, list):
            self.types.add("array")
            self.items = self.items or Shape()
            for inner in value:
                self.items.add(inner)
        else:
            self.types.add("null" if value is None else "bool" if isinstance(value, bool) else "number" if isinstance(value, (int, float)) else "string")
        return self

    def always(self):
        return {key for key, (_, count) in self.fields.items() if count == self.objects and key != "*"}


def lies(fake, real, read, where):
    """How the scripted engine's shape differs from the real one's, as messages."""
    if fake.is_any or real.is_any:
        return
    # A value that is null in all transcripts may be anything else elsewhere.
    if fake.types - real.types and real.types - {"null"}:
        yield f"{where}: sends {', '.join(sorted(fake.types - real.types))}, the real engine {', '.join(sorted(real.types))}"
    if real.objects and fake.objects:
        for key in sorted(fake.fields.keys() - real.fields.keys()):
            yield f"{where}/{key}: the real engine sends no such key"
        for key in sorted((real.always() & read) - fake.always()):
            yield f"{where}/{key}: is missing, and the window reads it"
        for key in sorted(fake.fields.keys() & real.fields.keys()):
            yield from lies(fake.fields[key][0], real.fields[key][0], read, f"{where}/{key}")
    if fake.items and real.items:
        yield from lies(fake.items, real.items, read, where + "/*")


def keys_that_are_read():
    sources = [*(SOURCE / "views").rglob("*.cpp"), *(SOURCE / "views").rglob("*.h"), *(SOURCE / "core" / "json").glob("*_reader.cpp")]
    return {key for path in sources for key in re.findall(r'"([A-Za-z]+)"', path.read_text())}


def recorded_shapes():
    """By method: the shape of all recorded results."""
    shapes = {}
    for path in TRANSCRIPTS.glob("*.json"):
        for exchange in json.loads(path.read_text()):
            if "result" in exchange:
                shapes.setdefault(exchange["method"], Shape()).add(exchange["result"])
    # One writer makes all plans of kernels: what one answer has may stand in the others.
    plans = shapes["compile/plan"]
    edits = shapes["compile/edit"]
    for path in TRANSCRIPTS.glob("compile_*.json"):
        for exchange in json.loads(path.read_text()):
            if exchange["method"] == "compile/steer" and "result" in exchange:
                plans.add(exchange["result"])
            if exchange["method"] == "compile/edit" and "result" in exchange:
                plans.add(exchange["result"]["kernels"])
    shapes["compile/steer"] = plans
    edits.fields["kernels"] = (plans, edits.fields["kernels"][1])
    return shapes


class FakeEngine(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.real, cls.read = recorded_shapes(), keys_that_are_read()

    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="graft-fake-engine-")
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        self.model = self.folder / "model.pt"
        self.model.write_bytes(b"")
        self.engine = Engine([sys.executable, HERE / "fake_engine.py"])
        self.addCleanup(self.engine.kill)
        self.shapes = {}

    def ask(self, method, /, **params):
        message = self.engine.ask(method, **params)
        self.assertIn("result", message, message)
        self.shapes.setdefault(method, Shape()).add(message["result"])
        return message["result"]

    def converse(self):
        """Every method that the window calls, in the ways in which the answers differ."""
        self.ask("initialize")
        self.ask("rules/words")
        document = self.ask("model/open", path=str(self.model))["document"]
        other = self.ask("model/open", path=str(self.model))["document"]
        for text in (RULES, "syntax error"):
            self.ask("rules/check", text=text, file="")
        rules = {"document": document, "text": RULES, "file": ""}
        self.ask("rules/match", **rules)
        self.ask("rules/explain", document=document, text=NEAR, file="", rule="Attention")
        self.ask("rules/apply", **rules, rule="Attention", preview=True)
        self.ask("rules/apply", document=document, text=WRONG, file="", rule="WrongAttention", only=[0, 1], verify=True)
        self.ask("rules/apply", **rules, recipe="All", verify=True)
        self.ask("model/optimize", document=other)
        self.ask("model/optimize", document=other)  # nothing is left to do
        third = self.ask("model/open", path=str(self.model))["document"]
        self.ask("model/optimize", document=third, plan={"recipes": [], "operators": []})
        self.ask("model/diff", document=document)
        self.ask("model/captured", document=document)
        self.ask("model/timeline", document=document, seconds=0.1)
        self.ask("model/undoTo", document=document, step=2, inside=1)
        self.ask("model/undoTo", document=document, step=0)
        self.ask("node/describe", document=document, node="softmax")
        self.ask("node/source", document=document, node="softmax")
        self.ask("node/weight", document=document, name="encoder_layer_0_dense_weight")
        self.ask("model/run", document=document, seconds=0.1)
        self.ask("model/sideBySide", document=document, models=[{"step": 0, "name": "opened"}, {"document": other, "step": 0, "name": "other"}])
        self.ask("model/undoTo", document=document, step=0)
        for measure in (False, True):
            self.ask("compile/plan", document=document, measure=measure)
        self.ask("compile/steer", document=document, add={"apart": [["div", "add"]], "merge": [["matmul", "div"]]})
        self.ask("compile/steer", document=document, text='{"fusion": 1}')
        own = self.ask("compile/plan", document=document)
        self.assertNotEqual(own["kernels"], self.ask("compile/plan", document=document, text='{"fusion": 1, "automatic": false}')["kernels"])
        self.assertEqual(own, self.ask("compile/plan", document=document))
        self.ask("compile/usage", document=document)
        for form in ("loops", "cpp", "cuda"):
            self.ask("compile/code", document=document, kernel="0", **{"as": form})
        for loops in ("loops 1", "wrong", "syntax error"):
            self.ask("compile/edit", document=document, kernel="0", loops=loops, measure=True)
        self.ask("compile/apply", document=document, verify=True)
        self.ask("compile/plan", document=document, measure=True)
        self.ask("model/export", document=document, path=str(self.folder / "out.pt"))
        self.ask("model/close", document=other)
        capture = self.folder / "broken.fx"
        capture.write_bytes(b"")
        document = self.ask("model/open", path=str(capture), method="forward.1")["document"]
        self.ask("captured/graphs", document=document)
        step = self.folder / "step.fx"
        step.write_bytes(b"")
        document = self.ask("model/open", path=str(step), method="joint")["document"]
        self.ask("training/cut", document=document, memory=0.6, save=["linear"], curve=True)

    def test_patterns_that_the_client_holds_are_left_out(self):
        whole = self.ask("rules/check", text=RULES, file="")["rules"]
        held = [rule["fingerprint"] for rule in whole]
        moved = self.engine.ask("rules/check", text="\n" + RULES, file="", held=held)["result"]["rules"]
        large = {"parameters", "pattern", "patternLines"}
        self.assertEqual(moved, [{**{k: v for k, v in r.items() if k not in large}, "line": r["line"] + 1} for r in whole])

    def test_answers_are_shaped_like_the_recorded_ones(self):
        self.converse()
        called = set(re.findall(r'"((?:model|rules|node|captured|training|compile)/\w+|initialize)"', "\n".join(p.read_text() for p in (SOURCE / "views").rglob("*.cpp"))))
        self.assertEqual(called - self.shapes.keys(), set(), "methods that the window calls and this test does not")
        self.assertEqual(self.shapes.keys() - self.real.keys(), set(), "methods without a transcript")
        found = [lie for method, shape in sorted(self.shapes.items()) for lie in lies(shape, self.real[method], self.read, method)]
        self.assertEqual(found, [], "\n" + "\n".join(found))

    def test_errors_are_shaped_like_the_recorded_ones(self):
        real, fake = Shape(), Shape()
        for path in TRANSCRIPTS.glob("*.json"):
            for exchange in json.loads(path.read_text()):
                if "error" in exchange:
                    real.add(exchange["error"])
        fake.add(self.engine.ask("model/open", path=str(self.folder / "none.pt"))["error"])
        self.assertEqual(list(lies(fake, real, self.read, "error")), [])

    def test_notices_are_shaped_like_the_real_ones(self):
        graft = BUILD / "bin" / "graft" if BUILD else None
        if not graft or not graft.exists():
            self.skipTest("the engine is not built")
        text = self.folder / "model.txt"
        text.write_text("graph g {\n input %x : f32[4]\n %y = aten.relu.default(%x) : f32[4]\n return %y\n}\n")
        shapes = []
        for engine, path in ((Engine([graft, "engine"]), text), (self.engine, self.model)):
            if engine is not self.engine:
                self.addCleanup(engine.kill)
            document = engine.ask("model/open", path=str(path), graph="parts")["result"]["document"]
            engine.ask("model/run", document=document, seconds=0.2, baseline="graft")
            by_method = {}
            for notice in engine.notices:
                params = {**notice["params"], **({"graph": ANY} if "graph" in notice["params"] else {})}
                by_method.setdefault(notice["method"], Shape()).add(params)
            shapes.append(by_method)
        real, fake = shapes
        self.assertEqual(set(fake), {"$/graph", "$/progress"})
        self.assertEqual(set(fake) - set(real), set())
        found = [lie for method in fake for lie in lies(fake[method], real[method], self.read, method)]
        self.assertEqual(found, [])

    def test_a_lie_is_found(self):
        real = Shape().add({"rules": [{"name": "A", "line": 1, "lines": {"a": 1}}], "ms": ANY})
        for fake, words in (({"rules": [{"name": "A", "line": "1"}], "ms": 1}, "sends string"),
                            ({"rules": [{"name": "A", "line": 1, "nome": "A"}], "ms": 1}, "no such key"),
                            ({"rules": [{"line": 1}], "ms": 1}, "is missing"),
                            ({"rules": {}, "ms": 1}, "sends object")):
            self.assertTrue(any(words in lie for lie in lies(Shape().add(fake), real, {"name"}, "m")), words)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
