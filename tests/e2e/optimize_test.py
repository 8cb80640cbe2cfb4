"""graft optimize and graft match without rules: the recipes that come with Graft, tried on models that nobody told them of. What is kept
depends on the machine; so these tests use rewrites whose speed no machine doubts, in a program of their own beside rules of their own."""

import json
import os
import shutil
import subprocess
import sys
from unittest import mock

import torch
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
from engine_client import Engine  # noqa: E402
from support import BUILD, GRAFT, OPERATORS, TestCase, graft, main

# Both rewrites compute the same. GELU in one operator is many times as fast as in eight; a maximum along a new dimension of two is
# many times slower than ReLU.
SHIPPED = """import torch
import torch.nn.functional as F
from graft import Recipe, Rule, eliminate_dead, normalize


class OneGelu(Rule):
    def pattern(x):
        return 0.5 * x * (1.0 + torch.tanh(0.7978845608028654 * (x + 0.044715 * torch.pow(x, 3.0))))

    def replacement(x):
        return F.gelu(x, approximate="tanh")


class OneExactGelu(Rule):
    def pattern(x):
        return 0.5 * x * (1.0 + torch.erf(x * 0.7071067811865476))

    def replacement(x):
        return F.gelu(x)


class SlowRelu(Rule):
    def pattern(x):
        return F.relu(x)

    def replacement(x):
        return torch.amax(torch.stack([x, torch.zeros_like(x)], dim=-1), dim=-1)


class Wrong(Rule):
    def pattern(x):
        return torch.sin(x)

    def replacement(x):
        return torch.cos(x)


class Both(Recipe):
    steps = [normalize, OneGelu, SlowRelu, eliminate_dead]


class Less(Recipe):
    steps = [normalize, SlowRelu]


class More(Recipe):
    steps = [SlowRelu, OneExactGelu]


class Mistaken(Recipe):
    steps = [Wrong]
"""


class Gelu(nn.Module):
    def forward(self, x):
        return 0.5 * x * (1.0 + torch.tanh(0.7978845608028654 * (x + 0.044715 * torch.pow(x, 3.0))))


class ExactGelu(nn.Module):
    def forward(self, x):
        return 0.5 * x * (1.0 + torch.erf(x * 0.7071067811865476))


class Odd(nn.Module):
    """Nothing that comes with Graft fits it."""

    def forward(self, x):
        return x.sort(dim=-1).values


class OptimizeTest(TestCase):
    def setUp(self):
        super().setUp()
        self.out, self.inputs, self.x = self.folder / "fast.pt", self.folder / "in.pt", torch.randn(128, 2048)
        torch.save((self.x,), self.inputs)
        self.common = ("--inputs", self.inputs, "--seconds", "0.5", "--budget", "20", "-o", self.out)

    def model(self, module, name="m.pt"):
        path, module = self.folder / name, module.eval()
        if name.endswith(".pt2"):
            torch.export.save(torch.export.export(module, (self.x,)), path)
        else:
            torch.jit.trace(module, self.x, check_trace=False).save(str(path))
        return path

    def expected(self, module):
        torch.save(module.eval()(self.x), self.folder / "expected.pt")
        return ("--inputs", self.inputs, "--expect", self.folder / "expected.pt")


class OwnRules(OptimizeTest):
    """A program beside rules of the test's own."""

    rules = ""

    @classmethod
    def setUpClass(cls):
        import tempfile
        holder = tempfile.TemporaryDirectory(prefix="graft-e2e-", dir=BUILD)
        cls.addClassCleanup(holder.cleanup)
        cls.program = os.path.join(holder.name, "bin", "graft")
        rules = os.path.join(holder.name, "share", "graft", "rules")
        os.makedirs(os.path.dirname(cls.program))
        os.makedirs(rules)
        try:
            os.link(GRAFT, cls.program)
        except OSError:
            shutil.copy2(GRAFT, cls.program)
        with open(os.path.join(rules, "own.py"), "w") as file:
            file.write(cls.rules)

    def optimize(self, model, *more, code=0, threads=1):
        command = [self.program, "optimize", model, *self.common, "--json", *more]
        run = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300,
                             env={**os.environ, "GRAFT_OPS": str(OPERATORS), "OMP_NUM_THREADS": str(threads)})
        self.assertIn(run.returncode, code if isinstance(code, tuple) else (code,), run.stdout + run.stderr)
        return json.loads(run.stdout)


