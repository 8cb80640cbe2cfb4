"""The executor computes what PyTorch computes from the same file: sizes that a traced file only hints at, dtypes beside numbers, the
very bits where the operators are the same."""

import copy
import math

import torch
from torch import nn
from torch.nn import functional as F

from support import OPERATORS, RULES, TestCase, main

torch.set_num_threads(1)


class Frames(nn.Module):
    """The front end of speech models: strided convolutions leave few frames of many samples, and a slice takes the last away."""

    def __init__(self, kernels=(10, 3, 3, 3, 3, 2, 2)):
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv1d(8 if i else 1, 8, k, stride=2 if i else 5) for i, k in enumerate(kernels))
        self.places, self.q = nn.Conv1d(8, 8, 4, padding=2), nn.Linear(8, 8)

    def forward(self, x):
        x = x[:, None]
        for layer in self.layers:
            x = F.gelu(layer(x))
        x = (x + F.gelu(self.places(x)[:, :, :-1])).transpose(1, 2)
        heads = self.q(x).view(x.shape[0], x.shape[1], -1, 4).transpose(1, 2)
        return F.scaled_dot_product_attention(heads, heads, heads).transpose(1, 2).reshape(x.shape[0], x.shape[1], -1)


class Cut(nn.Module):
    """No more than 50 of each row: of a short example that is all, of what stands for its size it is 50."""

    def forward(self, x):
        x = x[:, :50]
        return x.reshape(x.shape[0], x.shape[1] // 2, -1)


class Grown(nn.Module):
    """Its layers lie in memory the other way round, so that their product depends on how PyTorch folds it."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(32, 96)

    def forward(self, x):
        return self.layer(x.transpose(0, 1)).pow(2).mean(-1)


class Beside(nn.Module):
    """Numbers beside tensors of every kind. What PyTorch was given as a number decides no dtype."""

    def forward(self, ids, x):
        rows, length = ids.shape
        last = ids.sum()  # no dimensions
        wide = torch.tensor(0.5, dtype=torch.float64)  # a tensor: it decides the dtype
        return (ids * 0.5, ids / 3, ids - 2, 1 - ids, 2.5 - ids, 1 / (ids + 1), ids // 2, ids % 2.5, 2.0 ** ids, ids * wide, last * 0.25,
                last / 3, last * x, x.mean() * 0.1, x.half() * 2.5, x.double() * 0.1, (ids > 3) * 2, (ids > 3) * 0.5,
                ids.to(torch.int32) * 3 + 0.5, ids.to(torch.uint8) + 1.5, torch.where(ids > 3, ids, 0.5), (rows * 0.5) * ids,
                (length / 3) * x, x * math.sqrt(length) + ids, torch.arange(length) / length, torch.arange(3) / 2)


class Alibi(nn.Module):
    """Attentions with distances that PyTorch adds in float32, whatever the model is in: half precision knows no 127.3."""

    def __init__(self, width=64, heads=4, layers=3):
        super().__init__()
        self.heads = heads
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))

    def forward(self, x):
        length = x.shape[1]
        places = torch.arange(length)
        slopes = torch.pow(2.0, -torch.arange(1, self.heads + 1).float())
        bias = slopes.view(1, -1, 1, 1) * (places.view(1, 1, 1, -1) - length + 1)
        hidden = places.view(1, 1, -1, 1) < places
        for layer in self.qkv:
            q, k, v = layer(x).view(x.shape[0], length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            scores = (torch.matmul(q, k.transpose(-1, -2)) / 4 + bias).masked_fill(hidden, torch.finfo(x.dtype).min)
            x = x + torch.matmul(torch.softmax(scores.float(), -1).to(v.dtype), v).transpose(1, 2).flatten(2)
        return x


class Doubled(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 4)

    def forward(self, ids):
        return self.layer(ids * 0.5)


class Across(nn.Module):
    """A decoder that looks at an encoder: both have as many rows, which an example of one row hardly shows."""

    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Linear(8, 8), nn.Linear(6, 8)

    def forward(self, x, y):
        x, y = self.one(x), self.other(y)
        return x.relu(), torch.bmm(torch.bmm(y, x.transpose(1, 2)).softmax(dim=-1), x)


class Registers(nn.Module):
    """A model whose configuration asks for none of something keeps a weight without elements for it."""

    def __init__(self):
        super().__init__()
        self.register, self.layer = nn.Parameter(torch.zeros(1, 0, 8)), nn.Linear(8, 8)

    def forward(self, x):
        return self.layer(torch.cat([self.register.expand(x.shape[0], -1, -1), x], dim=1))


class Numbers(TestCase):
    def same(self, model, inputs, *others, form="trace"):
        """Graft runs the file as PyTorch runs it, on `inputs`, which it is made with, and on `others`: equal bits."""
        torch.manual_seed(0)
        path = self.folder / ("model.pt" if form == "trace" else "model.pt2")
        if form == "trace":
            torch.jit.trace(model, inputs, check_trace=False).save(path)
            run = torch.jit.load(path)
        else:
            program = torch.export.export(model, inputs)
            torch.export.save(program, path)
            run = program.module()
        for given in (inputs, *others):
            torch.save(given, self.folder / "in.pt")
            with torch.no_grad():
                expected = run(*given)
            torch.save(expected, self.folder / "expected.pt")
            report = self.json("run", path, "--inputs", self.folder / "in.pt", "--expect", self.folder / "expected.pt")
            for difference in report["differences"]:
                self.assertEqual((difference["maxAbs"], difference["passed"]), (0, True), difference)
        return path

    def test_sizes_behind_many_strides(self):
        path = self.same(Frames().eval(), (torch.randn(1, 4000),), (torch.randn(2, 5003),), (torch.randn(1, 800),))
        text = self.done("text", path).stdout
        self.assertRegex(text, r"linear.* : f32\[s0,\(s1 - 80\)//320,8\]")
        # So few frames that every larger number of samples has more: the example's own sizes hold, and no other is wrong.
        self.same(Frames().eval(), (torch.randn(1, 420),), (torch.randn(1, 719),))

    def test_two_inputs_of_one_row_have_as_many_rows(self):
        path = self.same(Across().eval(), (torch.randn(1, 9, 8), torch.randn(1, 5, 6)), (torch.randn(3, 7, 8), torch.randn(3, 4, 6)))
        self.assertEqual([i["type"] for i in self.json("info", path)["inputs"]], ["f32[s0,s1,8]", "f32[s0,s4,6]"])

    def test_weights_without_elements(self):
        for form in ("trace", "export"):
            self.same(Registers().eval(), (torch.randn(2, 5, 8),), form=form)

    def test_sizes_that_stand_ins_do_not_show(self):
        self.same(Cut(), (torch.randn(3, 12),), (torch.randn(2, 30),))

    def test_dtypes_beside_numbers(self):
        inputs = torch.randint(1, 9, (2, 5)), torch.randn(2, 5)
        for form in ("trace", "export"):
            with self.subTest(form=form):
                self.same(Beside(), inputs, form=form)
                self.same(Doubled().eval(), (torch.ones(2, 3, dtype=torch.long),), form=form)

    def test_parameters_are_folded_as_pytorch_folds_them(self):
        for form in ("trace", "export"):
            self.same(Grown().eval(), (torch.randn(2, 9, 32),), form=form)

    def test_a_tensor_of_one_element_stands_for_a_number(self):
        @torch.jit.script
        def repeated(x, times: int, by: float, back: bool):
            for _ in range(times):
                x = torch.neg(torch.relu(x)) * by
            return -x if back else x

        path, given, rules = self.folder / "model.pt", self.folder / "in.pt", self.folder / "rules.py"
        repeated.save(str(path))
        rules.write_text("def pattern(x): return torch.neg(torch.relu(x))\ndef replacement(x): return -x.clamp(min=0)\n")
        x = torch.randn(2, 3)
        torch.save([x, torch.tensor(2), torch.tensor([0.5]), torch.tensor(True)], given)
        torch.save(repeated(x, 2, 0.5, True), self.folder / "expected.pt")
        self.done("run", path, "--inputs", given, "--expect", self.folder / "expected.pt")
        specifications = [w for s in ("f32[2,3]:randn", "i64[]:full(2)", "f32[]:full(0.5)", "b8[]:ones") for w in ("--input", s)]
        for inputs in (["--inputs", given], specifications):
            report = self.of_model("apply", path, "--rules", rules, *inputs, "-o", self.folder / "out.pt", "--no-timing")
            self.assertEqual(report["steps"][0]["records"][0]["verification"]["verdict"], "verified")
        torch.testing.assert_close(torch.jit.load(self.folder / "out.pt")(x, 3, 2.0, False), repeated(x, 3, 2.0, False))

    def test_distances_are_added_to_scores_in_float32_as_pytorch_does(self):
        torch.manual_seed(0)
        model, x = Alibi().eval(), torch.randn(1, 160, 64)
        path, given, out = (self.folder / f for f in ("m.pt", "in.pt", "out.pt"))
        torch.ops.load_library(OPERATORS)
        with torch.no_grad():
            torch.jit.trace(model, (x,), check_trace=False).save(path)
            torch.save((x,), given)
            expected = copy.deepcopy(model).double()(x.double())
            for dtype in (torch.float16, torch.bfloat16):
                name, fast = str(dtype).removeprefix("torch."), self.folder / "fast.pt"

                def error(y):
                    return ((y.double() - expected).square().mean() / expected.square().mean()).sqrt().item()

                eager = error(copy.deepcopy(model).to(dtype)(x.to(dtype)))
                self.done("run", path, "--inputs", given, "--dtype", name, "-o", out)
                self.assertLess(error(torch.load(out)), 1.3 * eager, name)
                report = self.of_model("apply", path, "--rules", RULES, "--recipe", "Encoder", "--inputs", given, "--dtype", name, "--no-timing", "-o", fast)
                self.assertEqual(sum(s["rewrites"] for s in report["steps"] if "Attention" in s["name"]), 3)
                self.assertLess(error(torch.jit.load(fast)(x.to(dtype))), 1.3 * eager, name)

    def test_a_note_tells_of_a_model_that_was_saved_in_training_mode(self):
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer, self.norm, self.dropout = nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)

            def forward(self, x):
                # Without statistics, as layers do that normalise their weights.
                return self.dropout(self.norm(self.layer(F.batch_norm(x, None, None, training=True))))

        path = self.folder / "m.pt"
        for mode, notes in (("train", 1), ("eval", 0)):
            torch.jit.trace(getattr(Model(), mode)(), (torch.randn(8, 4),), check_trace=False).save(path)
            report = self.of_model("apply", path, "--rules", RULES, "--recipe", "Encoder", "--input", "f32[8,4]:randn", "--no-timing", "--allow-unchanged",
                                   "-o", self.folder / "fast.pt")
            told = [n for n in report.get("notes", []) if "training mode (active dropouts: 1; batch norms that change their statistics: 1)" in n]
            self.assertEqual(len(told), notes, report.get("notes"))


main()
