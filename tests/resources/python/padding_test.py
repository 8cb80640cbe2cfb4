#!/usr/bin/env python3
"""Products that get zeros beside them (graft_fx/padding.py): the same numbers and strides as before, and sizes that are multiples of 8."""

import itertools
import pathlib
import sys
import unittest

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "resources/python"))
from graft_fx import padding

aten = torch.ops.aten


class Padding(unittest.TestCase):
    def setUp(self):
        self.memory, padding.MEMORY = padding.MEMORY, 1e12  # any copy is worth it, as beside large products

    def tearDown(self):
        padding.MEMORY = self.memory

    def padded(self, function, *arguments, expect):
        module = make_fx(function, tracing_mode="fake")(*arguments)
        expected = module(*arguments)
        self.assertEqual(padding.pad_products(module, "cpu"), expect, module.code)
        module.graph.lint()
        got = module(*arguments)
        for a, b in zip(*([v] if isinstance(v, torch.Tensor) else v for v in (got, expected))):
            self.assertEqual(a.stride(), b.stride())
        torch.testing.assert_close(got, expected, rtol=2e-2, atol=2e-2)
        return module

    def products(self, module):
        return [n for n in module.graph.nodes if n.target in (aten.mm.default, aten.addmm.default)]

    def test_products_of_all_layouts(self):
        for (m, k, n), left, right in itertools.product(((16, 24, 33), (16, 21, 40), (13, 24, 32), (13, 21, 33)), (False, True), (False, True)):
            with self.subTest(sizes=(m, k, n), left=left, right=right):
                a = torch.randn(*((k, m) if left else (m, k)), dtype=torch.bfloat16)
                b = torch.randn(*((n, k) if right else (k, n)), dtype=torch.bfloat16)
                uneven = n % 8 or (left and m % 8) or ((not left or right) and k % 8)
                module = self.padded(lambda a, b: aten.mm(a.t() if left else a, b.t() if right else b), a, b, expect=int(bool(uneven)))
                for product in self.products(module):
                    self.assertEqual(product.meta["val"].shape[1] % 8, 0)
                    for operand in product.args:
                        base, _ = padding.base_of(operand)
                        self.assertEqual(base.meta["val"].shape[-1] % 8, 0, module.code)

    def test_biases(self):
        x, w, b = (torch.randn(*s, dtype=torch.float16) for s in ((16, 24), (33, 24), (33,)))
        self.padded(lambda x, w, b: aten.addmm(b, x, w.t()), x, w, b, expect=1)
        self.padded(lambda x, w, b: aten.addmm(b.view(1, 33), x, w.t()), x, w, b, expect=0)

    def test_one_copy_for_several_readers(self):
        d, w, x = (torch.randn(*s, dtype=torch.bfloat16) for s in ((16, 33), (33, 24), (16, 24)))
        module = self.padded(lambda d, w, x: aten.mm(d, w) * aten.mm(d.t(), x).sum(), d, w, x, expect=2)
        self.assertEqual(sum(n.target is aten.constant_pad_nd.default and n.args[0].op == "placeholder" and n.args[0].name.startswith("d")
                             for n in module.graph.nodes), 1, module.code)

    def test_others_read_what_is_padded(self):
        """A tensor that the graph computes need not be stored beside its padded copy. A view of it keeps its strides."""
        d, w = (torch.randn(*s, dtype=torch.bfloat16) for s in ((16, 33), (33, 24)))
        module = self.padded(lambda d, w: aten.mm(d.tanh(), w) + d.tanh().sum(), d, w, expect=1)
        module = self.padded(lambda d, w: (lambda e: aten.mm(e, w) + e.sum() + e.view(-1)[:24])(d.tanh()), d, w, expect=1)
        summed = next(n for n in module.graph.nodes if n.target is aten.sum.default)
        self.assertIs(summed.args[0].target, aten.slice.Tensor, module.code)
        self.assertIs(summed.args[0].args[0].target, aten.constant_pad_nd.default, module.code)
        module = self.padded(lambda d, w: (aten.mm(d[:, :24].tanh(), (e := w.tanh()).t()), e, e.view(-1)), d, w, expect=1)  # rows
        self.assertEqual(sum(aten.constant_pad_nd.default in {u.target for u in n.users} for n in module.graph.nodes), 1, module.code)
        module = self.padded(lambda d, w: aten.mm(d, w) + d.sum(), d, w, expect=1)  # an input lies in memory anyway
        summed = next(n for n in module.graph.nodes if n.target is aten.sum.default)
        self.assertEqual(summed.args[0].op, "placeholder", module.code)

    def test_what_is_left_alone(self):
        small = lambda *s: torch.randn(*s, dtype=torch.bfloat16)
        self.padded(lambda a, b: aten.mm(a, b), torch.randn(16, 24), torch.randn(24, 33), expect=0)  # no half precision
        padding.MEMORY = self.memory
        self.padded(lambda a, b: aten.mm(a, b), small(16, 24), small(24, 33), expect=0)  # copies cost more
        with FakeTensorMode():
            module = make_fx(lambda a, b: aten.mm(a, b))(small(4096, 768), small(768, 50257))
        self.assertEqual(padding.pad_products(module, "cuda"), 0)  # on another device
        self.assertEqual(padding.pad_products(module, "cpu"), 1)


if __name__ == "__main__":
    unittest.main()