class Chosen(OwnRules):
    rules = SHIPPED

    def test_the_engine_makes_it_a_step_that_another_engine_repeats(self):
        module = nn.Sequential(Gelu(), nn.ReLU())
        path = str(self.model(module))

        def engine():
            with mock.patch.dict(os.environ, OMP_NUM_THREADS="1"):  # it is timed by its own time, whatever runs beside it
                out = Engine([self.program, "engine"])
            self.addCleanup(out.kill)
            return out

        def ask(one, method, **params):
            reply = one.ask(method, **params)
            self.assertIn("result", reply, reply)
            return reply["result"]

        first, second = engine(), engine()
        for one in (first, second):
            self.assertEqual(ask(one, "model/open", path=path, inputs=str(self.inputs), graph="none")["document"], 1)
        made = ask(first, "model/optimize", document=1, seconds=0.5, budget=20)
        rules = {r["rule"]: r for r in made["report"]["rules"]}
        self.assertEqual((rules["OneGelu"]["kept"], rules["SlowRelu"]["kept"]), (True, False))
        self.assertLess(rules["OneGelu"]["without"]["ratio"], 1)  # without it the model is slower
        self.assertGreater(made["report"]["result"]["timing"]["ratio"], 1)
        self.assertNotIn("output", made["report"]["result"])
        self.assertEqual([r["rule"] for r in made["records"]], ["OneGelu"])
        self.assertEqual(made["verdicts"]["verified"], 1)
        self.assertEqual([len(s["records"]) for s in ask(first, "model/history", document=1)["steps"]], [0, 1])
        again = ask(second, "model/optimize", document=1, plan=made["plan"], verify=False)
        self.assertEqual((again["graph"], again["records"][0]["removed"]), (made["graph"], made["records"][0]["removed"]))
        # Without inputs the engine makes some up, and the types that they give are those of the step.
        for one in (first, second):
            self.assertEqual(ask(one, "model/open", path=path, graph="none")["document"], 2)
        made = ask(first, "model/optimize", document=2, seconds=0.5, budget=20)
        again = ask(second, "model/optimize", document=2, plan=made["plan"])
        self.assertEqual(again["graph"], made["graph"])
        # From there nothing is left to do, and nothing changes.
        rest = ask(first, "model/optimize", document=1, seconds=0.2, budget=10)
        self.assertNotIn("records", rest)
        self.assertTrue(rest["report"]["whyUnchanged"])
        self.assertEqual(ask(first, "model/history", document=1)["position"], 1)
        # It can be stopped.
        ask(first, "model/undoTo", document=1, step=0, graph="none")
        ident = first.send("model/optimize", {"document": 1, "budget": 500})
        first.send_raw(json.dumps({"jsonrpc": "2.0", "method": "$/cancel", "params": {"id": ident}}).encode())
        self.assertEqual(first.reply()["error"]["code"], -32800)
        self.assertEqual(ask(first, "model/history", document=1)["position"], 0)

    def test_what_makes_it_faster_is_kept_and_what_makes_it_slower_is_left_out(self):
        module = nn.Sequential(Gelu(), nn.ReLU())
        report = self.optimize(self.model(module))
        self.assertEqual([(r["recipe"], r["kept"], r["why"]) for r in report["recipes"]],
                         [("Both", True, ""), ("Less", False, "Both does the same and more")])
        rules = {r["rule"]: r for r in report["rules"]}
        self.assertTrue(rules["OneGelu"]["kept"], report)
        self.assertEqual((rules["SlowRelu"]["kept"], rules["SlowRelu"]["why"], rules["SlowRelu"]["without"]["speed"]),
                         (False, "the model is faster without it", "faster"))
        result = report["result"]
        self.assertEqual((result["recipe"], result["timing"]["speed"], result["timing"]["timed"]),
                         ("Both without SlowRelu", "faster", "written file (TorchScript)"))
        self.assertTrue(result["verification"]["passed"])
        operators = self.json("info", self.out)["operators"]
        self.assertFalse(report["outOfTime"])
        self.assertEqual([s["stage"] for s in report["stages"]], ["inputs", "recipes", "rules", "rewritten", "verified", "timed", "written"])
        seconds = [s["seconds"] for s in report["stages"]]
        self.assertEqual(seconds, sorted(seconds))
        self.assertIn("aten.gelu.default", operators)
        self.assertIn("aten.relu.default", operators)
        self.done("run", self.out, *self.expected(module))

    def test_one_thread_is_timed_by_its_own_time(self):
        module = nn.Sequential(Gelu(), nn.Tanh())
        self.x = torch.randn(1024, 2048)  # with two threads, a smaller tensor gains little
        torch.save((self.x,), self.inputs)
        for threads, clock in ((1, "the thread's own time"), (2, "wall time")):
            # The file may be no faster on a busy machine. Its times say how it was timed all the same.
            report = self.optimize(self.model(module), code=(0, 7), threads=threads)
            timing = report["rejected"] if report["result"].get("unchanged") else report["result"]["timing"]
            self.assertIn(f", {clock} of whole runs", timing["protocol"])

    def test_two_recipes_together_without_the_rule_that_both_have(self):
        module = nn.Sequential(Gelu(), nn.ReLU(), ExactGelu())
        report = self.optimize(self.model(module))
        recipes = {r["recipe"]: r for r in report["recipes"]}
        self.assertEqual((recipes["Both"]["kept"], recipes["More"]["kept"]), (True, True), report)
        # With the slow rule in both, it depends on the processor which of the two is first.
        self.assertIn((recipes["Both"].get("behind"), recipes["More"].get("behind")), [(None, "Both"), ("More", None)], report)
        self.assertEqual({r["rule"] for r in report["rules"] if not r["kept"]}, {"SlowRelu"})
        self.assertEqual({s["name"] for s in report["result"]["steps"] if s["isRule"] and s["rewrites"]}, {"OneGelu", "OneExactGelu"})
        self.assertIn("aten.relu.default", self.json("info", self.out)["operators"])
        self.done("run", self.out, *self.expected(module))

    def test_a_model_that_only_becomes_slower_stays_as_it_is(self):
        model = self.model(nn.ReLU())
        report = self.optimize(model, code=7)
        self.assertEqual((report["whyUnchanged"], report["recipes"][0]["kept"], report["recipes"][0]["beside"]["speed"]),
                         ("the written file is slower", False, "slower"))
        self.assertTrue(report["result"]["unchanged"])
        self.assertNotIn("output", report["result"])
        self.assertLess(report["rejected"]["ratioHigh"], 1)
        self.assertFalse(self.out.exists())
        report = self.optimize(model, "--allow-unchanged")
        self.assertEqual(self.out.read_bytes(), model.read_bytes())

    def test_pytorch_is_silent_about_inputs_that_verification_makes_up(self):
        class Spread(nn.Module):
            def forward(self, x):
                return Gelu()((x - x.mean(0)) / (x.var(0) + 1)) * x.std()  # of one row, PyTorch warns

        rules = os.path.join(os.path.dirname(self.program), "..", "share", "graft", "rules", "own.py")
        command = (self.program, "apply", self.model(Spread()), "--rules", rules, "--recipe", "Both", "--inputs", self.inputs, "-o", self.out)

        def warnings(*more):
            run = subprocess.run(list(map(str, command + more)), capture_output=True, text=True, env={**os.environ, "GRAFT_OPS": str(OPERATORS)})
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertIn("1 of 1", run.stdout)
            return run.stderr.count("var(): degrees of freedom")

        self.assertEqual(warnings("--no-timing"), 0)
        # Of the user's own inputs it warns, and once, however many runs are timed.
        torch.save((torch.randn(1, 64),), self.inputs)
        self.assertEqual(warnings("--seconds", "0.1"), 1)

    def test_what_verification_takes_back_is_not_kept(self):
        class Sine(nn.Module):
            def forward(self, x):
                return torch.sin(x) + 1

        report = self.optimize(self.model(Sine()), code=7)
        self.assertEqual(report["whyUnchanged"], "verification took back all rewrites")
        self.assertFalse(self.out.exists())

    def test_a_torch_export_model_goes_into_a_torch_export_file(self):
        self.out = self.folder / "fast.pt2"
        self.common = (*self.common[:-1], self.out)
        module = nn.Sequential(Gelu(), nn.Tanh())
        result = self.optimize(self.model(module, "m.pt2"))["result"]
        self.assertEqual((result["format"], result["timing"]["timed"]), ("torch.export", "written file (torch.export, in Python)"))
        self.done("run", self.out, *self.expected(module))
        report = self.optimize(self.folder / "m.pt2", "--no-timing")
        self.assertNotIn("timing", report["result"])
        self.assertNotIn("timed", [s["stage"] for s in report["stages"]])
        self.done("run", self.out, *self.expected(module))

    def test_a_torch_export_file_is_timed_whatever_holds_its_inputs(self):
        class Named(Gelu):
            def forward(self, tensors, factors):
                return super().forward(tensors["x"]) * factors[0] + tensors["m"]

        self.out = self.folder / "fast.pt2"
        self.common = (*self.common[:-1], self.out)
        inputs = ({"x": self.x, "m": torch.randn(2048)}, [torch.randn(1)])
        torch.export.save(torch.export.export(Named(), inputs), self.folder / "m.pt2")
        torch.save(inputs, self.inputs)
        report = self.optimize(self.folder / "m.pt2", code=(0, 7))
        timing = report["rejected"] if report["result"].get("unchanged") else report["result"]["timing"]
        self.assertEqual(timing["timed"], "written file (torch.export, in Python)", timing)

    def test_without_time_the_best_guess_is_kept_and_the_report_says_so(self):
        self.common = [0.001 if option == "20" else option for option in self.common]
        report = self.optimize(self.model(nn.Sequential(Gelu(), nn.Tanh())))
        self.assertTrue(report["outOfTime"])
        self.assertEqual([r["why"] for r in report["rules"]], ["not tried: the time for trying was over (--budget)"])
        self.assertTrue(report["result"]["output"])
        # Verification has a part of the budget; the given inputs are tried always.
        verification = report["result"]["verification"]
        self.assertEqual([verification[k] for k in ("passed", "inputSets", "outOfTime")], [True, 1, True])


