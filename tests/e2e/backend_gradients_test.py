"""torch.compile with graft_fx.backend(..., training=True): gradients of a rule's own, checkpointed regions, scaled gradients, saving and
loading, and generated kernels in both halves."""

import copy
import functools
import io
import subprocess
import sys
import unittest
import unittest.mock
import warnings

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from support import GRAFT, OPERATORS, SOURCE, TestCase, graft, main

sys.path.insert(0, str(SOURCE / "resources/python"))
import graft_fx

SILU = """
from graft import Rule, kernels
import torch
import torch.nn.functional as F


class SiluLinear(Rule):
    def pattern(x, w, b):
        return F.silu(F.linear(x, w, b))

    def replacement(x, w, b):
        y = F.linear(x, w, b)
        return y * torch.sigmoid(y)

    def backward(grad, x, w, b):
        y = F.linear(x, w, b)
        s = torch.sigmoid(y)
        d = grad * s * (1 + y * (1 - s))
        flat = d.reshape(-1, d.shape[-1])
        return d @ w, flat.t() @ x.reshape(-1, x.shape[-1]), flat.sum(0)
"""
GELU = """
from graft import Rule, kernels
import torch.nn.functional as F


class GeluLinear(Rule):
    def pattern(x, w, b):
        return F.gelu(F.linear(x, w, b))

    def replacement(x, w, b):
        return kernels.linear(x, w, b, activation="gelu")
"""


