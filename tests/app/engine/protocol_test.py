"""The engine's protocol: what `graft engine` answers, method by method, against recorded transcripts.

    protocol_test.py BUILD            plays transcripts/*.json and compares every answer
    protocol_test.py BUILD --record   writes the answers of this build into them, to be read before they are committed

A transcript is a list of exchanges {"method", "params", "result" or "error"}. Those with "setup" only prepare and must work.
"<any>" stands for what differs from run to run, {model} and {folder} for paths. Floating-point numbers are equal to six digits.
"""

import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import torch

from attention_model import Attention
from broken_model import Broken

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[2]
sys.path.insert(0, str(SOURCE / "tests" / "support"))
from engine_client import SECONDS, Engine  # noqa: E402
sys.path.insert(0, str(SOURCE / "resources" / "python"))
import graft_fx  # noqa: E402

BUILD = pathlib.Path(sys.argv[1]).resolve()
RECORD = "--record" in sys.argv
VOLATILE = {"words", "ms", "medianMs", "p10Ms", "p90Ms", "samplesMs", "repetitions", "ratio", "speed", "ratioLow", "ratioHigh", "protocol", "description", "rmse", "rmseRatio", "maxRel", "ulpHistogram", "operatorsUs", "kernelUs", "generatedUs", "measuredUs", "leastUs", "report", "modelUs", "how", "lanes", "launches", "problem", "fingerprint"}
ANY = "<any>"


# What the second one adds takes the names of nodes that the first one removed: a product of other numbers.
SAME_NAMES = """
import torch
from graft import Rule


class ScaledQueries(Rule):
    def pattern(q, k, scale: float):
        return torch.softmax(torch.matmul(q, k) / scale, dim=-1)

    def replacement(q, k, scale: float):
        return torch.softmax(torch.matmul(q / scale, k), dim=-1)


class ScaledKeys(Rule):
    def pattern(q, k, scale: float):
        return torch.softmax(torch.matmul(q / scale, k), dim=-1)

    def replacement(q, k, scale: float):
        return torch.softmax(torch.matmul(q, k / scale), dim=-1)
"""
KERNEL_RULE = """
import torch
from graft import Rule, kernels


class Scores(Rule):
    def pattern(x, scale: float):
        return torch.softmax(x / scale, dim=-1)

    def replacement(x, scale: float):
        return kernels.masked_softmax(x, None, scale=1 / scale, dim=-1)
"""


def make_model(folder):
    """Weights and shapes are the same everywhere."""
    model = Attention().eval()
    with torch.no_grad():
        for i, p in enumerate(model.parameters()):
            p.copy_(torch.linspace(-0.5, 0.5, p.numel()).reshape(p.shape) * (1 + i))
    x = torch.linspace(-1, 1, 32).reshape(1, 4, 8)
    torch.jit.trace(model, x).save(str(folder / "model.pt"))
    torch.save([x], folder / "inputs.pt")
    torch.jit.trace(torch.sin, x).save(str(folder / "sine.pt"))  # that no recipe fits


