"""Operators of the user's own: a shared library or a Python module named by --library, or by a rule file, or by the file of a model that
needs it."""

import json
import os
import shutil
import subprocess
import sys
import unittest

import torch

from support import BUILD, GRAFT, SOURCE, TestCase, main

sys.path.insert(0, str(SOURCE / "resources" / "python"))
import graft_fx  # noqa: E402

LIBRARY = BUILD / "lib/tests/libmy_ops.so"
HEAD = "import torch\nimport torch.nn.functional as F\nfrom graft import Rule, library\n\n"
DOUBLE = """
class Double(Rule):
    def pattern(x):
        return torch.relu(x) * 2

    def replacement(x):
        return torch.ops.my.fused(torch.relu(x))
"""
NEGATE = """
class Negate(Rule):
    def pattern(x):
        return torch.tanh(torch.neg(x))

    def replacement(x):
        return -torch.tanh(x)
"""
PYTHON = '''
import os
import time

import torch


@torch.library.custom_op("py::fused", mutates_args=())
def fused(x: torch.Tensor) -> torch.Tensor:
    print("this must not reach the answers")
    return x * 2


@fused.register_fake
def _(x):
    return torch.empty_like(x)


@torch.library.custom_op("py::found", mutates_args=())
def found(x: torch.Tensor) -> torch.Tensor:
    """How many there are depends on the numbers: it has no fake version."""
    return x[x > 0]


@torch.library.custom_op("py::add_to", mutates_args={"x"})
def add_to(x: torch.Tensor, by: float) -> None:
    x += by


@torch.library.custom_op("py::many", mutates_args=())
def many(xs: list[torch.Tensor], dtype: torch.dtype, names: str, at: int | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    total = sum(xs)
    return total.to(dtype), total.t().clone(memory_format=torch.preserve_format)


lib = torch.library.Library("py", "FRAGMENT")
lib.define("defined(Tensor x, *, float scale=3.0) -> Tensor")
lib.impl("defined", lambda x, *, scale=3.0: x * scale, "CPU")
lib.define("wrong(Tensor x) -> Tensor")
lib.impl("wrong", lambda x: x.view(7, 7, 7), "CPU")
lib.define("dies(Tensor x) -> Tensor")
lib.impl("dies", lambda x: os._exit(3), "CPU")
lib.define("sleeps(Tensor x) -> Tensor")
lib.impl("sleeps", lambda x: time.sleep(60), "CPU")
'''


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)

    def forward(self, x):
        return torch.tanh(torch.relu(self.fc(x)) * 2)


class WithOperator(torch.nn.Module):
    """One place before the operator, one behind it."""

    def forward(self, x):
        y = torch.tanh(torch.neg(x))
        return torch.tanh(torch.neg(torch.ops.my.fused(y)))


class Call(torch.nn.Module):
    def __init__(self, call):
        super().__init__()
        self.call = call

    def forward(self, *args):
        return self.call(*args)


class OwnOperators(TestCase):
    @classmethod
    def setUpClass(cls):
        torch.ops.load_library(str(LIBRARY))
        torch.manual_seed(0)

    def setUp(self):
        super().setUp()
        self.x = torch.randn(3, 4)
        self.inputs = self.save("in.pt", self.x)
        self.model = Model().eval()
        self.trace(self.model, "m.pt")

    def save(self, name, *tensors):
        torch.save(list(tensors), self.folder / name)
        return self.folder / name

    def trace(self, model, name, *args):
        torch.jit.trace(model, args or (self.x,), check_trace=False).save(self.folder / name)
        return self.folder / name

    def rules(self, *texts, name="rules.py"):
        return self.file(name, HEAD + "\n".join(texts))

    def output(self, *arguments):
        self.done("run", *arguments, "-o", self.folder / "got.pt")
        got = torch.load(self.folder / "got.pt")
        return got[0] if isinstance(got, (list, tuple)) and len(got) == 1 else got


