"""Kernels with sizes as arguments: random groups of operators, called with fresh sizes and strides, beside ATen.

    sizes_test.py libgraft_ops.so

GRAFT_RANDOM_GROUPS says how many groups (40), GRAFT_RANDOM_SEED with which seed the first is made; the others count on from it.
"""
import os
import pathlib
import random
import sys
import tempfile
import threading
import unittest

LIBRARY = pathlib.Path(sys.argv[1]).resolve()
CACHE = pathlib.Path(tempfile.mkdtemp(prefix="graft-sizes-test-"))
os.environ["GRAFT_CACHE_DIR"] = str(CACHE)
import torch

torch.set_num_threads(1)
torch.ops.load_library(LIBRARY)
generated = torch.ops.graft.generated
DTYPES = {torch.float32: "f32", torch.float64: "f64", torch.int64: "i64", torch.bool: "bool"}
LENGTHS = (2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 130)


def compiled():
    """How many kernels were compiled: each is a file."""
    return len(list(CACHE.rglob("*.code")))


def type_of(t, symbols=None):
    return f"{DTYPES[t.dtype]}[{','.join(map(str, symbols or t.shape))}]"


def is_dense(t):
    """Without gaps and overlaps: a kernel's result then has the same strides."""
    expected = 1
    for n, stride in sorted(((n, s) for n, s in zip(t.shape, t.stride()) if n != 1), key=lambda e: e[1]):
        if stride != expected:
            return False
        expected *= n
    return t.numel() > 0