def make_captures(folder):
    """A training step, and a model whose capture breaks."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.GELU(), torch.nn.Linear(32, 4))
    x = torch.linspace(-1, 1, 16).reshape(2, 8)
    graft_fx.capture(model, (x,), folder / "step.fx", joint=True)
    graft_fx.capture(Broken().eval(), (x,), folder / "broken.fx")


def fill(value, names):
    if isinstance(value, str):
        for name, text in names.items():
            value = value.replace("{" + name + "}", text)
        return value
    if isinstance(value, list):
        return [fill(v, names) for v in value]
    return {k: fill(v, names) for k, v in value.items()} if isinstance(value, dict) else value


def recorded(value, names):
    """The answer as a transcript keeps it."""
    if isinstance(value, str):
        for name, text in names.items():
            value = value.replace(text, "{" + name + "}")
        return re.sub(r"\d{9,}", "<number>", value)  # addresses of Python's objects
    if isinstance(value, float) and value != 0 and math.isfinite(value):
        return float(f"{value:.7g}")
    if isinstance(value, list):
        return [recorded(v, names) for v in value]
    if not isinstance(value, dict):
        return value
    times = value.get("nodeTimes", {})
    value = {**value, **({"nodeTimes": {side: dict.fromkeys(nodes, ANY) for side, nodes in times.items()}} if times else {})}
    volatile = VOLATILE | ({"us"} if "lanes" in value else set())  # of a run; what a plan counts with is compared
    return {k: ANY if k in volatile else recorded(v, names) for k, v in value.items()}


def differences(expected, actual, where=""):
    if expected == ANY:
        return
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in sorted(expected.keys() | actual.keys()):
            if key not in actual or key not in expected:
                yield f"{where}/{key}: {'missing' if key not in actual else 'not in the transcript'}"
            else:
                yield from differences(expected[key], actual[key], f"{where}/{key}")
    elif isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        for i, (e, a) in enumerate(zip(expected, actual)):
            yield from differences(e, a, f"{where}/{i}")
    elif isinstance(expected, float) and isinstance(actual, (int, float)):
        if not math.isclose(expected, actual, rel_tol=1e-5, abs_tol=1e-6):
            yield f"{where}: {actual}, recorded {expected}"
    elif expected != actual:
        yield f"{where}: {actual!r}, recorded {expected!r}"


class Transcripts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory(prefix="graft-protocol-")
        cls.folder = pathlib.Path(cls.holder.name)
        make_model(cls.folder)
        make_captures(cls.folder)
        cls.names = {"model": str(cls.folder / "model.pt"), "inputs": str(cls.folder / "inputs.pt"), "folder": str(cls.folder), "torch": str(pathlib.Path(torch.__file__).parent), "here": str(HERE),
                     "library": str(BUILD / "lib/tests/libmy_ops.so"),
                     "rules": (HERE / "transcripts" / "rules.py").read_text(), "kernels": KERNEL_RULE}

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    def setUp(self):
        self.engine = Engine([BUILD / "bin" / "graft", "engine"])
        self.addCleanup(self.engine.kill)

    def test_every_method_has_a_transcript(self):
        self.engine.send("initialize")
        methods = set(self.engine.reply()["result"]["methods"])
        written = {e["method"] for path in (HERE / "transcripts").glob("*.json") for e in json.loads(path.read_text()) if not e.get("setup")}
        self.assertEqual(methods - written, set())

    def test_words_are_what_rules_can_call(self):
        self.engine.send("rules/words")
        words = self.engine.reply()["result"]["words"]
        self.assertEqual(words, sorted(words))
        for word in ("F.gelu(input, approximate='none')", "torch.softmax(", "kernels.attention(", "kernels.linear(x, weight, bias, activation", "F.linear(input, weight, bias)"):
            self.assertTrue(any(w.startswith(word) for w in words), word)
        self.assertFalse([w for w in words if "backward" in w or w.startswith("torch._")])

    def test_wrong_requests_are_answered(self):
        for body, code in ((b"poetry", -32700), (b"[1]", -32700), (b'{"id": 1}', -32600), (b'{"id": 1, "method": 5}', -32600)):
            self.engine.send_raw(body)
            self.assertEqual(self.engine.reply()["error"]["code"], code, body)
        self.engine.send("model/open", [1])
        self.assertEqual(self.engine.reply()["error"]["code"], -32602)
        self.engine.send("initialize")
        self.assertIn("result", self.engine.reply())
        self.assertEqual(self.engine.close(), 0)

    def test_a_broken_frame_ends_it_with_words(self):
        self.engine.process.kill()
        run = subprocess.run([BUILD / "bin" / "graft", "engine"], input=b"GET / HTTP/1.1\r\n\r\n", capture_output=True, timeout=SECONDS)
        self.assertNotEqual(run.returncode, 0)
        self.assertIn(b"cannot be read", run.stderr)

    def test_what_is_cancelled_says_so_and_the_next_is_right(self):
        self.engine.send("model/open", {"path": self.names["model"]})
        document = self.engine.reply()["result"]["document"]
        run = self.engine.send("model/run", {"document": document, "inputs": self.names["inputs"], "seconds": 500})
        waiting = self.engine.send("model/history", {"document": document})
        for ident in (waiting, run):
            self.engine.send_raw(json.dumps({"jsonrpc": "2.0", "method": "$/cancel", "params": {"id": ident}}).encode())
        answers = {m["id"]: m for m in (self.engine.reply(), self.engine.reply())}
        self.assertEqual({answers[i]["error"]["code"] for i in (run, waiting)}, {-32800})
        self.engine.send("model/history", {"document": document})
        self.assertEqual(self.engine.reply()["result"]["position"], 0)

    def test_a_graph_in_parts_is_the_whole_one(self):
        self.engine.send("model/open", {"path": self.names["model"], "inputs": self.names["inputs"]})
        whole = self.engine.reply()["result"]["graph"]
        ident = self.engine.send("model/open", {"path": self.names["model"], "inputs": self.names["inputs"], "graph": "parts"})
        result = self.engine.reply()["result"]
        parts = [n["params"] for n in self.engine.notices if n["method"] == "$/graph"]
        self.assertEqual([(p["id"], p["part"]) for p in parts], [(ident, i) for i in range(result["graph"]["parts"])])
        joined = {}
        for part in parts:
            for key, value in part["graph"].items():
                joined[key] = joined[key] + value if key in joined else value
        self.assertEqual(joined, whole)

    def test_a_graph_that_is_being_sent_can_be_stopped(self):
        """Then nothing is open; where it was too late, all of it is."""
        lines = [f" %v{i} = aten.relu.default(%{f'v{i - 1}' if i else 'x'})" for i in range(60_000)]
        path = self.folder / "long.txt"
        path.write_text("graph g {\n input %x : f32[4]\n" + "\n".join(lines) + f"\n return %v{len(lines) - 1}\n}}\n")
        self.engine.send("model/open", {"path": str(path), "graph": "parts"})
        while (message := self.engine.messages.get(timeout=SECONDS)).get("method") != "$/graph":
            self.assertNotIn("id", message, message)
        self.engine.send_raw(b'{"jsonrpc": "2.0", "method": "$/cancel", "params": {"id": 1}}')
        answer = self.engine.reply()
        if "error" in answer:  # it may have come to the end before it heard
            self.assertEqual(answer["error"]["code"], -32800)
        self.engine.send("model/history", {"document": 1})
        self.assertEqual("error" in self.engine.reply(), "error" in answer)

    def test_progress_names_its_request(self):
        self.engine.send("model/open", {"path": self.names["model"]})
        document = self.engine.reply()["result"]["document"]
        run = self.engine.send("model/run", {"document": document, "inputs": self.names["inputs"], "seconds": 0.1})
        self.assertIn("result", self.engine.reply())
        mine = [n["params"] for n in self.engine.notices if n["method"] == "$/progress" and n["params"]["id"] == run]
        self.assertTrue(mine)
        self.assertTrue(all(set(n) == {"id", "what", "done", "total"} for n in mine))

    def test_a_verification_tells_how_far_it_is_and_can_be_stopped(self):
        model = torch.nn.Sequential(torch.nn.Linear(2048, 2048), torch.nn.ReLU()).eval()
        path = str(self.folder / "wide.pt")
        torch.jit.trace(model, torch.zeros(2, 2048)).save(path)
        text = "import torch\nimport torch.nn.functional as F\n\n\ndef pattern(x, w: Weight, b: Weight):\n    return torch.relu(F.linear(x, w, b))\n\n\ndef replacement(x, w: Weight, b: Weight):\n    return torch.clamp(F.linear(x, w, b), min=0)\n"
        self.engine.send("model/open", {"path": path})
        document = self.engine.reply()["result"]["document"]
        params = {"document": document, "text": text, "file": "clamp.py", "rule": "clamp"}
        apply = self.engine.send("rules/apply", {**params, "inputs": ["f32[2048,2048]"]})
        while (message := self.engine.messages.get(timeout=SECONDS)).get("method") != "$/progress" or not message["params"]["what"].startswith("verifying clamp"):
            self.assertNotIn("id", message, "it ended before it was stopped")
        self.assertEqual({k: message["params"][k] for k in ("id", "what", "done", "total")}, {"id": apply, "what": "verifying clamp", "done": 1, "total": 1})
        self.engine.send_raw(json.dumps({"jsonrpc": "2.0", "method": "$/cancel", "params": {"id": apply}}).encode())
        self.assertEqual(self.engine.reply()["error"], {"code": -32800, "message": "stopped; nothing was changed"})
        self.engine.send("model/history", {"document": document})
        self.assertEqual(self.engine.reply()["result"]["position"], 0)
        self.engine.send("rules/apply", {**params, "inputs": ["f32[2,2048]"]})
        self.assertEqual(self.engine.reply()["result"]["verdicts"], {"verified": 1, "measured": 0, "unverified": 0, "rolledBack": 0})

    def test_new_nodes_are_not_compared_with_those_whose_names_they_took(self):
        self.engine.send("model/open", {"path": self.names["model"], "inputs": self.names["inputs"]})
        document = self.engine.reply()["result"]["document"]
        records = []
        for rule in ("ScaledQueries", "ScaledKeys"):
            self.engine.send("rules/apply", {"document": document, "text": SAME_NAMES, "file": "rules.py", "rule": rule})
            records += self.engine.reply()["result"]["records"]
        first, second = records
        self.assertIn("matmul", set(first["removed"]) & set(second["added"]))  # else this shows nothing
        self.engine.send("model/run", {"document": document, "inputs": self.names["inputs"], "seconds": 0.1})
        run = self.engine.reply()["result"]
        self.assertTrue(run["passed"], run["why"])
        self.assertEqual([l for l in run["layers"] if not l["passed"]], [])
        # What stayed is compared, and the one value that stands for what the rewrites replaced.
        self.assertEqual(sorted(l["original"] for l in run["layers"]), ["linear", "linear_1", "linear_2", "matmul_1", "softmax", "transpose"])

    def test_the_steps_inside_a_recipe_can_be_shown(self):
        self.engine.send("model/open", {"path": self.names["model"], "inputs": self.names["inputs"]})
        document = self.engine.reply()["result"]["document"]
        recipe = SAME_NAMES.replace("import Rule", "import Recipe, Rule") + (
            "\n\nclass Both(Recipe):\n    steps = [remove_dropout, ScaledQueries, remove_dropout, ScaledKeys, remove_dropout]\n    expect = {ScaledKeys: 1}\n")
        rules = {"document": document, "text": recipe, "file": "both.py", "recipe": "Both"}

        def ask(method, params):
            self.engine.send(method, {"document": document, **params})
            reply = self.engine.reply()
            return reply.get("result", reply.get("error"))

        def divided(graph):
            by = {n["outputs"][0]["name"]: n for n in graph["nodes"]}
            return next(by[a["v"]]["op"] for n in graph["nodes"] if n["op"] == "aten.div.Tensor" for a in n["args"][:1])

        whole = ask("rules/apply", rules)
        self.assertEqual([(s["name"], s["rewrites"]) for s in whole["steps"]],
                         [("remove_dropout", 0), ("ScaledQueries", 1), ("remove_dropout", 0), ("ScaledKeys", 1), ("remove_dropout", 0)])
        self.assertGreater(whole["ms"], 0)
        original = ask("model/undoTo", {"step": 0})
        # q / s, then k / s; before the first rule it is the model as opened, behind the second the recipe's end.
        self.assertEqual(divided(original["graph"]), "aten.matmul.default")
        self.assertEqual(divided(whole["graph"]), "aten.transpose.int")
        for sub_step, op in ((1, "aten.matmul.default"), (2, "aten.linear.default"), (3, "aten.linear.default"), (4, "aten.transpose.int"), (5, "aten.transpose.int")):
            at = ask("model/undoTo", {"step": 1, "subStep": sub_step})
            self.assertEqual((divided(at["graph"]), at["position"]), (op, 1), sub_step)
            self.assertEqual(divided(ask("model/graph", {})["graph"]), op, sub_step)
        # Runs and exports are of what is shown.
        ask("model/undoTo", {"step": 1, "subStep": 3, "graph": "none"})
        run = ask("model/run", {"inputs": self.names["inputs"], "seconds": 0.05})
        self.assertTrue(run["passed"], run["why"])
        for wrong in (0, 6, "all"):
            self.assertIn("is a recipe of 5 steps", ask("model/undoTo", {"step": 1, "subStep": wrong})["message"])
        self.assertIn("is a recipe of 0 steps", ask("model/undoTo", {"step": 0, "subStep": 1})["message"])
        self.assertEqual(divided(ask("model/graph", {})["graph"]), "aten.linear.default")  # nothing has changed

        # What is applied there stands behind what is shown; the recipe's rest is no more.
        ask("rules/apply", {**rules, "recipe": None, "rule": "ScaledKeys", "graph": "none"})
        steps = ask("model/history", {})["steps"]
        self.assertEqual([len(s["records"]) for s in steps], [0, 1, 1])
        self.assertEqual(divided(ask("model/undoTo", {"step": 1})["graph"]), "aten.linear.default")
        self.assertIn("is a recipe of 3 steps", ask("model/undoTo", {"step": 1, "subStep": 4})["message"])
        # A new engine is told how far the recipe went; what it expects is said of the whole.
        again = ask("rules/apply", {**rules, "upTo": 3})
        self.assertEqual(len(again["steps"]), 3)
        for wrong in (0, 6, "all"):
            self.assertIn("has 5 steps: its first", ask("rules/apply", {**rules, "upTo": wrong})["message"])

    def test_the_original_is_timed_as_pytorch_runs_it(self):
        self.engine.send("model/open", {"path": self.names["model"], "inputs": self.names["inputs"]})
        document = self.engine.reply()["result"]["document"]
        request = {"document": document, "inputs": self.names["inputs"], "seconds": 0.1, "layers": False}
        for baseline in ("torchscript", "graft"):
            self.engine.send("model/run", {**request, "baseline": baseline})
            run = self.engine.reply()["result"]
            self.assertEqual(run["baseline"], baseline)
            self.assertGreater(run["original"]["medianMs"], 0)
        self.engine.send("model/run", {**request, "baseline": "abacus"})
        self.assertIn("abacus is no baseline", self.engine.reply()["error"]["message"])
        exported = str(self.folder / "again.pt2")
        self.engine.send("model/export", {"document": document, "path": exported})
        self.assertEqual(self.engine.reply()["result"]["path"], exported)
        x = torch.linspace(-1, 1, 32).reshape(1, 4, 8)
        self.assertTrue(torch.allclose(torch.export.load(exported).module()(x), torch.jit.load(self.names["model"])(x)))
        self.engine.send("model/open", {"path": exported})
        other = self.engine.reply()["result"]
        self.assertEqual(other["format"], "torch.export")
        self.engine.send("model/run", {**request, "document": other["document"], "baseline": "torchscript"})
        self.assertIn("PyTorch cannot freeze it", self.engine.reply()["error"]["message"])

    def test_imported_rules_are_there_and_read_again_when_their_file_changes(self):
        rules, text = self.folder / "acts.py", "from acts import Relu\n\n\nclass Own(Rule):\n    def pattern(x):\n        return torch.exp(x)\n"
        rules.write_text("class Relu(Rule):\n    def pattern(x):\n        return torch.relu(x)\n")
        check = {"text": text, "file": str(self.folder / "own.py")}

        def names():
            self.engine.send("rules/check", check)
            result = self.engine.reply()["result"]
            return [(r["name"], r["line"], r.get("importedFrom")) for r in result["rules"]] or result["error"]["message"]

        self.assertEqual(names(), [("Own", 4, None), ("Relu", 0, str(rules.resolve()))])
        rules.write_text("class Relo(Rule):\n    def pattern(x):\n        return torch.relu(x)\n")
        later = rules.stat().st_mtime + 5  # a clock may be coarse
        os.utime(rules, (later, later))
        self.assertIn("did you mean `Relo`?", names())

    def test_a_mistake_in_an_imported_file_is_marked_at_the_import(self):
        (self.folder / "parts.py").write_text("import torch\n\n\ndef squash(x):\n    return torch.sofmax(x, -1)\n")
        text = "import torch\nfrom parts import squash\n\n\ndef pattern(x):\n    return squash(x)\n"
        self.engine.send("rules/check", {"text": text, "file": str(self.folder / "own.py")})
        error = self.engine.reply()["result"]["error"]
        self.assertEqual((error["line"], error["column"]), (2, 6))
        self.assertTrue(error["message"].startswith("parts.py:5:12: `torch.sofmax`"), error["message"])
        (self.folder / "parts.py").write_text("import torch\n\n\ndef squash(x):\n    return torch.tanh(x)\n")
        self.engine.send("rules/check", {"text": text, "file": str(self.folder / "own.py")})
        rule = self.engine.reply()["result"]["rules"][0]
        self.assertEqual(rule["patternLines"], {})  # the only node stands in the other file

    def test_patterns_that_the_client_holds_are_left_out(self):
        other = "\n\nclass Other(Rule):\n    def pattern(x):\n        return torch.relu(x)\n"
        text = KERNEL_RULE + other

        def check(text, held):
            self.engine.send("rules/check", {"text": text, "held": held})
            return self.engine.reply()["result"]["rules"]

        def sent(rules):
            return [rule["name"] for rule in rules if "pattern" in rule]

        self.engine.send("rules/check", {"text": text})  # as a client asks that knows of no fingerprints
        whole = self.engine.reply()["result"]["rules"]
        self.assertEqual(sent(whole), ["Scores", "Other"])
        held = [rule["fingerprint"] for rule in whole]
        self.assertEqual(len(set(held)), 2)
        self.assertEqual(check(text, []), whole)
        again = check(text + "# ", held)
        large = {"parameters", "pattern", "patternLines"}
        self.assertEqual(again, [{k: v for k, v in rule.items() if k not in large} for rule in whole])
        further = check("# a line\n" + text, held)
        self.assertEqual((sent(further), [r["line"] for r in further]), ([], [r["line"] + 1 for r in whole]))
        self.assertEqual(sent(check(text.replace("relu", "tanh"), held)), ["Other"])
        self.assertEqual(sent(check(text.replace("(x / scale, dim", "(x  / scale, dim"), held)), ["Scores"])  # another column
        self.assertEqual(sent(check(text.replace("pattern(x):", "pattern(x: Tensor):"), held)), ["Other"])
        self.assertEqual(sent(check(text.replace("1 / scale", "2 / scale"), held)), [])  # of the replacement, nothing is sent
        self.engine.send("rules/check", {"text": text, "held": "all"})
        self.assertEqual(self.engine.reply()["error"], {"code": -32602, "message": "the parameter held must be a list of fingerprints"})
        later = Engine([BUILD / "bin" / "graft", "engine"])
        self.addCleanup(later.kill)
        later.send("rules/check", {"text": text})
        self.assertEqual(later.reply()["result"]["rules"], whole)  # what a client holds outlives the engine

    def test_a_held_pattern_is_sent_where_its_lines_moved_apart(self):
        helper = "import torch\n{}\ndef squash(x):\n    return torch.tanh(x)\n"
        rule = "\n\nclass Own(Rule):\n    def pattern(x):\n        return torch.exp(squash(x))\n"
        held = []
        for text, is_sent in ((helper.format("") + rule, True), (helper.format("# two\n# lines") + rule, False),
                              (helper.format("# two\n# lines") + "\n" + rule, True)):
            self.engine.send("rules/check", {"text": text, "held": held})
            answer = self.engine.reply()["result"]["rules"][0]
            self.assertEqual("pattern" in answer, is_sent, text)
            held = [answer["fingerprint"]]

    def test_a_run_sends_no_tensors(self):
        """Over a slow line: what a run answers is kilobytes, whatever the model holds."""
        self.engine.send("model/open", {"path": self.names["model"]})
        document = self.engine.reply()["result"]["document"]
        self.engine.send("model/run", {"document": document, "inputs": self.names["inputs"], "seconds": 1})
        self.assertLess(len(json.dumps(self.engine.reply())), 60_000)


def transcript_test(path):
    def test(self):
        exchanges = json.loads(path.read_text())
        for exchange in exchanges:
            self.engine.send(exchange["method"], fill(exchange.get("params", {}), self.names))
            reply = self.engine.reply()
            self.assertIsNotNone(reply, f"the engine died of {exchange['method']}")
            answer = {k: reply[k] for k in ("result", "error") if k in reply}
            if exchange.get("setup"):
                self.assertIn("result", answer, answer)
            elif RECORD:
                for key in ("result", "error"):
                    exchange.pop(key, None)
                exchange.update(recorded(answer, self.names))
            else:
                expected = {k: exchange[k] for k in ("result", "error") if k in exchange}
                found = list(differences(expected, recorded(answer, self.names), exchange["method"]))
                self.assertEqual(found, [], "\n".join(found[:20]))
        if RECORD:
            path.write_text("[\n" + ",\n".join(json.dumps(e, sort_keys=False) for e in exchanges) + "\n]\n")

    return test


for file in sorted((HERE / "transcripts").glob("*.json")):
    setattr(Transcripts, f"test_transcript_{file.stem}", transcript_test(file))

if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]], verbosity=2)
