#!/usr/bin/env python3
"""Dropouts in two steps (graft_fx/dropouts.py): tests/resources/python/dropouts_test.py build/lib/libgraft_ops.so. That they draw PyTorch's
numbers is for a GPU to say: tests/gpu/training_test.py."""

import pathlib
import sys
import unittest

import torch
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "resources/python"))
from graft_fx import dropouts

aten = torch.ops.aten


class Layers(nn.Module):
    def __init__(self, p=0.5):
        super().__init__()
        self.first, self.second, self.p = nn.Linear(8, 8), nn.Linear(8, 8), p

    def forward(self, x):
        y = nn.functional.dropout(self.first(x), self.p, self.training)
        return nn.functional.dropout(torch.tanh(self.second(y)), self.p, self.training)


class Between(nn.Module):
    """Something else draws between two of its dropouts."""

    def forward(self, x):
        y = nn.functional.dropout(x * 2, 0.5)
        y = nn.functional.dropout(y * 3, 0.5)
        y = y + torch.rand_like(y)
        return nn.functional.dropout(y, 0.5)


class Dropouts(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.devices, dropouts.DEVICES = dropouts.DEVICES, ("cpu",)

    def tearDown(self):
        dropouts.DEVICES = self.devices

    def joint(self, model, x):
        """The model compiled with its joint graph rewritten, which is in `self.graph` from the first call on."""
        from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func
        from torch._functorch.partitioners import min_cut_rematerialization_partition

        def parted(module, inputs, *, num_fwd_outputs, **options):
            self.count = dropouts.in_two_steps(module)
            module.graph.lint()
            module.recompile()
            self.graph = module.graph
            return min_cut_rematerialization_partition(module, inputs, num_fwd_outputs=num_fwd_outputs, **options)

        def compiler(gm, inputs):
            return aot_module_simplified(gm, inputs, fw_compiler=lambda g, _: make_boxed_func(g.forward),
                                         bw_compiler=lambda g, _: make_boxed_func(g.forward), partition_fn=parted)

        torch._dynamo.reset()
        return torch.compile(model, backend=compiler)

    def calls(self, target):
        return len(self.graph.find_nodes(op="call_function", target=target))

    def test_gradients_go_where_values_went(self):
        model, x = Layers(), torch.randn(64, 8, requires_grad=True)
        y = self.joint(model, x)(x)
        y.sum().backward()
        self.assertEqual((self.count, self.calls(torch.ops.graft.random_states.default)), (2, 1))
        self.assertEqual(self.calls(aten.native_dropout.default), 0)
        kept = y != 0
        self.assertTrue(0.4 < kept.float().mean() < 0.6)
        # The last layer's bias: its gradient is the sum over the rows of what was kept, twice as large.
        inner = 1 - (y / 2) ** 2
        self.assertTrue(torch.allclose(model.second.bias.grad, torch.where(kept, 2 * inner, 0).sum(0), rtol=1e-4, atol=1e-4))

    def test_the_generator_decides(self):
        model, x = Layers(), torch.randn(16, 8, requires_grad=True)
        run = self.joint(model, x)
        results = []
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            results.append(run(x).detach())
        self.assertTrue(torch.equal(results[0], results[1]))
        self.assertFalse(torch.equal(results[0], results[2]))

    def test_one_right_behind_another(self):
        x = torch.randn(64, 8, requires_grad=True)
        y = self.joint(lambda x: nn.functional.dropout(nn.functional.dropout(x, 0.5), 0.5), x)(x)
        y.sum().backward()
        self.assertEqual(self.count, 2)
        self.assertTrue(torch.equal(y != 0, x.grad != 0) and 0.15 < (y != 0).float().mean() < 0.35)
        self.assertTrue(torch.equal(x.grad[x.grad != 0].unique(), torch.tensor([4.0])))

    def test_inputs_elsewhere_leave_it_as_it_is(self):
        """Where nothing but a gradient lies on the dropout's device, the forward half has nothing to say where it draws."""
        graph = torch.fx.Graph()
        value = torch.empty(4, 8)
        x, t = graph.placeholder("x"), graph.placeholder("tangents_1")
        x.meta["val"] = t.meta["val"] = value
        drawn = graph.call_function(aten.native_dropout.default, (x, 0.5, True))
        graph.output(graph.call_function(torch.ops.aten.add.Tensor, (t, t)))
        self.assertEqual(dropouts.in_two_steps(torch.fx.GraphModule({}, graph)), 0)

    def test_all_keep_their_turns(self):
        x = torch.randn(16, 8, requires_grad=True)
        self.joint(Between(), x)(x).sum().backward()
        self.assertEqual(self.count, 3)
        order = [n.target for n in self.graph.nodes if dropouts.draws_numbers(n)]
        self.assertEqual(order, [torch.ops.graft.random_states.default, aten.rand_like.default, torch.ops.graft.random_states.default])

    def test_what_PyTorch_numbers_otherwise_stays(self):
        for name, p, x in (("odd sizes", 0.5, torch.randn(3, 7)), ("double precision", 0.5, torch.randn(4, 8).double()),
                           ("all of it", 1.0, torch.randn(4, 8)), ("turned", 0.5, torch.randn(8, 4).t())):
            with self.subTest(name):
                model = lambda x, p=p: nn.functional.dropout(x, p)  # noqa: E731
                x.requires_grad_()
                self.joint(model, x)(x).sum().backward()
                self.assertEqual(self.count, 0)


class Operators(unittest.TestCase):
    def test_wrong_arguments_are_named(self):
        states = torch.zeros(2, 2, dtype=torch.int64)
        mask = torch.ops.graft.dropout_mask
        for said, arguments in (("none has number 2", (states, 2, [4], 0.5, 4, 1)), ("must be int64", (states.float(), 0, [4], 0.5, 4, 1)),
                                ("between 0 and 1", (states, 0, [4], 1.5, 4, 1)), ("multiple of 4", (states, 0, [4], 0.5, 3, 1)),
                                ("no size", (states, 0, [-4], 0.5, 4, 1))):
            with self.subTest(said), self.assertRaisesRegex((ValueError, RuntimeError), said):
                mask(*arguments)
        with self.assertRaisesRegex((ValueError, RuntimeError), "at least 0"):
            torch.ops.graft.random_states(torch.zeros(1), [-1])

    def test_no_elements_and_all_of_them(self):
        states = torch.ops.graft.random_states(torch.zeros(1), [1])
        self.assertEqual(torch.ops.graft.dropout_mask(states, 0, [0, 8], 0.5, 4, 1).shape, (0, 8))
        self.assertTrue(torch.ops.graft.dropout_mask(states, 0, [64], 0.0, 4, 1).all())

    def test_meta_tensors_have_shapes(self):
        states = torch.ops.graft.random_states(torch.zeros(1, device="meta"), [1, 2])
        self.assertEqual((states.shape, states.dtype), ((2, 2), torch.int64))
        self.assertEqual(torch.ops.graft.dropout_mask(states, 1, [3, 4], 0.5, 4, 1).dtype, torch.bool)


if __name__ == "__main__":
    torch.ops.load_library(sys.argv.pop(1))
    unittest.main()
