"""Exported TorchScript models in plain Python. On any machine they load, are readable, run, and can be saved, copied and frozen. On a
GPU they run as CUDA graphs, and results stay right when shapes, weights, devices, streams or threads change and when memory runs out.

    python tests/gpu/exported_test.py build

Without a GPU its cases are skipped.
"""
import contextlib
import copy
import pathlib
import subprocess
import sys
import tempfile
import threading
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
            self.assertFalse(self.model(*x).requires_grad)
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
