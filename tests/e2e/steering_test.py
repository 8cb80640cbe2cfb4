"""Plans for generated kernels from outside: written, changed, applied; kernels scheduled and edited by hand, verified, exported and
loaded with and without trust."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from unittest import mock

os.environ["GRAFT_CACHE_DIR"] = tempfile.mkdtemp(prefix="graft-e2e-cache-")
os.environ.pop("GRAFT_TRUST_SOURCES", None)
import jsonschema
import torch
from torch import nn

from support import OPERATORS, SOURCE, TestCase, graft, main

GENERATED = SOURCE / "resources" / "rules" / "generated.py"
SCHEMA = json.loads((SOURCE / "docs" / "json" / "fusion.schema.json").read_text())
torch.set_num_threads(1)


class Chains(nn.Module):
    """Two chains of pointwise operators, a product between them, and a softmax."""

    def forward(self, x, b):
        y = torch.tanh(torch.relu(x + b)) * x
        return torch.softmax(torch.sigmoid(y @ y) * b, -1)


class Steering(TestCase):
    def setUp(self):
        super().setUp()
        torch.manual_seed(0)
        self.inputs = torch.randn(64, 64), torch.randn(64)
        self.model, self.given = self.folder / "model.pt", self.folder / "in.pt"
        torch.jit.trace(Chains().eval(), self.inputs).save(str(self.model))
        torch.save(self.inputs, self.given)

    def plan(self, **entries):
        jsonschema.Draft202012Validator(SCHEMA).validate({"fusion": 1, **entries})
        return self.file("fusion.json", json.dumps({"fusion": 1, **entries}))

    def code(self, *arguments):
        return self.json("code", self.model, "--inputs", self.given, *arguments)

    def kernels(self, *arguments):
        return [k["computing"] for k in self.code("--as", "groups", *arguments)["kernels"]]

    def apply(self, plan, *arguments):
        out, report = self.folder / "fast.pt", self.folder / "report.json"
        run = self.done("apply", self.model, "--rules", GENERATED, "--recipe", "Fused", "--fusion", plan, "--inputs", self.given, "-o", out, "--no-timing", "--report", report,
                        *arguments)
        step = next(s for s in json.loads(report.read_text())["models"][0]["steps"] if s["name"] == "fuse")
        return run, out, step

    def text(self, form):
        """A kernel's text as the command prints it, and its nodes."""
        kernel = self.code("--as", form)["kernels"][0]
        return self.done("code", self.model, "--inputs", self.given, "--as", form, "--kernel", "0").stdout, kernel["computing"]

    def test_a_written_plan_gives_the_same_kernels_and_can_be_changed(self):
        path = self.folder / "written.json"
        self.done("code", self.model, "--inputs", self.given, "--as", "groups", "--write-fusion", path)
        written = json.loads(path.read_text())
        jsonschema.Draft202012Validator(SCHEMA).validate(written)
        self.assertFalse(written["automatic"])
        self.assertEqual(self.kernels("--fusion", path), self.kernels())
        first = written["merge"][0]
        written["merge"][0] = first[:-1]
        changed = self.file("changed.json", json.dumps(written))
        self.assertEqual(self.kernels("--fusion", changed)[0], first[:-1])
        run, out, step = self.apply(changed)
        self.assertEqual(step["refused"], [])
        self.assertEqual(len(step["rolledBack"]), 0, run.stdout)
        recipe = self.file("mine.py", 'from graft import Recipe, fuse\n\n\nclass Mine(Recipe):\n    steps = [fuse(plan="changed.json")]\n')
        again = self.folder / "again.pt"
        self.done("apply", self.model, "--rules", recipe, "--recipe", "Mine", "--inputs", self.given, "-o", again, "--no-timing")
        programs = lambda path: [k["text"] for k in self.json("code", path, "--as", "groups")["kernels"]]
        self.assertEqual(programs(again), programs(out))

    def test_what_does_not_apply_is_reported_and_the_rest_holds(self):
        plan = self.plan(merge=[["tanhh", "relu"], ["tanh", "matmul"]], apart=[["relu", "tanh"]])
        document = self.code("--as", "groups", "--fusion", plan)
        self.assertEqual([p["entry"] for p in document["unapplied"]], ["merge[0]", "merge[1]"])
        self.assertIn("did you mean `tanh`?", document["unapplied"][0]["why"])
        self.assertIn("kernels with matrix products are generated for GPUs alone", document["unapplied"][1]["why"])
        self.assertFalse(any({"relu", "tanh"} <= set(k["computing"]) for k in document["kernels"]))
        run, _, step = self.apply(plan)
        self.assertEqual(len(step["refused"]), 2)
        self.assertIn("the plan's merge[0]: the model has no node, module or operator `tanhh`", run.stdout + run.stderr)

    def test_mistakes_in_a_plan_are_errors_with_their_place(self):
        for text, message in (('{"fusion": 1,\n "merge": [["a" "b"]]}', "broken.json:2:17: no valid JSON"), ('{"fusion": 7}', "its version is 7; this Graft reads 1"),
                              ('{"fusion": 1, "kernels": [{"nodes": ["a"], "schedule": {"lane": "i"}}]}', 'kernels[0].schedule has a key "lane"')):
            broken = self.file("broken.json", text)
            for command in (("code", self.model, "--as", "groups"), ("apply", self.model, "--rules", GENERATED, "--recipe", "Fused", "-o", self.folder / "out.pt"),
                            ("optimize", self.model, "-o", self.folder / "out.pt")):
                run = graft(*command, "--inputs", self.given, "--fusion", broken)
                self.assertEqual(run.returncode, 3, run.stdout + run.stderr)
                self.assertIn(message, run.stderr)
        recipe = self.file("none.py", "from graft import Recipe, normalize\n\n\nclass Mine(Recipe):\n    steps = [normalize]\n")
        run = graft("apply", self.model, "--rules", recipe, "--recipe", "Mine", "--inputs", self.given, "-o", self.folder / "out.pt", "--fusion", self.plan())
        self.assertEqual(run.returncode, 2, run.stderr)
        self.assertIn("has no step fuse()", run.stderr)

    def test_a_schedule_is_chosen_exported_and_an_impossible_one_refused(self):
        text, nodes = self.text("cpp")
        plan = self.plan(kernels=[{"nodes": nodes, "schedule": {"lanes": "i0", "threads": 1}}])
        kernel = self.code("--as", "cpp", "--fusion", plan)["kernels"][0]
        self.assertEqual(kernel["schedule"], "lanes i0\nthreads 1\n")
        self.assertNotIn(kernel["text"], text)
        _, out, step = self.apply(plan)
        self.assertEqual((step["refused"], step["rolledBack"]), ([], []))
        in_file = self.json("code", out, "--as", "groups")["kernels"][0]
        self.assertEqual(in_file["schedule"], "lanes i0\nthreads 1\n")
        self.assertIn("\n--- schedule\nlanes i0\nthreads 1\n", in_file["text"])
        self.assert_loads(out)
        for schedule, why in (({"lanes": "nothing"}, "the kernel has no outer range nothing; it has "), ({"transpose": False}, "the kernel transposes no loads")):
            wrong = self.code("--as", "groups", "--fusion", self.plan(kernels=[{"nodes": nodes, "schedule": schedule}]))
            self.assertIn(why, wrong["unapplied"][0]["why"])

    def assert_loads(self, out, trusted=False):
        """In a process of its own. What it says on stderr."""
        code = (f"import torch; torch.ops.load_library({str(OPERATORS)!r}); m = torch.jit.load({str(out)!r}); torch.manual_seed(0)\n"
                "x, b = torch.randn(64, 64), torch.randn(64)\n"
                "y = torch.tanh(torch.relu(x + b)) * x; y = torch.softmax(torch.sigmoid(y @ y) * b, -1)\n"
                "torch.testing.assert_close(m(x, b), y)\n"
                "x = torch.randn(8, 8)\n"  # other sizes
                "y = torch.tanh(torch.relu(x + b[:8])) * x; y = torch.softmax(torch.sigmoid(y @ y) * b[:8], -1)\n"
                "torch.testing.assert_close(m(x, b[:8]), y)\n")
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env={**os.environ, "GRAFT_TRUST_SOURCES": "1" if trusted else ""})
        self.assertEqual(run.returncode, 0, run.stderr)
        return run.stderr

    def test_edited_loops_run_and_wrong_ones_are_refused_with_the_element(self):
        text, nodes = self.text("loops")
        self.assertIn("tanh(", text)
        self.file("right.loops", text.replace("tanh(", "0.0 + tanh("))
        self.file("wrong.loops", text.replace("tanh(", "0.125 + tanh("))
        self.file("broken.loops", text.replace("tanh(", "tanhh("))
        right = self.plan(kernels=[{"nodes": nodes, "loopsFile": "right.loops"}])
        kernel = self.code("--as", "loops", "--fusion", right)["kernels"][0]
        self.assertEqual(kernel["edited"], "loops")
        self.assertIn("0.0 + tanh(", kernel["text"])
        _, out, step = self.apply(right)
        self.assertEqual((step["refused"], step["rolledBack"]), ([], []))
        self.assertIn("0.0 + tanh(", self.json("code", out, "--as", "groups")["kernels"][0]["text"])
        self.assert_loads(out)
        run, out, step = self.apply(self.plan(kernels=[{"nodes": nodes, "loopsFile": "wrong.loops"}]))
        failed = step["rolledBack"][0]["verification"]
        self.assertIn("the hand-edited kernel (kernels[0]): ", failed["why"])
        self.assertRegex(failed["element"], r"^\[\d+,\d+\]$")
        self.assertNotEqual(failed["expected"], failed["actual"])
        self.assertIn(f"the first that differs, at {failed['element']}, is {failed['actual']}, expected {failed['expected']}",
                      run.stdout + run.stderr)
        self.assertGreater(step["rewrites"], 0)  # the generated kernel took its place
        self.assertNotIn("--- loops", self.json("code", out, "--as", "groups")["kernels"][0]["text"])
        broken = self.code("--as", "groups", "--fusion", self.plan(kernels=[{"nodes": nodes, "loopsFile": "broken.loops"}]))
        self.assertIn("tanhh", broken["unapplied"][0]["why"])

    def test_edited_loops_that_cannot_run_here_are_not_called_right(self):
        text, nodes = self.text("loops")
        self.file("wrong.loops", text.replace("tanh(", "0.125 + tanh("))
        alone = self.folder / "alone" / "libgraft_ops.so"  # without the library beside it that makes machine code
        alone.parent.mkdir()
        shutil.copy(OPERATORS, alone)
        with mock.patch.dict(os.environ, {"GRAFT_OPS": str(alone), "GRAFT_CACHE_DIR": str(self.folder / "cache")}):
            _, out, step = self.apply(self.plan(kernels=[{"nodes": nodes, "loopsFile": "wrong.loops"}]))
        self.assertIn("an edited kernel cannot run here", "".join(step["refused"]))
        self.assertNotIn("0.125 + tanh(", self.json("code", out, "--as", "groups")["kernels"][0]["text"])

    def test_edited_loops_of_a_model_with_sizes_that_vary_run(self):
        path, x = self.folder / "dynamic.pt2", torch.randn(6, 32)

        class Rows(nn.Module):
            def forward(self, x):
                return torch.softmax(torch.tanh(torch.relu(x) + 1) * x, -1)

        torch.export.save(torch.export.export(Rows().eval(), (x,), dynamic_shapes=({0: torch.export.Dim("n", min=1, max=64)},)), path)
        torch.save((x,), self.given)
        kernel = self.json("code", path, "--as", "loops")["kernels"][0]
        for edit, is_right in (("1.0 * tanh(", True), ("2.0 * tanh(", False)):
            plan = self.plan(kernels=[{"nodes": kernel["computing"], "loops": kernel["text"].replace("tanh(", edit)}])
            self.model = path
            _, _, step = self.apply(plan)
            self.assertEqual(step["refused"], [])
            self.assertEqual(step["rolledBack"] == [], is_right)  # had the edited loops not run, both were right

    def test_edited_cpp_runs_where_it_is_trusted_alone(self):
        text, nodes = self.text("cpp")
        self.file("right.cpp", text.replace("int run(", "// by hand\nint run("))
        plan = self.plan(kernels=[{"nodes": nodes, "sourceFile": "right.cpp"}])
        self.assertIn("nobody says that it is trusted (--trust-sources", self.code("--as", "groups", "--fusion", plan)["unapplied"][0]["why"])
        if subprocess.run(["sh", "-c", "command -v ${CXX:-c++}"], capture_output=True).returncode:
            return
        _, out, step = self.apply(plan, "--trust-sources")
        self.assertEqual((step["refused"], step["rolledBack"]), ([], []))
        in_file = self.json("code", out, "--as", "cpp")["kernels"][0]
        self.assertEqual(in_file["edited"], "source")
        self.assertIn("// by hand", in_file["text"])
        self.assertIn("hand-edited C++, which is not compiled", self.assert_loads(out))
        self.assertNotIn("graft::generated", self.assert_loads(out, trusted=True))
        self.file("wrong.cpp", text.replace("std::tanh(", "0.125f + std::tanh("))
        *_, step = self.apply(self.plan(kernels=[{"nodes": nodes, "sourceFile": "wrong.cpp"}]), "--trust-sources")
        failed = step["rolledBack"][0]["verification"]
        self.assertIn("the hand-edited kernel (kernels[0]): ", failed["why"])
        self.assertNotEqual(failed["expected"], failed["actual"])
        self.file("broken.cpp", "int run(const float* x) { return x; }\n")
        broken = self.code("--as", "groups", "--trust-sources", "--fusion", self.plan(kernels=[{"nodes": nodes, "sourceFile": "broken.cpp"}]))
        self.assertIn("refuses the kernel's C++", broken["unapplied"][0]["why"])
        self.assertIn("kernel.cpp:1", broken["unapplied"][0]["why"])

    def test_printed_cpp_of_long_sums_is_as_accurate_as_the_kernel(self):
        if subprocess.run(["sh", "-c", "command -v ${CXX:-c++}"], capture_output=True).returncode:
            self.skipTest("there is no C++ compiler")
        norm, self.inputs = nn.LayerNorm(4096).eval(), (torch.randn(16, 4096),)
        torch.jit.trace(nn.Sequential(norm, nn.Tanh()), self.inputs).save(str(self.model))
        torch.save(self.inputs, self.given)
        text, nodes = self.text("cpp")
        self.file("mine.cpp", "// by hand\n" + text)
        _, out, step = self.apply(self.plan(kernels=[{"nodes": nodes, "sourceFile": "mine.cpp"}]), "--trust-sources")
        self.assertEqual((step["refused"], step["rolledBack"]), ([], []))
        self.assertEqual(self.json("code", out, "--as", "cpp")["kernels"][0]["edited"], "source")
        report = json.loads((self.folder / "report.json").read_text())["models"][0]
        self.assertLess(report["verification"]["outputs"][0]["rmseRatio"], 2)

    def test_kernels_are_timed_beside_their_operators(self):
        text, nodes = self.text("loops")
        self.file("mine.loops", text)
        document = self.code("--as", "groups", "--measure", "--fusion", self.plan(kernels=[{"nodes": nodes, "loopsFile": "mine.loops"}]))
        for kernel in document["kernels"]:
            self.assertGreater(kernel["operatorsUs"], 0)
            self.assertGreater(kernel["kernelUs"], 0)
        self.assertGreater(document["kernels"][0]["generatedUs"], 0)
        self.assertTrue(all(d["measuredUs"] > 0 for d in document["decisions"]))

    def test_times_stand_beside_what_the_machine_allows(self):
        document = self.code("--as", "groups", "--measure")
        speeds = document["modelUs"]
        for kernel in document["kernels"]:
            self.assertGreater(kernel["operations"], 0)
            least = max(kernel["bytes"] / speeds["bytesPerMicrosecond"], kernel["operations"] / speeds["operationsPerMicrosecond"]["f32"])
            self.assertAlmostEqual(kernel["leastUs"], least, delta=0.01 * least)
            self.assertNotIn("tried", kernel)

    def test_schedules_are_tried_and_timed(self):
        self.fails(2, "code", self.model, "--as", "groups", "--try-schedules", says="--measure")
        tried = [t for k in self.code("--as", "groups", "--measure", "--try-schedules")["kernels"] for t in k.get("tried", [])]
        self.assertTrue(tried)
        for t in tried:
            self.assertGreater(t["us"], 0)
            self.assertRegex(t["schedule"], r"^(lanes|registers|transpose) ")


if __name__ == "__main__":
    main()