class SharedLibrary(OwnOperators):
    def test_a_rule_puts_the_operator_in_and_the_result_runs_in_python(self):
        rules, out = self.rules(DOUBLE), self.folder / "out.pt"
        said = self.done("apply", self.folder / "m.pt", "--rules", rules, "--library", LIBRARY, "--inputs", self.inputs, "-o", out,
                         "--no-timing", "--report", self.folder / "r.json")
        self.assertIn(f'torch.ops.load_library("', said.stdout)
        self.assertIn("libmy_ops.so", said.stdout)
        report = json.loads((self.folder / "r.json").read_text())
        self.assertEqual(report["libraries"], [{"path": str(LIBRARY), "operators": ["my.first.default", "my.fused.default"]}])
        step, = report["models"][0]["steps"]
        self.assertEqual(step["rewrites"], 1)
        self.assertTrue(report["models"][0]["verification"]["passed"])
        torch.testing.assert_close(torch.jit.load(out)(self.x), self.model(self.x))
        self.assertIn("my::fused", torch.jit.load(out).inlined_graph.__str__())

    def test_the_written_file_remembers_the_library_and_nobody_loads_it_unasked(self):
        for ending in (".pt", ".pt2"):
            with self.subTest(ending):
                out = self.folder / f"out{ending}"
                self.done("apply", self.folder / "m.pt", "--rules", self.rules(DOUBLE), "--library", LIBRARY, "--inputs", self.inputs, "-o",
                          out, "--no-timing")
                info = self.json("info", out)
                self.assertEqual(info["missingOperators"], [{"operator": "my.fused.default", "nodes": info["missingOperators"][0]["nodes"],
                                                             "library": {"path": str(LIBRARY), "exists": True}}])
                self.assertEqual(info["operatorLibraries"], [str(LIBRARY)])
                said = self.done("info", out)
                self.assertIn("lacks my.fused.default", said.stdout)
                self.assertIn(f"--library {LIBRARY}", said.stderr)
                self.fails(3, "run", out, "--inputs", self.inputs, says=("my.fused.default", f"--library {LIBRARY}"))
                torch.testing.assert_close(self.output(out, "--inputs", self.inputs, "--library", LIBRARY), self.model(self.x))
                self.assertEqual(self.json("info", out, "--library", LIBRARY)["missingOperators"], [])
                # Written again without the library, it still says which one it needs.
                again = self.folder / f"again{ending}"
                self.done("convert", out, "-o", again)
                self.assertEqual(self.json("info", again)["operatorLibraries"], [str(LIBRARY)])

    def test_the_library_beside_the_model_is_named_where_that_of_the_file_is_gone(self):
        far, near = self.folder / "far", self.folder / "near"
        far.mkdir(), near.mkdir()
        shutil.copy(LIBRARY, far / "libmine.so")
        out = near / "out.pt"
        self.done("apply", self.folder / "m.pt", "--rules", self.rules(DOUBLE), "--library", far / "libmine.so", "--inputs", self.inputs,
                  "-o", out, "--no-timing")
        shutil.rmtree(far)
        self.fails(3, "run", out, "--inputs", self.inputs, says=("libmine.so", "is not there", "--library LIB.so"))
        shutil.copy(LIBRARY, near / "libmine.so")
        self.fails(3, "run", out, "--inputs", self.inputs, says=f"--library {near / 'libmine.so'}")
        torch.testing.assert_close(self.output(out, "--inputs", self.inputs, "--library", near / "libmine.so"), self.model(self.x))

    def test_a_rule_file_names_its_library(self):
        shutil.copy(LIBRARY, self.folder / "libmine.so")
        self.rules('library("libmine.so")', DOUBLE, name="own.py")
        for rules in (self.folder / "own.py", self.rules("from own import Double", NEGATE)):
            found = self.of_model("match", self.folder / "m.pt", "--rules", rules)
            self.assertEqual({r["name"]: r["matches"] for r in found["rules"]}["Double"], 1)
        rules = self.rules('library("libgone.so")', DOUBLE)
        self.fails(3, "match", self.folder / "m.pt", "--rules", rules, says=("rules.py:5:9", "there is no library", "libgone.so"))
        rules = self.rules("library(3)", DOUBLE)
        self.fails(3, "match", self.folder / "m.pt", "--rules", rules, says=("rules.py:5", "takes one text"))

    def test_a_rule_without_its_library_says_what_to_do(self):
        self.fails(3, "match", self.folder / "m.pt", "--rules", self.rules(DOUBLE),
                   says=("torch.ops.my.fused", "not a known operator", "--library LIB.so", 'library("LIB.so")'))
        self.fails(3, "match", self.folder / "m.pt", "--library", LIBRARY, "--rules", self.rules(DOUBLE.replace("my.fused", "my.fuzed")),
                   says="did you mean `torch.ops.my.fused`")

    def test_a_pattern_finds_the_operator_with_and_without_its_library(self):
        model = self.trace(WithOperator(), "w.pt")
        rules = self.rules("class Find(Rule):\n    def pattern(x):\n        return torch.ops.my.fused(torch.tanh(x))\n"
                           "    def replacement(x):\n        return torch.tanh(x) + torch.tanh(x)\n")
        found = self.of_model("match", model, "--rules", rules, "--library", LIBRARY)
        self.assertEqual(found["rules"][0]["matches"], 1)
        report = self.of_model("apply", model, "--rules", rules, "--library", LIBRARY, "--inputs", self.inputs, "-o",
                               self.folder / "o.pt", "--no-timing")
        self.assertTrue(report["verification"]["passed"])

    def test_a_kernel_for_all_devices_is_not_asked_for_types(self):
        # It would read memory of a tensor that has none.
        model = self.trace(Call(torch.ops.my.first), "f.pt")
        torch.testing.assert_close(self.output(model, "--library", LIBRARY, "--inputs", self.inputs), torch.ops.my.first(self.x))
        self.done("info", model, "--library", LIBRARY)

    def test_types_follow_from_the_meta_version(self):
        text = self.done("text", self.trace(WithOperator(), "w.pt"), "--library", LIBRARY).stdout
        line, = [line for line in text.splitlines() if "my.fused" in line]
        self.assertIn("f32[", line)


    def test_pytorch_beside_it_has_the_library_too(self):
        rules = self.rules(DOUBLE)
        report = self.of_model("bench", self.folder / "m.pt", "--rules", rules, "--library", LIBRARY, "--inputs", self.inputs, "--seconds",
                               "0.2", "--against", "eager,exported", "--python", sys.executable)
        self.assertEqual([b.get("error") for b in report["baselines"]["modes"]], [None, None], report)


