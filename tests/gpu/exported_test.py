"""Exported TorchScript models in plain Python. On any machine they load, are readable, run, and can be saved, copied and frozen. On a
GPU they run as CUDA graphs, and results stay right when shapes, weights, devices, streams or threads change and when memory runs out.

    python tests/gpu/exported_test.py build

Without a GPU its cases are skipped.
"""
import contextlib
import copy
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import types
import unittest
import warnings
from typing import List

import torch

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else SOURCE / "build"
sys.path.insert(0, str(SOURCE / "tests" / "gpu"))
from bert_bench import Bert  # noqa: E402

GPU = torch.cuda.is_available()
needs_gpu = unittest.skipUnless(GPU, "no GPU")


def inputs(batch=2, length=16, seed=0, device="cpu"):
    g = torch.Generator().manual_seed(seed)
    ids = torch.randint(100, (batch, length), generator=g)
    mask = torch.zeros(batch, 1, 1, length)
    mask[..., length - 3:] = -10000.0
    return tuple(t.to(device) for t in (ids, torch.zeros_like(ids), torch.arange(length)[None], mask))


def graft(*arguments):
    run = subprocess.run([BUILD / "bin" / "graft", *map(str, arguments)], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def setUpModule():
    global folder, original, fast_file, plain_file
    holder = tempfile.TemporaryDirectory(prefix="graft-exported-")
    unittest.addModuleCleanup(holder.cleanup)
    folder = pathlib.Path(holder.name)
    torch.manual_seed(0)
    torch.set_grad_enabled(False)
    original = Bert(layers=2, hidden=128, heads=2, inner=256, vocabulary=100, explicit=True).eval()
    traced = folder / "bert.pt"
    torch.jit.trace(original, inputs()).save(str(traced))
    torch.save(inputs(), folder / "in.pt")
    fast_file, plain_file = folder / "fast.pt", folder / "plain.pt"
    common = ["apply", traced, "--rules", SOURCE / "resources/rules/transformer.py", "--recipe", "Encoder", "--inputs",
              folder / "in.pt", "--no-timing"]
    assert "CUDA graphs" in graft(*common, "-o", fast_file)
    assert "--no-capture" in graft(*common, "-o", plain_file, "--no-capture")
    torch.ops.load_library(BUILD / "lib" / "libgraft_ops.so")


def load(device="cpu", dtype=None):
    m = torch.jit.load(str(fast_file), map_location=device)
    return m.to(dtype) if dtype else m


class Captured(unittest.TestCase):
    @needs_gpu
    def test_a_model_that_nothing_makes_faster_runs_as_graphs(self):
        class Products(torch.nn.Module):
            def forward(self, x):
                for _ in range(60):
                    x = torch.mm(x, x) % 3
                return x

        x = torch.rand(16, 16)
        torch.jit.trace(Products(), x).save(str(folder / "products.pt"))
        torch.save((x,), folder / "x.pt")
        command = ["optimize", folder / "products.pt", "--inputs", folder / "x.pt", "-o", folder / "graphs.pt", "--device", "cuda",
                   "--seconds", 0.5, "--budget", 5]
        for _ in range(4):  # beside other work on the GPU, two timings may look the same
            said = graft(*command, "--allow-unchanged")
            if "as CUDA graphs" in said:
                break
        self.assertIn("as CUDA graphs", said)
        graphs = torch.jit.load(str(folder / "graphs.pt"), map_location="cuda")
        for _ in range(4):
            y = torch.rand(16, 16, device="cuda")
            self.assertTrue(torch.equal(graphs(y), Products()(y)))
        sys.path.insert(0, str(SOURCE / "resources" / "python"))
        import graft_fx
        for _ in range(4):
            torch._dynamo.reset()
            backend = graft_fx.backend(graft=str(BUILD / "bin" / "graft"), library=str(BUILD / "lib" / "libgraft_ops.so"), budget=5)
            call = torch.compile(Products(), backend=backend)
            for _ in range(4):
                y = torch.rand(16, 16, device="cuda")
                self.assertTrue(torch.equal(call(y), Products()(y)))
            if "reason" not in backend.reports[0]:
                break
        self.assertNotIn("reason", backend.reports[0])
        self.assertTrue(backend.reports[0]["graft"]["captured"])


class Anywhere(unittest.TestCase):
    def same(self, model, wanted=None):
        torch.testing.assert_close(model(*inputs(seed=5)), original(*inputs(seed=5)) if wanted is None else wanted)

    def test_runs_and_stays_readable(self):
        model = load()
        self.same(model)
        self.assertIn("graft_runner", model.code)
        self.assertIn("ops.graft.embedding_layer_norm", model.code)
        self.assertIn("nothing captured", model.graft_runner.status())

    def test_saves_again_and_copies(self):
        model = load()
        model.save(str(folder / "again.pt"))
        self.same(torch.jit.load(str(folder / "again.pt")))
        other = copy.deepcopy(model)
        self.same(other)
        self.assertIsNot(other, model)

    def test_freezes(self):
        self.same(torch.jit.freeze(load().eval()))

    def test_without_capture(self):
        model = torch.jit.load(str(plain_file))
        self.assertNotIn("graft_runner", model.code)
        self.same(model)

    def test_graft_reads_it_again(self):
        text = graft("text", fast_file)
        self.assertIn("graft.attention", text)
        self.assertNotIn("prim.If", text)
        self.assertEqual(text.split("\n", 1)[1], graft("text", plain_file).split("\n", 1)[1])

    def test_a_limit_must_make_sense(self):
        with self.assertRaisesRegex(RuntimeError, "at least 1"):
            load().graft_runner.set_limit(0)


@needs_gpu
class OnGpu(unittest.TestCase):
    def setUp(self):
        self.model = load("cuda")
        self.plain = torch.jit.load(str(plain_file), map_location="cuda")

    def check(self, *, batch=2, length=16, seed=0, times=1, model=None):
        for i in range(times):
            x = inputs(batch, length, seed + i, "cuda")
            torch.testing.assert_close((model or self.model)(*x), self.plain(*x), rtol=1e-4, atol=1e-4)

    def captured(self, n):
        self.assertIn(f"{n} of at most" if n else "nothing captured", self.model.graft_runner.status())

    def test_second_run_of_a_shape_is_captured(self):
        self.check()
        self.assertNotIn("1 of at most", self.model.graft_runner.status())
        self.check(times=4, seed=1)
        self.captured(1)

    def test_shapes_change(self):
        for _ in range(4):
            for length in (16, 9, 24):
                for batch in (2, 1):
                    self.check(batch=batch, length=length)
        self.captured(6)

    def test_results_are_the_callers_own(self):
        self.check(times=3)
        first = self.model(*inputs(seed=1, device="cuda"))
        kept = first.clone()
        self.model(*inputs(seed=2, device="cuda"))
        torch.testing.assert_close(first, kept, rtol=0, atol=0)

    def test_inputs_lie_anywhere(self):
        """Unaligned, with gaps, broadcast: different strides have captures of their own, and all three calls are right."""
        def moved(t):
            return torch.cat([t.flatten()[:1], t.flatten()])[1:].view(t.shape)

        def apart(t):
            return torch.stack([t, t], -1)[..., 0]

        for place in (lambda t: t, moved, apart, lambda t: t[:1].expand(t.shape)):
            for seed in range(3):
                x = tuple(place(t) for t in inputs(seed=seed, device="cuda"))
                torch.testing.assert_close(self.model(*x), self.plain(*x), rtol=1e-4, atol=1e-4)
        self.captured(3)

    def test_many_tensors_come_and_go(self):
        """So many tensors that several kernels copy them; among them empty ones, ones with gaps, and inputs that are returned."""
        class Many(torch.nn.Module):
            def forward(self, xs: List[torch.Tensor]):
                return [x * 2 for x in xs], xs[0], xs[1].t(), xs[2][:, ::2], xs[3].expand(2, 3, 5), xs[1][1:]

        model, runner = torch.jit.script(Many()), torch.classes.graft.Runner(False, 4)
        kept = []
        for seed in range(5):
            torch.manual_seed(seed)
            xs = [torch.randn(3, 5 if i != 7 else 0, device="cuda") for i in range(40)]
            xs[4] = torch.randn(5, 3, device="cuda").t()
            xs[5] = torch.randn(3, 10, device="cuda")[:, ::2]
            outputs, wanted = runner.run(model, (xs,)), model(xs)
            kept.append((outputs, wanted))
            if seed == 2:  # the addresses that the graph last used are gone
                del xs, outputs
                torch.cuda.empty_cache()
        self.assertIn("1 of at most 4 shapes captured", runner.status())
        for outputs, wanted in kept:
            torch.testing.assert_close(outputs, wanted, rtol=0, atol=0)

    def test_few_captures_are_kept(self):
        self.model.graft_runner.set_limit(2)
        for _ in range(10):
            for length in (8, 9, 10, 11):
                self.check(length=length)
        self.captured(2)

    def test_weights_written_replaced_and_moved(self):
        self.check(times=3)
        for m in (self.model, self.plain):
            for p in m.parameters():
                p.mul_(0.5)
        self.check(times=2)
        self.captured(1)
        self.model.half(), self.plain.half()
        x = tuple(t.half() if t.is_floating_point() else t for t in inputs(device="cuda"))
        for _ in range(4):
            torch.testing.assert_close(self.model(*x), self.plain(*x), rtol=1e-2, atol=1e-2)
        self.model.float(), self.plain.float()
        self.check(times=4)
        self.model.cpu()
        torch.testing.assert_close(self.model(*inputs()), self.plain.cpu()(*inputs()), rtol=1e-2, atol=1e-2)
        self.captured(0)
        self.model.cuda(), self.plain.cuda()
        self.check(times=4)
        self.captured(1)

    def test_streams_and_threads(self):
        failures = []

        def work(seed):
            try:
                torch.set_grad_enabled(False)
                with torch.cuda.stream(torch.cuda.Stream()):
                    for i in range(40):
                        length = 8 + (seed + i) % 3
                        x = inputs(length=length, seed=seed * 100 + i, device="cuda")
                        torch.testing.assert_close(self.model(*x), self.plain(*x), rtol=1e-4, atol=1e-4)
            except Exception as error:  # noqa: BLE001
                failures.append(error)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        self.assertEqual(failures, [])

    def test_modes_that_must_see_operators(self):
        self.check(times=3)
        x = inputs(device="cuda")
        with torch.inference_mode():
            y = self.model(*x)
        self.assertTrue(y.is_inference())
        torch.testing.assert_close(y.clone(), self.plain(*x), rtol=1e-4, atol=1e-4)
        with torch.enable_grad():
            self.assertEqual(self.model(*x).requires_grad, any(p.requires_grad for p in self.model.parameters()))
            mask = x[3].clone().requires_grad_()
            y = self.model(*x[:3], mask)
            self.assertTrue(y.requires_grad)
            y.sum().backward()
            self.assertTrue(torch.isfinite(mask.grad).all())
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            y = self.model(*x)
        graph.replay()
        torch.testing.assert_close(y, self.plain(*x), rtol=1e-4, atol=1e-4)

    def test_saved_and_copied_models_capture_for_themselves(self):
        self.check(times=3)
        other = copy.deepcopy(self.model)
        other.save(str(folder / "gpu.pt"))
        for m in (other, torch.jit.load(str(folder / "gpu.pt")), torch.jit.freeze(load("cuda").eval())):
            self.check(times=4, model=m)
        del other
        self.check(times=2)

    def test_captures_can_be_cleared(self):
        self.check(times=3)
        self.model.graft_runner.clear()
        self.captured(0)
        self.check(times=3)

    def test_captures_outlive_calls_that_cannot_use_them(self):
        """Calls with gradients, or with tensors on the CPU by mistake, keep the captures; only a model that left the GPU frees them."""
        self.check(times=3)
        x = inputs(device="cuda")
        for seed in range(3):
            with torch.enable_grad():
                mask = x[3].clone().requires_grad_()
                self.model(*x[:3], mask).sum().backward()
            self.assertTrue(torch.isfinite(mask.grad).all())
            self.captured(1)
            for bad in ((x[0].cpu(), *x[1:]), inputs()):
                with self.assertRaises(RuntimeError):
                    self.model(*bad)
                self.captured(1)
            self.check(seed=seed)
        self.model.cpu()
        self.model(*inputs())
        self.captured(0)

    def test_wrong_inputs_fail_as_they_do_without_captures(self):
        self.check(times=3)
        x = inputs(device="cuda")
        for bad in ((x[0].float(), *x[1:]), (x[0], x[1][:, :3], *x[2:]), (x[0].cpu(), *x[1:])):
            with self.assertRaises(RuntimeError):
                self.plain(*bad)
            for _ in range(3):
                with self.assertRaises(RuntimeError):
                    self.model(*bad)
        self.check(times=2)

    @unittest.skipUnless(torch.cuda.device_count() > 1, "one GPU")
    def test_another_device(self):
        self.check(times=3)
        other = copy.deepcopy(self.model).to("cuda:1")
        plain = copy.deepcopy(self.plain).to("cuda:1")
        for i in range(4):
            x = inputs(seed=i, device="cuda:1")
            torch.testing.assert_close(other(*x), plain(*x), rtol=1e-4, atol=1e-4)
        self.model.to("cuda:1")
        x = inputs(device="cuda:1")
        for _ in range(3):
            torch.testing.assert_close(self.model(*x), plain(*x), rtol=1e-4, atol=1e-4)

    def test_graft_runs_captured(self):
        out = graft("run", folder / "bert.pt", "--inputs", folder / "in.pt", "--device", "cuda", "-o", folder / "out.pt", "--json")
        self.assertIn('"captured": true', out)
        torch.testing.assert_close(torch.load(folder / "out.pt", map_location="cpu"), original(*inputs()), rtol=1e-3, atol=1e-3)

    def test_graft_profiles_kernels(self):
        import json
        doc = json.loads(graft("profile", fast_file, "--inputs", folder / "in.pt", "--device", "cuda", "--json", "--repetitions", 3))
        self.assertGreater(doc["captured"]["kernels"], 5)
        self.assertEqual(sum(len(n.get("kernels", [])) for n in doc["nodes"]), doc["captured"]["kernels"])
        self.assertGreater(doc["captured"]["us"], 0)


def rewritten(model, example, name, recipe=(), file="transformer.py", capture=True):
    """The path of a model that `graft apply` wrote."""
    traced, out = folder / f"{name}.pt", folder / f"{name}_{'fast' if capture else 'plain'}.pt"
    model = copy.deepcopy(model)  # tracing runs it, which may write to its buffers
    (model if isinstance(model, torch.jit.ScriptModule) else torch.jit.trace(model, example, check_trace=False)).save(str(traced))
    torch.save(example, folder / f"{name}_in.pt")
    graft("apply", traced, "--rules", SOURCE / "resources/rules" / file, *recipe, "--inputs", folder / f"{name}_in.pt", "--no-timing", "-o",
          out, *([] if capture else ["--no-capture"]))
    return out


def rewritten_code(model, name):
    return torch.jit.load(str(rewritten(model.eval(), (torch.randn(3, 8),), name))).code


class Cache(torch.nn.Module):
    """Decoding with a cache: writes at a position that an input names, and counts its calls."""

    def __init__(self, length=64, width=32):
        super().__init__()
        self.k, self.v, self.q = (torch.nn.Linear(width, width, bias=False) for _ in range(3))
        self.register_buffer("keys", torch.zeros(1, length, width))
        self.register_buffer("values", torch.zeros(1, length, width))
        self.register_buffer("calls", torch.zeros(1, dtype=torch.long))

    def forward(self, x: torch.Tensor, position: torch.Tensor):
        self.keys.index_copy_(1, position, self.k(x))
        self.values.index_copy_(1, position, self.v(x))
        self.calls.add_(1)
        scores = torch.softmax(self.q(x) @ self.keys.transpose(1, 2), -1)
        return scores @ self.values, self.keys


class Steps(torch.nn.Module):
    """Writes where a counter of its own says: one write too many leaves the buffer, which ends the process on a GPU."""

    def __init__(self, most=7):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8, bias=False)
        self.register_buffer("at", torch.zeros(1, dtype=torch.long))
        self.register_buffer("rows", torch.zeros(most, 8))

    def forward(self, x: torch.Tensor):
        self.rows.index_copy_(0, self.at, self.linear(x))
        self.at.add_(1)
        return self.rows.sum(0)


