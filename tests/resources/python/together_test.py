#!/usr/bin/env python3
"""Casts and counters that run together, around a half's graph (graft_fx/together.py): the same numbers, and none of them left in the graph."""

import pathlib
import sys
import unittest
import unittest.mock

import torch
from torch.fx.experimental.proxy_tensor import make_fx

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "resources/python"))
from graft_fx import together
from graft_fx.halves import boxed, layout

aten = torch.ops.aten


def half(x):
    return aten._to_copy(x, dtype=torch.bfloat16)


class Together(unittest.TestCase):
    def split(self, function, *arguments, casts=0, counts=0, back=0):
        module = make_fx(function, tracing_mode="fake")(*arguments)
        outside = together.Outside(module, "cpu")
        outside.module.graph.lint()
        listed = [len(places) for _, places in outside.before]
        self.assertEqual((sum(listed), sum(len(p) for _, p in outside.after)), (casts + counts, back), outside.module.code)
        expected = module(*arguments)
        got = outside.around(boxed(outside.cast_results(outside.module)))(list(arguments))
        self.assertEqual([layout(t) for t in got], [layout(t) for t in expected])
        for a, b in zip(expected, got):
            torch.testing.assert_close(b, a, rtol=0, atol=0)
        return outside

    def weights(self, count=5):
        return [torch.randn(8, 8).t() if i % 2 else torch.randn(8, 8) for i in range(count)]

    def test_parameters_are_cast_before_the_graph(self):
        x = torch.randn(4, 8, dtype=torch.bfloat16)
        outside = self.split(lambda x, *w: [aten.mm(x, half(p).t()) for p in w] + [half(w[0])], x, *self.weights(), casts=6)
        self.assertFalse(any(n.target is aten._to_copy.default for n in outside.module.graph.nodes))
        self.assertEqual(len(outside.module.graph.find_nodes(op="placeholder")), 1 + 6)  # parameters are read by nothing else
        outside = self.split(lambda x, *w: [aten.mm(x, half(p)) for p in w] + [p * 2 for p in w], x, *self.weights(), casts=5)
        self.assertEqual(len(outside.module.graph.find_nodes(op="placeholder")), 6 + 5)

    def test_gradients_of_products_are_cast_behind_the_graph(self):
        def function(x, *w):
            made = [aten.mm(x, p) for p in w]
            return [aten._to_copy(m.t(), dtype=torch.float32) for m in made] + [aten._to_copy(made[0].tanh(), dtype=torch.float32)]

        arguments = torch.randn(8, 8, dtype=torch.bfloat16), *(w.bfloat16() for w in self.weights())
        count = lambda o: sum(n.target is together.cast_all for n in o.module.graph.nodes)
        self.assertEqual(count(self.split(function, *arguments, back=5)), 1)
        with unittest.mock.patch.object(together, "WAITING", 256):  # two of 8 x 8 wait at most
            self.assertEqual(count(self.split(function, *arguments, back=5)), 3)

    def test_counters_go_up_together(self):
        counters = [torch.tensor(i) for i in range(6)]
        self.split(lambda *c: [t + 1 for t in c], *counters, counts=6)
        self.split(lambda *c: [t + 1 if i % 2 else t + 2 for i, t in enumerate(c)], *counters)  # three of a kind are too few

    def test_what_stays_in_the_graph(self):
        x = torch.randn(4, 8, dtype=torch.bfloat16)
        self.split(lambda x, *w: [half(p).tanh() for p in w], x, *self.weights())  # a generated kernel casts on the way
        self.split(lambda x, *w: [aten.mm(x, half(p)) for p in w], x, *self.weights(3))  # few
        self.split(lambda x, *w: [aten.mm(x, half(p[:, :8])) for p in w], x, *(torch.randn(8, 16) for _ in range(5)))
        self.split(lambda x, *w: [aten.mm(x, aten._to_copy(p, dtype=torch.bfloat16, memory_format=torch.contiguous_format)) for p in w],
                   x, *self.weights())


if __name__ == "__main__":
    unittest.main()
