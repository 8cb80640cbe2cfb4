"""torch.compile with graft_fx.backend(..., training=True): rules, the cut, and steps beside eager ones."""

import copy
import sys
import unittest
import warnings

import torch
import torch.nn.functional as F

from support import GRAFT, OPERATORS, SOURCE, TestCase, main

sys.path.insert(0, str(SOURCE / "resources/python"))
import graft_fx

RULES = """
from graft import Rule, Weight, kernels
import torch
import torch.nn.functional as F


class GeluLinear(Rule):
    def pattern(x, w, b):
        return F.gelu(F.linear(x, w, b))

    def replacement(x, w, b):
        return kernels.linear(x, w, b, activation="gelu")


class Merged(Rule):
    def pattern(x, a: Weight, b: Weight, p: Weight, q: Weight):
        return F.linear(x, a, p), F.linear(x, b, q)

    def replacement(x, a: Weight, b: Weight, p: Weight, q: Weight):
        both = F.linear(x, torch.cat([a, b], 0), torch.cat([p, q], 0))
        left, right = both.chunk(2, -1)
        return left, right
"""


class Block(torch.nn.Module):
    """Two projections of one input, which a rule merges; BatchNorm, a frozen bias, tied weights, several outputs."""

    def __init__(self, width=8, dropout=0.0):
        super().__init__()
        self.left, self.right = torch.nn.Linear(width, width), torch.nn.Linear(width, width)
        self.wide, self.back = torch.nn.Linear(width, 2 * width), torch.nn.Linear(2 * width, width)
        self.norm, self.dropout, self.head = torch.nn.BatchNorm1d(width), torch.nn.Dropout(dropout), torch.nn.Linear(width, width)
        self.head.weight = self.left.weight
        self.back.bias.requires_grad_(False)

    def forward(self, x):
        gate = torch.sigmoid(self.left(x)) * self.right(x)
        x = self.norm(self.dropout(self.back(F.gelu(self.wide(gate)))) + x)
        return self.head(x), gate.mean()


