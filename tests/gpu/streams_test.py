"""Captured runs on several streams: results are right whatever the branches share, and several streams are used where, and only where,
they are faster. Also: captures and tuning do not disturb other threads' streams.

    python tests/gpu/streams_test.py build

Prints the measured times. Without a GPU it prints "skipped: no GPU" and exits 77.
"""
import concurrent.futures
import ctypes
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings

import torch
import torch.nn as nn

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else SOURCE / "build"
sys.path.insert(0, str(SOURCE / "tests" / "gpu"))
from bert_bench import Bert, Graphs  # noqa: E402

LIBRARY = BUILD / "lib" / "libgraft_ops.so"


class Towers(nn.Module):
    """Two independent encoders, and the sum of a projection of their first tokens."""

    def __init__(self, layers, first, second, explicit=True):
        super().__init__()
        self.a = Bert(layers, first, first // 64, 4 * first, vocabulary=1000, explicit=explicit)
        self.b = Bert(layers, second, second // 64, 4 * second, vocabulary=1000, explicit=explicit)
        self.from_a, self.from_b = nn.Linear(first, 256), nn.Linear(second, 256)

    def forward(self, ids, other, types, places, mask):
        a, b = self.a(ids, types, places, mask), self.b(other, types, places, mask)
        return self.from_a(a[:, 0]) + self.from_b(b[:, 0])


def tokens(batch, length, dtype, device="cuda", seed=0):
    g = torch.Generator().manual_seed(seed)
    ids, other = (torch.randint(1000, (batch, length), generator=g) for _ in range(2))
    mask = torch.zeros(batch, 1, 1, length, dtype=dtype)
    mask[..., length - 1 - seed % 5:] = -10000.0
    return tuple(t.to(device) for t in (ids, other, torch.zeros_like(ids), torch.arange(length)[None], mask))


class Streams:
    """Sets GRAFT_STREAMS while a run is captured."""

    def __init__(self, most):
        self.most = most

    def __enter__(self):
        os.environ["GRAFT_STREAMS"] = str(self.most)

    def __exit__(self, *_):
        del os.environ["GRAFT_STREAMS"]


def capture(f, most=4):
    """(replay, output, streams, kernels)"""
    graphs = Graphs(str(LIBRARY))
    with Streams(most):
        replay, out = graphs.capture(f)
    replay.graphs = graphs
    return replay, out, graphs.streams, graphs.kernels


def milliseconds(*runs, times=60):
    """The runs' median times by events, measured in turn."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    samples = [[] for _ in runs]
    for _ in range(times):
        for run, sample in zip(runs, samples):
            torch.cuda.synchronize()
            begin.record()
            run()
            end.record()
            end.synchronize()
            sample.append(begin.elapsed_time(end))
    return [statistics.median(s[times // 6:]) for s in samples]


def setUpModule():
    torch.set_grad_enabled(False)
    torch.manual_seed(0)
    torch.ops.load_library(str(LIBRARY))


class Captures(unittest.TestCase):
    def same(self, replay, out, f, refill, rtol, atol, times=20):
        for i in range(times):
            refill(i)
            wanted = f().clone()
            out.fill_(float("nan"))
            torch.cuda.synchronize()
            replay()
            torch.cuda.synchronize()
            torch.testing.assert_close(out, wanted, rtol=rtol, atol=atol)

    def test_two_towers(self):
        for dtype, batch, length in ((torch.float16, 1, 128), (torch.float16, 8, 128), (torch.float32, 1, 128)):
            with self.subTest(dtype=dtype, batch=batch):
                model = Towers(12, 768, 512, explicit=False).cuda().to(dtype).eval()
                x = tokens(batch, length, dtype)

                def refill(seed):
                    for to, new in zip(x, tokens(batch, length, dtype, seed=seed)):
                        to.copy_(new)

                def f():
                    return model(*x)

                several, out, streams, kernels = capture(f)
                one, out1, just, kernels1 = capture(f, 1)
                self.same(several, out, f, refill, 1e-2, 1e-2)
                self.same(one, out1, f, refill, 1e-2, 1e-2, times=2)
                a, b = milliseconds(one, several)
                print(f"  two towers {batch}x{length} {dtype}: {a:.3f} ms on one stream ({kernels1} kernels), {b:.3f} on {streams} "
                      f"({kernels}): {a / b:.2f} times as fast")
                self.assertEqual(just, 1)
                self.assertGreaterEqual(streams, 2)
                self.assertLess(b, a)

    def test_one_encoder_stays_on_one_stream(self):
        model = Bert(12, 256, 4, 1024, vocabulary=1000).cuda().half().eval()
        ids, _, types, places, mask = tokens(1, 64, torch.float16)
        # The mask's computation is independent of the embeddings.
        replay, out, streams, _ = capture(lambda: model(ids, types, places, (1 - (ids > 10).to(mask.dtype))[:, None, None] * -10000.0))
        self.assertEqual(streams, 1)

    def test_writes_and_views_across_branches(self):
        """Two branches that each write half of one buffer, and repeatedly read the other half."""
        n = 128
        weights = [(torch.randn(n, n, device="cuda") / n**0.5) for _ in range(2)]
        x, y = (torch.randn(n, n, device="cuda") for _ in range(2))

        def f():
            shared = torch.zeros(n, 2 * n, device="cuda")
            left, right = x.clone(), y.clone()
            halves = shared[:, :n], shared[:, n:].t()
            for step in range(3):
                for _ in range(10):
                    left = torch.tanh(left @ weights[0])
                    left.add_(0.01)
                for _ in range(10):
                    right = torch.tanh(right @ weights[1])
                    right[::2].mul_(1.1)
                halves[0].copy_(left)
                halves[1].copy_(right.t())
                left += halves[1].t()
                right += halves[0]
                shared.mul_(0.5)
            return torch.cat([left, right, shared], 1).sum(1)

        def refill(seed):
            g = torch.Generator(device="cuda").manual_seed(seed)
            x.normal_(generator=g), y.normal_(generator=g)

        several, out, streams, kernels = capture(f)
        one, _, just, _ = capture(f, 1)
        self.same(several, out, f, refill, 1e-3, 1e-3)
        a, b = milliseconds(one, several)
        print(f"  writes and views across branches: {a:.3f} ms on one stream, {b:.3f} on {streams} ({kernels} kernels)")
        self.assertEqual(just, 1)
        self.assertGreaterEqual(streams, 2)

    def test_random_branches(self):
        """Programs of several branches that sometimes read each other, write in place and free memory at once."""
        used = []
        for seed in range(24):
            with self.subTest(seed=seed):
                n = 64
                inputs = [torch.randn(n, n, device="cuda") for _ in range(4)]
                weight = torch.randn(n, n, device="cuda") / n**0.5

                def f():
                    r = random.Random(seed)
                    branches = [t * 1.5 for t in inputs[:r.randint(2, 4)]]
                    kept = []
                    for _ in range(r.randint(60, 120)):
                        i = r.randrange(len(branches))
                        t = branches[i]
                        what = r.randrange(60)
                        if what < 25:
                            t = torch.tanh(t @ weight)
                        elif what < 35:
                            t = torch.softmax(t, -1) * 4 - torch.relu(t)
                        elif what < 42:
                            t.add_(0.1)
                        elif what < 48:
                            t[r.randrange(n // 2):, :n // 2].mul_(0.9)
                        elif what < 52:
                            t = torch.cat([t.t()[:n // 2], t[n // 2:]])
                        elif what < 54:
                            kept.append(t[:, ::2])
                        elif what < 56:
                            t = t + branches[r.randrange(len(branches))].t()
                        elif what < 57:
                            branches[r.randrange(len(branches))].mul_(0.99)
                        elif what < 58 and kept:
                            kept[r.randrange(len(kept))].add_(0.01)
                        else:
                            t = torch.layer_norm(t.contiguous(), (n,))
                        branches[i] = t
                    return torch.cat([b.sum(1) for b in branches] + [k.sum(1) for k in kept])

                def refill(seed):
                    g = torch.Generator(device="cuda").manual_seed(seed)
                    for t in inputs:
                        t.normal_(generator=g)

                several, out, streams, _ = capture(f)
                used.append(streams)
                self.same(several, out, f, refill, 1e-3, 2e-3, times=8)
        print(f"  random branches: {sum(s > 1 for s in used)} of {len(used)} on several streams: {used}")
        self.assertGreater(sum(s > 1 for s in used), len(used) // 4)

    def test_kernels_that_no_operator_launches(self):
        """TorchScript's fuser launches kernels outside of operators, which no plan can place: one stream, and right results."""
        n = 64
        weight = torch.randn(n, n, device="cuda") / n**0.5
        x, y = (torch.randn(n, n, device="cuda") for _ in range(2))

        @torch.jit.script
        def towers(x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor):
            for _ in range(16):
                x = torch.tanh((x @ weight) * 1.5 + 0.1) * 0.9
                y = torch.sigmoid((y @ weight) * 1.2 - 0.1) * 1.1
            return x + y

        def refill(seed):
            g = torch.Generator(device="cuda").manual_seed(seed)
            x.normal_(generator=g), y.normal_(generator=g)

        for _ in range(4):
            towers(x, y, weight)
        fused = "TensorExprGroup" in str(torch.jit.last_executed_optimized_graph())
        replay, out, streams, kernels = capture(lambda: towers(x, y, weight))
        self.same(replay, out, lambda: towers(x, y, weight), refill, 1e-3, 1e-3)
        print(f"  TorchScript's own kernels: {'some' if fused else 'none'}, {kernels} in all on {streams} streams")
        if fused:
            self.assertEqual(streams, 1)

    def test_capture_streams_are_exclusive(self):
        """Capture streams are not among PyTorch's 32, nor those of another pool; a freed pool's streams are reused."""
        shared = {torch.cuda.Stream().cuda_stream for _ in range(64)}
        x = torch.randn(64, 64, device="cuda")
        table = ctypes.CDLL(str(LIBRARY.with_name("libgraft_ops_cuda.so"))).graft_cuda_graphs
        table.restype = ctypes.POINTER(ctypes.c_void_p * 3)  # version, makePool, freePool
        free = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(table().contents[2])

        def used(graphs):
            seen = set()

            def f():
                seen.add(torch.cuda.current_stream().cuda_stream)
                return x * 2

            graphs.capture(f)
            self.assertEqual(len(seen), 1)
            return seen.pop()

        pools = [Graphs(str(LIBRARY)) for _ in range(3)]
        streams = [used(p) for p in pools]
        self.assertEqual(len(set(streams)), 3)
        self.assertFalse(shared & set(streams))
        free(pools[1].pool)
        self.assertEqual(used(Graphs(str(LIBRARY))), streams[1])

    def test_other_threads_kernels_run(self):
        """A thread uses all of PyTorch's streams while models are captured and GEMM algorithms are tuned: none of its kernels
        becomes part of a graph."""
        streams = [torch.cuda.Stream() for _ in range(32)]
        counts = [torch.zeros(1, dtype=torch.long, device="cuda") for _ in streams]
        failures, rounds, over = [], 0, threading.Event()

        def work():
            nonlocal rounds
            torch.set_grad_enabled(False)
            try:
                while not over.is_set():
                    for stream, count in zip(streams, counts):
                        with torch.cuda.stream(stream):
                            count.add_(1)
                    rounds += 1
                    if rounds % 20 == 0:
                        [s.synchronize() for s in streams]
            except Exception as error:  # noqa: BLE001
                failures.append(error)

        torch.cuda.synchronize()
        thread = threading.Thread(target=work)
        thread.start()
        try:
            for i in range(6):
                # A product that the tuning cache does not know yet.
                x = torch.randn(33 + i, 256, device="cuda", dtype=torch.half)
                weight = torch.randn(8 * random.SystemRandom().randrange(40, 400), 256, device="cuda", dtype=torch.half) / 16

                def f():
                    return torch.ops.graft.linear(x, weight, None, activation="relu")

                replay, out, _, _ = capture(f)
                replay()
                torch.testing.assert_close(out, torch.relu(x @ weight.t()), rtol=1e-2, atol=1e-2)
        finally:
            over.set()
            thread.join()
        torch.cuda.synchronize()
        self.assertEqual(failures, [])
        print(f"  {rounds} rounds of another thread")
        self.assertEqual([c.item() for c in counts], [rounds] * len(counts))

    def test_memory(self):
        """Captures that were tried and discarded hold no memory."""
        model = Towers(6, 512, 384, explicit=False).cuda().half().eval()
        x = tokens(4, 128, torch.float16)
        held = {}
        for most in (1, 4):
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            before = torch.cuda.memory_reserved()
            kept = capture(lambda: model(*x), most)
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            held[most] = (torch.cuda.memory_reserved() - before) / 2**20
            del kept
        print(f"  memory of a capture: {held[1]:.0f} MiB on one stream, {held[4]:.0f} on several")
        # cuBLAS keeps a workspace of 32 MiB for each stream.
        self.assertLess(held[4], 3 * held[1] + 4 * 33)


class Exported(unittest.TestCase):
    """Two towers written by graft apply, run by their graft.Runner."""

    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory(prefix="graft-streams-")
        cls.addClassCleanup(holder.cleanup)
        cls.folder = pathlib.Path(holder.name)
        cls.original = Towers(4, 512, 384).eval()
        x = tokens(2, 64, torch.float32, "cpu")
        torch.jit.trace(cls.original, x).save(str(cls.folder / "towers.pt"))
        torch.save(x, cls.folder / "in.pt")
        cls.graft("apply", cls.folder / "towers.pt", "--rules", SOURCE / "resources/rules/transformer.py", "--recipe", "Encoder",
                  "--inputs", cls.folder / "in.pt", "--no-timing", "-o", cls.folder / "fast.pt")

    @staticmethod
    def graft(*arguments):
        run = subprocess.run([BUILD / "bin" / "graft", *map(str, arguments)], capture_output=True, text=True)
        assert run.returncode == 0, run.stdout + run.stderr
        return run.stdout

    def load(self, most):
        model = torch.jit.load(str(self.folder / "fast.pt"), map_location="cuda").half()
        with Streams(most):
            for seed in range(3):
                model(*tokens(2, 64, torch.float16, seed=seed))
        return model

    def test_runs_on_several_streams(self):
        plain = torch.jit.load(str(self.folder / "towers.pt"), map_location="cuda")
        several, one = self.load(4), self.load(1)
        print("  exported:", several.graft_runner.status().strip())
        for seed in range(20):
            wanted = plain(*tokens(2, 64, torch.float32, seed=seed))
            for model in (several, one):
                torch.testing.assert_close(model(*tokens(2, 64, torch.float16, seed=seed)).float(), wanted, rtol=2e-2, atol=2e-2)
        x = tokens(2, 64, torch.float16)
        a, b = milliseconds(lambda: one(*x), lambda: several(*x))
        print(f"  exported towers 2x64: {a:.3f} ms on one stream, {b:.3f} on several: {a / b:.2f} times as fast")
        self.assertIn("streams", several.graft_runner.status())
        self.assertNotIn("streams", one.graft_runner.status())
        self.assertLess(b, a)

    def test_two_threads(self):
        """Two copies, captured and then replayed at the same time, do not use each other's streams."""
        plain = torch.jit.load(str(self.folder / "towers.pt"), map_location="cuda")
        given = [tokens(2, 64, torch.float16, seed=seed) for seed in range(40)]
        wanted = [plain(*(t.float() if t.is_floating_point() else t for t in x)) for x in given]
        models = [torch.jit.load(str(self.folder / "fast.pt"), map_location="cuda").half() for _ in range(2)]
        together = threading.Barrier(len(models))

        def work(model):
            torch.set_grad_enabled(False)
            got = []
            with torch.cuda.stream(torch.cuda.Stream()):
                together.wait()
                for x in given * 3:
                    got.append(model(*x))
                torch.cuda.current_stream().synchronize()
            return got

        torch.cuda.synchronize()
        with Streams(4), concurrent.futures.ThreadPoolExecutor(len(models)) as threads:
            results = list(threads.map(work, models))
        for model, got in zip(models, results):
            print("  of two threads:", model.graft_runner.status().strip().replace("\n", "; "))
            self.assertIn("streams", model.graft_runner.status())
            for g, w in zip(got, wanted * 3):
                torch.testing.assert_close(g.float(), w, rtol=2e-2, atol=2e-2)

    def test_bench_and_profile(self):
        common = (self.folder / "towers.pt", "--inputs", self.folder / "in.pt", "--device", "cuda", "--dtype", "float16")
        text = self.graft("bench", *common, "--rules", SOURCE / "resources/rules/transformer.py", "--recipe", "Encoder")
        print("  " + text.strip().replace("\n", "\n  "))
        self.assertIn("streams", text)
        self.graft("profile", *common, "--repetitions", 3)


if __name__ == "__main__":
    if not torch.cuda.is_available():
        print("skipped: no GPU")
        sys.exit(77)
    warnings.simplefilter("ignore")
    unittest.main(verbosity=2)
