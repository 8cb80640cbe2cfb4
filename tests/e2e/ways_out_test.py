"""Models out of Graft, called as they were before: torch.export's calling convention, formats into each other, code that runs."""

import collections
import dataclasses
import logging
import operator
import sys
import warnings
import zipfile

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils import _pytree as pytree

from support import SOURCE, TestCase, main

sys.path.insert(0, str(SOURCE / "resources/python"))
import graft_fx

RULE = """
from graft import Rule
import torch

class Twice(Rule):
    def pattern(x): return torch.relu(x)
    def replacement(x): return torch.clamp(x, min=0.0)
"""

Pair = collections.namedtuple("Pair", ["left", "right"])
pytree._register_namedtuple(Pair, serialized_type_name="ways_out_test.Pair")


@dataclasses.dataclass
class Box:
    first: torch.Tensor
    second: torch.Tensor


pytree.register_dataclass(Box, serialized_type_name="ways_out_test.Box")


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.frozen = nn.Parameter(torch.ones(4), requires_grad=False)
        self.register_buffer("shift", torch.arange(4.0))

    def core(self, x):
        return torch.relu(self.fc(x)) * self.frozen + self.shift


class Plain(Base):
    def forward(self, x):
        return self.core(x)


class Keywords(Base):
    def forward(self, ids, mask=None, flag=False, scale=1.0):
        out = self.core(ids) * scale
        return {"out": out * mask if mask is not None else out, "flag": -out if flag else out}


class Nested(Base):
    def forward(self, batch, extra):
        return (self.core(batch["x"]) + extra[0], [batch["deep"]["w"] * 2, extra[1][0] - 1])


class Pairs(Base):
    def forward(self, pair, *, box):
        return Pair(self.core(pair.left), pair.right + box.first), Box(box.second, self.core(box.first))


class Ordered(Base):
    def forward(self, x, times):
        return collections.OrderedDict(b=self.core(x) * times, a={3: x})


class Starred(Base):
    def forward(self, *xs, **more):
        return tuple(self.core(x) for x in xs) + (more["z"],)


class Unused(Base):
    def forward(self, x, nothing, unused, why="no"):
        return self.core(x), None


def r(*sizes):
    return torch.randn(*sizes)


CALLS = {
    "keywords": (Keywords, (), lambda: {"mask": r(2, 4), "ids": r(2, 4)}),
    "flags": (Keywords, lambda: (r(2, 4), None), lambda: {"flag": True, "scale": 2.0}),
    "nested": (Nested, lambda: ({"x": r(2, 4), "deep": {"w": r(3)}}, (r(4), [r(1)])), {}),
    "nested by name": (Nested, (), lambda: {"extra": (r(4), [r(1)]), "batch": {"x": r(2, 4), "deep": {"w": r(3)}}}),
    "ordered": (Ordered, lambda: (r(2, 4), 3), {}),
    "starred": (Starred, lambda: (r(2, 4), r(1, 4)), lambda: {"z": r(2)}),
    "unused": (Unused, lambda: (r(2, 4), None, r(7)), lambda: {"why": "yes"}),
}


def made(what):
    return what() if callable(what) else what