class BackendTraining(TestCase):
    def setUp(self):
        super().setUp()
        torch.manual_seed(0)
        torch._dynamo.reset()
        self.rules = self.file("rules.py", RULES)

    def backend(self, **options):
        return graft_fx.backend(self.rules, graft=str(GRAFT), library=str(OPERATORS), training=True, fuse=False, **options)

    def compiled(self, model, **options):
        backend = self.backend(**options)
        return torch.compile(model, backend=backend), backend

    @staticmethod
    def losses(call, model, steps=4, accumulate=1, context=None, batch=6, dtype=torch.float64):
        """Of steps with AdamW, and what they leave in the model."""
        torch.manual_seed(1)
        optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], 1e-2)
        out = []
        for _ in range(steps):
            optimizer.zero_grad()
            for _ in range(accumulate):
                x, y = torch.randn(batch, 8, dtype=dtype), torch.randn(batch, 8, dtype=dtype)
                with context() if context else torch.enable_grad():
                    result, extra = call(x)
                    loss = F.mse_loss(result.to(dtype), y) + extra.to(dtype)
                loss.backward()
                out.append(loss.item())
            optimizer.step()
        return torch.tensor(out, dtype=torch.float64)

    def assertSameState(self, a, b, **tolerance):
        self.assertEqual(list(a.state_dict()), list(b.state_dict()))
        for name, t in a.state_dict().items():
            torch.testing.assert_close(t, b.state_dict()[name], **tolerance, msg=lambda m, name=name: f"{name}: {m}")

    def test_steps_with_merged_weights_and_a_budget_are_those_of_eager(self):
        for memory in ("100%", "60%"):
            with self.subTest(memory):
                torch._dynamo.reset()
                model = Block().double().train()
                eager, own = copy.deepcopy(model), dict(model.named_parameters())
                call, backend = self.compiled(model, memory=memory)
                torch.testing.assert_close(self.losses(call, model), self.losses(eager, eager), rtol=1e-10, atol=0)
                self.assertSameState(model, eager, rtol=1e-8, atol=1e-10)
                self.assertTrue(all(p is own[n] for n, p in model.named_parameters()))
                self.assertIsNone(model.back.bias.grad)
                (report,) = backend.reports
                self.assertEqual({s["name"]: s["rewrites"] for s in report["graft"]["steps"]}, {"GeluLinear": 1, "Merged": 1})
                self.assertTrue(report["rewritten"])
                self.assertLess(report["gradients"]["largestRelative"], 1e-10)
                self.assertLessEqual(report["partition"]["savedBytes"], float(memory[:-1]) / 100 * report["partition"]["defaultBytes"])

    def test_slapos_schedule_trains_as_the_model_without_it(self):
        sys.path.insert(0, str(SOURCE / "samples/models"))
        import modules

        model = modules.Attention(64, 4).double().train()
        eager, x = copy.deepcopy(model), torch.randn(4, 10, 64, dtype=torch.float64)
        backend = graft_fx.backend(SOURCE / "samples/slapo_attention/rules.py", recipe="Train", graft=str(GRAFT), library=str(OPERATORS),
                                   training=True, fuse=False)
        losses = []
        for call, net in ((torch.compile(model, backend=backend), model), (eager, eager)):
            torch.manual_seed(2)
            optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
            losses.append([])
            for _ in range(20):
                optimizer.zero_grad()
                loss = F.mse_loss(call(x), x.flip(-1))
                loss.backward()
                optimizer.step()
                losses[-1].append(loss.item())
        # Both draw the same numbers: PyTorch's attention applies its dropout in the same place.
        torch.testing.assert_close(torch.tensor(losses[0]), torch.tensor(losses[1]), rtol=1e-10, atol=0)
        self.assertLess(losses[0][-1], losses[0][0])
        self.assertSameState(model, eager, rtol=1e-8, atol=1e-10)
        self.assertEqual([(s["name"], s["rewrites"]) for s in backend.reports[0]["graft"]["steps"] if s["isRule"]],
                         [("FusedQkv", 1), ("TrainedAttention", 1), ("TrainedLayerNorm", 1)])

    def test_single_precision_accumulation_and_switching_between_training_and_inference(self):
        model = Block().train()
        eager = copy.deepcopy(model)
        call, backend = self.compiled(model)
        for round in range(2):
            torch.testing.assert_close(self.losses(call, model, accumulate=3, dtype=torch.float32),
                                       self.losses(eager, eager, accumulate=3, dtype=torch.float32), rtol=1e-4, atol=1e-5)
            x = torch.randn(6, 8)
            for net in (model, eager):
                net.eval()
            with torch.no_grad():
                torch.testing.assert_close(call(x), eager(x), rtol=1e-4, atol=1e-5)
            for net in (model, eager):
                net.train()
        self.assertTrue(all(r["rewritten"] for r in backend.reports), backend.reports)

    def test_autocast_around_the_call_and_inside_the_model(self):
        class Inside(Block):
            def forward(self, x):
                with torch.autocast("cpu", torch.bfloat16):
                    return super().forward(x)

        for kind, context in ((Block, lambda: torch.autocast("cpu", torch.bfloat16)), (Inside, None)):
            with self.subTest(kind.__name__):
                torch._dynamo.reset()
                model = kind().train()
                eager = copy.deepcopy(model)
                call, backend = self.compiled(model)
                got = self.losses(call, model, context=context, dtype=torch.float32)
                torch.testing.assert_close(got, self.losses(eager, eager, context=context, dtype=torch.float32), rtol=2e-2, atol=2e-2)
                self.assertTrue(backend.reports[0]["rewritten"], backend.reports[0].get("reason"))
                self.assertEqual({p.grad.dtype for p in model.parameters() if p.grad is not None}, {torch.float32})

    def test_what_autocast_casts_for_several_operators_is_saved_once(self):
        class Projections(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.parts = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(3))

            def forward(self, x):
                y = F.dropout(x.cos(), 0.5)
                return sum(part(y) for part in self.parts) + F.dropout(x.cos(), 0.5)

        call, backend = self.compiled(Projections())
        with torch.autocast("cpu", torch.bfloat16):
            out = call(torch.randn(64, 8, requires_grad=True))
        out.sum().backward()
        saved = [s for s in backend.reports[0]["partition"]["saved"] if s["bytes"] == 64 * 8 * 2]
        self.assertEqual(len(saved), 1, backend.reports[0]["partition"]["saved"])
        self.assertTrue(out.detach().isfinite().all())

    def test_dropout_draws_once_and_its_gradient_has_the_same_mask(self):
        class Dropped(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.wide = torch.nn.Linear(8, 8)

            def forward(self, x, scale):
                return F.dropout(F.gelu(self.wide(x)) * 0 + scale, 0.5)

        call, backend = self.compiled(Dropped().double(), memory="50%")
        for seed in (3, 4):
            results = []
            for _ in range(2):
                torch.manual_seed(seed)
                scale = torch.ones(64, 8, dtype=torch.float64, requires_grad=True)
                out = call(torch.randn(64, 8, dtype=torch.float64), scale)
                out.sum().backward()
                self.assertTrue(torch.equal(scale.grad, out.detach()))
                results.append(out.detach())
            self.assertTrue(torch.equal(*results))
            self.assertTrue(0.4 < (results[0] == 0).double().mean() < 0.6)
        self.assertTrue(backend.reports[0]["rewritten"])

    def test_a_rule_with_a_wrong_gradient_is_taken_back(self):
        rules = self.file("wrong.py", """
from graft import Rule
import torch
import torch.nn.functional as F


class Stopped(Rule):
    def pattern(x, w, b):
        return F.gelu(F.linear(x, w, b))

    def replacement(x, w, b):
        return F.gelu(F.linear(x.detach(), w, b))
""")
        model = Block().double().train()
        eager = copy.deepcopy(model)
        backend = graft_fx.backend(rules, graft=str(GRAFT), library=str(OPERATORS), training=True, fuse=False)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            torch.testing.assert_close(self.losses(torch.compile(model, backend=backend), model), self.losses(eager, eager), rtol=1e-10, atol=0)
        texts = [str(w.message) for w in said if "graft_fx" in str(w.message)]
        self.assertEqual(len(texts), 1, texts)
        self.assertIn("the gradient of", texts[0])
        self.assertFalse(backend.reports[0]["rewritten"])

    def test_sizes_that_vary(self):
        model = Block().double().train()
        eager = copy.deepcopy(model)
        backend = self.backend()
        call = torch.compile(model, backend=backend, dynamic=True)
        for batch in (5, 7):
            torch.testing.assert_close(self.losses(call, model, steps=2, batch=batch), self.losses(eager, eager, steps=2, batch=batch),
                                       rtol=1e-10, atol=0)

    def test_modules_that_are_always_computed_again(self):
        model = Block().double().train()
        call, backend = self.compiled(model, recompute=["norm"])
        self.losses(call, model, steps=1)
        self.assertIn(("norm", "it was asked for"),
                      [(n["module"], n["reason"]) for n in backend.reports[0]["partition"]["recomputed"]])

    def test_a_budget_out_of_reach_is_told_once_and_the_model_trains(self):
        model = Block().double().train()
        eager = copy.deepcopy(model)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            call, backend = self.compiled(model, memory="1%")
            torch.testing.assert_close(self.losses(call, model), self.losses(eager, eager), rtol=1e-10, atol=0)
        texts = [str(w.message) for w in said if "cannot be met" in str(w.message)]
        self.assertEqual(len(texts), 1)
        self.assertIn("ask for at least --memory", texts[0])
        with self.assertRaisesRegex(Exception, "cannot be met"):
            torch._dynamo.reset()
            self.losses(self.compiled(copy.deepcopy(eager), memory="1%", strict=True)[0], eager, steps=1)

    def test_writes_in_place_are_results_of_the_graph(self):
        class Overwrites(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.wide = torch.nn.Linear(8, 8)
                self.register_buffer("seen", torch.ones(8))

            def forward(self, x):
                x = F.gelu(self.wide(x)) + self.seen
                self.seen.mul_(0.5)
                y = x * 2
                x.add_(1)
                return y + x.tanh(), y.mean()

        model = Overwrites().double()
        eager = copy.deepcopy(model)
        call, backend = self.compiled(model)
        torch.testing.assert_close(self.losses(call, model), self.losses(eager, eager), rtol=1e-10, atol=0)
        self.assertSameState(model, eager, rtol=1e-10, atol=0)
        self.assertIsNotNone(backend.reports[0]["partition"])

    def test_a_write_over_what_is_saved_is_named_once_with_its_line(self):
        class Overwrites(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.wide = torch.nn.Linear(8, 8)

            def forward(self, x):
                x = torch.sigmoid(F.gelu(self.wide(x)))
                y = x * x
                x.add_(1)
                return y, x.mean()

        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            call, _ = self.compiled(Overwrites())
            for _ in range(2):
                call(torch.randn(6, 8))
        texts = [str(w.message) for w in said if "graft_fx" in str(w.message)]
        self.assertEqual(len(texts), 1, texts)
        for word in ("inplace", "backend_training_test.py", "x.add_(1)", "compute a new tensor"):
            self.assertIn(word, texts[0])

    def test_an_operator_without_a_derivative_is_named(self):
        class Rounded(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.wide = torch.nn.Linear(8, 8)

            def forward(self, x):
                return torch.ops.e2e_training.stepped(self.wide(x)), x.mean()

        model = Rounded()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            call, backend = self.compiled(model)
            x = torch.randn(6, 8)
            torch.testing.assert_close(call(x)[0], model(x)[0])
            call(x)
        texts = [str(w.message) for w in said if "stepped" in str(w.message) and "graft_fx" in str(w.message)]
        self.assertEqual(len(texts), 1, [str(w.message) for w in said])
        self.assertIn("no autograd formula was registered", texts[0])
        self.assertIn("backend_training_test.py", texts[0])

    def test_gradients_that_are_not_finite_are_named_once(self):
        class Root(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.wide, self.scale = torch.nn.Linear(8, 8), torch.nn.Parameter(torch.zeros(8))

            def forward(self, x):
                return torch.sqrt(F.gelu(self.wide(x)).abs() * self.scale), x.mean()

        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            call, _ = self.compiled(Root())
            for _ in range(2):
                call(torch.randn(6, 8))[0].sum().backward()
        texts = [str(w.message) for w in said if "NaN or infinity" in str(w.message)]
        self.assertEqual(len(texts), 1, [str(w.message) for w in said])
        self.assertIn("set_detect_anomaly", texts[0])


@torch.library.custom_op("e2e_training::stepped", mutates_args=())
def stepped(x: torch.Tensor) -> torch.Tensor:
    return x.round()


@stepped.register_fake
def _(x):
    return torch.empty_like(x)


if __name__ == "__main__":
    main()
