"""An optimizer's step behind torch.compile: one kernel for what all parameters' updates have in common, with the numbers of the step itself."""

import copy
import sys
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

    def test_a_wrong_kernel_runs_as_it_was(self):
        right = updates.difference
        updates.difference = lambda a, b, coarse: "off by 1"
        try:
            report = self.steps("AdamW", OPTIMIZERS["AdamW"])[-1]
            self.assertFalse(report["rewritten"])
            self.assertIn("off by 1", report["reason"])
        finally:
            updates.difference = right

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