class Frozen(OwnRules):
    """Where nothing faster is kept, what freezing does."""

    rules = SHIPPED[:SHIPPED.index("class Both")] + """
class SlowAbs(Rule):
    def pattern(x):
        return torch.abs(torch.neg(torch.abs(torch.neg(x))))

    def replacement(x):
        return torch.amax(torch.stack([x, torch.neg(x)], dim=-1), dim=-1)


class Few(Recipe):
    steps = [normalize, OneGelu, SlowAbs, eliminate_dead]


class Folded(Recipe):
    steps = [normalize, OneGelu, eliminate_dead]
"""

    def test_a_file_that_is_slower_gives_way_to_what_freezing_does(self):
        class FourTimes(nn.Module):
            def forward(self, x):
                return torch.abs(torch.neg(torch.abs(torch.neg(x))))

        module = nn.Sequential(Gelu(), *(FourTimes() for _ in range(4)))
        self.common = [0.001 if option == "20" else option for option in self.common]  # without trials, the slow rule stays
        report = self.optimize(self.model(module))
        recipes = {r["recipe"]: (r["kept"], r["why"]) for r in report["recipes"]}
        self.assertEqual((recipes["Few"], recipes["Folded"]), ((False, "the written file is slower"), (True, "")), report)
        self.assertEqual((report["result"]["recipe"], report["result"]["verification"]["passed"]), ("Folded", True))
        self.assertNotEqual(report["result"]["timing"]["speed"], "slower")
        text = subprocess.run(list(map(str, [self.program, "optimize", self.folder / "m.pt", *self.common])), capture_output=True, text=True,
                              timeout=300, env={**os.environ, "GRAFT_OPS": str(OPERATORS), "OMP_NUM_THREADS": "1"})
        self.assertIn("Few is not kept: the written file is slower", text.stdout + text.stderr)
        self.done("run", self.out, *self.expected(module))