class Gated(torch.nn.Module):
    """Two places of one rule, one behind the other; the second's weight is frozen."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = torch.nn.Linear(8, 16), torch.nn.Linear(16, 16), torch.nn.Linear(16, 8)
        self.b.weight.requires_grad_(False)

    def forward(self, x):
        return self.c(F.silu(self.b(F.silu(self.a(x)))))


class Gradients(TestCase):
    def setUp(self):
        super().setUp()
        torch.manual_seed(0)
        torch._dynamo.reset()

    def backend(self, rules, **options):
        rules = self.file("rules.py", rules) if rules else None
        return graft_fx.backend(rules, graft=str(GRAFT), library=str(OPERATORS), training=True, **{"fuse": False, **options})

    @staticmethod
    def steps(call, model, x, count=4):
        optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], 1e-2)
        losses = []
        for _ in range(count):
            optimizer.zero_grad()
            loss = call(x).pow(2).mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return torch.tensor(losses, dtype=torch.float64)

    def train(self, model, backend, x, **tolerance):
        """Steps of the model and of its copy without the backend: the same losses and parameters. What was said."""
        eager = copy.deepcopy(model)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            torch.testing.assert_close(self.steps(torch.compile(model, backend=backend), model, x), self.steps(eager, eager, x), **tolerance)
        for (name, p), q in zip(model.named_parameters(), eager.parameters()):
            torch.testing.assert_close(p, q, **tolerance, msg=lambda m, name=name: f"{name}: {m}")
        return [str(w.message) for w in said if "graft_fx" in str(w.message)]

    def test_a_rules_own_backward_is_used(self):
        backend = self.backend(SILU)
        said = self.train(Gated().double(), backend, torch.randn(3, 5, 8, dtype=torch.float64), rtol=1e-9, atol=1e-12)
        self.assertEqual(said, [])
        self.assertEqual(backend.reports[0]["ownGradients"], {"SiluLinear": 2})
        self.assertLess(backend.reports[0]["gradients"]["largestRelative"], 1e-10)

    def test_a_wrong_backward_is_named_and_autograd_takes_over(self):
        wrong = {
            "off by": SILU.replace("return d @ w,", "return 2 * (d @ w),"),
            "has the shape": SILU.replace("flat.sum(0)", "flat.sum(0, keepdim=True)"),
            "gives no gradient of": SILU.replace("flat.sum(0)", "None"),
        }
        for word, rules in wrong.items():
            with self.subTest(word):
                torch._dynamo.reset()
                backend = self.backend(rules)
                model = Gated().double()
                said = self.train(model, backend, torch.randn(3, 5, 8, dtype=torch.float64), rtol=1e-9, atol=1e-12)
                self.assertTrue(said and all(word in text and "SiluLinear" in text for text in said), said)
                self.assertEqual(backend.reports[0]["ownGradients"], {})
                self.assertTrue(backend.reports[0]["rewritten"])
                with self.assertRaisesRegex(Exception, "SiluLinear"):
                    torch._dynamo.reset()
                    torch.compile(model, backend=self.backend(rules, strict=True))(torch.randn(3, 8, dtype=torch.float64))

    def test_mistakes_in_a_backward_are_shown_at_their_place(self):
        for change, said in {("def backward(grad, x, w, b)", "def backward(grad, x, w, bias)"): "no parameter `bias`",
                             ("def backward(grad, x, w, b)", "def backward(x, w, b)"): "`x` is a parameter of the replacement",
                             ("rows.sum(0)", "rows.sum(0), None"): "takes 3 parameters behind the gradients and returns 4 values",
                             ("def replacement", "def instead"): "a rule has no `instead`"}.items():
            path = self.file("wrong.py", SILU.replace("flat", "rows").replace(*change))
            run = graft("check", path)
            self.assertNotEqual(run.returncode, 0)
            self.assertIn(said, run.stdout + run.stderr)
            self.assertIn("wrong.py:", run.stdout + run.stderr)

    def test_rules_look_into_checkpointed_regions(self):
        class Checked(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.block, self.last = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.GELU(), torch.nn.Linear(32, 8)), torch.nn.Linear(8, 8)

            def inner(self, x):
                return checkpoint(self.block, x, use_reentrant=False) + x

            def forward(self, x):
                x = checkpoint(self.block, x, use_reentrant=False)
                x = checkpoint(self.inner, x, use_reentrant=False)
                return F.gelu(self.last(x))

        backend = self.backend(GELU)
        said = self.train(Checked().double(), backend, torch.randn(6, 8, dtype=torch.float64), rtol=1e-10, atol=1e-14)
        self.assertEqual(said, [])
        (report,) = backend.reports
        self.assertEqual([s["rewrites"] for s in report["graft"]["steps"] if s["isRule"]], [3])
        asked = [n["module"] for n in report["partition"]["recomputed"] if n["reason"] == "it was asked for"]
        self.assertTrue(asked and all(m.startswith("block") or m.startswith("checkpoint_") for m in asked), asked)
        self.assertFalse([s for s in report["partition"]["saved"] if s["module"].startswith("block.")])

    def test_a_region_that_says_itself_what_it_saves_is_trained_as_it_was(self):
        def policy(context, op, *args, **kwargs):
            return CheckpointPolicy.MUST_SAVE if op is torch.ops.aten.mm.default else CheckpointPolicy.PREFER_RECOMPUTE

        class Selective(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.block = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.GELU(), torch.nn.Linear(32, 8))

            def forward(self, x):
                return checkpoint(self.block, x, use_reentrant=False,
                                  context_fn=functools.partial(create_selective_checkpoint_contexts, policy))

        said = self.train(Selective().double(), self.backend(GELU), torch.randn(6, 8, dtype=torch.float64), rtol=1e-10, atol=1e-14)
        self.assertEqual(len(said), 1, said)
        self.assertIn("trained as it was", said[0])

    def test_a_gradient_that_is_only_rounding_is_no_difference(self):
        class Attends(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.q, self.k, self.v, self.wide = (torch.nn.Linear(16, 16) for _ in range(4))

            def forward(self, x):
                # Adding the same to all keys changes no weight: the bias of k has the gradient 0.
                return F.gelu(self.wide(F.softmax(self.q(x) @ self.k(x).mT / 4, -1) @ self.v(x)))

        model, x = Attends(), torch.randn(4, 32, 16)
        backend = self.backend(GELU, decompose="inductor")
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            torch.compile(model, backend=backend)(x).pow(2).sum().backward()
        self.assertEqual([str(w.message) for w in said if "graft_fx" in str(w.message)], [])
        self.assertTrue(backend.reports[0]["rewritten"])
        self.assertLess(float(model.k.bias.grad.abs().max()), 1e-4 * float(model.k.weight.grad.abs().max()))

    def test_an_exported_model_trains_where_it_is_asked_to(self):
        model, x = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 8)), torch.randn(6, 8)
        torch.jit.script(model).save(self.folder / "net.pt")
        torch.save((x,), self.folder / "in.pt")
        self.done("apply", self.folder / "net.pt", "--rules", self.file("gelu.py", GELU), "--inputs", self.folder / "in.pt", "--no-timing",
                  "-o", self.folder / "fast.pt")
        torch.ops.load_library(OPERATORS)
        fast = torch.jit.load(self.folder / "fast.pt")
        for p in fast.parameters():
            p.requires_grad_(True)
        self.assertEqual(list(fast.state_dict()), list(model.state_dict()))
        torch.testing.assert_close(self.steps(fast, fast, x), self.steps(model, model, x), rtol=1e-5, atol=1e-7)

    def test_scaled_gradients_of_half_precision(self):
        losses, states = [], []
        for compiled in (True, False):
            torch.manual_seed(3)
            model = Gated()
            call = torch.compile(model, backend=self.backend(SILU)) if compiled else model
            optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], 0.1)
            scaler = torch.amp.GradScaler("cpu", init_scale=1024)
            x, losses_here = torch.randn(6, 8), []
            for step in range(6):
                optimizer.zero_grad()
                with torch.autocast("cpu", torch.float16):
                    loss = call(x).float().pow(2).mean() * (float("inf") if step == 3 else 1)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                losses_here.append(loss.item())
            losses.append(losses_here)
            states.append(scaler.get_scale())
        self.assertEqual(states, [512, 512])  # the step whose gradients were infinite was left out by both
        self.assertEqual(losses[0][3], float("inf"))
        for a, b in zip(losses[0][:3] + losses[0][4:], losses[1][:3] + losses[1][4:]):
            self.assertAlmostEqual(a, b, delta=2e-3)

    def test_training_goes_on_from_a_saved_state(self):
        x = torch.randn(6, 8, dtype=torch.float64)
        model = Gated().double()
        start, whole = copy.deepcopy(model), copy.deepcopy(model)

        def some(call, model, optimizer, count):
            for _ in range(count):
                optimizer.zero_grad()
                call(x).pow(2).mean().backward()
                optimizer.step()

        def optimizer_of(model):
            return torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], 1e-2)

        first = optimizer_of(model)
        call = torch.compile(model, backend=self.backend(SILU))
        some(call, model, first, 3)
        file = io.BytesIO()
        torch.save({"model": model.state_dict(), "optimizer": first.state_dict()}, file)
        file.seek(0)
        state, second = torch.load(file), optimizer_of(start)
        start.load_state_dict(state["model"])
        second.load_state_dict(state["optimizer"])
        torch._dynamo.reset()
        some(torch.compile(start, backend=self.backend(SILU)), start, second, 3)
        some(whole, whole, optimizer_of(whole), 6)
        for (name, p), q in zip(start.named_parameters(), whole.named_parameters()):
            torch.testing.assert_close(p, q[1], rtol=1e-9, atol=1e-12, msg=lambda m, name=name: f"{name}: {m}")

    def test_both_halves_get_generated_kernels(self):
        class Block(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.norm, self.wide, self.back = torch.nn.LayerNorm(64), torch.nn.Linear(64, 256), torch.nn.Linear(256, 64)

            def forward(self, x):
                return F.softmax(self.back(F.gelu(self.wide(self.norm(x)), approximate="tanh")) * torch.tanh(x) + x, -1)

        from graft_fx import halves

        def fused(half, folder):
            """All groups, whatever the machine does meanwhile: which are faster is for `graft optimize` to say."""
            subprocess.run([GRAFT, "apply", f"{folder}/half.fx", "--inputs", f"{folder}/inputs.pt", "-o", f"{folder}/half.pt2", "--rules",
                            SOURCE / "resources/rules/generated.py", "--recipe", "Fused", "--no-timing"], check=True, capture_output=True)
            return 1

        model, x = Block().double(), torch.randn(16, 32, 64, dtype=torch.float64)
        backend = self.backend(None, fuse=True)
        with unittest.mock.patch.object(halves.Half, "optimized", fused), \
             unittest.mock.patch.object(halves.Half, "timed", lambda *_: [1.0, 0.5]):
            said = self.train(model, backend, x, rtol=1e-9, atol=1e-12)
        self.assertEqual(said, [])
        report = backend.reports[0]
        self.assertEqual([report[half]["isKept"] for half in ("forward", "backward")], [True, True])


if __name__ == "__main__":
    main()