class Group:
    """A random program. Sizes are variables, so that the same program can be called with others."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.name = f"sizes_{seed}"
        self.dtype = torch.float64 if self.random.random() < 0.6 else torch.float32
        rank = self.random.randint(1, 4)
        self.inputs, self.lines = [], []  # inputs: sizes as variables or numbers; lines: (operator, arguments as text, function)
        self.variables = [f"n{k}" for k in range(rank)]
        for _ in range(self.random.randint(1, 3)):
            sizes = [v if self.random.random() < 0.85 else 1 for v in self.variables]
            self.inputs.append(sizes[self.random.randint(0, rank - 1):] if self.random.random() < 0.3 else sizes)
        # How the inputs lie in memory: one of two ways, so that calls have something in common.
        self.layouts = [["plain"] * len(self.inputs), [self.random.choice(("plain", "permuted", "stepped", "expanded")) for _ in self.inputs]]
        self.fixed = {v: self.random.choice((None, None, None, 4, 6, 24)) for v in self.variables}
        self.example = self.draw_sizes(self.random)
        values = self.make_inputs(self.random, self.example, plain=True)
        for _ in range(self.random.randint(1, 8)):
            for _ in range(8):
                line = self.random_line(values)
                try:
                    value = line[2](values)
                except (RuntimeError, IndexError):
                    continue
                if value.numel() > 200_000:
                    continue
                self.lines.append((*line, value))
                values.append(value)
                break
        count = len(self.inputs)
        self.returned = [len(values) - 1] + [k for k in range(count, len(values) - 1) if self.random.random() < 0.15]

    def draw_sizes(self, r):
        pool = r.sample(LENGTHS, 2) + [1] if r.random() < 0.3 else LENGTHS
        sizes = {v: self.fixed[v] or r.choice(pool) for v in self.variables}
        while len(sizes) > 2 and torch.Size(sizes.values()).numel() > 30_000:
            v = r.choice([v for v in sizes if not self.fixed[v]] or list(sizes))
            sizes[v] = min(sizes[v], r.choice((2, 3, 5)))
        if r.random() < 0.05:
            sizes[r.choice(self.variables)] = r.choice((0, 1))
        return sizes

    def make_inputs(self, r, sizes, plain=False):
        made = []
        for shape, how in zip(self.inputs, self.layouts[0 if plain else r.randrange(2)]):
            shape = [sizes.get(n, n) for n in shape]
            if how == "permuted":
                order = list(range(1, len(shape))) + [0]
                x = torch.randn([shape[d] for d in order], dtype=self.dtype).permute([order.index(d) for d in range(len(shape))])
            elif how == "stepped":
                x = torch.randn([2 * n if d == len(shape) - 1 else n + 1 for d, n in enumerate(shape)], dtype=self.dtype)
                x = x[tuple(slice(None, None, 2) if d == len(shape) - 1 else slice(0, n) for d, n in enumerate(shape))]
            elif how == "expanded":
                d = len(shape) // 2
                x = torch.randn([1 if k == d else n for k, n in enumerate(shape)], dtype=self.dtype).expand(shape)
            else:
                x = torch.randn(shape, dtype=self.dtype)
            made.append(x)
        return made

    def random_line(self, values):
        r, aten = self.random, torch.ops.aten
        a = r.randrange(len(values)) if r.random() < 0.4 else len(values) - 1
        b = r.randrange(len(values))
        x = values[a]
        d = r.randrange(x.dim()) if x.dim() else 0
        keep, other, two = r.random() < 0.5, r.choice((0.5, 2, -1.25)), r.randint(0, 2)

        def line(op, text, f):
            return op, text, f

        def unary(name):
            return line(f"{name}.default", f"%v{a}", lambda v: getattr(aten, name)(v[a]))

        def dims(name, overload, f, rest=f", {keep}"):
            return line(f"{name}.{overload}", f"%v{a}, [{d}]{rest}", f)

        choices = [
            lambda: unary(r.choice(("tanh", "sigmoid", "relu", "silu", "abs", "neg", "atan", "cos"))),
            lambda: line("gelu.default", f'%v{a}, approximate="none"', lambda v: aten.gelu(v[a])),
            lambda: line("add.Tensor", f"%v{a}, %v{b}, alpha=1", lambda v: v[a] + v[b]),
            lambda: line("mul.Tensor", f"%v{a}, %v{b}", lambda v: v[a] * v[b]),
            lambda: line("maximum.default", f"%v{a}, %v{b}", lambda v: torch.maximum(v[a], v[b])),
            lambda: line("add.Tensor", f"%v{a}, {other}, alpha=1", lambda v: v[a] + other),
            lambda: dims("sum", "dim_IntList", lambda v: v[a].sum([d], keep) if v[a].dtype != torch.bool else None),
            lambda: dims("mean", "dim", lambda v: v[a].mean([d], keep)),
            lambda: dims("amax", "default", lambda v: v[a].amax([d], keep)),
            lambda: line("softmax.int", f"%v{a}, {d}, None", lambda v: aten.softmax.int(v[a], d)),
            lambda: line("cumsum.default", f"%v{a}, {d}", lambda v: v[a].cumsum(d)),
            lambda: line("layer_norm.default", f"%v{a}, [{x.shape[-1] if x.dim() else 1}], None, None, 0.1",
                         lambda v, n=x.shape[-1] if x.dim() else 1: aten.layer_norm(v[a], [n], None, None, 0.1)),
            lambda: line("transpose.int", f"%v{a}, 0, {d}", lambda v: v[a].transpose(0, d)),
            lambda: line("unsqueeze.default", f"%v{a}, {d}", lambda v: v[a].unsqueeze(d)),
            lambda: line("squeeze.dim", f"%v{a}, {d}", lambda v: v[a].squeeze(d)),
            lambda: line("flip.default", f"%v{a}, [{d}]", lambda v: v[a].flip([d])),
            lambda: line("roll.default", f"%v{a}, [{two}], [{d}]", lambda v: v[a].roll([two], [d])),
            lambda: line("slice.Tensor", f"%v{a}, {d}, {two}, None, {1 + two % 2}", lambda v: aten.slice(v[a], d, two, None, 1 + two % 2)),
            lambda: line("slice.Tensor", f"%v{a}, {d}, 0, {2 + two}, 1", lambda v: aten.slice(v[a], d, 0, 2 + two, 1)),
            lambda: line("select.int", f"%v{a}, {d}, {two - 1}", lambda v: v[a].select(d, two - 1)),
            lambda: line("flatten.using_ints", f"%v{a}, {d}", lambda v: v[a].flatten(d)),
            lambda: line("view.default", f"%v{a}, [-1, 2]", lambda v: v[a].view([-1, 2])),
            lambda: line("unflatten.int", f"%v{a}, {d}, [2, -1]", lambda v: v[a].unflatten(d, [2, -1])),
            lambda: line("cat.default", f"[%v{a}, %v{b}], {d}", lambda v: torch.cat([v[a], v[b]], d)),
            lambda: line("stack.default", f"[%v{a}, %v{b}], {d}", lambda v: torch.stack([v[a], v[b]], d)),
            lambda: line("constant_pad_nd.default", f"%v{a}, [{two}, 1], 0.5", lambda v: aten.constant_pad_nd(v[a], [two, 1], 0.5)),
            lambda: line("tril.default", f"%v{a}, {two}", lambda v: v[a].tril(two)),
            lambda: line("repeat.default", f"%v{a}, {[1] * (x.dim() - 1) + [2]}", lambda v, n=[1] * (x.dim() - 1) + [2]: v[a].repeat(n)),
        ]
        return r.choice(choices)()

    def text(self, symbols=None):
        inputs = self.make_inputs(random.Random(0), self.example, plain=True)
        out = f"generated 1\ngraph {self.name} {{\n"
        for k, (x, shape) in enumerate(zip(inputs, self.inputs)):
            out += f"  input %v{k} : {type_of(x, [(symbols or self.example).get(n, n) for n in shape])}\n"
        for k, (op, arguments, _, value) in enumerate(self.lines, len(inputs)):
            out += f"  %v{k} = aten.{op}({arguments}) : {type_of(value)}\n"
        return out + f"  return {', '.join(f'%v{k}' for k in self.returned)}\n}}\n"

    def expected(self, inputs):
        values = list(inputs)
        for _, _, f, _ in self.lines:
            values.append(f(values))
        return [values[k] for k in self.returned]


SOFTMAX = """generated 1
graph NAME {
  input %x : f32[4,16]
  %m = aten.mul.Tensor(%x, 0.5) : f32[4,16]
  %s = aten.softmax.int(%m, -1, None) : f32[4,16]
  return %s
}
"""
CACHED = """generated 1
graph cached {
  input %past : f32[2,16,8]
  input %new : f32[2,1,8]
  input %mask : f32[2,17,8]
  %c = aten.cat.default([%past, %new], 1) : f32[2,17,8]
  %a = aten.add.Tensor(%c, %mask, alpha=1) : f32[2,17,8]
  %e = aten.exp.default(%a) : f32[2,17,8]
  return %e
}
"""
SLICED = """generated 1
graph sliced {
  input %x : f32[24,32]
  %s = aten.slice.Tensor(%x, 0, 1, None, 2) : f32[12,32]
  %c = aten.cat.default([%s, %s], 0) : f32[24,32]
  %a = aten.softmax.int(%c, 0, None) : f32[24,32]
  %b = aten.softmax.int(%a, 1, None) : f32[24,32]
  return %b
}
"""
NUMBERED = """generated 1
graph numbered {
  input %x : f32[4,16]
  input %rows : int
  input %first : int
  %v = aten.view.default(%x, [%rows, 2, -1]) : f32[4,2,8]
  %s = aten.slice.Tensor(%v, 2, %first, 9223372036854775807, 1) : f32[4,2,7]
  %e = aten.exp.default(%s) : f32[4,2,7]
  return %e
}
"""
LITERAL = """generated 1
graph literal {
  input %x : f32[4,6]
  %v = aten.view.default(%x, [4, 2, 3]) : f32[4,2,3]
  %e = aten.exp.default(%v) : f32[4,2,3]
  return %e
}
"""


class Sizes(unittest.TestCase):
    def made_for(self, calls, program, function):
        """How many kernels were compiled for the calls, whose results are compared."""
        before = compiled()
        for inputs, *sizes in calls:
            torch.testing.assert_close(generated(inputs, program, *sizes)[0], function(*inputs, *sizes))
        return compiled() - before

    @staticmethod
    def softmax(x):
        return (x * 0.5).softmax(-1)

    def test_a_hundred_lengths_take_two_kernels(self):
        calls = [([torch.randn(4, n)],) for n in range(16, 116)]
        self.assertEqual(self.made_for(calls, SOFTMAX.replace("NAME", "lengths"), self.softmax), 2)

    def test_then_another_batch_takes_one_more_and_every_batch_after_it_none(self):
        program = SOFTMAX.replace("NAME", "batches").replace("0.5", "0.25")
        function = lambda x: (x * 0.25).softmax(-1)
        self.assertEqual(self.made_for([([torch.randn(4, n)],) for n in (16, 17, 200)], program, function), 2)
        self.assertEqual(self.made_for([([torch.randn(b, n)],) for b in (2, 5, 64) for n in (3, 64, 300)], program, function), 1)

    def test_one_row_is_no_range_of_rows_and_comes_back_to_its_own_kernel(self):
        program = SOFTMAX.replace("NAME", "ones").replace("0.5", "0.125")
        function = lambda x: (x * 0.125).softmax(-1)
        calls = [([torch.randn(b, n)],) for n in (16, 40, 1) for b in (1, 4, 1, 9)]
        self.assertLessEqual(self.made_for(calls, program, function), 8)

    def test_symbols_in_the_types_of_a_program_take_one_kernel(self):
        program = SOFTMAX.replace("NAME", "symbols").replace("[4,16]", "[b,n]").replace("0.5", "0.375")
        calls = [([torch.randn(b, n)],) for b in (4, 2, 9) for n in (16, 3, 130)]
        self.assertEqual(self.made_for(calls, program, lambda x: (x * 0.375).softmax(-1)), 1)

    def test_longer_rows_than_usual_take_one_more(self):
        program = SOFTMAX.replace("NAME", "long").replace("0.5", "0.75")
        function = lambda x: (x * 0.75).softmax(-1)
        calls = [([torch.randn(2, n)],) for n in (64, 100, 20_000, 17_000, 31_000, 90)]
        self.assertEqual(self.made_for(calls, program, function), 3)

    def test_a_length_and_the_one_after_it_may_vary_together(self):
        calls = [([torch.randn(2, n, 8), torch.randn(2, 1, 8), torch.randn(2, n + 1, 8)],) for n in range(16, 60)]
        made = self.made_for(calls, CACHED, lambda past, new, mask: (torch.cat([past, new], 1) + mask).exp())
        self.assertEqual(made, 2)
        with self.assertRaisesRegex(RuntimeError, "must match the size"):
            generated([torch.randn(2, 30, 8), torch.randn(2, 1, 8), torch.randn(2, 30, 8)], CACHED)

    def test_integers_of_a_call_may_vary_too(self):
        calls = [([torch.randn(r, 2 * n)], [r, first]) for r, n, first in ((4, 8, 1), (5, 9, 1), (7, 30, 1), (3, 6, 1), (9, 40, 1), (6, 11, 3), (8, 12, 3), (10, 70, 3))]
        made = self.made_for(calls, NUMBERED, lambda x, sizes: x.view(sizes[0], 2, -1)[:, :, sizes[1]:].exp())
        self.assertLessEqual(made, 4)

    def test_what_names_its_sizes_keeps_kernels_of_its_own(self):
        torch.testing.assert_close(generated([torch.ones(4, 6)], LITERAL)[0], torch.ones(4, 2, 3).exp())
        torch.testing.assert_close(generated([torch.ones(6, 4)], LITERAL)[0], torch.ones(4, 2, 3).exp())
        with self.assertRaisesRegex(RuntimeError, "invalid for input of size"):
            generated([torch.ones(4, 7)], LITERAL)

    def test_rows_of_which_a_slice_leaves_none_are_not_read(self):
        def function(x):
            rows = x[1::2]
            return torch.cat([rows, rows]).softmax(0).softmax(1)
        self.assertEqual(function(torch.ones(1, 32)).shape, (0, 32))
        calls = [([torch.randn(n, 64)[:, ::2]],) for n in (24, 1, 3, 2)] + [([torch.randn(1, 40)],)]
        self.made_for(calls, SLICED, function)

    def test_threads_share_the_kernels(self):
        program, wrong, before = SOFTMAX.replace("NAME", "threads").replace("0.5", "0.625"), [], compiled()

        def work(seed):
            r = random.Random(seed)
            for _ in range(40):
                x = torch.randn(r.randint(2, 40), r.randint(2, 90))
                try:
                    torch.testing.assert_close(generated([x], program)[0], (x * 0.625).softmax(-1))
                except Exception as e:
                    wrong.append(e)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])
        self.assertLessEqual(compiled() - before, 4)

    def check_group(self, seed):
        group = Group(seed)
        if not group.lines:
            return 0, 0
        text, before, calls = group.text(), compiled(), 0
        r = random.Random(seed + 1_000_000)
        for n in range(14):
            sizes = group.example if n == 0 else group.draw_sizes(r)
            inputs = group.make_inputs(r, sizes)
            with self.subTest(seed=seed, sizes=sizes, strides=[x.stride() for x in inputs], text=text):
                try:
                    expected = group.expected(inputs)
                except (RuntimeError, IndexError) as refusal:
                    if "view size is not compatible" in str(refusal):
                        continue  # a kernel computes what a view of such strides cannot be
                    with self.assertRaises((RuntimeError, IndexError)):
                        generated(inputs, text)
                    continue
                calls += 1
                for got, wanted in zip(generated(inputs, text), expected, strict=True):
                    self.assertEqual((got.dtype, got.shape), (wanted.dtype, wanted.shape))
                    if is_dense(wanted):
                        self.assertEqual(got.stride(), wanted.stride())
                    tolerance = 1e-9 if wanted.dtype == torch.float64 else 2e-3
                    torch.testing.assert_close(got, wanted, rtol=tolerance, atol=tolerance, equal_nan=True)
        return calls, compiled() - before

    def test_random_groups_at_fresh_sizes_and_strides_compute_what_aten_computes(self):
        count, first = int(os.environ.get("GRAFT_RANDOM_GROUPS", 40)), int(os.environ.get("GRAFT_RANDOM_SEED", 1))
        calls = made = 0
        for seed in range(first, first + count):
            more = self.check_group(seed)
            calls, made = calls + more[0], made + more[1]
        if "GRAFT_RANDOM_GROUPS" in os.environ:
            print(f"{calls} calls, {made} kernels")
        if count >= 20:  # few groups may be ones that take hardly any sizes
            self.assertGreater(calls, 5 * count)
            self.assertLess(made, calls / 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
