"""Rules that change numbers on purpose, and what they leave in the files: tolerances, weights that stay as they are until the
model runs, results of other shapes, new modules with weights.

    rules_test.py BUILD_FOLDER
"""

import sys
import unittest

from support import OPERATORS, SOURCE, TestCase

import torch
from torch import nn
from torch.nn import functional as F

INT8 = """
class Int8(Rule):
    tolerance = {tolerance}

    def pattern(x, w: Weight, b: Weight):
        return F.linear(x, w, b)

    def replacement(x, w: Weight, b: Weight):
        scale = w.abs().amax(dim=1, keepdim=True) / 127.0
        q = runtime(torch.round(w / scale).to(torch.int8))
        return F.linear(x, q.to(x.dtype) * scale, b)

class Fold(Recipe):
    steps = [fold_constants, Int8, fold_constants]
"""
# Tidies up what was read again, and rewrites something, for what nothing rewrites is not written.
FOLD_AGAIN = """
class Clamp(Rule):
    def pattern(x):
        return F.relu(x)

    def replacement(x):
        return torch.clamp(x, min=0)

class Fold(Recipe):
    steps = [fold_constants, Clamp, fold_constants]
"""


class Rules(TestCase):
    def model(self):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8)).eval()
        self.input = torch.randn(4, 16)
        self.path, self.inputs = self.folder / "m.pt", self.folder / "in.pt"
        torch.jit.trace(model, (self.input,)).save(str(self.path))
        torch.save([self.input], self.inputs)
        return model

    def apply(self, rules, output, model=None, *options):
        return self.of_model("apply", model or self.path, "--rules", self.file("rules.py", rules), "--inputs", self.inputs,
                             "-o", self.folder / output, "--no-timing", *options)

    def test_int8_weights_stay_int8_in_every_format_and_after_reading_them_again(self):
        model = self.model()
        rules = INT8.replace("{tolerance}", "0.02")
        for output in ("out.pt", "out.pt2"):
            report = self.apply(rules, output, None, "--recipe", "Fold")
            step = next(s for s in report["steps"] if s["name"] == "Int8")
            self.assertEqual(step["rewrites"], 2)
            for record in step["records"]:
                self.assertEqual(record["verification"]["verdict"], "measured")
                self.assertLess(record["verification"]["relativeRmse"], 0.02)
                self.assertIn("2 %", record["verification"]["tolerance"])
            again = self.apply(FOLD_AGAIN, "again" + output[3:], self.folder / output, "--recipe", "Fold")
            self.assertEqual(again["nodesBefore"], again["nodesAfter"])
        read = {"out.pt": torch.jit.load(self.folder / "again.pt"),
                "out.pt2": torch.export.load(str(self.folder / "again.pt2")).module()}
        for loaded in read.values():
            dtypes = [t.dtype for t in loaded.state_dict().values()]
            self.assertEqual(dtypes.count(torch.int8), 2)
            torch.testing.assert_close(loaded(self.input), model(self.input), rtol=0.1, atol=0.02)
        sys.path.insert(0, str(SOURCE / "resources/python"))
        import graft_fx
        graft_fx.save(read["out.pt2"], str(self.folder / "out.fx"), (self.input,))
        back = FOLD_AGAIN.replace("return torch.clamp(x, min=0)", "return relu").replace("F.relu(x)", "torch.clamp(x, min=0)")
        fx = self.apply(back.replace("return relu", "return F.relu(x)"), "fx.pt", self.folder / "out.fx", "--recipe", "Fold")
        self.assertTrue(fx["verification"]["passed"])
        dtypes = [t.dtype for t in torch.jit.load(self.folder / "fx.pt").state_dict().values()]
        self.assertEqual(dtypes.count(torch.int8), 2)

    def test_a_rewrite_beyond_its_tolerance_is_taken_back(self):
        self.model()
        report = self.apply(INT8.replace("{tolerance}", "0.0001"), "out.pt", None, "--recipe", "Fold", "--allow-unchanged")
        step = next(s for s in report["steps"] if s["name"] == "Int8")
        self.assertEqual((step["rewrites"], len(step["rolledBack"])), (0, 2))
        self.assertIn("at most 0.01 % is allowed", step["rolledBack"][0]["verification"]["why"])

    def test_numbers_changed_on_purpose_are_no_failure(self):
        self.model()
        rule = self.file("rules.py", "class Silu(Rule):\n    changes_numbers = True\n"
                                     "    def pattern(x):\n        return torch.relu(x)\n"
                                     "    def replacement(x):\n        return F.silu(x)\n")
        run = self.done("apply", self.path, "--rules", rule, "--inputs", self.inputs, "-o", self.folder / "out.pt", "--no-timing")
        self.assertIn("changed on purpose", run.stdout)
        self.assertNotIn("FAILED", run.stdout + run.stderr)

    def test_a_result_of_another_shape_is_reported_and_written(self):
        self.model()
        rules = ("class Twice(Rule):\n    changes_numbers = True\n"
                 "    def pattern(x):\n        return torch.relu(x)\n"
                 "    def replacement(x):\n        return torch.cat([x, x])\n")
        report = self.apply(rules, "out.pt")
        record = report["steps"][0]["records"][0]
        self.assertEqual([(t["before"], t["after"]) for t in record["retyped"]], [("f32[4,32]", "f32[8,32]")])
        self.assertEqual(tuple(torch.jit.load(self.folder / "out.pt")(self.input).shape), (8, 8))

    def test_new_modules_come_along_with_their_weights(self):
        self.model()
        rules = """
class Gate(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.gate = nn.Parameter(torch.ones(size) * 2)
        self.register_buffer("shift", torch.zeros(size))

    def forward(self, x):
        return self.norm(x) * self.gate + self.shift

class Gated(Rule):
    changes_numbers = True

    class pattern(nn.Module):
        def __init__(self):
            self.relu = nn.ReLU()

        def forward(self, x):
            return self.relu(x)

    class replacement(nn.Module):
        def __init__(self):
            self.gate = Gate(32)

        def forward(self, x):
            return self.gate(x)

class Swap(Recipe):
    steps = [Gated, swap_module("2", nn.Linear(32, 4))]
"""
        for output in ("out.pt", "out.pt2"):
            self.apply(rules, output, None, "--recipe", "Swap")
        script = torch.jit.load(self.folder / "out.pt")
        exported = torch.export.load(str(self.folder / "out.pt2")).module()
        for loaded in (script, exported):
            state = loaded.state_dict()
            parameters = dict(loaded.named_parameters())
            self.assertEqual([n for n in state if n.startswith("gate.") and n in parameters],
                             [n for n in state if n.startswith("gate.") and n != "gate.shift"])
            self.assertEqual(sorted(n for n in state if n.startswith("gate.")),
                             ["gate.gate", "gate.norm.bias", "gate.norm.weight", "gate.shift"])
            self.assertEqual(tuple(state["linear.weight"].shape), (4, 32))
            self.assertLessEqual(state["linear.weight"].abs().max().item(), 32 ** -0.5)
            self.assertNotIn("2.weight", state)
        torch.testing.assert_close(script(self.input), exported(self.input))

    def test_new_recurrent_layers_compute_as_pytorchs_with_the_same_weights(self):
        rules = """
class New(Rule):
    changes_numbers = True

    class pattern(nn.Module):
        def __init__(self):
            self.relu = nn.ReLU()

        def forward(self, x):
            return self.relu(x)

    class replacement(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.MAKE

        def forward(self, x):
            RESULT = self.rnn(x)
            return y
"""
        torch.manual_seed(0)
        self.input = torch.randn(2, 5, 6)
        self.path, self.inputs = self.folder / "m.pt", self.folder / "in.pt"
        torch.jit.trace(nn.Sequential(nn.ReLU()), (self.input,)).save(str(self.path))
        torch.save([self.input], self.inputs)
        for make, result in (("LSTM(6, 4, num_layers=2, bidirectional=True, batch_first=True)", "y, (h, c)"), ("LSTM(6, 4, bias=False)", "y, _"),
                             ("GRU(6, 4, batch_first=True)", "y, h"), ("GRU(6, 4, 3, bidirectional=True)", "y, h"),
                             ("RNN(6, 4, nonlinearity='relu')", "y, h"), ("RNN(6, 4, 8)", "y, h")):
            with self.subTest(make):
                module = eval(f"nn.{make}").eval()
                for output in ("out.pt", "out.pt2"):
                    self.apply(rules.replace("MAKE", make).replace("RESULT", result), output)
                    path = str(self.folder / output)
                    loaded = torch.jit.load(path) if output == "out.pt" else torch.export.load(path).module()
                    weights = {name.removeprefix("rnn."): value for name, value in loaded.state_dict().items()}
                    self.assertEqual({name: tuple(w.shape) for name, w in weights.items()},
                                     {name: tuple(w.shape) for name, w in module.state_dict().items()})
                    self.assertLessEqual(max(w.abs().max().item() for w in weights.values()), 0.5)
                    module.load_state_dict(weights)
                    with torch.no_grad():
                        torch.testing.assert_close(loaded(self.input), module(self.input)[0])

    def test_a_new_recurrent_layer_takes_the_weights_that_the_pattern_reads(self):
        class Unrolled(nn.Module):
            def __init__(self):
                super().__init__()
                self.rnn = nn.RNN(6, 4, batch_first=True)

            def forward(self, x):
                w, u, b, c = self.rnn.weight_ih_l0, self.rnn.weight_hh_l0, self.rnn.bias_ih_l0, self.rnn.bias_hh_l0
                first = torch.tanh(F.linear(x[:, 0], w, b) + c)
                second = torch.tanh(F.linear(x[:, 1], w, b) + F.linear(first, u, c))
                return torch.stack([first, second], 1)

        rules = """
class Whole(Rule):
    class pattern(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.RNN(1, 1)

        def forward(self, x):
            first = torch.tanh(F.linear(x[:, 0], self.rnn.weight_ih_l0, self.rnn.bias_ih_l0) + self.rnn.bias_hh_l0)
            second = torch.tanh(F.linear(x[:, 1], self.rnn.weight_ih_l0, self.rnn.bias_ih_l0) + F.linear(first, self.rnn.weight_hh_l0, self.rnn.bias_hh_l0))
            return torch.stack([first, second], 1)

    class replacement(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.RNN(6, 4, batch_first=True)

        def forward(self, x):
            y, h = self.rnn(x)
            return y

    def where(x):
        return x.shape[1] == 2
"""
        torch.manual_seed(0)
        model, self.input = Unrolled().eval(), torch.randn(3, 2, 6)
        self.path, self.inputs = self.folder / "m.pt", self.folder / "in.pt"
        with torch.no_grad():
            torch.jit.trace(model, (self.input,)).save(str(self.path))
        torch.save([self.input], self.inputs)
        report = self.apply(rules, "out.pt")
        self.assertEqual(report["steps"][0]["records"][0]["verification"]["verdict"], "verified")
        loaded = torch.jit.load(self.folder / "out.pt")
        self.assertIn("aten::rnn_tanh", str(loaded.inlined_graph))
        self.assertEqual(sorted(dict(loaded.named_parameters())), sorted(dict(model.named_parameters())))
        with torch.no_grad():
            torch.testing.assert_close(loaded(self.input), model(self.input))

    def test_the_rewrites_that_spoil_the_whole_are_taken_back_and_the_others_stay(self):
        class Sensitive(nn.Module):
            """What the third ReLU is off by comes out a million times as large."""

            def forward(self, x):
                first, second = torch.relu(x), torch.relu(1 - x)
                third = torch.relu(x + 1)
                return first + second, (third - torch.clamp(x + 1, min=0)) * 1e6, torch.relu(x - 1)

        self.model()
        path = self.folder / "sensitive.pt"
        torch.jit.trace(Sensitive(), (self.input,)).save(str(path))
        rules = "def pattern(x): return torch.relu(x)\ndef replacement(x): return torch.relu(x) * 1.0000005\n"
        report = self.apply(rules, "out.pt", path)
        step = report["steps"][0]
        self.assertEqual((step["rewrites"], len(step["rolledBack"])), (3, 1))
        self.assertIn("the model as a whole differs", step["rolledBack"][0]["verification"]["why"])
        self.assertTrue(report["verification"]["passed"])
        self.assertEqual([report["bisection"][key] for key in ("rewrites", "takenBack", "complete")], [4, 1, True])
        self.assertIn("output 0.1", report["bisection"]["why"])
        with torch.no_grad():
            self.assertEqual(torch.jit.load(self.folder / "out.pt")(self.input)[1].abs().max(), 0)
        said = self.done("apply", path, "--rules", self.folder / "rules.py", "--inputs", self.inputs, "-o",
                         self.folder / "again.pt", "--no-timing").stderr
        self.assertIn("each of 4 rewrites passed its check, and the model as a whole did not", said)
        self.assertIn("1 rewrite was taken back; with the other 3 the model passes", said)

        class Spoilt(nn.Module):
            def forward(self, x):
                return (torch.relu(x) - torch.clamp(x, min=0)) * 1e6

        torch.jit.trace(Spoilt(), (self.input,)).save(str(path))
        self.fails(5, "apply", path, "--rules", self.folder / "rules.py", "--inputs", self.inputs, "-o",
                   self.folder / "none.pt", "--no-timing", says=("something else", "nothing was written"))

    def test_weights_in_channels_last_have_its_strides_also_where_both_layouts_are_one(self):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.full, self.depthwise, self.point = nn.Conv2d(8, 8, 3), nn.Conv2d(8, 8, 3, groups=8), nn.Conv2d(8, 4, 1)

            def forward(self, x):
                return self.point(self.depthwise(self.full(x)))

        x = torch.randn(2, 8, 9, 9)
        path, inputs = self.folder / "convs.pt", self.folder / "in.pt"
        torch.jit.trace(Net().eval(), (x,)).save(str(path))
        torch.save([x], inputs)
        self.of_model("apply", path, "--rules", SOURCE / "resources/rules/conv.py", "--recipe", "ConvNetChannelsLast", "--inputs", inputs,
                      "-o", self.folder / "last.pt", "--no-timing")
        torch.ops.load_library(str(OPERATORS))
        strides = {tuple(w.shape): w.stride() for w in torch.jit.load(self.folder / "last.pt").state_dict().values() if w.dim() == 4}
        self.assertEqual(strides, {(8, 8, 3, 3): (72, 1, 24, 8), (8, 1, 3, 3): (9, 1, 3, 1), (4, 8, 1, 1): (8, 1, 8, 8)})

    def test_a_new_convolution_has_a_kernel_of_two_sides(self):
        model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()).eval()
        self.input, self.inputs, path = torch.randn(2, 3, 8, 8), self.folder / "in.pt", self.folder / "m.pt"
        torch.jit.trace(model, (self.input,)).save(str(path))
        torch.save([self.input], self.inputs)
        rules = """
class Longer(Rule):
    changes_numbers = True

    class pattern(nn.Module):
        def __init__(self):
            self.relu = nn.ReLU()

        def forward(self, x):
            return self.relu(x)

    class replacement(nn.Module):
        def __init__(self):
            self.tall = nn.Conv2d(4, 5, (3, 1), padding=(1, 0))
            self.square = nn.Conv2d(5, 6, 3)

        def forward(self, x):
            return self.square(self.tall(x))
"""
        self.apply(rules, "out.pt", path)
        written = torch.jit.load(self.folder / "out.pt")
        state = written.state_dict()
        self.assertEqual(tuple(state["tall.weight"].shape), (5, 4, 3, 1))
        self.assertEqual(tuple(state["square.weight"].shape), (6, 5, 3, 3))
        self.assertLessEqual(state["tall.weight"].abs().max().item(), (4 * 3) ** -0.5)
        self.assertEqual(tuple(written(self.input).shape), (2, 6, 4, 4))


if __name__ == "__main__":
    unittest.main()