class Called(TestCase):
    def setUp(self):
        super().setUp()
        torch.manual_seed(0)
        warnings.simplefilter("ignore")
        logging.getLogger("torch._export.serde.serialize").setLevel(logging.ERROR)
        self.rule = self.file("rule.py", RULE)
        self.inputs = self.folder / "inputs.pt"

    def exported(self, model, args, kwargs):
        path = self.folder / "model.pt2"
        torch.export.save(torch.export.export(model.eval(), args, kwargs), path)
        return path

    def applied(self, path, *options, out="out.pt2", inputs=None):
        torch.save(inputs, self.inputs)
        output = self.folder / out
        self.done("apply", path, "--rules", self.rule, "--inputs", self.inputs, "--no-timing", "-o", output, *options)
        return output

    def called_alike(self, path, out, args, kwargs):
        before, after = torch.export.load(path), torch.export.load(out)
        self.assertEqual(before.call_spec.in_spec, after.call_spec.in_spec)
        with torch.no_grad():
            expected, got = before.module()(*args, **kwargs), after.module()(*args, **kwargs)
        self.assertEqual(pytree.tree_structure(expected), pytree.tree_structure(got))
        self.assertIs(type(expected), type(got))
        torch.testing.assert_close(pytree.tree_leaves(got), pytree.tree_leaves(expected))
        kinds = [{name: (type(t), t.requires_grad, t.dtype) for name, t in p.state_dict.items()} for p in (before, after)]
        for name, kind in kinds[1].items():
            self.assertEqual(kind, kinds[0][name], name)

    def test_a_program_is_called_as_it_was_before_it_was_rewritten(self):
        for name, (model, args, kwargs) in CALLS.items():
            with self.subTest(name):
                args, kwargs = made(args), made(kwargs)
                path = self.exported(model(), args, kwargs)
                self.called_alike(path, self.applied(path, inputs=(args, kwargs)), args, kwargs)

    def test_classes_that_python_registers_are_kept(self):
        args, kwargs = (Pair(r(2, 4), r(4)),), {"box": Box(r(2, 4), r(1))}
        path = self.exported(Pairs(), args, kwargs)
        plain = ((tuple(args[0]),), {"box": [kwargs["box"].first, kwargs["box"].second]})  # files of tensors hold no classes
        self.called_alike(path, self.applied(path, inputs=plain), args, kwargs)

    def test_converted_twice_it_is_the_same_program(self):
        args, kwargs = made(CALLS["nested"][1]), {}
        path = self.exported(Nested(), args, kwargs)
        script, back = self.folder / "model.pt", self.folder / "back.pt2"
        self.done("convert", path, "-o", script)
        self.done("convert", script, "-o", back)
        self.called_alike(path, back, args, kwargs)
        self.assertEqual(*(self.done("text", p).stdout for p in (path, back)))

    def test_inputs_are_what_the_model_is_called_with(self):
        x, mask = r(2, 4), r(2, 4)
        path = self.exported(Keywords(), (x,), {"mask": mask, "flag": True})
        expected = self.folder / "expected.pt"
        with torch.no_grad():
            torch.save(list(torch.export.load(path).module()(x, mask=mask, flag=True).values()), expected)
        forms = [((x,), {"mask": mask, "flag": True}), ((x,), {"mask": mask}), {"ids": x, "mask": mask}, (x, mask),
                 {"args": [x], "kwargs": {"mask": mask}}, (x, mask, True)]
        for given in forms:
            torch.save(given, self.inputs)
            self.done("run", path, "--inputs", self.inputs, "-o", self.folder / "out.pt")
            out, = [torch.load(self.folder / "out.pt")]
            torch.testing.assert_close(tuple(pytree.tree_leaves(out)), tuple(torch.load(expected)))

    def test_what_does_not_fit_the_call_is_told(self):
        x, mask = r(2, 4), r(2, 4)
        path = self.exported(Keywords(), (x,), {"mask": mask, "flag": True})
        for given, says in [({"ids": x}, "argument mask is missing"), (((x,), {"mask": mask, "flag": False}), "flag=True"),
                            ({"ids": x, "mask": mask, "labels": x}, "argument labels")]:
            torch.save(given, self.inputs)
            self.fails(3, "run", path, "--inputs", self.inputs, says=[says, "ids: f32[2,4], mask=f32[2,4], flag=True"])

    def test_a_capture_remembers_its_call(self):
        args = made(CALLS["nested"][1])
        path, out = self.folder / "model.fx", self.folder / "model.pt2"
        model = Nested().eval()
        graft_fx.capture(model, args, path)
        torch.save((args, {}), self.inputs)
        self.done("convert", path, "--inputs", self.inputs, "-o", out)
        with torch.no_grad():
            expected, got = model(*args), torch.export.load(out).module()(*args)
        torch.testing.assert_close(pytree.tree_leaves(got), pytree.tree_leaves(expected))

    def test_requires_grad_goes_through_every_format(self):
        x = r(2, 4)
        model = Plain().eval()
        names = {name: p.requires_grad for name, p in model.named_parameters()}
        with torch.no_grad():
            torch.jit.trace(model, (x,)).save(self.folder / "a.pt")
        graft_fx.capture(model, (x,), self.folder / "a.fx")
        torch.export.save(torch.export.export(model, (x,)), self.folder / "a.pt2")
        for ending in ("pt", "fx", "pt2"):
            for to in ("pt", "pt2"):
                out = self.folder / f"{ending}.out.{to}"
                self.done("convert", self.folder / f"a.{ending}", "-o", out)
                module = torch.export.load(out).module() if to == "pt2" else torch.jit.load(out)
                found = {name: p.requires_grad for name, p in module.named_parameters()}
                self.assertEqual(found, names, f"{ending} to {to}")


