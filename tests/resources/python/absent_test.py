#!/usr/bin/env python3
"""Backward halves for results that nobody differentiates (graft_fx/absent.py): tests/resources/python/absent_test.py build"""

import copy
import pathlib
import sys
import unittest

import torch
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "resources/python"))
import graft_fx
from graft_fx import absent

aten = torch.ops.aten


class Classifier(nn.Module):
    """A loss, its logits and its hidden states."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(8, 16), nn.LayerNorm(16), nn.Linear(16, 10)

    def forward(self, x, y):
        hidden = self.norm(torch.relu(self.first(x)))
        logits = self.last(hidden)
        return nn.functional.cross_entropy(logits, y), logits, hidden


USES = {"the loss": lambda r: r[0], "the loss and the logits": lambda r: r[0] + r[1].sum(), "hidden states": lambda r: (r[2] ** 3).sum(),
        "all but the loss": lambda r: (r[1] ** 2).sum() + (r[2] ** 3).sum()}


class Trained(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        torch.manual_seed(0)

    def gradients(self, model, run, use, *given):
        model.zero_grad()
        use(run(*given)).backward()
        return [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in model.parameters()]

    def test_each_use_has_its_gradients(self):
        model = Classifier()
        eager = copy.deepcopy(model)
        run = torch.compile(model, backend=graft_fx.backend(training=True, graft=PROGRAM))
        given = torch.randn(32, 8), torch.randint(0, 10, (32,))
        for _ in range(2):
            for name, use in USES.items():
                with self.subTest(name):
                    for a, b in zip(self.gradients(model, run, use, *given), self.gradients(eager, eager, use, *given)):
                        self.assertTrue(torch.allclose(a, b, rtol=1e-4, atol=1e-5))

    def test_no_zeros_are_made(self):
        """The half that runs for the loss alone neither takes the other gradients nor adds anything to the loss's."""
        made, without = [], absent.without

        def watched(module, gone):
            made.append(without(module, gone))
            return made[-1]

        absent.without = watched
        try:
            model = Classifier()
            run = torch.compile(model, backend=graft_fx.backend(training=True, graft=PROGRAM))
            self.gradients(model, run, USES["the loss"], torch.randn(32, 8), torch.randint(0, 10, (32,)))
        finally:
            absent.without = without
        self.assertEqual(len(made), 1)
        graph = made[0].graph
        self.assertEqual(len(absent.tangents(graph)), 1)
        for target in (aten.add.Tensor, aten.fill.Scalar, aten.empty_strided.default):
            self.assertFalse(graph.find_nodes(op="call_function", target=target), target)


    def test_sizes_that_vary(self):
        def losses(w, x):
            h = x @ w
            return h.square().mean(), torch.cumsum(h, 0).mean()

        w = torch.randn(4, 4, requires_grad=True)
        run = torch.compile(losses, backend=graft_fx.backend(training=True, graft=PROGRAM), dynamic=True)
        for rows in (3, 5):
            x = torch.randn(rows, 4)
            run(w, x)[0].backward()
            found, w.grad = w.grad, None
            losses(w, x)[0].backward()
            self.assertTrue(torch.allclose(found, w.grad, atol=1e-5))
            w.grad = None

    def test_a_result_that_another_graph_made(self):
        w = torch.randn(4, 4, requires_grad=True)
        first = torch.compile(lambda x: (x @ w, (x @ w).sin()), backend="aot_eager")
        second = torch.compile(lambda h: (h.float(), h.square().mean()), backend=graft_fx.backend(training=True, graft=PROGRAM))
        x = torch.randn(3, 4)
        h, _ = first(x)
        second(h)[1].backward()
        found, w.grad = w.grad, None
        (x @ w).square().mean().backward()
        self.assertTrue(torch.allclose(found, w.grad, atol=1e-5))


class Zeros(unittest.TestCase):
    def without(self, function, absent_ones, *given):
        from torch.fx.experimental.proxy_tensor import make_fx

        return absent.without(make_fx(function)(*given), absent_ones)

    def test_who_has_no_rule_gets_zeros(self):
        a, b = torch.randn(3, 4).t(), torch.randn(4, 3)
        made = self.without(lambda a, b: (torch.cos(a) + b, torch.sinh(b)), [0], a, b)
        for got, wanted in zip(made(b), (torch.ones(4, 3) + b, torch.sinh(b))):
            self.assertTrue(torch.equal(got, wanted))
        self.assertEqual(made.graph.find_nodes(op="call_function", target=aten.empty_strided.default)[0].args[1], [1, 4])

    def test_sums_keep_their_shape_and_dtype(self):
        a, b = torch.randn(3, 4), torch.randn(4)
        for function in (lambda a, b: a + b, lambda a, b: a.double() + b, lambda a, b: b - a, lambda a, b: torch.add(b, a, alpha=2)):
            made = self.without(function, [0], a, b)
            got, wanted = made(b), function(torch.zeros_like(a), b)
            self.assertTrue(torch.equal(got, wanted) and got.dtype == wanted.dtype)

    def test_an_operator_that_is_given_two_gradients(self):
        """native_layer_norm_backward has one, so it is 0 with it; two are 0 together only."""
        from torch.fx import Graph

        graph = Graph()
        a, b = graph.placeholder("a"), graph.placeholder("b")
        lstm = torch.ops.aten._thnn_fused_lstm_cell_backward_impl.default
        both = graph.call_function(lstm, (a, b, b, b, b, False))
        zeros = absent.Zeros(graph, [a])
        self.assertFalse(zeros.follows(both))
        zeros.known.add(b)
        self.assertTrue(zeros.follows(both))

    def test_zeros_that_are_results(self):
        made = self.without(lambda a, b: (a * b, a.t() @ b, b), [0], torch.randn(3, 4), torch.randn(3, 4))
        b = torch.full((3, 4), torch.inf)
        first, second, third = made(b)
        self.assertTrue(torch.equal(first, torch.zeros(3, 4)) and torch.equal(second, torch.zeros(4, 4)) and third is b)


if __name__ == "__main__":
    PROGRAM = str(pathlib.Path(sys.argv.pop(1)).resolve() / "bin/graft")
    unittest.main()