class InPlace(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8, bias=False)

    def forward(self, x: torch.Tensor, y: torch.Tensor):
        x.mul_(2)
        return self.linear(x) + y, x[0]


class Waits(torch.nn.Module):
    """Cannot be captured: which branch runs depends on data."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8, bias=False)
        self.register_buffer("total", torch.zeros(4, 8))

    def forward(self, x: torch.Tensor):
        self.total.add_(self.linear(x))
        if bool(self.total.sum() > 0):
            return self.total + 1
        return self.total * 2


class Writing(unittest.TestCase):
    """Models that write to their buffers or inputs. In the file, the runner is told what they write."""

    def pair(self, model, example, name):
        fast, plain = (rewritten(model.eval(), example, name, capture=c) for c in (True, False))
        load = [torch.jit.load(str(p), map_location="cuda" if GPU else "cpu") for p in (fast, plain)]
        return (*load, fast)

    def captured(self, model, n=1):
        self.assertIn(f"{n} of at most" if n else "nothing captured", model.graft_runner.status())

    def same(self, fast, plain, *x):
        """Both have the same results and leave the same buffers."""
        torch.testing.assert_close(fast(*x), plain(*x), rtol=1e-4, atol=1e-4)
        other = dict(plain.named_buffers())
        for name, buffer in fast.named_buffers():
            torch.testing.assert_close(buffer, other[name], rtol=1e-4, atol=1e-4)

    @staticmethod
    def token(i):
        torch.manual_seed(i)
        device = "cuda" if GPU else "cpu"
        return torch.randn(1, 1, 32, device=device), torch.tensor([i], device=device)

    def test_the_file_says_what_is_written(self):
        fast, plain, path = self.pair(Cache(), (torch.randn(1, 1, 32), torch.tensor([0])), "cache")
        self.assertIn("run_writing", fast.code)
        self.assertNotIn("run_writing", plain.code)
        before = fast.calls.item()
        for i in range(5):
            self.same(fast, plain, *self.token(i))
        self.assertEqual(fast.calls.item(), before + 5)
        text = graft("text", path)
        self.assertEqual(text.split("\n", 1)[1], graft("text", folder / "cache_plain.pt").split("\n", 1)[1])
        self.assertIn("keys", graft("info", path).split("as a CUDA graph, which writes", 1)[1])

    def test_inputs_that_are_written(self):
        fast, plain, _ = self.pair(InPlace(), (torch.randn(3, 8), torch.randn(3, 8)), "in_place")
        self.assertRegex(fast.code, r"run_writing\(self, .*, annotate\(List\[Tensor\], \[\]\), \[0\], \)")
        self.assertIn("graft_runner).run(self", rewritten_code(torch.nn.Sequential(torch.nn.Linear(8, 8, bias=False)), "reads"))

    def test_a_constant_that_is_written_is_kept_as_a_buffer(self):
        class Adds(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = torch.nn.Linear(8, 8, bias=False)

            def forward(self, x, rows):
                return rows.add_(self.linear(x))

        class Lifted(torch.nn.Module):
            """What its submodule writes is no buffer: torch.export makes a constant of it, which lies in the whole."""

            def __init__(self):
                super().__init__()
                self.adds = Adds()
                self.state = types.SimpleNamespace(rows=torch.zeros(4, 8))

            def forward(self, x):
                return self.adds(x, self.state.rows) * 2

        model, x = Lifted().eval(), torch.randn(4, 8)
        exported, out = folder / "lifted.pt2", folder / "lifted_fast.pt"
        torch.export.save(torch.export.export(model, (x,)), str(exported))
        torch.save((x,), folder / "lifted_in.pt")
        graft("apply", exported, "--rules", SOURCE / "resources/rules/transformer.py", "--inputs", folder / "lifted_in.pt", "--no-timing",
              "-o", out)
        fast = torch.jit.load(str(out), map_location="cuda" if GPU else "cpu")
        self.assertIn("run_writing", fast.code)
        self.assertEqual([tuple(b.shape) for b in fast.buffers()], [(4, 8)])
        x = x.cuda() if GPU else x
        step = 2 * x @ fast.adds.linear.weight.t()
        for i in range(1, 5):
            torch.testing.assert_close(fast(x), i * step, rtol=1e-4, atol=1e-4)

    @needs_gpu
    def test_each_call_writes_once(self):
        fast, plain, _ = self.pair(Cache(), (torch.randn(1, 1, 32), torch.tensor([0])), "cache")
        before = fast.calls.item()
        for i in range(8):
            self.same(fast, plain, *self.token(i))
            self.assertEqual(fast.calls.item(), before + i + 1)
        self.captured(fast)
        self.assertEqual(fast(*self.token(8))[1].data_ptr(), fast.keys.data_ptr())

    @needs_gpu
    def test_tries_do_not_leave_a_buffer(self):
        fast, plain, _ = self.pair(Steps(7), (torch.randn(1, 8),), "steps")
        for i in range(7 - int(fast.at.item())):  # tracing has written some
            torch.manual_seed(i)
            self.same(fast, plain, torch.randn(1, 8, device="cuda"))
        self.captured(fast)

    @needs_gpu
    def test_buffers_are_replaced_and_moved(self):
        fast, plain, _ = self.pair(Cache(), (torch.randn(1, 1, 32), torch.tensor([0])), "cache")
        for i in range(4):
            self.same(fast, plain, *self.token(i))
        for m in (fast, plain):
            m.keys = torch.ones_like(m.keys)
        for i in range(4, 8):
            self.same(fast, plain, *self.token(i))
        self.captured(fast)
        for m in (fast, plain):
            m.half(), m.float()
        for i in range(8, 12):
            self.same(fast, plain, *self.token(i))
        self.captured(fast)

    @needs_gpu
    def test_inputs_are_written_back(self):
        fast, plain, _ = self.pair(InPlace(), (torch.randn(3, 8), torch.randn(3, 8)), "in_place")
        places = (lambda t: t, lambda t: torch.stack([t, t], -1)[..., 0], lambda t: t.t().contiguous().t())
        for place in places:
            for seed in range(4):
                torch.manual_seed(seed)
                x, y = torch.randn(3, 8, device="cuda"), torch.randn(3, 8, device="cuda")
                a, b = place(x.clone()), place(x.clone())
                one, other = fast(a, y), plain(b, y)
                torch.testing.assert_close(one, other)
                torch.testing.assert_close(a, b)
                torch.testing.assert_close(a, 2 * x)
                a.zero_()
                torch.testing.assert_close(one[1], torch.zeros_like(one[1]))  # it is a view of the caller's tensor
        self.captured(fast, 3)

    @needs_gpu
    def test_shared_memory_runs_without_a_graph(self):
        fast, plain, _ = self.pair(InPlace(), (torch.randn(3, 8), torch.randn(3, 8)), "in_place")
        for _ in range(4):
            x = torch.randn(3, 8, device="cuda")
            a, b = x.clone(), x.clone()
            torch.testing.assert_close(fast(a, a), plain(b, b))
            torch.testing.assert_close(a, b)
        self.captured(fast, 0)
        self.assertIn("shares its memory", fast.graft_runner.status())

    @needs_gpu
    def test_what_cannot_be_captured_writes_once_too(self):
        fast, plain, _ = self.pair(torch.jit.script(Waits().eval()), (torch.randn(4, 8),), "waits")
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for i in range(6):
                torch.manual_seed(i)
                self.same(fast, plain, torch.randn(4, 8, device="cuda"))
        self.assertEqual(len([w for w in said if "operator by operator" in str(w.message)]), 1)
        torch.randn(4, device="cuda")  # a capture that failed leaves the random generator usable
        self.assertRegex(fast.graft_runner.status(), "not captured: the operator aten::\\w+ cannot be captured")

    @needs_gpu
    def test_the_program_captures_it_too(self):
        rewritten(Cache().eval(), (torch.randn(1, 1, 32), torch.tensor([0])), "cache")
        out = graft("run", folder / "cache.pt", "--inputs", folder / "cache_in.pt", "--device", "cuda", "--json", "-o", folder / "o.pt")
        self.assertIn('"captured": true', out)
        wanted = torch.jit.load(str(folder / "cache.pt"))(*torch.load(folder / "cache_in.pt"))
        torch.testing.assert_close(torch.load(folder / "o.pt", map_location="cpu"), wanted, rtol=1e-4, atol=1e-4, check_device=False)
        self.assertIn("captured CUDA graphs", graft("bench", folder / "cache.pt", "--rules", SOURCE / "resources/rules/transformer.py",
                                                     "--inputs", folder / "cache_in.pt", "--device", "cuda", "--seconds", "0.2"))


class Masks(torch.nn.Module):
    """Its trace holds tensors without dimensions as constants on the CPU, for a mask, a fill and a sum."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8, bias=False)

    def forward(self, x: torch.Tensor):
        mask = torch.where(x > 0, torch.tensor(0.5), torch.finfo(torch.float16).min)
        kept = x.masked_fill(x > 1, torch.tensor(2.0)) + torch.tensor(3.0)
        return self.linear(kept).softmax(-1) * (mask > 0)