class Net(nn.Module):
    def __init__(self, **modules):
        super().__init__()
        for name, module in modules.items():
            setattr(self, name, module)


class Recurrent(Net):
    def forward(self, x):
        y, _ = self.rnn(x)
        return y[:, -1]


class Normed(Net):
    def forward(self, x):
        return self.norm(self.conv(x))


class Root(nn.Module):
    """A size that tracing computes by tensors, as embeddings of positions are resized."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(1, 16, 8))

    def forward(self, x):
        side = int(self.table.shape[1] ** 0.5)
        grid = self.table.reshape(1, side, side, 8).permute(0, 3, 1, 2)
        return x + F.interpolate(grid, size=x.shape[-2:], mode="bicubic")


class Computed(nn.Module):
    """One line whose sizes tracing computes by tensors."""

    def __init__(self, line):
        super().__init__()
        self.line = line

    def forward(self, x):
        return self.line(x)


def whole(number):
    """int(number), which tracing keeps: as libraries write it."""
    return number.to(torch.int64) if isinstance(number, torch.Tensor) else int(number)


class Products(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("w", torch.randint(-5, 5, (32, 16), dtype=torch.int8))

    def forward(self, x):
        scale = x.abs().amax(-1, keepdim=True) / 127
        return torch._int_mm((x / scale).round().to(torch.int8), self.w) * scale


class Counted(nn.Module):
    """Experts' tokens, as a mixture of experts counts them."""

    def forward(self, x):
        chosen = x.topk(2, dim=-1).indices
        counts = torch.histc(chosen.float().flatten(), bins=4, min=0, max=3)
        return counts.cumsum(0), chosen


TO_PROGRAMS = {  # a module, its inputs, whether it is scripted
    "group norm": (lambda: Normed(conv=nn.Conv2d(3, 4, 3), norm=nn.GroupNorm(2, 4)), lambda: (r(2, 3, 8, 8),), True),
    "instance norm": (lambda: Normed(conv=nn.Conv2d(3, 4, 3), norm=nn.InstanceNorm2d(4)), lambda: (r(2, 3, 8, 8),), True),
    "LSTM": (lambda: Recurrent(rnn=nn.LSTM(4, 5, 2, batch_first=True)), lambda: (r(2, 6, 4),), True),
    "both ways": (lambda: Recurrent(rnn=nn.LSTM(4, 5, bidirectional=True, batch_first=True)), lambda: (r(2, 6, 4),), True),
    "GRU": (lambda: Recurrent(rnn=nn.GRU(4, 5, batch_first=True)), lambda: (r(2, 6, 4),), True),
    "RNN": (lambda: Recurrent(rnn=nn.RNN(4, 5, batch_first=True)), lambda: (r(2, 6, 4),), True),
    "roots": (Root, lambda: (r(1, 8, 6, 6),), False),
    "integer products": (Products, lambda: (r(32, 32),), False),
    "counts": (Counted, lambda: (r(6, 4),), False),
}

