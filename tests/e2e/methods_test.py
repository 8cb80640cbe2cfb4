"""--method everywhere; all graphs of a capture; what would end the process while it is verified does not."""

import json
import sys

import torch
from torch import nn

from support import SOURCE, TestCase, main

sys.path.insert(0, str(SOURCE / "resources/python"))
import graft_fx

RULE = """
from graft import Rule
import torch

class Clamp(Rule):
    def pattern(x): return torch.relu(x)
    def replacement(x): return torch.clamp(x, min=0.0)
"""

THRESHOLD = """
from graft import Rule
import torch

class Threshold(Rule):
    def pattern(gradient, y): return torch.ops.aten.threshold_backward(gradient, y, 0)
    def replacement(gradient, y): return torch.where(y <= 0, torch.zeros_like(gradient), gradient)
"""


class Broken(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x):
        x = torch.relu(self.first(x))
        torch._dynamo.graph_break()
        return torch.relu(self.second(x)) + 1


class Two(nn.Module):
    def forward(self, x):
        return torch.relu(x)

    @torch.jit.export
    def other(self, x):
        return torch.relu(x) - torch.relu(x * 2)


class Convolved(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)

    def forward(self, x):
        return torch.relu(self.norm(self.conv(x)))


class Methods(TestCase):
    def setUp(self):
        super().setUp()
        torch.manual_seed(0)
        torch._dynamo.reset()
        self.rule = self.file("rule.py", RULE)

    def test_every_command_takes_a_method(self):
        path, given, out = (self.folder / f for f in ("two.pt", "in.pt", "out.pt"))
        torch.jit.script(Two()).save(path)
        torch.save((torch.randn(3),), given)
        self.assertEqual(self.of_model("match", path, "--rules", self.rule)["rules"][0]["matches"], 1)
        which, inputs, rules = ("--method", "other"), ("--inputs", given), ("--rules", self.rule)
        self.assertEqual(self.of_model("match", path, *rules, *which)["rules"][0]["matches"], 2)
        self.assertEqual(self.json("explain", path, *rules, *which)["matches"], 2)
        for command in ("text", "code", "report", "modules", "info"):
            said = self.done(command, path, *which).stdout
            self.assertTrue(command == "modules" or "sub" in said, command)
        self.done("draw", path, "-o", self.folder / "a.svg", *which)
        self.assertIn("sub", (self.folder / "a.svg").read_text())
        self.assertEqual(len(self.json("profile", path, *inputs, *which, "--repetitions", "1")["nodes"]), 4)
        self.done("run", path, *inputs, *which)
        self.done("compare", path, path, *inputs, *which, "--seconds", "0.1")
        self.assertEqual(self.of_model("bench", path, *rules, *inputs, *which, "--seconds", "0.1")["rewrites"], 2)
        report = self.of_model("apply", path, *rules, *inputs, *which, "--no-timing", "-o", out)
        self.assertEqual((report["method"], report["steps"][0]["rewrites"]), ("other", 2))
        x = torch.randn(5)
        torch.testing.assert_close(torch.jit.load(out)(x), Two().other(x))
        self.fails(3, "match", path, *rules, "--method", "nowhere", says="has no method nowhere")
        self.fails(2, "bench", path, *rules, *inputs, *which, "--against", "eager", says="without --method")

    def test_apply_rewrites_all_graphs_of_a_capture(self):
        path, given, out = (self.folder / f for f in ("broken.fx", "in.pt", "out.pt"))
        model, x = Broken().eval(), torch.randn(3, 4)
        graft_fx.capture(model, (x,), path)
        torch.save((x,), given)
        run = self.done("apply", path, "--rules", self.rule, "--inputs", given, "--no-timing", "-o", out, "--json")
        reports = json.loads(run.stdout)["models"]
        self.assertEqual([r["method"] for r in reports], ["forward", "forward.1"])
        self.assertEqual([r["steps"][0]["rewrites"] for r in reports], [1, 1])
        first, second = torch.jit.load(out), torch.jit.load(self.folder / "out.forward.1.pt")
        with torch.no_grad():
            torch.testing.assert_close(second(first(x)), model(x))
        one = self.folder / "one.pt"
        self.done("apply", path, "--rules", self.rule, "--method", "forward.1", "--no-timing", "-o", one)
        with torch.no_grad():
            torch.testing.assert_close(torch.jit.load(one)(first(x)), model(x))
        self.fails(2, "apply", path, "--rules", self.rule, "--expect", "Clamp=1", "-o", one, says="--method")

    def test_an_operator_that_cannot_take_empty_tensors_ends_no_program(self):
        # LibTorch divides by the batch, which verification also tries as 0: SIGFPE.
        path, out, given = (self.folder / f for f in ("model.fx", "backward.pt", "in.pt"))
        graft_fx.capture(Convolved(), (torch.randn(2, 3, 8, 8),), path, joint=True, dynamic=True)
        self.done("convert", path, "--method", "backward", "-o", out)
        r = torch.randn
        torch.save((r(2, 3, 8, 8), 8, 2, r(2, 4, 6, 6), r(4), r(4).abs() + 0.5, r(4), r(4).abs() + 0.5, r(2, 4, 6, 6), r(2, 4, 6, 6)),
                   given)
        rule = self.file("threshold.py", THRESHOLD)
        report = self.of_model("apply", out, "--rules", rule, "--inputs", given, "--no-timing", "-o", self.folder / "fast.pt")
        self.assertEqual(report["steps"][0]["rewrites"], 1)
        self.assertTrue(report["verification"]["passed"])


main()
