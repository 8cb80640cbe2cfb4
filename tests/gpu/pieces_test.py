"""Models that wait for the GPU while they run: numbers read out of tensors, sizes that depend on data. The written file runs them as
several CUDA graphs, its pieces, with single operators between them. On any machine the file is the same model.

    python tests/gpu/pieces_test.py build

Without a GPU it checks the files and runs them on the CPU.
"""
import copy
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import warnings
from typing import Dict, List

import torch

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else SOURCE / "build"
GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
needs_gpu = unittest.skipUnless(GPU, "no GPU")


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = torch.nn.LayerNorm(32), torch.nn.Linear(32, 64), torch.nn.Linear(64, 32)

    def forward(self, x):
        y = x + self.down(torch.nn.functional.gelu(self.up(self.norm(x)))) * 0.5
        return y.tanh() + y.sigmoid()


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = Block(), Block(), Block()

    def forward(self, x):
        x = self.b(self.a(x))
        if bool(x.mean() > 0.5):
            x = x - 1.0
        return self.c(x)


class Chooses(torch.nn.Module):
    """A branch in each layer that follows from numbers."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([Layer() for _ in range(3)])
        self.head = torch.nn.Linear(32, 8)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x).softmax(-1)


class Keeps(torch.nn.Module):
    """Some rows go on, how many is seen while it runs."""

    def __init__(self):
        super().__init__()
        self.first, self.between, self.second, self.last = Block(), Block(), Block(), Block()

    def forward(self, x):
        x = self.between(self.first(x))
        mask = x[..., 0] > x[..., 1]
        kept = self.second(x[mask])
        full = x.masked_scatter(mask[..., None].expand_as(x), kept)
        return self.last(full), mask.sum(), kept.shape[0]


class Stacks(torch.nn.Module):
    """The number of turns is read from a tensor, and a list holds what they give."""

    def __init__(self):
        super().__init__()
        self.first, self.turn, self.last = Block(), Block(), Block()

    def forward(self, x, turns):
        x = self.last(self.first(x))
        out: List[torch.Tensor] = []
        for _ in range(int(turns.sum())):
            x = self.turn(x)
            out.append(x.mean(1))
        return torch.stack(out), self.last(self.last(x))


class Sorts(torch.nn.Module):
    """Results are put into a dictionary, which the pieces share."""

    def __init__(self):
        super().__init__()
        self.first, self.last = Block(), Block()

    def forward(self, x):
        found: Dict[str, torch.Tensor] = {"a": x, "b": x}
        x = self.last(self.first(x))
        for _ in range(int((x > 0).sum()) % 3):
            found["a"] = self.first(found["a"]) + x
            found["b"] = self.last(found["a"]) * 2
        return self.last(self.first(found["b"])) + found["a"], x


class Named(torch.nn.Module):
    """Has a module of the name that a piece would get."""

    def __init__(self):
        super().__init__()
        self.forward_piece1, self.other = Block(), Block()

    def forward(self, x):
        x = self.other(self.forward_piece1(x))
        return self.forward_piece1(self.other(x)) if bool(x.sum() > 0) else x


class Statistics(torch.nn.Module):
    """Its norm writes statistics that the model has computed, and returns."""

    def __init__(self):
        super().__init__()
        self.first, self.last = Layer(), Layer()

    def forward(self, x):
        mean, variance = x.mean((0, 1)) * 0.5, x.var((0, 1))
        x = self.last(self.first(x)).transpose(1, 2)
        return torch.nn.functional.batch_norm(x, mean, variance, training=True), mean


class Writes(torch.nn.Module):
    """Writes to a buffer, which a piece would do to a copy."""

    def __init__(self):
        super().__init__()
        self.first = Layer()
        self.register_buffer("total", torch.zeros(32))

    def forward(self, x):
        y = self.first(x)
        self.total.add_(y.mean((0, 1)))
        return y * self.total


def graft(*arguments):
    run = subprocess.run([BUILD / "bin" / "graft", *map(str, arguments)], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def written(model, example, name, *options):
    """The script of the model, and what graft writes with generated kernels in it."""
    path, inputs, out = (folder / f"{name}{end}" for end in (".pt", "_in.pt", "_".join(["", *options, "fast.pt"])))
    if not out.exists():
        torch.jit.script(model.eval()).save(str(path))
        torch.save(example, inputs)
        graft("apply", path, "--rules", SOURCE / "resources/rules/generated.py", "--recipe", "Generated", "--inputs", inputs, "-o", out,
              "--no-timing", *options)
    return (torch.jit.load(str(p), map_location=DEVICE) for p in (path, out))


def setUpModule():
    global folder
    holder = tempfile.TemporaryDirectory(prefix="graft-pieces-")
    unittest.addModuleCleanup(holder.cleanup)
    folder = pathlib.Path(holder.name)
    torch.set_grad_enabled(False)
    torch.ops.load_library(BUILD / "lib" / "libgraft_ops.so")


class Pieces(unittest.TestCase):
    MODELS = {"chooses": (Chooses, lambda n: (torch.randn(3, n, 32),)),
              "keeps": (Keeps, lambda n: (torch.randn(3, n, 32),)),
              "sorts": (Sorts, lambda n: (torch.randn(3, n, 32),)),
              "named": (Named, lambda n: (torch.randn(3, n, 32),)),
              "stacks": (Stacks, lambda n: (torch.randn(3, n, 32), torch.tensor([1, n % 3])))}

    def each(self, *options):
        for name, (model, make) in self.MODELS.items():
            torch.manual_seed(0)
            plain, fast = written(model(), make(7), name, *options)
            yield name, plain, fast, lambda n, make=make: tuple(x.to(DEVICE) for x in make(n))

    def same(self, plain, fast, inputs):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            torch.testing.assert_close(fast(*inputs), plain(*inputs), rtol=1e-4, atol=1e-4)
        return [str(w.message) for w in said if str(w.message).startswith("graft: ")]

    def test_is_the_same_model(self):
        for name, plain, fast, make in self.each():
            for n in (7, 5, 1, 7):
                self.same(plain, fast, make(n))
            self.assertGreater(fast.graft_runner.__getstate__()[0][3], 0, f"{name} has pieces")

    def test_reads_back_as_a_model_without_pieces_does(self):
        for name, *_ in self.each("--no-capture"):
            list(self.each())
            self.assertEqual(graft("text", folder / f"{name}_fast.pt"), graft("text", folder / f"{name}_--no-capture_fast.pt"), name)

    def test_info_says_so(self):
        for name, *_ in self.each():
            self.assertIn("as several, with single operators between them", graft("info", folder / f"{name}_fast.pt"))

    def test_what_writes_has_none(self):
        plain, fast = written(Writes(), (torch.randn(2, 4, 32),), "writes")
        self.assertEqual(fast.graft_runner.__getstate__()[0][3], 0)
        for _ in range(4):
            self.same(plain, fast, (torch.randn(2, 4, 32, device=DEVICE),))
        torch.testing.assert_close(fast.total, plain.total, rtol=1e-4, atol=1e-4)

    def test_statistics_that_it_computes_are_written_once(self):
        plain, fast = written(Statistics(), (torch.randn(2, 4, 32),), "statistics")
        self.assertEqual(fast.graft_runner.__getstate__()[0][3], 0)
        for _ in range(4):
            self.same(plain, fast, (torch.randn(2, 4, 32, device=DEVICE),))

    def test_frozen_it_runs_without_pieces(self):
        for name, plain, fast, make in self.each():
            frozen = torch.jit.freeze(fast.eval())
            for _ in range(4):
                self.same(plain, frozen, make(6))

    def test_a_frozen_module_and_its_original_run_beside_each_other(self):
        plain, fast = written(Chooses(), (torch.randn(3, 7, 32),), "beside")
        for _ in range(2):  # the second time with other weights, which the first frozen module does not have
            frozen = torch.jit.freeze(fast.eval())
            x = torch.randn(3, 7, 32, device=DEVICE)
            for model in (fast, frozen, fast, frozen):
                for _ in range(3):
                    self.same(plain, model, (x,))
            for p, q in zip(plain.parameters(), fast.parameters()):
                p.mul_(1.5), q.mul_(1.5)

    def test_a_module_of_the_runners_name_leaves_no_room_for_one(self):
        class Taken(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.graft_runner = Layer()

            def forward(self, x):
                return self.graft_runner(x)

        plain, fast = written(Taken(), (torch.randn(2, 4, 32),), "taken")
        for _ in range(4):
            self.same(plain, fast, (torch.randn(2, 4, 32, device=DEVICE),))

    def test_saved_again_and_copied(self):
        for name, plain, fast, make in self.each():
            fast.save(str(folder / "again.pt"))
            for other in (torch.jit.load(str(folder / "again.pt"), map_location=DEVICE), copy.deepcopy(fast)):
                for _ in range(4):
                    self.same(plain, other, make(6))

    @needs_gpu
    def test_runs_as_several_graphs(self):
        for name, plain, fast, make in self.each():
            said = []
            for _ in range(8):
                for n in (7, 6, 4):
                    said += self.same(plain, fast, make(n))
            self.assertEqual(len(said), 1, said)
            self.assertIn("CUDA graphs, with single operators between them", said[0])
            self.assertRegex(fast.graft_runner.status(), r"[1-9]\d* of at most \d+ shapes of \d+ pieces captured")
            self.assertIn("not captured as a whole", fast.graft_runner.status())

    @needs_gpu
    def test_sizes_that_seldom_come_again_are_not_captured(self):
        plain, fast = written(Keeps(), (torch.randn(3, 7, 32),), "seldom")
        for n in range(1, 40):
            for _ in range(3):
                self.same(plain, fast, (torch.randn(3, n, 32, device="cuda"),))
        captured = int(re.search(r"(\d+) of at most", fast.graft_runner.status())[1])
        self.assertLess(captured, 20, fast.graft_runner.status())

    @needs_gpu
    def test_follows_its_weights(self):
        plain, fast = written(Chooses(), (torch.randn(3, 7, 32),), "follows")
        x = torch.randn(3, 7, 32, device="cuda")
        for _ in range(6):
            self.same(plain, fast, (x,))
        for p, q in zip(plain.parameters(), fast.parameters()):  # in place
            p.mul_(1.5), q.mul_(1.5)
        self.same(plain, fast, (x,))
        for model in (plain, fast):
            model.to("cpu"), model.to("cuda")
        for _ in range(4):
            self.same(plain, fast, (x,))
        for model in (plain, fast):
            model.to("cpu")
        self.same(plain, fast, (x.cpu(),))
        self.assertIn("nothing captured", fast.graft_runner.status())

    @needs_gpu
    def test_what_it_returns_belongs_to_the_caller(self):
        plain, fast = written(Keeps(), (torch.randn(3, 7, 32),), "returns")
        kept = []
        for i in range(6):
            torch.manual_seed(i % 2)
            x = torch.randn(3, 7, 32, device="cuda")
            kept.append((fast(x)[0], plain(x)[0]))
        for one, other in kept:
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


if __name__ == "__main__":
    unittest.main(verbosity=2)
