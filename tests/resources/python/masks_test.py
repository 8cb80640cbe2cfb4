#!/usr/bin/env python3
"""Gradients of ReLU that take their masks from the batch norm before it (graft_fx/masks.py): the numbers of autograd, without ReLU's result."""

import copy
import pathlib
import sys
import unittest

import torch
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "resources/python"))
from graft_fx import masks

aten = torch.ops.aten


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.BatchNorm2d(4), nn.BatchNorm2d(4)

    def forward(self, x):
        return torch.relu(self.second(torch.relu(self.first(x))) + x)


class Twice(nn.Module):
    """Two readers of the norm, and two ReLUs of which one is only multiplied."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(4)

    def forward(self, x):
        y = self.norm(x)
        return torch.relu(y) * torch.sigmoid(y) + torch.relu(y).mean((2, 3), keepdim=True)


def network(*layers):
    return nn.Sequential(nn.Conv2d(3, 4, 3), *layers, nn.Conv2d(4, 2, 3))


class Masks(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.devices, masks.DEVICES = masks.DEVICES, ("cpu",)

    def tearDown(self):
        masks.DEVICES = self.devices

    def trained(self, model, x, tangent=None):
        """Result and gradients of one step; `self.joint`: the joint graph, with masks where `self.count` says how many."""
        from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func
        from torch._functorch.partitioners import min_cut_rematerialization_partition

        def parted(module, inputs, *, num_fwd_outputs, **options):
            self.count = masks.from_norms(module)
            module.graph.lint()
            module.recompile()
            self.joint = module
            return min_cut_rematerialization_partition(module, inputs, num_fwd_outputs=num_fwd_outputs, **options)

        def compiler(gm, inputs):
            return aot_module_simplified(gm, inputs, fw_compiler=lambda g, _: make_boxed_func(g.forward),
                                         bw_compiler=lambda g, _: make_boxed_func(g.forward), partition_fn=parted)

        torch._dynamo.reset()
        return self.step(torch.compile(model, backend=compiler), model, x)

    @staticmethod
    def step(call, model, x):
        x = x.detach().requires_grad_()
        y = call(x)
        torch.manual_seed(1)
        y.backward(torch.randn_like(y))
        return [y.detach(), x.grad, *(p.grad for p in model.parameters())]

    def same(self, model, x, count, tolerance):
        expected = self.step(other := copy.deepcopy(model), other, x)
        got = self.trained(model, x)
        self.assertEqual(self.count, count)
        for a, b in zip(expected, got):
            self.assertEqual(a.stride(), b.stride())
            torch.testing.assert_close(b, a, rtol=tolerance, atol=tolerance)

    def test_gradients_are_those_of_eager(self):
        cases = {
            "convolutions": (network(nn.BatchNorm2d(4), nn.ReLU()), 1),
            "in place": (network(nn.BatchNorm2d(4), nn.ReLU(inplace=True)), 1),
            "two": (network(nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4), nn.ReLU()), 2),
            "no weights": (network(nn.BatchNorm2d(4, affine=False), nn.ReLU()), 1),
            "no running statistics": (network(nn.BatchNorm2d(4, track_running_stats=False), nn.ReLU()), 1),
            "a residual connection": (network(Residual()), 1),
            "two readers": (network(Twice()), 2),
            "pooling": (network(nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(3, 2, 1)), 1),
            "relu6": (network(nn.BatchNorm2d(4), nn.ReLU6()), 0),
            "silu": (network(nn.BatchNorm2d(4), nn.SiLU()), 0),
            "no norm": (network(nn.ReLU()), 0),
            "evaluation": (network(nn.BatchNorm2d(4).eval(), nn.ReLU()), 0),
            "another norm": (network(nn.GroupNorm(2, 4), nn.ReLU()), 0),
        }
        for name, (model, count) in cases.items():
            for p in model.parameters():
                nn.init.normal_(p)  # negative weights, too
            for layout in (torch.contiguous_format, torch.channels_last):
                with self.subTest(name=name, layout=layout):
                    x = torch.randn(2, 3, 9, 8, dtype=torch.float64).to(memory_format=layout)
                    self.same(copy.deepcopy(model).double().to(memory_format=layout), x, count, 1e-10)
                    self.same(copy.deepcopy(model).to(memory_format=layout), x.float(), count, 1e-4)

    def test_other_ranks(self):
        self.same(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2)).double(),
                  torch.randn(7, 3, dtype=torch.float64), 1, 1e-10)
        self.same(nn.Sequential(nn.Conv1d(3, 4, 2), nn.BatchNorm1d(4), nn.ReLU()).double(), torch.randn(2, 3, 9, dtype=torch.float64), 1, 1e-10)
        self.same(nn.Sequential(nn.Conv3d(3, 4, 2), nn.BatchNorm3d(4), nn.ReLU()).double(), torch.randn(2, 3, 4, 5, 6, dtype=torch.float64), 1,
                  1e-10)

    def test_autocast(self):
        model = network(nn.BatchNorm2d(4), nn.ReLU())
        with torch.autocast("cpu", torch.bfloat16):
            self.same(model, torch.randn(2, 3, 9, 8), 1, 5e-2)
        self.same(network(nn.BatchNorm2d(4), nn.ReLU()).bfloat16(), torch.randn(2, 3, 9, 8).bfloat16(), 0, 5e-2)  # statistics are coarse

    def test_a_norm_that_gives_nan(self):
        x = torch.randn(2, 3, 9, 8, dtype=torch.float64)
        x[0, 0, 0, 0] = float("nan")
        expected = self.step(other := network(nn.BatchNorm2d(4), nn.ReLU()).double(), other, x)
        got = self.trained(copy.deepcopy(other), x)
        for a, b in zip(expected, got):
            torch.testing.assert_close(b.isnan(), a.isnan())

    def test_the_result_of_relu_is_not_kept(self):
        for last, reader in ((nn.AdaptiveAvgPool2d(1), aten.mean.dim), (nn.MaxPool2d(2), aten.max_pool2d_with_indices.default)):
            self.trained(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), last), torch.randn(2, 3, 9, 8))
            relu = self.joint.graph.find_nodes(op="call_function", target=aten.relu.default)
            self.assertEqual([n.target for n in relu[0].users], [reader])

    def test_other_devices_are_left_alone(self):
        masks.DEVICES = self.devices
        self.same(network(nn.BatchNorm2d(4), nn.ReLU()), torch.randn(2, 3, 9, 8), 0, 1e-4)


if __name__ == "__main__":
    unittest.main()
