"""graft compare: two models beside each other, inside too, in the dtype asked for."""

import json

import torch
from torch.nn import functional as F

from support import BUILD, TestCase, graft, main


class Net(torch.nn.Module):
    """Floating weights; `before` makes what they multiply of the input."""

    def __init__(self, before):
        super().__init__()
        self.before = before
        self.up, self.down = torch.nn.Linear(32, 64), torch.nn.Linear(64, 32)

    def forward(self, x):
        return self.down(torch.relu(self.up(self.before(x))))


class Steps(torch.nn.Module):
    """Writes to its input, and keeps a mean in a buffer."""

    def __init__(self, decay):
        super().__init__()
        self.decay = decay
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        x.add_(1)
        self.mean.mul_(self.decay).add_(x.mean(0), alpha=0.1)
        return x * 2


class Overflowing(torch.nn.Module):
    """Squares leave the range of float16, and their difference is NaN. Beside them, perhaps, something that has numbers."""

    def __init__(self, beside=False):
        super().__init__()
        self.beside, self.up = beside, torch.nn.Linear(32, 32)

    def forward(self, x):
        large = (x * 300.0 + 600.0) ** 2
        y = F.gelu(self.up(large - large.mean(-1, keepdim=True)))
        return (y, F.gelu(self.up(x))) if self.beside else y


class Relative(torch.nn.Module):
    """Squares leave the range of float16, and what they are divided by does, too."""

    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(32, 32)

    def forward(self, x):
        large = (x * 300.0 + 600.0) ** 2
        return F.gelu(self.up(large / large.mean(-1, keepdim=True)))