class Fused(OwnRules):
    """Generated kernels, timed one by one."""

    rules = "from graft import Recipe, fuse\n\n\nclass Fused(Recipe):\n    steps = [fuse()]\n"

    def test_a_kernel_that_is_slower_in_place_becomes_operators_again(self):
        # Of doubles, a kernel calls the C library for each element, where PyTorch has vectors.
        class Model(nn.Module):
            def forward(self, x):
                y = torch.tanh(x * 2 + 1) * torch.relu(x) + torch.sigmoid(x)
                z = ((y * 0.5 + 1).abs().neg() * x).clamp(min=-3) + y
                return z, torch.log1p(torch.cosh(torch.exp(torch.tanh(x[:4].double()))))

        module = Model()
        report = self.optimize(self.model(module))
        groups = {g["kernel"]: g for g in report["groups"]}
        slow = [g for name, g in groups.items() if "log1p" in name]
        self.assertEqual(len(slow), 1, report)
        self.assertFalse(slow[0]["kept"], report)
        self.assertRegex(slow[0]["why"], r"^slower in place: [\d.]+ µs beside [\d.]+ µs$")
        self.assertEqual(slow[0]["beside"]["speed"], "slower")
        self.assertGreater(slow[0]["kernelMicroseconds"], slow[0]["operatorsMicroseconds"])
        kept = [g for g in report["groups"] if g["kept"]]
        self.assertTrue(kept and all(g["beside"] and g["why"] == "" for g in kept), report)
        operators = self.json("info", self.out)["operators"]
        self.assertIn("aten.cosh.default", operators)
        self.assertIn("graft.generated.default", operators)
        self.assertNotIn("aten.sigmoid.default", operators)
        self.assertEqual(sum(s["rewrites"] for s in report["result"]["steps"]), len(kept))
        self.done("run", self.out, *self.expected(module))


    def test_kernels_that_read_what_stays_in_float32_are_timed(self):
        class Model(nn.Module):
            def forward(self, x):
                place = torch.arange(x.shape[0])
                apart = (place[None] - place[:, None]).float()  # of whole numbers: it stays in float32
                norm = torch.linalg.matrix_norm(apart.reshape(-1, 1, x.shape[0])).reshape(-1, 1)  # no kernel has it
                y = torch.tanh(x) * torch.sigmoid(x) + (norm * 0.01).cos().exp().sin()
                return torch.sin(y) * 1.5 + y.cos()

        report = self.optimize(self.model(Model()), "--dtype", "float16")
        self.assertTrue(any("cos_exp" in g["kernel"] for g in report["groups"]), report)
        self.assertEqual([g["why"] for g in report["groups"] if g["why"].startswith("not timed")], [])