class Errors(OwnOperators):
    def refused(self, path, *says):
        self.fails(3, "info", self.folder / "m.pt", "--library", path, says=(os.path.basename(path), *says))

    def test_what_is_no_library(self):
        self.refused(self.folder / "gone.so", "there is no library")
        self.refused(self.folder, "is a folder")
        self.refused(self.file("text.so", "hello"), "is no shared library")
        self.refused(self.file("cut.so", LIBRARY.read_bytes()[:2000]), "is not whole")

    def test_the_same_library_twice(self):
        self.done("info", self.folder / "m.pt", "--library", LIBRARY, "--library", LIBRARY)
        shutil.copy(LIBRARY, self.folder / "second.so")
        self.fails(3, "info", self.folder / "m.pt", "--library", LIBRARY, "--library", self.folder / "second.so",
                   says=("second.so", "cannot be loaded"))

    @unittest.skipUnless(shutil.which("cc"), "there is no C compiler")
    def test_libraries_that_do_not_fit(self):
        for name, source, says in (
                ("empty.so", "int nothing;", "defines no operator"),
                ("python.so", "extern int PyExc_RuntimeError; int *f(void) { return &PyExc_RuntimeError; }", "is a Python extension"),
                # What only Python's import would call does not matter: this one has no operator either.
                ("import.so", "void PyModule_Create2(void); void f(void) { PyModule_Create2(); }", "defines no operator"),
                ("other.so", "void _ZN3c105Error7no_suchEv(void); void f(void) { _ZN3c105Error7no_suchEv(); }",
                 "was built for another PyTorch"),
                ("lacks.so", "void elsewhere(void); void f(void) { elsewhere(); }", "needs `elsewhere`")):
            with self.subTest(name):
                subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", self.folder / name], input=source, text=True, check=True)
                self.refused(self.folder / name, says)
        # As torch.utils.cpp_extension links: it needs PyTorch's libraries and does not say where they are.
        libraries = os.path.join(os.path.dirname(torch.__file__), "lib")
        for name, says in (("torch", "defines no operator"), ("torch_python", "is a Python extension")):
            subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", self.folder / "linked.so", f"-L{libraries}", "-Wl,--no-as-needed",
                            f"-l{name}"], input="int nothing;", text=True, check=True)
            self.refused(self.folder / "linked.so", says)