SIZES_BY_TENSORS = {  # of a tensor of 2x6x4
    "half a size": lambda x: x[:, :whole(x.shape[1] * 0.5)],
    "half a size, twice": lambda x: x[:, :whole(x.shape[1] * 0.5)] * (x.shape[1] * 0.5),
    "a larger size": lambda x: F.interpolate(x, size=whole(x.shape[2] * 1.5)),
    "places of a size": lambda x: x + torch.arange(whole(x.shape[2] * 1.0)),
    "up to a multiple": lambda x: F.pad(x, (0, whole(torch.ceil(x.shape[1] / 5) * 5 - x.shape[1]))),
    "elements": lambda x: x.reshape(x.numel() // 4, 4),
}

BOOLS = {
    "mul": lambda x: x * True + 1, "add": lambda x: x + True, "sub": lambda x: x - False, "eq": lambda x: x == True,  # noqa: E712
    "where": lambda x: torch.where(x > 0, x, True), "full": lambda x: x + torch.full((3,), True),
    "full_like": lambda x: torch.full_like(x, True), "masked_fill": lambda x: x.masked_fill(x > 0, True),
    "clamp": lambda x: x.clamp(min=False), "maximum": lambda x: torch.logical_or(x > 0, x * False),
}


class Formats(TestCase):
    def setUp(self):
        super().setUp()
        torch.manual_seed(0)
        warnings.simplefilter("ignore")

    def test_torchscript_becomes_a_program(self):
        for name, (model, inputs, scripted) in TO_PROGRAMS.items():
            with self.subTest(name):
                module, inputs = model().eval(), inputs()
                path, given, out = (self.folder / f for f in ("m.pt", "in.pt", "m.pt2"))
                with torch.no_grad():
                    script = torch.jit.script(module) if scripted else torch.jit.trace(module, inputs, check_trace=False)
                script.save(path)
                torch.save(inputs, given)
                self.done("convert", path, "--inputs", given, "-o", out)
                with torch.no_grad():
                    torch.testing.assert_close(torch.export.load(out).module()(*inputs), script(*inputs), rtol=0, atol=0)
                if not scripted:  # what a trace knows without inputs
                    self.done("convert", path, "-o", out)

    def test_sizes_that_tracing_computes_by_tensors_become_numbers(self):
        for name, line in SIZES_BY_TENSORS.items():
            with self.subTest(name):
                x, (path, given, out) = r(2, 6, 4), (self.folder / f for f in ("m.pt", "in.pt", "m.pt2"))
                script = torch.jit.trace(Computed(line), (x,), check_trace=False)
                script.save(path)
                torch.save((x,), given)
                self.done("convert", path, "--inputs", given, "-o", out)
                torch.testing.assert_close(torch.export.load(out).module()(x), script(x), rtol=0, atol=0)
                out.unlink()
                self.fails(3, "convert", path, "-o", out, says="give the model's inputs (--inputs)")

    def test_a_number_out_of_a_tensor_that_a_run_computes_is_refused(self):
        script = torch.jit.trace(Computed(lambda x: x[:, : (x > 0).sum()]), (torch.ones(2, 6),), check_trace=False)
        script.save(self.folder / "m.pt")
        torch.save((torch.ones(2, 6),), self.folder / "in.pt")
        self.fails(3, "convert", self.folder / "m.pt", "--inputs", self.folder / "in.pt", "-o", self.folder / "m.pt2",
                   says="it reads a number out of a tensor that only a run computes")

    def test_the_parameters_of_a_recurrent_layer_keep_their_names(self):
        model = Recurrent(rnn=nn.LSTM(4, 5)).eval()
        torch.jit.script(model).save(self.folder / "m.pt")
        self.done("convert", self.folder / "m.pt", "-o", self.folder / "out.pt")
        found = dict(torch.jit.load(self.folder / "out.pt").named_parameters())
        self.assertEqual(set(found), set(dict(model.named_parameters())))

    def test_truth_values_stand_where_torchscript_wants_numbers(self):
        for name, f in BOOLS.items():
            for x in (r(3), torch.tensor([0, 1, 2]), torch.tensor([True, False, True])):
                with self.subTest(name, dtype=x.dtype):
                    try:
                        expected = f(x)
                    except RuntimeError:
                        continue  # PyTorch has no such operation of truth values

                    class M(nn.Module):
                        def forward(self, x):
                            return f(x)
                    path, out = self.folder / "m.pt2", self.folder / "m.pt"
                    torch.export.save(torch.export.export(M(), (x,)), path)
                    self.done("convert", path, "-o", out)
                    torch.testing.assert_close(torch.jit.load(out)(x), expected, rtol=0, atol=0)

    def test_packed_archives_are_read(self):
        model, x = Normed(conv=nn.Conv2d(3, 4, 3), norm=nn.GroupNorm(2, 4)).eval(), r(2, 3, 8, 8)
        with torch.no_grad():
            torch.jit.trace(model, x).save(self.folder / "m.pt")
            torch.save(model(x), self.folder / "expected.pt")
        torch.export.save(torch.export.export(model, (x,)), self.folder / "m.pt2")
        graft_fx.capture(model, (x,), self.folder / "m.fx")
        torch.save((x,), self.folder / "in.pt")
        for name in ("m.pt", "m.pt2", "m.fx", "in.pt"):
            with zipfile.ZipFile(self.folder / name) as plain, \
                    zipfile.ZipFile(self.folder / f"packed.{name}", "w", zipfile.ZIP_DEFLATED) as packed:
                for record in plain.infolist():
                    packed.writestr(record.filename, plain.read(record))
        for name in ("m.pt", "m.pt2", "m.fx"):
            self.done("run", self.folder / f"packed.{name}", "--inputs", self.folder / "packed.in.pt", "--expect",
                      self.folder / "expected.pt")

    def test_an_archive_that_unpacks_to_far_more_than_it_is_is_refused(self):
        bomb = self.folder / "bomb.pt2"
        with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as z:
            z.writestr("m/models/model.json", b" " * (200 << 20))
        self.fails(3, "info", bomb, says="would unpack to more than")


CODE_RULES = """
from graft import Recipe, Rule, decompose
from torch import nn
import torch
import torch.nn.functional as F

class Gelu(Rule):
    def pattern(x): return F.gelu(x)
    def replacement(x): return x * 0.5 * (1.0 + torch.erf(x * 0.7071067811865476))

class Sum(Rule):
    def pattern(x, y): return torch.relu(x) + y
    def replacement(x, y): return y + torch.clamp(x, min=0.0)

class Steps(Recipe):
    steps = [Gelu, Sum, decompose(nn.SiLU), decompose(nn.BatchNorm2d), decompose(nn.Softmax),
             decompose(nn.LayerNorm)]
"""


class Coded(nn.Module):
    def __init__(self, of):
        super().__init__()
        self.conv, self.bn, self.norm, self.fc = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.LayerNorm(6), nn.Linear(6, 6)
        self.act, self.layers = nn.SiLU(), nn.ModuleList([nn.Linear(6, 6), nn.Linear(6, 6)])
        self.of = of

    def forward(self, x):
        return self.of(self, x)


def in_place(m, x):
    y = m.conv(x)
    y += 1
    y.mul_(2)
    y[:, 0].copy_(x[:, 0, :6, :6])
    return torch.relu(y) + y


def lists(m, x):
    a, b = m.conv(x).chunk(2, dim=1)
    values, where = torch.max(a, dim=-1)
    return {"cat": torch.cat([b, F.gelu(a)], 1), "rest": (values, [where, x.sum(-1) == float("inf")])}


CODED = {
    "twice": lambda m, x: m.norm(m.act(m.bn(m.conv(x))).softmax(-1) + m.act(m.bn(m.conv(x)))),
    "in place": in_place,
    "lists": lists,
    "loop": lambda m, x: [x := F.gelu(layer(x if i else m.conv(x))) for i, layer in enumerate(m.layers)][-1],
    "shared": lambda m, x: torch.relu(m.conv(x)) + m.act(m.conv(x)) + m.fc.weight.sum(),
    "sizes": lambda m, x: m.conv(x).reshape(x.shape[0], -1)[:, : x.shape[-1]].masked_fill(x[:, 0, 0] > 9, float("-inf")),
    "names": lambda m, x: torch.slice_copy(m.conv(x), 1, 0, 4).float().sum(dim=(1, 2), dtype=torch.float64),
}


class Code(TestCase):
    def test_printed_code_runs_and_computes_the_same(self):
        torch.manual_seed(0)
        rules = self.file("rules.py", CODE_RULES)
        x = r(2, 3, 8, 8)
        torch.save((x,), self.folder / "in.pt")
        for name, of in CODED.items():
            model = Coded(of).eval()
            for n, p in model.named_buffers():
                if p.is_floating_point():
                    torch.nn.init.uniform_(p, 0.5, 1.5)
            with torch.no_grad():
                expected = pytree.tree_leaves(model(x.clone()))
            saved, captured = self.folder / "saved.fx", self.folder / "captured.fx"
            graft_fx.save(torch.fx.symbolic_trace(model), saved, (x,))
            graft_fx.capture(model, (x,), captured)
            for path in (saved, captured):
                for how in ((), ("--rules", rules, "--recipe", "Steps", "--inputs", self.folder / "in.pt")):
                    with self.subTest(name, path=path.name, rewritten=bool(how)):
                        code = self.done("code", path, *how).stdout
                        scope = {"torch": torch, "operator": operator, "_operator": operator}
                        exec(code, scope)
                        with torch.no_grad():
                            got = pytree.tree_leaves(scope["forward"](model, x.clone()))
                        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4, msg=lambda m: f"{m}\n{code}")


main()