class NumbersAsConstants(unittest.TestCase):
    """`where` would copy a number from the CPU in every run, which no CUDA graph can hold: it moves with the model."""

    def setUp(self):
        path = rewritten(Masks().eval(), (torch.randn(3, 8),), "masks")
        self.model, self.original = torch.jit.load(str(path)), torch.jit.load(str(folder / "masks.pt"))

    def test_only_what_would_be_copied_moves(self):
        self.assertEqual([(b.dim(), b.item()) for b in self.model.buffers()], [(0, 0.5)])
        self.assertIn("where(gt, graft_constant, ", self.model.code)
        x = torch.randn(3, 8)
        torch.testing.assert_close(self.model(x), self.original(x))
        self.assertNotIn("graft_constant", graft("text", folder / "masks_fast.pt"))

    @needs_gpu
    def test_is_captured(self):
        for dtype in (torch.float32, torch.float16):
            model, x = self.model.to("cuda", dtype), torch.randn(3, 8)
            for _ in range(4):
                y = model(x.to("cuda", dtype))
            self.assertIn("1 of at most", model.graft_runner.status())
            self.assertNotIn("not captured", model.graft_runner.status())
            torch.testing.assert_close(y.cpu().float(), self.original(x), rtol=2e-2, atol=2e-2)