class Missing(OwnOperators):
    """Models whose operators this machine does not have."""

    def apply(self, model, *options, rules=(NEGATE,), output="out.pt"):
        return self.of_model("apply", model, "--rules", self.rules(*rules), "--inputs", self.inputs, "-o", self.folder / output, *options)

    def test_they_are_rewritten_verified_in_parts_and_written(self):
        model = self.trace(WithOperator(), "w.pt")
        report = self.apply(model)
        self.assertEqual([m["operator"] for m in report["missingOperators"]], ["my.fused.default"])
        self.assertNotIn("timing", report)
        step, = report["steps"]
        self.assertEqual(step["rewrites"], 2)
        verdicts = sorted(r["verification"]["verdict"] for r in step["records"])
        self.assertEqual(verdicts, ["unverified", "verified"])
        why, = [r["verification"]["why"] for r in step["records"] if r["verification"]["verdict"] == "unverified"]
        self.assertIn("my.fused.default, which this machine does not have", why)
        verification = report["verification"]
        self.assertTrue(verification["passed"])
        self.assertIn("output 0 was not compared", verification["notVerified"][0])
        read, = verification["outputs"]  # what the operator reads
        self.assertIn("my.fused.default", read["name"])
        torch.testing.assert_close(torch.jit.load(self.folder / "out.pt")(self.x), WithOperator()(self.x))

    def test_the_output_says_so(self):
        model = self.trace(WithOperator(), "w.pt")
        said = self.done("apply", model, "--rules", self.rules(NEGATE), "--inputs", self.inputs, "-o", self.folder / "out.pt")
        for what in ("does not have the operator my.fused.default", "--library", "output 0 was not compared"):
            self.assertIn(what, said.stderr)
        self.assertNotIn("faster", said.stdout)

    def test_nothing_of_it_is_run_without_verification_either(self):
        report = self.apply(self.trace(WithOperator(), "w.pt"), "--no-verify", "--no-timing")
        self.assertEqual(report["steps"][0]["rewrites"], 2)
        self.assertTrue((self.folder / "out.pt").exists())
        self.assertEqual(report["verification"], {"passed": None, "skipped": True})

    def test_a_file_with_types_is_verified_on_made_up_outputs(self):
        torch.export.save(torch.export.export(WithOperator(), (self.x,)), self.folder / "w.pt2")
        report = self.apply(self.folder / "w.pt2", output="out.pt2")
        self.assertEqual({r["verification"]["verdict"] for r in report["steps"][0]["records"]}, {"verified"})
        self.assertIn("output 0 was compared on made-up values", report["verification"]["notVerified"][0])
        self.assertEqual(len(report["verification"]["outputs"]), 2)
        loaded = torch.export.load(self.folder / "out.pt2").module()
        torch.testing.assert_close(loaded(self.x), WithOperator()(self.x))

    def test_sizes_that_vary_are_followed(self):
        batch = torch.export.Dim("batch", min=2, max=64)
        torch.export.save(torch.export.export(WithOperator(), (self.x,), dynamic_shapes=({0: batch},)), self.folder / "w.pt2")
        report = self.apply(self.folder / "w.pt2")
        self.assertTrue(report["verification"]["passed"])
        self.assertEqual({r["verification"]["verdict"] for r in report["steps"][0]["records"]}, {"verified"})
        self.assertGreater(report["verification"]["inputSets"], 3)

    def test_a_wrong_rule_is_caught_on_both_sides_of_it(self):
        wrong = NEGATE.replace("-torch.tanh(x)", "torch.tanh(x)")
        torch.export.save(torch.export.export(WithOperator(), (self.x,)), self.folder / "w.pt2")
        step, = self.apply(self.folder / "w.pt2", "--allow-unchanged", rules=(wrong,), output="out.pt2")["steps"]
        self.assertEqual((step["rewrites"], len(step["rolledBack"])), (0, 2))
        # As a whole: what the operator reads, and what follows from made-up outputs of it.
        self.fails(5, "apply", self.folder / "w.pt2", "--rules", self.rules(wrong), "--inputs", self.inputs, "-o", self.folder / "no.pt2",
                   "--whole-only", "--no-timing", says="computes something else")
        model = self.trace(WithOperator(), "w.pt")
        self.fails(5, "apply", model, "--rules", self.rules(wrong), "--inputs", self.inputs, "-o", self.folder / "no.pt", "--whole-only",
                   "--no-timing", says=("computes something else", "which fused (my.fused.default) reads"))

    def test_what_does_not_run_on_made_up_values_is_left_out(self):
        class Index(torch.nn.Module):
            def forward(self, x):
                y = torch.tanh(torch.neg(x))
                at = torch.ops.my.fused(y).to(torch.int64) + 2
                return torch.tanh(torch.neg(x[at[0]])), y

        x = self.x.abs() * 0.01
        self.inputs = self.save("in.pt", x)
        torch.export.save(torch.export.export(Index(), (x,)), self.folder / "i.pt2")
        report = self.apply(self.folder / "i.pt2")
        self.assertTrue(report["verification"]["passed"])
        self.assertIn("output 0.0 was not compared", report["verification"]["notVerified"][0])
        self.assertIn("0.1", [d["name"] for d in report["verification"]["outputs"]])

    def test_inside_a_branch(self):
        class Inner(torch.nn.Module):
            def forward(self, x):
                if bool(x.sum() > 100):
                    return torch.ops.my.fused(x)
                return x

        class Branch(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = torch.jit.script(Inner())

            def forward(self, x):
                y = torch.tanh(torch.neg(x))
                return torch.tanh(torch.neg(self.inner(y))), y

        torch.jit.script(Branch()).save(self.folder / "b.pt")
        report = self.apply(self.folder / "b.pt")
        self.assertEqual(report["steps"][0]["rewrites"], 2)
        self.assertTrue(report["verification"]["passed"])
        self.assertIn("output 0.0 was not compared", report["verification"]["notVerified"][0])

    def test_other_commands_name_the_operator_and_the_option(self):
        model = self.trace(WithOperator(), "w.pt")
        rules = self.rules(NEGATE)
        for command in (("run", model), ("profile", model), ("compare", model, model), ("bench", model, "--rules", rules)):
            self.fails(3, *command, "--inputs", self.inputs, says=("my.fused.default", "--library"))
        self.done("match", model, "--rules", rules, "--inputs", self.inputs)
        self.done("explain", model, "--rules", rules, "--inputs", self.inputs)
        self.done("draw", model, "-o", self.folder / "w.svg", "--inputs", self.inputs)


class PythonModule(OwnOperators):
    def setUp(self):
        super().setUp()
        self.module = self.file("my_module.py", PYTHON)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        exec(compile(PYTHON, "my_module.py", "exec"), {"__name__": "my_module"})

    def test_its_operators_run(self):
        fused, defined = torch.ops.py.fused, torch.ops.py.defined
        cases = {
            "fused": (fused, self.x),
            "strides": (fused, torch.randn(4, 5).t()),
            "half": (lambda x: fused(x.to(torch.bfloat16)), self.x),
            "empty": (fused, torch.zeros(0, 3)),
            "integers": (fused, torch.arange(6)),
            "defined": (lambda x: defined(x) + defined(x, scale=0.5), self.x),
            "found": (torch.ops.py.found, self.x),
            "many": (lambda x: torch.ops.py.many([x, x], torch.float64, "name"), self.x),
        }
        # One model calls them all: each run imports PyTorch.
        given = [x for _, x in cases.values()]
        model = self.trace(Call(lambda *xs: tuple(call(x) for (call, _), x in zip(cases.values(), xs))), "all.pt", *given)
        got = self.output(model, "--library", self.module, "--inputs", self.save("all_in.pt", *given))
        self.assertEqual(len(got), len(cases))
        for (name, (call, x)), result in zip(cases.items(), got):
            with self.subTest(name):
                expected = call(x)
                if name == "many":
                    result, expected = list(result), list(expected)
                torch.testing.assert_close(result, expected)

    def test_it_writes_to_its_arguments(self):
        class Writes(torch.nn.Module):
            def forward(self, x):
                y = x * 2
                torch.ops.py.add_to(y, 3.0)
                return y

        torch.export.save(torch.export.export(Writes(), (self.x,)), self.folder / "w.pt2")
        got = self.output(self.folder / "w.pt2", "--library", self.module, "--inputs", self.inputs)
        torch.testing.assert_close(got, self.x * 2 + 3)

    def test_a_rule_puts_it_in_and_the_file_remembers_it(self):
        rules, out = self.rules('library("my_module.py")', DOUBLE.replace("my.fused", "py.fused")), self.folder / "out.pt"
        said = self.done("apply", self.folder / "m.pt", "--rules", rules, "--inputs", self.inputs, "-o", out, "--no-timing")
        self.assertIn("import my_module", said.stdout)
        torch.testing.assert_close(torch.jit.load(out)(self.x), self.model(self.x))
        self.fails(3, "run", out, "--inputs", self.inputs, says=f"--library {self.module}")
        torch.testing.assert_close(self.output(out, "--inputs", self.inputs, "--library", self.module), self.model(self.x))

    def test_types_follow_from_the_fake_version(self):
        model = self.trace(Call(lambda x: (torch.ops.py.fused(x) + 1, torch.ops.py.found(x) + 1)), "t.pt")
        text = self.done("text", model, "--library", self.module).stdout
        fused, found = (next(line for line in text.splitlines() if f"py.{name}" in line) for name in ("fused", "found"))
        self.assertIn("f32[", fused)
        self.assertNotIn("f32[", found)

    def test_its_errors_are_told(self):
        model = self.trace(Call(torch.ops.py.defined), "w.pt")
        text = (self.folder / "my_module.py").read_text()
        for name, says in (("wrong", ("py.wrong", "shape '[7, 7, 7]' is invalid")), ("dies", ("py.dies", "the process has ended"))):
            with self.subTest(name):
                graph = self.done("text", model, "--library", self.module).stdout.replace("py.defined.default", f"py.{name}.default")
                file = self.file(f"{name}.graft", "\n".join(l.replace(", scale=3.0", "") for l in graph.splitlines()))
                self.fails(3, "run", file, "--library", self.module, "--inputs", self.inputs, says=says)

    def test_what_takes_too_long_is_ended(self):
        graph = self.done("text", self.trace(Call(torch.ops.py.defined), "w.pt"), "--library", self.module).stdout
        file = self.file("sleeps.graft", graph.replace("py.defined.default", "py.sleeps.default").replace(", scale=3.0", ""))
        env = os.environ | {"GRAFT_LIBRARY_SECONDS": "8"}
        run = subprocess.run([GRAFT, "run", file, "--library", self.module, "--inputs", self.inputs], capture_output=True, text=True,
                             env=env, timeout=100)
        self.assertEqual(run.returncode, 3, run.stderr)
        self.assertIn("has not answered for 8 s", run.stderr)

    def test_modules_that_are_none(self):
        for name, text, says in (("broken.py", "import no_such_module_at_all", ("cannot be imported", "no_such_module_at_all")),
                                 ("syntax.py", "def (", ("cannot be imported", "SyntaxError")),
                                 ("exits.py", "raise SystemExit(3)", ("cannot be imported",)),
                                 ("nothing.py", "import torch", ("defines no operator",))):
            with self.subTest(name):
                self.fails(3, "info", self.folder / "m.pt", "--library", self.file(name, text), says=(name, *says))
        env = os.environ | {"GRAFT_PYTHON": "/no/such/python"}
        run = subprocess.run([GRAFT, "info", self.folder / "m.pt", "--library", self.module], capture_output=True, text=True, env=env)
        self.assertEqual(run.returncode, 3)
        self.assertIn("GRAFT_PYTHON", run.stderr)

    def test_from_torch_compile(self):
        """Here the operator runs in this process; `graft` has a process of its own for it."""
        backend = graft_fx.backend(self.rules(DOUBLE.replace("my.fused", "py.fused")), graft=str(GRAFT), libraries=[self.module],
                                   strict=True)
        fast = torch.compile(self.model, backend=backend)
        with torch.no_grad():
            torch.testing.assert_close(fast(self.x), self.model(self.x))
        self.assertEqual([report["rewritten"] for report in backend.reports], [True])
        self.assertEqual(backend.reports[0]["graft"]["steps"][0]["rewrites"], 1)

    def test_a_captured_model_calls_it(self):
        model, fx = Call(lambda x: torch.tanh(torch.ops.py.fused(x))), self.folder / "c.fx"
        graft_fx.capture(model, (self.x,), fx)
        self.assertEqual([m["operator"] for m in self.json("info", fx)["missingOperators"]], ["py.fused.default"])
        torch.testing.assert_close(self.output(fx, "--inputs", self.inputs, "--library", self.module), model(self.x))


main()
