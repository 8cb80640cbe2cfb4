"""Operators of a library that this machine does not have: Python has them here, Graft does not. They are shown, kept and
written; only running them is refused."""

import torch

from support import SAMPLES, TestCase, main

library = torch.library.Library("foreign_ops", "DEF")
library.define("mix(Tensor x, Tensor y, *, float alpha=1.0) -> Tensor")
library.define("halves(Tensor x, int at) -> (Tensor, Tensor)")
library.define("shift.by(Tensor x, int n) -> Tensor")
library.impl("mix", lambda x, y, *, alpha=1.0: x + alpha * y, "CompositeExplicitAutograd")
library.impl("halves", lambda x, at: (x[..., :at].clone(), x[..., at:].clone()), "CompositeExplicitAutograd")
library.impl("shift.by", lambda x, n: x.roll(n), "CompositeExplicitAutograd")
for name in ("mix", "halves", "shift.by"):
    torch.library.register_fake(f"foreign_ops::{name}", {
        "mix": lambda x, y, *, alpha=1.0: torch.empty_like(x),
        "halves": lambda x, at: (x.new_empty(*x.shape[:-1], at), x.new_empty(*x.shape[:-1], x.shape[-1] - at)),
        "shift.by": lambda x, n: torch.empty_like(x)}[name], lib=library)


class Foreign(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)

    def forward(self, x):
        a, b = torch.ops.foreign_ops.halves(torch.ops.foreign_ops.mix(self.fc(x), x, alpha=0.5), 1)
        return torch.ops.foreign_ops.mix(torch.cat([b, a], -1), x)


class Overloaded(torch.nn.Module):
    def forward(self, x):
        return torch.ops.foreign_ops.shift.by(x, 1) + 1


class CustomOperators(TestCase):
    def setUp(self):
        super().setUp()
        self.model, self.x = Foreign().eval(), torch.randn(2, 4)
        torch.jit.trace(self.model, self.x).save(self.folder / "m.pt")
        torch.export.save(torch.export.export(self.model, (self.x,)), self.folder / "m.pt2")

    def text(self, file):
        return self.done("text", self.folder / file).stdout

    def test_they_are_shown(self):
        for source in ("m.pt", "m.pt2"):
            text = self.text(source)
            self.assertIn("foreign_ops.halves.default", text)
            self.assertIn("alpha=0.5", text)
            self.assertIn("foreign_ops.mix", self.done("report", self.folder / source).stdout)

    def test_they_are_kept(self):
        for source, out in (("m.pt", "out.pt"), ("m.pt2", "out.pt"), ("m.pt2", "out.pt2")):
            with self.subTest(source=source, out=out):
                self.done("convert", self.folder / source, "-o", self.folder / out)
                loaded = torch.jit.load(self.folder / out) if out.endswith(".pt") else torch.export.load(self.folder / out).module()
                torch.testing.assert_close(loaded(self.x), self.model(self.x))
                self.assertEqual(self.text(out), self.text(source))

    def test_what_a_format_does_not_hold_is_said(self):
        self.fails(3, "convert", self.folder / "m.pt", "-o", self.folder / "out.pt2",
                   says=("foreign_ops", "load the library"))
        torch.export.save(torch.export.export(Overloaded(), (self.x,)), self.folder / "o.pt2")
        self.fails(3, "convert", self.folder / "o.pt2", "-o", self.folder / "out.pt", says=("foreign_ops.shift.by", "library"))
        self.done("convert", self.folder / "o.pt2", "-o", self.folder / "out.pt2")
        torch.testing.assert_close(torch.export.load(self.folder / "out.pt2").module()(self.x), Overloaded()(self.x))

    def test_only_running_is_refused(self):
        self.fails(3, "run", self.folder / "m.pt", "--input", "f32[2,4]:randn", says=("foreign_ops.mix", "load the library"))


main()