class Relative(torch.nn.Module):
    """Places in a table that follow from sizes: tracing makes numbers on the CPU of these."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(15, 16))

    def forward(self, x: torch.Tensor):
        n, m = x.shape[1], x.shape[2] // 2
        ratio = max(m / n, 1.0)
        places = torch.arange(n)[:, None] * ratio - torch.arange(m)[None] + (m - 1)
        return torch.einsum("bnc,nmc->bnm", x, self.table[places.long()]).softmax(-1) * 2 + 1


class NumbersFromSizes(unittest.TestCase):
    @needs_gpu
    def test_groups_run_where_the_tensors_beside_them_are(self):
        x = torch.randn(2, 8, 16)
        torch.jit.trace(Relative().eval(), (x,), check_trace=False).save(str(folder / "relative.pt"))
        torch.save((x,), folder / "relative_in.pt")
        (folder / "fused.py").write_text("from graft import Recipe, fuse\n\n\nclass Fused(Recipe):\n    steps = [fuse()]\n")
        graft("apply", folder / "relative.pt", "--rules", folder / "fused.py", "--recipe", "Fused", "--inputs", folder / "relative_in.pt", "--device", "cuda",
              "--no-timing", "-o", folder / "relative_fast.pt")
        model, original = (torch.jit.load(str(folder / f"relative{end}.pt")) for end in ("_fast", ""))
        model.to("cuda")
        for _ in range(4):
            y = model(x.cuda())
        self.assertIn("graft::generated", str(model.inlined_graph))
        self.assertNotIn("not captured", model.graft_runner.status())
        torch.testing.assert_close(y.cpu(), original(x), rtol=1e-3, atol=1e-3)


class Rotated(torch.nn.Module):
    """Angles from positions and a buffer of frequencies, which stay in float32 where the model goes to half precision."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8, bias=False)
        self.register_buffer("frequencies", 1 / 100 ** (torch.arange(8) / 8))

    def forward(self, x: torch.Tensor):
        places = torch.arange(x.size(0))[:, None].float()
        return self.linear(x) * torch.cos(places @ self.frequencies[None])


