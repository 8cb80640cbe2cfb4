"""Scripted models ask their values for ranks and dtypes. Inputs that a user gives answer: rules then match what is chosen, the
program says what it left out, and the model's own checks stay.

    scripted_test.py BUILD_FOLDER
"""

from support import TestCase, main

import torch
import torch.nn.functional as F
from torch import nn

UP = """
class Up(Rule):
    def pattern(x):
        return F.interpolate(torch.relu(x), scale_factor=2.0, mode="bilinear", align_corners=False)

    def replacement(x):
        return F.interpolate(torch.clamp(x, min=0), scale_factor=2.0, mode="bilinear", align_corners=False)
"""
NORM = """
class Norm(Rule):
    class pattern(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.GroupNorm(2, 4)

        def forward(self, x):
            return torch.relu(self.norm(x))
"""


class Resized(nn.Module):
    def forward(self, x):
        return F.interpolate(torch.relu(x), scale_factor=2.0, mode="bilinear", align_corners=False)


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.GroupNorm(2, 4)

    def forward(self, x):
        if x.size(0) > 3:
            raise ValueError("too many")
        return torch.relu(self.norm(x))


class Scripted(TestCase):
    def scripted(self, module):
        torch.manual_seed(0)
        self.x = torch.randn(2, 4, 6, 6)
        self.path, self.inputs = self.folder / "m.pt", self.folder / "in.pt"
        torch.jit.script(module.eval()).save(str(self.path))
        torch.save([self.x], self.inputs)

    def test_the_operator_that_the_rank_chooses_is_matched_rewritten_and_written(self):
        self.scripted(Resized())
        rules, out = self.file("up.py", UP), self.folder / "out.pt"
        said = self.done("apply", self.path, "--rules", rules, "--inputs", self.inputs, "-o", out)
        self.assertIn("ranks and dtypes decide", said.stderr)
        with torch.no_grad():
            torch.testing.assert_close(torch.jit.load(out)(self.x), Resized()(self.x))
        self.assertEqual(self.of_model("match", self.path, "--rules", rules)["rules"][0]["matches"], 0)

    def test_without_inputs_nothing_is_decided(self):
        self.scripted(Resized())
        copy = self.folder / "copy.pt"
        said = self.done("convert", self.path, "-o", copy)
        self.assertNotIn("decide", said.stderr)
        for shape in ((2, 4, 6, 6), (1, 3, 5, 7)):
            x = torch.randn(shape)
            torch.testing.assert_close(torch.jit.load(copy)(x), Resized()(x))

    def test_checks_of_torch_nn_are_left_out_and_the_models_own_stay(self):
        self.scripted(Normed())
        rules, copy = self.file("norm.py", NORM), self.folder / "copy.pt"
        matched = self.of_model("match", self.path, "--rules", rules, "--inputs", self.inputs)
        self.assertEqual(matched["rules"][0]["matches"], 1)
        said = self.done("convert", self.path, "--inputs", self.inputs, "-o", copy)
        self.assertIn("checks that PyTorch's own modules make", said.stderr)
        with self.assertRaisesRegex(Exception, "too many"):
            torch.jit.load(copy)(torch.randn(4, 4, 6, 6))

    def test_the_text_of_a_branch_is_read_again(self):
        self.scripted(Resized())
        text = self.file("m.txt", self.done("text", self.path).stdout)
        self.assertIn("prim.If", text.read_text())
        self.assertEqual(self.done("text", text).stdout, text.read_text())


if __name__ == "__main__":
    main()
