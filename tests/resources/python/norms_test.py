#!/usr/bin/env python3
"""Batch norms that a backward half computes again from their statistics (graft_fx/norms.py): the numbers of autograd, and no statistics twice."""

import copy
import pathlib
import sys
import unittest

import torch
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "resources/python"))
from graft_fx import norms
from graft_fx.training import Joint

aten = torch.ops.aten
LIBRARY = (aten.convolution.default, aten.addmm.default)  # of forward passes


def targets(module):
    return [n.target for n in module.graph.nodes if n.op == "call_function"]


class Norms(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.devices, norms.DEVICES = norms.DEVICES, ("cpu",)

    def tearDown(self):
        norms.DEVICES = self.devices

    def trained(self, model, *x, apart=True):
        """Result and gradients of a step whose forward half keeps results of products and what the norms give beside theirs."""
        from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func

        def parted(module, inputs, *, num_fwd_outputs, static_lifetime_input_indices=(), **options):
            self.count = norms.apart(module) if apart else 0
            module.graph.lint()
            module.recompile()
            joint = Joint(module, num_fwd_outputs, static_lifetime_input_indices or ())
            kept = [f"n{i}x" for n, i in joint.number.items() if n.target in LIBRARY]
            kept += [f"n{i}x_{k}" for n, i in joint.number.items() if n.target in norms.NORMS for k in (1, 2, 3, 4)]
            kept += [n.name for n in joint.placeholders if not n.name.startswith("tangents")]
            self.halves = joint.halves(kept)
            norms.together(self.halves[0])
            for half in self.halves:
                half.graph.lint()
            return self.halves

        def compiler(gm, inputs):
            return aot_module_simplified(gm, inputs, fw_compiler=lambda g, _: make_boxed_func(g.forward),
                                         bw_compiler=lambda g, _: make_boxed_func(g.forward), partition_fn=parted)

        torch._dynamo.reset()
        return self.step(torch.compile(model, backend=compiler), model, *x)

    @staticmethod
    def step(call, model, *x):
        y = call(*x)
        torch.manual_seed(1)
        y.backward(torch.randn_like(y))
        return [y.detach(), *(p.grad for p in model.parameters()), *(b.clone() for b in model.buffers())]

    def same(self, model, *x, tolerance=1e-12):
        expected = self.step(other := copy.deepcopy(model), other, *x)
        for a, b in zip(expected, self.trained(model, *x)):
            self.assertEqual(a.stride(), b.stride())
            torch.testing.assert_close(b, a, rtol=tolerance, atol=tolerance)

    def test_statistics_are_computed_once(self):
        cases = {
            "pictures": (nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.SiLU(), nn.Conv2d(4, 2, 3)), torch.randn(2, 3, 8, 8)),
            "channels last": (nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.SiLU(), nn.Conv2d(4, 2, 3)).to(
                memory_format=torch.channels_last), torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)),
            "rows": (nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.GELU(), nn.Linear(4, 2)), torch.randn(6, 5)),
            "volumes": (nn.Sequential(nn.Conv3d(3, 4, 2), nn.BatchNorm3d(4), nn.Tanh(), nn.Conv3d(4, 2, 2)), torch.randn(2, 3, 4, 4, 4)),
            "no weight": (nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, affine=False), nn.SiLU(), nn.Conv2d(4, 2, 3)),
                          torch.randn(2, 3, 8, 8)),
        }
        for name, (model, x) in cases.items():
            with self.subTest(name):
                self.same(model.double(), x.double())
                self.assertEqual(self.count, 1)
                forward, backward = map(targets, self.halves)
                self.assertEqual(sum(t in norms.NORMS for t in forward), 1)
                self.assertFalse(any(t in norms.NORMS for t in backward), "the backward half has the statistics")
                self.assertIn(aten.sub.Tensor, backward)
                self.assertNotIn(aten.sub.Tensor, forward)

    def test_without_it_they_are_computed_twice(self):
        model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.SiLU(), nn.Conv2d(4, 2, 3))
        self.trained(model, torch.randn(2, 3, 8, 8), apart=False)
        self.assertTrue(any(t in norms.NORMS for t in targets(self.halves[1])))

    def test_a_norm_that_only_normalises_stays(self):
        model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4).eval(), nn.SiLU(), nn.Conv2d(4, 2, 3))
        self.trained(model, torch.randn(2, 3, 8, 8))
        self.assertEqual(self.count, 0)

    def test_statistics_in_half_precision_are_not_read(self):
        model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.SiLU(), nn.Conv2d(4, 2, 3)).bfloat16()
        self.trained(model, torch.randn(2, 3, 8, 8).bfloat16())
        self.assertEqual(self.count, 0)


if __name__ == "__main__":
    unittest.main()
