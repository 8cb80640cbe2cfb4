"""An optimizer's step as generated kernels on a GPU: graft::generated_parts beside the operators that its program names, and steps of
optimizers behind torch.compile beside the steps themselves.

    updates_test.py graft libgraft_ops.so
"""
import pathlib
import random
import sys
import unittest
import warnings

import torch

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PROGRAM, LIBRARY = (str(pathlib.Path(p).resolve()) for p in sys.argv[1:3])
sys.path[:0] = [str(SOURCE / "resources/python"), str(SOURCE / "tests/support")]
import graft_fx
from graft_fx import updates
from optimizers import OPTIMIZERS, net

torch.ops.load_library(LIBRARY)
parts = torch.ops.graft.generated_parts

# Each result lies where an input does that the other one reads, too.
CROSSED = """generated 1
graph crossed {{
  input %p : {0}[64]
  input %g : {1}[64]
  input %m : {0}[64]
  input %rate : f32[]
  %s = aten.mul.Tensor(%g, %rate) : {1}[64]
  %y = aten.sub.Tensor(%m, %s, alpha=1) : {0}[64]
  %e = aten.tanh.default(%m) : {0}[64]
  %z = aten.add.Tensor(%p, %e, alpha=2) : {0}[64]
  return %y, %z
}}
"""
NAMES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.float64: "f64"}


def tensor(n, dtype, offset, turned):
    """n elements, `offset` elements behind an address that is a multiple of 16, perhaps in another order of dimensions."""
    t = torch.randn(n + 8, device="cuda").to(dtype)[offset:offset + n]
    return t.view(-1, 3).t() if turned and n % 3 == 0 else t


def crossed(p, g, m, rate):
    y, z = m - g * rate, p + 2 * torch.tanh(m)
    return y, z


class Parts(unittest.TestCase):
    def sets(self, choose, wide, narrow, count):
        out = []
        for _ in range(count):
            n, offset, turned = choose.choice((1, 3, 33, 1024, 4096, 50001)), choose.choice((0, 0, 0, 1, 4)), choose.random() < 0.3
            out.append([tensor(n, wide, offset, turned), tensor(n, narrow, offset, turned), tensor(n, wide, offset, turned),
                        torch.randn((), device="cuda")])
        return out

    def test_sets_of_many_sizes_in_place(self):
        choose = random.Random(0)
        torch.manual_seed(0)
        for wide, narrow in ((torch.float32, torch.float32), (torch.float32, torch.bfloat16), (torch.bfloat16, torch.bfloat16),
                             (torch.float64, torch.float32)):
            for count in (1, 7, 900):
                with self.subTest(wide=wide, narrow=narrow, count=count):
                    sets = self.sets(choose, wide, narrow, count)
                    program = CROSSED.format(NAMES[wide], NAMES[narrow])
                    wanted = [crossed(*s) for s in sets]
                    parts([t for s in sets for t in s], [t for s in sets for t in (s[0], s[2])], program)
                    close = 4e-2 if torch.bfloat16 in (wide, narrow) else 1e-5
                    for s, (y, z) in zip(sets, wanted):
                        torch.testing.assert_close(s[0], y, rtol=close, atol=close)
                        torch.testing.assert_close(s[2], z, rtol=close, atol=close)

    def test_sets_that_write_each_others_memory_run_one_after_another(self):
        torch.manual_seed(0)
        p, g, m = (torch.randn(512, device="cuda") for _ in range(3))
        rate, program = torch.randn((), device="cuda"), CROSSED.format("f32", "f32")
        y, z = crossed(p, g, m, rate)
        y, z = crossed(y, g, z, rate)
        parts([p, g, m, rate] * 2, [p, m] * 2, program)
        torch.testing.assert_close(p, y)
        torch.testing.assert_close(m, z)

    def test_a_set_that_reads_what_an_earlier_one_writes_runs_after_it(self):
        torch.manual_seed(0)
        p, g, m, q = (torch.randn(50000, device="cuda") for _ in range(4))
        rate, program = torch.randn((), device="cuda"), CROSSED.format("f32", "f32")
        y, z = crossed(p, g, m, rate)
        second = crossed(y, g, q, rate)
        result = torch.empty_like(p)
        parts([p, g, m, rate, p, g, q, rate], [p, m, result, q], program)
        for got, wanted in zip((p, m, result, q), (y, z, *second)):
            torch.testing.assert_close(got, wanted)

    def test_results_of_their_own_and_no_elements(self):
        rate, program = torch.randn((), device="cuda"), CROSSED.format("f32", "f32")
        sets = [[torch.randn(n, device="cuda") for _ in range(3)] + [rate] for n in (0, 5, 4096)]
        results = [torch.full_like(s[0], torch.nan) for s in sets for _ in range(2)]
        kept = [[t.clone() for t in s] for s in sets]
        parts([t for s in sets for t in s], results, program)
        for i, s in enumerate(kept):
            torch.testing.assert_close(results[2 * i], crossed(*s)[0])
            torch.testing.assert_close(results[2 * i + 1], crossed(*s)[1])
            self.assertTrue(all(torch.equal(a, b) for a, b in zip(s, sets[i])))


class Steps(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        updates.Update.is_faster, self.timed = (lambda *_: True), updates.Update.is_faster

    def tearDown(self):
        updates.Update.is_faster = self.timed

    def steps(self, name, how, recorded=False):
        models = net().cuda(), net().cuda()
        plain, own = (getattr(torch.optim, name)(m.parameters(), **how) for m in models)
        backend = graft_fx.backend(None, graft=PROGRAM, library=LIBRARY, training=True)
        if recorded:
            graft_fx.record_step(graft_fx.compile_step(own, backend))
        else:
            own.step = torch.compile(own.step, backend=backend)
        for m in models:
            for p in m.parameters():
                p.grad = torch.empty_like(p)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(6):
                for p, q in zip(*(m.parameters() for m in models)):
                    p.grad.normal_()
                    q.grad.copy_(p.grad)
                plain.step()
                own.step()
        for (title, p), q in zip(models[0].named_parameters(), models[1].parameters()):
            torch.testing.assert_close(q, p, rtol=2e-5, atol=1e-5, msg=lambda m, title=title: f"{name}, {title}: {m}")
        return backend.reports, own

    def test_steps_of_many_optimizers(self):
        for name, how in OPTIMIZERS.items():
            with self.subTest(name):
                torch._dynamo.reset()
                reports, _ = self.steps(name, how)
                self.assertTrue(reports[-1]["rewritten"], reports)

    def test_a_step_that_is_recorded(self):
        reports, optimizer = self.steps("AdamW", OPTIMIZERS["AdamW"], recorded=True)
        self.assertTrue(reports[-1]["rewritten"], reports)
        self.assertGreater(optimizer.recordings["replayed"], 2, optimizer.recordings)


if __name__ == "__main__":
    if not torch.cuda.is_available():
        print("no GPU")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[3:]])
