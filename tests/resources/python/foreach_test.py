#!/usr/bin/env python3
"""Foreach operators tensor by tensor (graft_fx/foreach.py): the numbers, shapes and dtypes of PyTorch's own."""

import pathlib
import sys
import unittest

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "resources/python"))
from graft_fx import foreach

LISTS = ("Tensor[]", "List[Tensor]")


def made_up(argument):
    """A value for a parameter; None where there is none for its type."""
    kind = str(argument.type)
    if kind in LISTS:
        return [torch.rand(3, 4) + 0.5, torch.rand(5, dtype=torch.float64) + 0.5, torch.rand(()) + 0.5]
    if kind == "List[number]":
        return [2.0, 3.0, 0.5]
    if kind == "Tensor":
        return torch.rand(3) + 1 if argument.name == "scalars" else torch.tensor(1.5)
    return 2.0 if kind == "number" else None


class Foreach(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)

    def test_each_operator_gives_what_its_elements_operator_gives(self):
        table = foreach.decompositions()
        for op, function in table.items():
            needed = [a for a in op._schema.arguments if not a.has_default_value() or a.name in ("alpha", "value")]
            values = {a.name: made_up(a) for a in needed}
            self.assertNotIn(None, values.values(), op)
            args = [values[a.name] for a in needed if not a.kwarg_only]
            kwargs = {a.name: values[a.name] for a in needed if a.kwarg_only}
            with self.subTest(op=str(op)):
                for wanted, got in zip(op(*args, **kwargs), function(*args, **kwargs), strict=True):
                    torch.testing.assert_close(got, wanted, equal_nan=True)

    def test_what_optimizers_call_is_there(self):
        known = {str(op.overloadpacket) for op in foreach.decompositions()}
        for name in ("add", "sub", "mul", "div", "addcmul", "addcdiv", "lerp", "sqrt", "pow", "neg", "reciprocal", "maximum", "sign", "copy",
                     "zero", "norm"):
            self.assertIn(f"aten._foreach_{name}", known)

    def test_in_place_operators_stay(self):
        self.assertFalse([op for op in foreach.decompositions() if str(op.overloadpacket).endswith("_")])


if __name__ == "__main__":
    unittest.main()