class Compare(TestCase):
    def setUp(self):
        super().setUp()
        torch.manual_seed(0)

    def models(self, before, x):
        """The model, and one whose second layer is another: the numbers part behind `relu`."""
        model = Net(before).eval()
        a, b = self.folder / "a.pt", self.folder / "b.pt"
        torch.jit.trace(model, x).save(str(a))
        with torch.no_grad():
            model.down.weight.mul_(1.05)
        torch.jit.trace(model, x).save(str(b))
        inputs = self.folder / "in.pt"
        torch.save((x,), inputs)
        return a, b, inputs

    def test_what_is_inside_is_compared_in_the_dtype_asked_for(self):
        cases = {
            "floating-point input": (torch.nn.Identity(), torch.randn(4, 32)),
            "integer input": (torch.nn.Embedding(10, 32), torch.arange(8).reshape(2, 4)),
        }
        for name, (before, x) in cases.items():
            a, b, inputs = self.models(before, x)
            for dtype, wanted in (("bfloat16", "bf16["), ("float64", "f64["), ("", "f32[")):
                with self.subTest(name, dtype=dtype):
                    asked = ["--inputs", inputs, "--seconds", "0.05", "--layers", *(["--dtype", dtype] if dtype else [])]
                    doc = self.json("compare", a, a, *asked)
                    self.assertGreaterEqual(len(doc["layers"]), 3)
                    for layer in doc["layers"]:
                        self.assertTrue(layer["type"].startswith(wanted), layer)
                        self.assertTrue(layer["passed"], layer)
                    self.assertTrue(doc["outputs"][0]["type"].startswith(wanted), doc["outputs"])
                    self.assertGreater(doc["timing"]["original"]["medianMs"], 0)
                    self.fails(5, "compare", a, b, *asked, says="the models differ")

    def test_what_models_leave_in_buffers_and_inputs_is_compared_too(self):
        x, paths = torch.randn(3, 4), []
        for decay in (0.9, 0.8):
            paths.append(self.folder / f"{decay}.pt")
            torch.jit.trace(Steps(decay), x.clone(), check_trace=False).save(paths[-1])
        inputs = self.file("in.pt", b"")
        torch.save((x,), inputs)
        asked = ["--inputs", inputs, "--seconds", "0.05"]
        same = self.json("compare", paths[0], paths[0], *asked)
        self.assertEqual([(d["name"], d["maxAbs"]) for d in same["outputs"]], [("0", 0), ("buffer mean", 0), ("input 0", 0)])
        run = self.fails(5, "compare", *paths, *asked, says="the models differ: buffer mean")
        self.assertRegex(run.stdout, r"(?m)^buffer mean .*FAILED")

    def test_models_in_two_dtypes_say_so_and_how_far_the_numbers_are_apart(self):
        a, b, inputs = self.models(torch.nn.Embedding(10, 32), torch.arange(4).reshape(1, 4))
        half = self.folder / "half.pt"
        self.done("convert", a, "--dtype", "float16", "-o", half)
        given = ("--inputs", inputs, "--seconds", "0.05")
        expected = torch.jit.load(a)(torch.load(inputs)[0])
        apart = (expected - torch.jit.load(half)(torch.load(inputs)[0]).float()).abs().max().item()
        run = self.fails(5, "compare", a, half, *given, "--layers",
                         says=("got f16[1,4,32], expected f32[1,4,32]; as numbers they agree by f16's tolerance: RMSE to the fp64",
                               "is allowed; --dtype brings both to one dtype"))
        row = next(line for line in run.stdout.splitlines() if line.startswith("0  "))
        self.assertIn("FAILED for its dtype: got f16[1,4,32]", row)
        self.assertAlmostEqual(float(row.split()[2]), apart, delta=0.2 * apart)
        self.assertIn("ok but for its dtype", run.stdout)
        self.assertIn("and all agree but for their dtypes", run.stdout)
        self.assertIn("as numbers they differ too by f16's tolerance",
                      self.fails(5, "compare", b, half, *given, says="--dtype brings both to one dtype").stderr)
        self.done("compare", a, half, *given, "--dtype", "float16")

        output = json.loads(graft("compare", a, half, *given, "--json").stdout)["outputs"][0]
        self.assertEqual((output["type"], output["actualType"]), ("f32[1,4,32]", "f16[1,4,32]"))
        self.assertTrue(output["dtypeAlone"] and not output["passed"] and output["maxAbs"] > 0, output)

    def test_inputs_that_one_model_takes_in_another_dtype_are_told_of(self):
        a, _, inputs = self.models(torch.nn.Identity(), torch.randn(4, 32))
        half = self.folder / "half.pt"
        self.done("convert", a, "--dtype", "float16", "-o", half)
        self.fails(3, "compare", a, half, "--inputs", inputs, says=("wants f16", "got f32[4,32]; --dtype brings both to one dtype"))
        self.done("compare", a, half, "--inputs", inputs, "--seconds", "0.05", "--dtype", "float16")

    def test_where_shapes_differ_no_figure_is_made_up(self):
        x, wider = torch.randn(4, 32), self.folder / "wider.pt"
        a, _, inputs = self.models(torch.nn.Identity(), x)
        torch.jit.trace(torch.nn.Linear(32, 33), x).save(str(wider))
        given = ("--inputs", inputs, "--seconds", "0.05")
        run = self.fails(5, "compare", a, wider, *given, says="got f32[4,33], expected f32[4,32]")
        self.assertRegex(run.stdout, r"(?m)^0 +f32\[4,32\] +- +- +- +- +- +FAILED: got f32\[4,33\]")
        output = json.loads(graft("compare", a, wider, *given, "--json").stdout)["outputs"][0]
        self.assertEqual((output["maxAbs"], output["cosine"]), (None, None))

    def test_several_models_are_one_table(self):
        a, b, inputs = self.models(torch.nn.Identity(), torch.randn(4, 32))
        wider = self.folder / "wider.pt"
        torch.jit.trace(torch.nn.Linear(32, 33), torch.randn(4, 32)).save(str(wider))
        given = ("--inputs", inputs, "--seconds", "0.05")
        run = self.done("compare", a, a, a, *given)
        self.assertEqual(len([line for line in run.stdout.splitlines() if str(a) in line]), 3)
        self.fails(5, "compare", a, b, a, *given, says=(f"{b} differs from {a}: output 0",))
        rows = json.loads(graft("compare", a, b, wider, *given, "--json").stdout)["models"]
        self.assertEqual([row["passed"] for row in rows], [True, False, False])
        self.assertEqual((rows[0]["outputs"], rows[0]["ratio"], rows[2]["maxAbs"]), ([], 1, None))
        self.assertGreater(rows[1]["maxAbs"], 0)
        self.assertEqual({row["model"]: row["kernels"] for row in rows}, {str(a): 3, str(b): 3, str(wider): 1})
        # One that does not run has a row that says why, and the others are compared.
        other = self.folder / "other.pt"
        torch.jit.trace(torch.nn.Linear(7, 7), torch.randn(4, 7)).save(str(other))
        rows = json.loads(graft("compare", a, other, a, *given, "--json").stdout)["models"]
        self.assertIn(str(other), rows[1]["obstacle"])
        self.assertTrue(rows[2]["passed"])
        self.fails(2, "compare", a, a, a, *given, "--layers", says="--layers compares two models")

    def test_inputs_made_up_are_in_the_dtype_asked_for(self):
        a, _, _ = self.models(torch.nn.Identity(), torch.randn(4, 32))
        doc = self.json("compare", a, a, "--input", "f32[4,32]", "--dtype", "bfloat16", "--layers", "--seconds", "0.05")
        self.assertTrue(all(layer["type"].startswith("bf16[") for layer in doc["layers"]), doc["layers"])

    def overflowing(self, beside=False):
        """The options of a call with a model that overflows in float16."""
        x = torch.rand(8, 32)
        model, inputs = self.folder / "m.pt", self.folder / "in.pt"
        torch.jit.trace(Overflowing(beside).eval(), x).save(str(model))
        torch.save((x,), inputs)
        return model, ["--inputs", inputs, "--dtype", "float16"]

    def test_a_comparison_without_numbers_fails(self):
        model, on = self.overflowing()
        ran = graft("compare", model, model, *on, "--seconds", 0.1, "--json")
        self.assertEqual(ran.returncode, 5, ran.stderr)
        document = json.loads(ran.stdout)
        self.assertTrue(document["nothingCompared"])
        self.assertRegex(document["overflow"]["operator"], r"^aten\.pow\.")
        [output] = document["outputs"]
        self.assertTrue(output["nothingCompared"])
        self.assertEqual((output["nonFinite"], output["maxAbs"]), (256, None))
        self.assertIn("nothing was compared: all 256 elements are NaN", ran.stderr)

    def test_what_overflows_stays_in_float32(self):
        x, fast = torch.rand(8, 32), self.folder / "fast.pt"
        model = torch.jit.trace(Relative().eval(), x)
        model.save(str(self.folder / "m.pt"))
        torch.save((x,), self.folder / "in.pt")
        ran = self.done("optimize", self.folder / "m.pt", "--inputs", self.folder / "in.pt", "--dtype", "float16", "-o", fast, "--no-timing", "--strict", "--json")
        result = json.loads(ran.stdout)["result"]
        [note] = result["notes"]
        self.assertRegex(note, r"^\d+ nodes stay in float32, because float16 overflows on these inputs: .*\bpow\b")
        self.assertIn(note, ran.stderr)
        self.assertTrue(result["verification"]["passed"])
        self.assertFalse(result["verification"].get("nothingCompared", False))
        torch.ops.load_library(BUILD / "lib" / "libgraft_ops.so")
        now, wide = torch.jit.load(fast)(x.half()), model(x)
        self.assertEqual(now.dtype, torch.float16)
        torch.testing.assert_close(now.float(), wide, rtol=1e-2, atol=1e-2)

    def test_a_result_without_numbers_is_not_called_verified(self):
        model, on = self.overflowing()
        fast, report = self.folder / "fast.pt", self.folder / "r.json"
        ran = self.done("optimize", model, *on, "-o", fast, "--report", report, "--no-timing")
        result = json.loads(report.read_text())["result"]
        self.assertFalse(result["unchanged"])
        self.assertIsNone(result["verification"]["passed"])
        self.assertTrue(result["verification"]["nothingCompared"])
        self.assertIn("nothing was compared: all 256 elements are NaN", ran.stderr)
        self.assertIn("the first that overflows is `pow` (aten.pow.", ran.stderr)
        fast.unlink()
        self.fails(5, "optimize", model, *on, "-o", fast, "--no-timing", "--strict", says=["nothing was compared", "--strict"])
        self.assertFalse(fast.exists())

    def test_an_output_without_numbers_beside_others_is_a_warning(self):
        model, on = self.overflowing(beside=True)
        ran = self.done("compare", model, model, *on, "--seconds", 0.1)
        self.assertIn("output 0.0 (f16[8,32]): nothing was compared: all 256 elements are NaN", ran.stderr)


main()