class FloatsBesideHalf(unittest.TestCase):
    def test_the_file_runs_as_it_is_and_when_all_of_it_is_cast(self):
        x = torch.randn(6, 8)
        rewritten(Rotated().eval(), (x,), "rotated")
        original, out = torch.jit.load(str(folder / "rotated.pt")), folder / "rotated_half.pt"
        graft("apply", folder / "rotated.pt", "--rules", SOURCE / "resources/rules/transformer.py", "--inputs", folder / "rotated_in.pt",
              "--dtype", "float16", "--no-timing", "-o", out)
        for device in ("cpu", "cuda") if GPU else ("cpu",):
            model = torch.jit.load(str(out)).to(device)
            self.assertEqual({b.dtype for b in model.buffers()}, {torch.float32})
            for moved in (model, model.to(torch.float16)):
                for _ in range(3):
                    y = moved(x.to(device, torch.float16))
                torch.testing.assert_close(y.float().cpu(), original(x), rtol=1e-2, atol=1e-2)
        self.assertNotIn("graft_", graft("text", out))


class Products(torch.nn.Module):
    """Matrix products that no rule rewrites, of sizes for which cuBLAS splits the sum and adds the parts in its workspace."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(64, 64, bias=False)
        self.weights = torch.nn.ParameterList(torch.randn(4096, 64) / 64 for _ in range(4))

    def forward(self, x: torch.Tensor):
        y = torch.bmm(x[None], self.weights[0][None])
        for w in self.weights[1:]:
            y = y + torch.bmm(x[None], w[None])
        return self.linear(y)


@needs_gpu
class BesideOthers(unittest.TestCase):
    def test_captures_keep_the_workspaces_of_cublas(self):
        """torch.compile frees them for all of the process, and the memory goes to whoever asks next."""
        path = rewritten(Products().eval(), (torch.randn(8, 4096),), "products")
        for dtype in (torch.float32, torch.float16):
            model, x = torch.jit.load(str(path)).to("cuda", dtype), torch.randn(8, 4096, device="cuda", dtype=dtype)
            for _ in range(3):
                expected = model(x)
            self.assertIn("1 of at most", model.graft_runner.status())
            torch._C._cuda_clearCublasWorkspaces()
            others = [torch.full((mib << 18,), 7.0, device="cuda") for mib in (1, 2, 4, 8, 16, 32, 64) for _ in range(4)]
            for _ in range(3):
                torch.testing.assert_close(model(x), expected, rtol=0, atol=0)
            self.assertTrue(all(bool((other == 7).all()) for other in others))
            del others
            torch.cuda.empty_cache()
            torch.testing.assert_close(model(x), expected, rtol=0, atol=0)


class Dense(torch.nn.Module):
    """Each layer sees what all layers before it made. TorchScript's fuser does not come to an end on a long chain of these."""

    def __init__(self, layers=40, growth=8):
        super().__init__()
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm2d(growth * (i + 1)) for i in range(layers))
        self.convs = torch.nn.ModuleList(torch.nn.Conv2d(growth * (i + 1), growth, 1) for i in range(layers))

    def forward(self, x: torch.Tensor):
        features = [x]
        for norm, conv in zip(self.norms, self.convs):
            features.append(torch.relu(conv(torch.relu(norm(torch.cat(features, 1))))))
        return features[-1]