class Shipped(OptimizeTest):
    """With the rules that come with Graft."""

    def test_a_model_that_nothing_fits_gets_advice(self):
        model = self.model(Odd())
        run = graft("optimize", model, *self.common)
        self.assertEqual(run.returncode, 7, run.stderr)
        self.assertIn("none of the recipes that come with Graft fits it", run.stderr)
        self.assertRegex(run.stdout, r"Its time goes into .*aten\.sort \(\d+ %, 1 call\)")
        self.assertIn(f"graft profile {model}", run.stdout)
        self.assertFalse(self.out.exists())
        said = self.done("match", model)
        self.assertIn("none of the recipes that come with Graft fits", said.stdout)
        self.assertNotIn("Its time goes into", said.stdout)  # match runs nothing

    def test_the_step_after_which_the_whole_is_wrong_is_left_out(self):
        class Mean(nn.Module):
            """Of many places. Their own rounding errors cancel out, those of a folded weight do not."""

            def __init__(self):
                super().__init__()
                self.conv, self.norm = nn.Conv2d(8, 32, 3, bias=False), nn.BatchNorm2d(32)
                with torch.no_grad():
                    self.norm.running_var.fill_(2)
                    self.norm.running_mean.copy_(20 * self.conv.weight.sum((1, 2, 3)))

            def forward(self, x):
                return torch.relu(self.norm(self.conv(x))).float().mean((2, 3))

        torch.manual_seed(1)
        module = Mean()
        self.x = 20 + torch.randn(1, 8, 40, 40)
        torch.save((self.x,), self.inputs)
        report = self.json("optimize", self.model(module), *self.common, "--dtype", "float16", "--no-timing")
        wrong = [r for r in report["rules"] if r["rule"] == "FoldBatchNorm"]
        self.assertEqual([r["kept"] for r in wrong], [False], report)
        self.assertTrue(wrong[0]["why"].startswith("with it, the whole model computes something else: "), report)
        self.assertTrue(any(r["kept"] for r in report["rules"]), report)
        said = self.done("optimize", self.folder / "m.pt", *self.common, "--dtype", "float16", "--no-timing").stdout
        self.assertIn("left out FoldBatchNorm: with it, the whole model computes something else", said)
        self.assertIn("without FoldBatchNorm", report["result"]["recipe"])
        self.assertTrue(report["result"]["verification"]["passed"], report)
        half = torch.jit.load(str(self.model(module))).half()
        torch.ops.load_library(str(OPERATORS))
        expected, written = half(self.x.half()), torch.jit.load(str(self.out))(self.x.half())
        self.assertLess((expected - written).abs().max().item(), 2e-3)

    def test_a_model_that_a_recipe_fits_is_written_verified_or_left_alone(self):
        module = nn.Sequential(nn.Linear(2048, 256), Gelu(), nn.Linear(256, 32), Gelu())
        model = self.model(module)
        [found] = self.json("match", model)["models"]
        self.assertIn({"name": "NewGelu", "rewrites": 2}, [r for f in found["recipes"] for r in f["rules"]])
        self.assertEqual(found["advice"], [])
        self.assertIn(f"graft optimize {model} --inputs {self.inputs} -o", self.done("match", model, "--inputs", self.inputs).stderr)
        kept = self.file("fast.pt", "an earlier result")
        run = graft("optimize", model, *self.common, "--json")
        self.assertIn(run.returncode, (0, 7), run.stderr)
        report = json.loads(run.stdout)
        self.assertEqual(any(r["kept"] for r in report["recipes"]), run.returncode == 0)
        if run.returncode == 7:
            return self.assertEqual(kept.read_text(), "an earlier result")
        self.assertIn(report["result"]["timing"]["speed"], ("faster", "same", "untold"))
        self.done("run", self.out, *self.expected(module))

    def test_the_model_itself_is_not_overwritten_and_wrong_inputs_are_told(self):
        model = self.model(nn.ReLU())
        self.fails(2, "optimize", model, "--inputs", self.inputs, "-o", model, says="would be overwritten")
        self.fails(2, "optimize", model, "--inputs", self.inputs, "-o", self.folder / "m.onnx", says=".pt for torchscript")
        self.fails(3, "optimize", model, "--inputs", self.folder / "nowhere.pt", "-o", self.out, says="nowhere.pt")

    def test_an_interrupt_leaves_nothing_half_written(self):
        kept, model = self.file("fast.pt", "an earlier result"), self.model(nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(4)]))
        command = [GRAFT, "optimize", model, *self.common]
        for delay in (0.5, 1.5):
            self.interrupt(command, delay)
            self.assertEqual(kept.read_text(), "an earlier result")
            self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["fast.pt", "in.pt", "m.pt"])


main()
