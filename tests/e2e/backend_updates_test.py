"""An optimizer's step behind torch.compile: one kernel for what all parameters' updates have in common, with the numbers of the step itself."""

import copy
import sys
import threading
import unittest
import warnings

import torch

from support import GRAFT, OPERATORS, SOURCE, TestCase, main

sys.path[:0] = [str(SOURCE / "resources/python"), str(SOURCE / "tests/support")]
import graft_fx
from graft_fx import updates
from optimizers import OPTIMIZERS, net


class Updates(TestCase):
    def setUp(self):
        super().setUp()
        torch._dynamo.reset()
        updates.Update.is_faster, self.timed = (lambda *_: True), updates.Update.is_faster

    def tearDown(self):
        updates.Update.is_faster = self.timed
        super().tearDown()

    def backend(self, **options):
        return graft_fx.backend(None, graft=str(GRAFT), library=str(OPERATORS), training=True, **options)

    def steps(self, name, how, count=4, **options):
        """The reports, once `count` steps of the optimizer as it is and behind the backend left the same parameters and states."""
        models = net(), net()
        plain, own = (getattr(torch.optim, name)(m.parameters(), **how) for m in models)
        backend = self.backend(**options)
        step = torch.compile(own.step, backend=backend)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(count):
                for p, q in zip(*(m.parameters() for m in models)):
                    p.grad = torch.randn_like(p)
                    q.grad = p.grad.clone()
                plain.step()
                step()
        for (title, p), q in zip(models[0].named_parameters(), models[1].parameters()):
            torch.testing.assert_close(q, p, rtol=2e-5, atol=1e-5, msg=lambda m, title=title: f"{name}, {title}: {m}")
            for key, value in plain.state[p].items():
                if isinstance(value, torch.Tensor):
                    torch.testing.assert_close(own.state[q][key], value, rtol=2e-5, atol=1e-5)
        return backend.reports

    def test_steps_of_many_optimizers(self):
        for name, how in OPTIMIZERS.items():
            with self.subTest(name):
                torch._dynamo.reset()
                last = self.steps(name, how)[-1]
                self.assertTrue(last["rewritten"], last)
                self.assertLess(last["update"]["kernels"], last["update"]["parts"], last)

    def test_a_rate_that_changes(self):
        models = net(), net()
        plain, own = (torch.optim.AdamW(m.parameters(), torch.tensor(1e-2), foreach=False) for m in models)
        backend = self.backend()
        step = torch.compile(own.step, backend=backend)
        for i in range(4):
            for p, q in zip(*(m.parameters() for m in models)):
                p.grad = torch.randn_like(p)
                q.grad = p.grad.clone()
            for o in (plain, own):
                o.param_groups[0]["lr"].fill_(1e-2 / (i + 1))
            plain.step()
            step()
        self.assertTrue(backend.reports[-1]["rewritten"], backend.reports)
        for p, q in zip(*(m.parameters() for m in models)):
            torch.testing.assert_close(q, p, rtol=2e-5, atol=1e-5)

    def test_a_scheduler_compiles_nothing_again(self):
        for foreach in (False, None):
            with self.subTest(foreach=foreach):
                torch._dynamo.reset()
                models, backend = (net(), net()), self.backend()
                optimizers = [torch.optim.AdamW(m.parameters(), 1e-2, foreach=foreach) for m in models]
                graft_fx.compile_step(optimizers[1], backend)
                schedules = [torch.optim.lr_scheduler.StepLR(o, 2, 0.5) for o in optimizers]
                for _ in range(6):
                    for p, q in zip(*(m.parameters() for m in models)):
                        p.grad = torch.randn_like(p)
                        q.grad = p.grad.clone()
                    for optimizer, schedule in zip(optimizers, schedules):
                        optimizer.step()
                        schedule.step()
                self.assertEqual([r["rewritten"] for r in backend.reports], [True])
                for p, q in zip(*(m.parameters() for m in models)):
                    torch.testing.assert_close(q, p, rtol=2e-5, atol=1e-5)
                self.assertAlmostEqual(float(optimizers[1].param_groups[0]["lr"]), 1e-2 / 8)
                copy.deepcopy(optimizers[1].state_dict())

    def test_a_slower_step_is_taken_back_and_changes_nothing(self):
        updates.Update.is_faster = self.timed
        real, times = updates.Update.milliseconds, iter((1.0, 2.0))  # of the step as it was, then of the kernels
        updates.Update.milliseconds = lambda *given: (real(*given), next(times))[1]
        try:
            report = self.steps("AdamW", OPTIMIZERS["AdamW"])[-1]
        finally:
            updates.Update.milliseconds = real
        self.assertEqual((report["update"]["plainMs"], report["update"]["milliseconds"], report["update"]["isKept"]), (1.0, 2.0, False))
        self.assertFalse(report["rewritten"])

    def test_a_wrong_kernel_runs_as_it_was(self):
        right = updates.difference
        updates.difference = lambda a, b, coarse: "off by 1"
        try:
            report = self.steps("AdamW", OPTIMIZERS["AdamW"])[-1]
            self.assertFalse(report["rewritten"])
            self.assertIn("off by 1", report["reason"])
        finally:
            updates.difference = right

    def test_an_error_while_both_ways_are_timed_leaves_one_step(self):
        updates.Update.is_faster = self.timed
        weight = torch.nn.Parameter(torch.ones(100))
        weight.grad = torch.ones(100)
        optimizer = torch.optim.SGD([weight], 0.1)
        real, calls = updates.Update.milliseconds, []

        def failing(*given):
            calls.append(real(*given))
            if len(calls) == 2:
                raise torch.OutOfMemoryError("no memory")
            return calls[-1]

        updates.Update.milliseconds = failing
        try:
            graft_fx.compile_step(optimizer, self.backend()).step()
        finally:
            updates.Update.milliseconds = real
        self.assertEqual(len(calls), 2)
        torch.testing.assert_close(weight.detach(), torch.full((100,), 0.9))

    def test_threads_that_step_at_the_same_time(self):
        backend = self.backend()

        def step(count, p, g):
            count.add_(1)
            p.add_(g * (1 - 0.5 ** count))

        call = torch.compile(step, backend=backend)
        wrong = []

        def work(seed):
            random = torch.Generator().manual_seed(seed)
            for _ in range(40):
                count, p, g = torch.tensor(float(seed)), torch.randn(300, generator=random), torch.randn(300, generator=random)
                wanted = p + g * (1 - 0.5 ** (count + 1))
                with torch.no_grad():
                    call(count, p, g)
                if not torch.allclose(p, wanted, atol=1e-5):
                    wrong.append(seed)

        work(0)
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 5)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertTrue(backend.reports[0]["rewritten"], backend.reports)
        self.assertEqual(wrong, [])

    def test_a_graph_that_writes_and_gives_something_runs_as_it_was(self):
        class Counting(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = torch.nn.Linear(64, 64)
                self.register_buffer("count", torch.zeros(64))

            def forward(self, x):
                y = torch.nn.functional.gelu(self.fc(x)) * self.count.exp()
                self.count.add_(0.1)
                return y

        torch.manual_seed(0)
        plain = Counting()
        own = copy.deepcopy(plain)
        call = torch.compile(own, backend=self.backend(budget=2))
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            for _ in range(3):
                x = torch.randn(32, 64)
                torch.testing.assert_close(call(x), plain(x))
        torch.testing.assert_close(own.count, plain.count)
        self.steps("SGD", {"lr": 1.0, "momentum": 0.9, "weight_decay": 0.1, "foreach": False}, budget=2)

    def test_a_step_that_runs_as_it_was_counts_once(self):
        torch.manual_seed(0)
        weights = [torch.nn.Parameter(torch.ones(6, 6)) for _ in range(2)]
        plain, own = (torch.optim.AdamW([w], 1e-2, foreach=False) for w in weights)
        backend = self.backend(budget=2)
        graft_fx.compile_step(own, backend)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(3):
                for w in weights:
                    torch.manual_seed(1)
                    w.grad = torch.randn(6, 6).t()  # its elements lie in another order than the parameter's
                plain.step()
                own.step()
        self.assertFalse(backend.reports[-1]["rewritten"], backend.reports)
        self.assertEqual(float(own.state[weights[1]]["step"]), 3)
        torch.testing.assert_close(weights[1], weights[0])

    def test_a_graph_that_writes_to_nothing_of_its_caller(self):
        def nothing(p):
            t = p * 2
            t.add_(1)

        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            for _ in range(2):
                torch.compile(nothing, backend=self.backend(budget=2))(torch.ones(3))

    def test_a_loaded_state_keeps_its_numbers_in_tensors(self):
        models = net(), net()
        saved = torch.optim.AdamW(models[0].parameters(), 5e-3).state_dict()
        optimizer = graft_fx.compile_step(torch.optim.AdamW(models[1].parameters(), 1e-2), self.backend())
        optimizer.load_state_dict(saved)
        self.assertIsInstance(optimizer.param_groups[0]["lr"], torch.Tensor)
        self.assertAlmostEqual(float(optimizer.param_groups[0]["lr"]), 5e-3)

    def test_what_is_no_update_of_single_elements_runs_as_it_was(self):
        weight = torch.nn.Parameter(torch.randn(6, 6))
        before, backend = weight.detach().clone(), self.backend()

        def step():
            weight.mul_(0.5)
            weight.sub_(weight.mean(0) * 0.1)

        with warnings.catch_warnings(record=True) as said, torch.no_grad():
            warnings.simplefilter("always")
            torch.compile(step, backend=backend)()
        self.assertFalse(backend.reports[-1]["rewritten"])
        self.assertIn("other sizes", backend.reports[-1]["reason"])
        self.assertTrue([w for w in said if "runs as it was" in str(w.message)], [str(w.message) for w in said])
        half = before * 0.5
        torch.testing.assert_close(weight.detach(), half - half.mean(0) * 0.1)


if __name__ == "__main__":
    main()