@needs_gpu
class CallsReturn(unittest.TestCase):
    CALLS = """
import sys, time, torch
torch.set_grad_enabled(False)
torch.ops.load_library(sys.argv[1])
model, x = torch.jit.load(sys.argv[2], map_location="cuda"), [t.cuda() for t in torch.load(sys.argv[3])]
for _ in range(4):
    y = model(*x)
torch.cuda.synchronize()
print(y.float().abs().sum().item(), model.graft_runner.status())
"""

    def calls(self, path, example, seconds=90, **environment):
        run = subprocess.run([sys.executable, "-c", self.CALLS, BUILD / "lib" / "libgraft_ops.so", path, example], capture_output=True,
                             text=True, timeout=seconds, env={**os.environ, **environment})
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        return run.stdout

    def test_a_long_chain_of_concatenations(self):
        torch.manual_seed(0)
        path = rewritten(Dense().eval(), (torch.randn(2, 8, 16, 16),), "dense", ["--recipe", "ConvNetChannelsLast"], "conv.py")
        inputs = folder / "dense_in.pt"
        self.assertIn("1 of at most", self.calls(path, inputs))
        self.assertIn("GRAFT_CAPTURE=0", self.calls(path, inputs, GRAFT_CAPTURE="0"))

    def test_tuning_ends_with_its_budget_and_goes_on_in_the_next_process(self):
        cache = folder / "choices"
        example = folder / "in.pt"
        said = self.calls(fast_file, example, GRAFT_CACHE_DIR=str(cache), GRAFT_TUNING_SECONDS="0")
        self.assertRegex(said, r"1 of at most[^\n]*\n[0-9]+ products run with guessed algorithms")
        self.assertFalse(cache.exists() and list(cache.glob("gemm-*.txt")))
        said = self.calls(fast_file, example, GRAFT_CACHE_DIR=str(cache), GRAFT_TUNING_SECONDS="60")
        self.assertNotIn("guessed", said)
        self.assertTrue(list(cache.glob("gemm-*.txt")))
        self.assertNotIn("guessed", self.calls(fast_file, example, GRAFT_CACHE_DIR=str(cache), GRAFT_TUNING_SECONDS="0"))

    def test_a_capture_that_takes_too_long_is_given_up(self):
        said = self.calls(fast_file, folder / "in.pt", GRAFT_CAPTURE_SECONDS="0")
        self.assertIn("0 of at most", said)
        self.assertIn("given up", said)


