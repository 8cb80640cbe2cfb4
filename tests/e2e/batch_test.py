"""graft batch: many models, some broken, killed in the middle and gone on; one table and one report with every model."""

import json
import os
import pathlib
import signal
import subprocess
import time

import torch

from support import GRAFT, TestCase, graft, main
from swish import RULES, Net


def state_and_parent(process):
    """Its letter in /proc, and the process that started it; nothing where it has ended."""
    try:
        fields = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else (fields[0], int(fields[1]))


def children(process):
    found = [int(path.name) for path in pathlib.Path("/proc").glob("[0-9]*")]
    return [p for p in found if (of := state_and_parent(p)) and of[1] == process]


class Batch(TestCase):
    def setUp(self):
        super().setUp()
        self.models = self.folder / "models"
        self.models.mkdir()
        self.rules = self.file("rules.py", RULES)
        self.fast = self.folder / "fast"

    def model(self, name, width=8, inputs=True):
        torch.manual_seed(0)
        x = torch.randn(4, width)
        path = self.models / f"{name}.pt"
        torch.jit.trace(Net(width).eval(), x).save(str(path))
        if inputs:
            torch.save((x,), self.models / f"{name}.inputs.pt")
        return path

    def batch(self, *arguments, code=0):
        run = graft("batch", *arguments, "--no-timing")
        self.assertEqual(run.returncode, code, run.stdout + run.stderr)
        return run

    def report(self, *arguments, code=0):
        return json.loads(self.batch(*arguments, "--json", code=code).stdout)

    def test_twenty_models_two_broken_killed_in_the_middle_and_resumed(self):
        for i in range(18):
            self.model(f"m{i:02}", 8 + i)
        (self.models / "m05x.pt").write_bytes(b"no model at all")
        torn = self.model("m11x").read_bytes()
        (self.models / "m11x.pt").write_bytes(torn[: len(torn) // 2])
        command = ["batch", self.models, "--rules", self.rules, "-o", self.fast, "-j", "2", "--no-timing"]
        first = subprocess.Popen([str(GRAFT), *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 start_new_session=True)
        state = self.fast / "graft-batch.jsonl"
        deadline = time.monotonic() + 120
        while not (state.exists() and state.read_text().count("\n") >= 4):
            self.assertLess(time.monotonic(), deadline)
            self.assertIsNone(first.poll(), "it ended before it could be killed")
            time.sleep(0.02)
        os.killpg(first.pid, signal.SIGKILL)
        first.communicate()
        kept = [json.loads(line) for line in state.read_text().splitlines() if line.endswith("}")]
        well = sum(line["outcome"] == "done" for line in kept)
        self.assertLess(len(kept), 20)
        document = self.report(*command[1:-1], code=3)
        models = {m["model"].split("/")[-1]: m for m in document["models"]}
        self.assertEqual(len(models), 20)
        self.assertEqual(sorted(name for name, m in models.items() if m["outcome"] == "failed"), ["m05x.pt", "m11x.pt"])
        self.assertTrue(all(models[name]["error"] for name in ("m05x.pt", "m11x.pt")))
        self.assertEqual(sum(m["resumed"] for m in models.values()), well)
        for name, m in models.items():
            if m["outcome"] == "done":
                self.assertEqual(m["graphs"][0]["steps"][0]["rewrites"], 1, name)
                self.assertTrue(m["graphs"][0]["verification"]["passed"], name)
                self.assertTrue((self.fast / name).exists(), name)

    def test_when_it_is_killed_its_processes_end_with_it(self):
        self.model("a", 1024)
        command = ["batch", self.models, "--rules", self.rules, "-o", self.fast, "--seconds", "300"]
        run = subprocess.Popen([str(GRAFT), *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        while not (started := children(run.pid)):
            self.assertIsNone(run.poll())
        run.kill()
        run.communicate()
        deadline = time.monotonic() + 10
        while state_and_parent(started[0]):
            self.assertLess(time.monotonic(), deadline, "it outlives the batch")
            time.sleep(0.02)

    def test_interrupted_it_keeps_what_is_done(self):
        for i in range(6):
            self.model(f"m{i}")
        command = ["batch", self.models, "--rules", self.rules, "-o", self.fast, "--no-timing"]
        run = subprocess.Popen([str(GRAFT), *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        state = self.fast / "graft-batch.jsonl"
        while not (state.exists() and state.read_text()):
            self.assertIsNone(run.poll())
            time.sleep(0.02)
        run.send_signal(signal.SIGINT)
        out, said = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 130, said)
        self.assertIn("interrupted after", said)
        self.assertIn("not run", out)
        self.assertTrue(any(m["resumed"] for m in self.report(*command[1:-1])["models"]))

    def test_what_changed_is_done_again(self):
        a, b = self.model("a"), self.model("b")
        command = (self.models, "--rules", self.rules, "-o", self.fast)
        resumed = lambda: {m["model"].split("/")[-1]: m["resumed"] for m in self.report(*command)["models"]}
        self.assertEqual(resumed(), {"a.pt": False, "b.pt": False})
        self.assertEqual(resumed(), {"a.pt": True, "b.pt": True})
        self.model("a", 16)
        self.assertEqual(resumed(), {"a.pt": False, "b.pt": True})
        (self.fast / "b.pt").unlink()
        self.assertEqual(resumed(), {"a.pt": True, "b.pt": False})
        self.rules.write_text(RULES + "\n")
        self.assertEqual(resumed(), {"a.pt": False, "b.pt": False})
        self.assertEqual({m["resumed"] for m in self.report(*command, "--fresh")["models"]}, {False})

    def test_a_model_in_which_nothing_was_rewritten_has_not_failed(self):
        self.model("a")
        torch.jit.trace(torch.nn.Tanh(), torch.randn(2, 2)).save(str(self.models / "b.pt"))
        command = (self.models, "--rules", self.rules, "-o", self.fast)
        run = self.batch(*command)
        self.assertRegex(run.stdout, r"(?m)b\.pt +unchanged +0 ")
        self.assertIn("1 done, 1 unchanged, 0 failed", run.stdout)
        self.assertFalse((self.fast / "b.pt").exists())
        self.assertEqual([(m["outcome"], m["resumed"]) for m in self.report(*command)["models"]], [("done", True), ("unchanged", True)])
        self.assertEqual([m["outcome"] for m in self.report(*command, "--allow-unchanged")["models"]], ["done", "done"])
        self.assertEqual((self.fast / "b.pt").read_bytes(), (self.models / "b.pt").read_bytes())

    def test_the_table_counts_what_verification_takes_back(self):
        torch.jit.trace(torch.nn.Tanh(), torch.randn(2, 2)).save(str(self.models / "a.pt"))
        torch.save((torch.randn(2, 2),), self.models / "a.inputs.pt")
        wrong = self.file("wrong.py", "class Wrong(Rule):\n    def pattern(x):\n        return torch.tanh(x)\n\n"
                                      "    def replacement(x):\n        return torch.sigmoid(x)\n")
        run = self.batch(self.models, "--rules", wrong, "-o", self.fast)
        self.assertRegex(run.stdout, r"(?m)a\.pt +unchanged .* 1 taken back$")

    def test_manifest(self):
        self.model("a"), self.model("b", inputs=False)
        other = self.file("models/other.py", RULES.replace("Swish", "Other"))
        lines = [{"model": "a.pt", "inputs": "a.inputs.pt", "output": "made/x.pt", "expect": {"Swish": 1}},
                 {"model": "b.pt", "input": ["f32[2,8]:randn"], "rules": "other.py"}]
        manifest = self.file("models/m.jsonl", "\n\n".join(map(json.dumps, lines)) + "\n")
        document = self.report("--manifest", manifest, "--rules", self.rules, "-o", self.fast)
        self.assertEqual([m["output"] for m in document["models"]], [str(self.models / "made/x.pt"), str(self.fast / "b.pt")])
        self.assertEqual([m["graphs"][0]["steps"][0]["name"] for m in document["models"]], ["Swish", "Other"])
        self.assertIsNotNone(other)
        lines[0]["expect"] = {"Swish": 2}
        manifest.write_text("\n".join(map(json.dumps, lines)))
        run = self.batch("--manifest", manifest, "--rules", self.rules, "-o", self.fast, code=4)
        self.assertRegex(run.stdout, r"(?m)a\.pt +failed .*was expected to rewrite 2 places")
        self.assertRegex(run.stdout, r"(?m)b\.pt +done .*earlier")

    def test_without_rules_models_are_optimized(self):
        torch.jit.trace(lambda x: torch.cumsum(x, 0), torch.randn(4, 8)).save(str(self.models / "a.pt"))
        torch.save((torch.randn(4, 8),), self.models / "a.inputs.pt")
        run = graft("batch", self.models, "-o", self.fast, "--seconds", "0.1", "--json")
        self.assertEqual(run.returncode, 0, run.stderr)
        [model] = json.loads(run.stdout)["models"]
        self.assertEqual((model["outcome"], model["exitCode"]), ("unchanged", 7))
        self.assertTrue(model["graphs"][0]["unchanged"])
        self.assertFalse((self.fast / "a.pt").exists())

    def test_a_model_that_takes_too_long_is_stopped(self):
        self.model("a")
        document = self.report(self.models, "--rules", self.rules, "-o", self.fast, "--limit", "0.01", code=3)
        self.assertIn("--limit", document["models"][0]["error"])

    def test_what_is_wrong_is_said_before_anything_runs(self):
        self.model("a")
        common = ("--rules", self.rules, "-o", self.fast)
        for text, says in (('{"model": "a.pt", "rulse": "x"}', ("m.jsonl:1", 'did you mean "rules"')),
                           ('{"model": "a.pt"}\n{"inputs": "x"}', ("m.jsonl:2", '"model" is missing')),
                           ("{", ("m.jsonl:1", "no JSON")), ("", "names no model"), ("[1]", "one JSON object"),
                           ('{"model": "a.pt", "expect": 3}', "expect")):
            self.fails(3, "batch", "--manifest", self.file("m.jsonl", text), *common, says=says)
        self.fails(2, "batch", *common, says="--manifest")
        self.fails(2, "batch", self.models / "a.pt", "-o", self.fast, "--no-timing", says="--no-timing needs a rule file")
        self.fails(2, "batch", self.models / "a.pt", "--rules", self.rules, says="-o")
        self.fails(2, "batch", self.models, "--rules", self.rules, "-o", self.models, says="overwrite")
        same = self.file("m.jsonl", '{"model": "models/a.pt", "output": "x.pt"}\n{"model": "models/a.pt", "output": "./x.pt"}')
        self.fails(2, "batch", "--manifest", same, *common, says="both be written")
        state = self.file("precious.txt", "my notes")
        run = graft("batch", self.models, *common, "--state", state)
        self.assertEqual((run.returncode, state.read_text()), (3, "my notes"))
        self.assertIn("no state of a batch", run.stderr)


main()