@contextlib.contextmanager
def memory_limit(mib):
    """Allows PyTorch to reserve `mib` MiB more than it holds now."""
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    most = torch.cuda.memory_reserved() + mib * 2**20
    torch.cuda.set_per_process_memory_fraction(most / torch.cuda.mem_get_info()[1])
    try:
        yield
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


@needs_gpu
class WithoutMemory(unittest.TestCase):
    """Captures need memory besides the model's. When it runs out they are freed, and the model runs without them."""

    def setUp(self):
        class Doubled(torch.nn.Module):
            def forward(self, x: torch.Tensor):
                return x * 2

        self.model, self.runner = torch.jit.script(Doubled()), torch.classes.graft.Runner(False, 4)
        self.x = self.floats(256)

    def tearDown(self):
        self.runner.clear()
        del self.x
        torch.cuda.empty_cache()

    @staticmethod
    def floats(mib):
        return torch.randn(mib * 2**18, device="cuda")

    def check(self, x, times=1):
        for _ in range(times):
            y = self.runner.run(self.model, (x,))
            torch.testing.assert_close(y[::4099], x[::4099] * 2, rtol=0, atol=0)
            del y

    def captured(self, n):
        self.assertIn(f"{n} of at most", self.runner.status())
        self.assertNotIn("not captured", self.runner.status())

    def test_for_a_capture(self):
        """A capture that did not fit is tried again, but not on each call."""
        small = self.floats(1)
        self.check(small, 3)
        self.captured(1)
        with warnings.catch_warnings(record=True), memory_limit(256 + 128):
            self.check(self.x, 6)
            self.captured(0)
            self.assertIn("for lack of memory: 1\n", self.runner.status())
        self.check(self.x, 40)
        self.captured(1)
        self.check(small, 3)
        self.captured(2)

    def test_for_outputs(self):
        self.check(self.x, 3)
        self.captured(1)
        with warnings.catch_warnings(record=True), memory_limit(64):
            self.check(self.x, 3)
            self.captured(0)
        with torch.cuda.stream(torch.cuda.Stream()):
            self.check(self.x, 20)
        self.captured(1)

    def test_for_the_model_itself(self):
        """Captures of another shape are freed when the model itself needs their memory."""
        self.check(self.x, 3)
        other = self.floats(384)
        self.captured(1)
        with warnings.catch_warnings(record=True), memory_limit(64):
            self.check(other)
            self.captured(0)
        self.check(self.x, 20)
        self.captured(1)

    def test_the_error_is_the_models_where_nothing_helps(self):
        with memory_limit(64):
            for _ in range(3):
                with self.assertRaisesRegex(RuntimeError, "out of memory"):
                    self.runner.run(self.model, (self.x,))
        self.check(self.x)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    unittest.main(verbosity=2)
