"""graft::generated as users call it: beside the ATen operators that its program names, on fresh inputs of many kinds.

    generated_test.py libgraft_ops.so
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

LIBRARY = pathlib.Path(sys.argv[1]).resolve()
os.environ["GRAFT_CACHE_DIR"] = tempfile.mkdtemp(prefix="graft-generated-test-")
import torch

torch.ops.load_library(LIBRARY)
generated = torch.ops.graft.generated

POINTWISE = """generated 1
graph gelu_scale {
  input %x : f32[4,8]
  input %w : f32[8]
  %g = aten.gelu.default(%x, approximate="none") : f32[4,8]
  %m = aten.mul.Tensor(%g, %w) : f32[4,8]
  %a = aten.add.Tensor(%m, %x, alpha=2) : f32[4,8]
  return %a
}
"""
ROWS = """generated 1
graph softmax_norm {
  input %x : f32[4,8]
  %s = aten.softmax.int(%x, -1, None) : f32[4,8]
  %t = aten.transpose.int(%s, 0, 1) : f32[8,4]
  %e = aten.exp.default(%t) : f32[8,4]
  return %e, %s
}
"""
PRODUCT = """generated 1
graph linear_gelu_add {
  input %x : f16[5,16]
  input %w : f16[8,16]
  input %r : f16[5,8]
  %p = aten.linear.default(%x, %w, None) : f16[5,8]
  %g = aten.gelu.default(%p, approximate="none") : f16[5,8]
  %a = aten.add.Tensor(%g, %r, alpha=1) : f16[5,8]
  return %a
}
"""


UPDATE = """generated 1
graph update {
  input %p : f32[64]
  input %m : f32[64]
  input %rate : f32[]
  %s = aten.mul.Tensor(%m, %rate) : f32[64]
  %y = aten.add.Tensor(%p, %s, alpha=1) : f32[64]
  %z = aten.add.Tensor(%m, %p, alpha=1) : f32[64]
  return %y, %z
}
"""


def pointwise(x, w):
    return torch.nn.functional.gelu(x) * w + 2 * x


class Generated(unittest.TestCase):
    def check(self, got, expected):
        self.assertEqual(got.dtype, expected.dtype)
        self.assertEqual(got.stride(), expected.stride())
        torch.testing.assert_close(got, expected, equal_nan=True)

    def test_products_on_the_cpu_are_the_operators(self):
        """Kernels with matrix products are a GPU's: a file made there runs here as ATen's operators, bit by bit."""
        for dtype in (torch.float16, torch.float32):
            x, w, r = (torch.randn(*s).to(dtype) for s in ((5, 16), (8, 16), (5, 8)))
            got = generated([x, w, r], PRODUCT)[0]
            self.assertTrue(torch.equal(got, torch.nn.functional.gelu(torch.nn.functional.linear(x, w)) + r))

    def check_as(self, dtype, got, x, w):
        """In halves, ATen rounds after each operator, a kernel at the end: it is to be as close to the exact numbers."""
        expected = pointwise(x, w)
        if dtype in (torch.float32, torch.float64):
            self.check(got, expected)
            return
        exact = pointwise(x.double(), w.double())
        self.assertEqual((got.dtype, got.shape, got.stride()), (expected.dtype, expected.shape, expected.stride()))
        if exact.numel():
            self.assertLessEqual((got - exact).abs().max(), 1.01 * (expected - exact).abs().max() + 1e-6)

    def test_agrees_with_aten_at_many_sizes_dtypes_and_strides(self):
        for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
            for rows, columns in ((4, 8), (0, 8), (1, 1), (3, 17), (1000, 257)):
                w = torch.randn(columns, dtype=dtype)
                for x in (torch.randn(rows, columns, dtype=dtype), torch.randn(columns, rows, dtype=dtype).t(),
                          torch.randn(rows, 2 * columns, dtype=dtype)[:, ::2], torch.randn(1, columns, dtype=dtype).expand(rows, columns)):
                    with self.subTest(dtype=dtype, shape=tuple(x.shape), strides=x.stride()):
                        self.check_as(dtype, generated([x, w], POINTWISE)[0], x, w)

    def test_rows_and_several_outputs(self):
        for shape in ((4, 8), (1, 1), (33, 1000), (0, 5)):
            x = torch.randn(*shape)
            e, s = generated([x], ROWS)
            expected = x.softmax(-1)
            self.check(s, expected)
            self.check(e, expected.t().exp())

    def test_sums_err_no_more_than_atens_and_are_equal_with_any_number_of_threads(self):
        torch.manual_seed(0)
        threads = torch.get_num_threads()
        for shape, dim in (((100003,), 0), ((3, 100003), 1), ((20000, 48), 0), ((2, 3136, 64), 1), ((1, 40, 56, 56), 1),
                           ((5, 7), 1), ((65, 33), 0), ((3, 4099), 1)):
            x = torch.rand(shape)
            exact = x.double().sum(dim)
            spelled, result = ",".join(map(str, shape)), ",".join(map(str, exact.shape))
            program = (f"generated 1\ngraph sum {{\n  input %x : f32[{spelled}]\n  %y = aten.sum.dim_IntList(%x, [{dim}], False)"
                       f" : f32[{result}]\n  %z = aten.neg.default(%y) : f32[{result}]\n  return %y, %z\n}}\n")
            with self.subTest(shape=shape, dim=dim):
                results = []
                for count in (1, 2, 3):
                    torch.set_num_threads(count)
                    results.append(generated([x], program)[0])
                torch.set_num_threads(threads)
                self.assertTrue(all(torch.equal(r, results[0]) for r in results))
                worst = ((results[0] - exact).abs() / exact).max().item()
                aten = ((x.sum(dim) - exact).abs() / exact).max().item()
                self.assertLessEqual(worst, max(aten, torch.finfo(torch.float32).eps))
        for special in (float("inf"), -float("inf"), float("nan"), 3e38):
            x = torch.rand(3, 4099)
            x[1, ::2] = special
            self.check(generated([x], program)[0], x.sum(1))

    def test_a_sum_along_rows_that_statistics_cut_into_pieces_goes_on_from_piece_to_piece(self):
        program = """generated 1
graph pieces {
  input %x : f64[2,8,32]
  %s = aten.softmax.int(%x, 1, None) : f64[2,8,32]
  %v = aten.view.default(%s, [-1, 2]) : f64[256,2]
  %c = aten.cumsum.default(%v, 0) : f64[256,2]
  return %c, %s
}
"""
        x = torch.randn(2, 8, 32, dtype=torch.float64)
        sums, s = generated([x], program)
        self.check(s, x.softmax(1))
        self.check(sums, x.softmax(1).view(-1, 2).cumsum(0))

    def test_nan_and_infinities_are_those_of_aten(self):
        x = torch.tensor([[float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e-40, 3e38, -3e38]])
        w = torch.tensor([1.0, 2.0, float("inf"), -1.0, 1.0, 1.0, 2.0, 2.0])
        self.check(generated([x, w], POINTWISE)[0], pointwise(x, w))

    def test_zeros_keep_their_signs_as_in_aten(self):
        x = torch.tensor([0.0, -0.0, -1.0, 0.25, float("nan")]).repeat(8)
        for call in ("relu.default(%x)", "relu6.default(%x)", "hardtanh.default(%x, -1.0, 0.0)", "clamp_min.default(%x, 0)",
                     "clamp.default(%x, 0.0, 1.0)"):
            program = f"generated 1\ngraph zeros {{\n  input %x : f32[40]\n  %y = aten.{call} : f32[40]\n  return %y\n}}\n"
            name, _, rest = call.partition(".default(%x")
            given = [float(a) for a in rest.strip(",) ").split(", ") if a]
            expected = getattr(torch.ops.aten, name)(x, *given)
            got = generated([x], program, [])[0]
            torch.testing.assert_close(got, expected, rtol=0, atol=0, equal_nan=True)
            self.assertEqual(got.signbit().logical_and(~x.isnan()).tolist(), expected.signbit().logical_and(~x.isnan()).tolist(), call)

    def test_gradients_flow_through_the_aten_operators(self):
        x = torch.randn(4, 8, dtype=torch.float64, requires_grad=True)
        w = torch.randn(8, dtype=torch.float64, requires_grad=True)
        self.assertTrue(torch.autograd.gradcheck(lambda a, b: generated([a, b], POINTWISE)[0], (x, w)))

    def test_a_group_without_tensors_is_where_its_program_says(self):
        program = """generated 1
graph positions {
  input %n : int
  %a = aten.arange.default(%n, dtype=torch.float32, layout=None, device=DEVICE, pin_memory=None) : f32[7]
  %b = aten.mul.Tensor(%a, 0.5) : f32[7]
  return %b
}
"""
        for _ in range(2):
            self.assertEqual(generated([], program.replace("DEVICE", 'device("meta")'), [7])[0].device.type, "meta")
            self.check(generated([], program.replace("DEVICE", "None"), [7])[0], torch.arange(7.0) * 0.5)

    def test_meta_tensors_tell_shapes(self):
        out = generated([torch.randn(3, 5, device="meta"), torch.randn(5, device="meta")], POINTWISE)[0]
        self.assertEqual((out.shape, out.dtype), ((3, 5), torch.float32))

    def test_what_does_not_fit_is_refused_as_aten_refuses_it(self):
        with self.assertRaisesRegex(RuntimeError, "must match the size"):
            generated([torch.randn(4, 8), torch.randn(7)], POINTWISE)
        for inputs in ([torch.randn(4, 8)], [torch.randn(4, 8)] * 3):
            with self.assertRaisesRegex(RuntimeError, "inputs"):
                generated(inputs, POINTWISE)

    def test_a_probability_above_one_is_refused_as_aten_refuses_it(self):
        program = """generated 1
graph loss {
  input %x : f32[4]
  input %t : f32[4]
  %e = aten.mul.Tensor(%x, 0.5) : f32[4]
  %l = aten.binary_cross_entropy.default(%e, %t, None, 1) : f32[]
  return %l
}
"""
        x, t = torch.rand(4), torch.rand(4)
        for _ in range(2):
            self.check(generated([x, t], program)[0], torch.nn.functional.binary_cross_entropy(x * 0.5, t))
            with self.assertRaisesRegex(RuntimeError, "between 0 and 1"):
                generated([x + 2, t], program)

    def test_group_norms_of_images_with_channels_side_by_side(self):
        """They are added up in another order than row by row: right for one call, and for a range of sizes."""
        program = """generated 1
graph norm_silu {
  input %x : f32[1,8,4,6]
  input %w : f32[8]
  input %b : f32[8]
  %n = aten.group_norm.default(%x, 2, %w, %b, 1e-05, True) : f32[1,8,4,6]
  %s = aten.silu.default(%n) : f32[1,8,4,6]
  return %s
}
"""
        for dtype in (torch.float32, torch.bfloat16):
            w, b = torch.randn(8).to(dtype), torch.randn(8).to(dtype)
            for sizes in ((1, 8, 4, 6), (2, 8, 17, 5), (1, 8, 40, 33), (3, 8, 1, 2), (1, 8, 4, 6)):
                for format in (torch.channels_last, torch.contiguous_format):
                    x = (torch.randn(sizes) * 3 + 100).to(dtype).contiguous(memory_format=format)
                    norm = lambda *given: torch.nn.functional.silu(torch.nn.functional.group_norm(given[0], 2, *given[1:]))
                    got, expected = generated([x, w, b], program)[0], norm(x, w, b)
                    self.assertEqual((got.dtype, got.stride()), (dtype, expected.stride()))
                    exact = norm(x.double(), w.double(), b.double())
                    self.assertLessEqual((got - exact).abs().max(), 2e-4 if dtype == torch.float32 else 5e-2)

    def test_a_program_that_is_none_is_refused_with_a_sentence(self):
        for program, message in (("", "begins with the line"), (POINTWISE.replace("generated 1", "generated 9"), "later Graft"),
                                 (POINTWISE.replace("aten.mul.Tensor", "aten.mul_.Tensor"), "may not call"),
                                 (POINTWISE[:-20], "graft::generated")):
            with self.assertRaisesRegex(RuntimeError, message):
                generated([torch.randn(4, 8), torch.randn(8)], program)

    def test_scripted_saved_and_loaded_it_computes_the_same_in_other_dtypes_too(self):
        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = torch.nn.Parameter(torch.randn(8), requires_grad=False)
                self.program: str = POINTWISE

            def forward(self, x):
                return torch.ops.graft.generated([x, self.weight], self.program)[0]

        with tempfile.TemporaryDirectory() as folder:
            torch.jit.script(Model()).save(f"{folder}/m.pt")
            model = torch.jit.load(f"{folder}/m.pt")
        for dtype in (torch.float32, torch.bfloat16):
            model = model.to(dtype)
            x = torch.randn(5, 8, dtype=dtype)
            self.check_as(dtype, model(x), x, model.weight)

    def test_threads_may_call_it_at_once(self):
        x, w = torch.randn(64, 128), torch.randn(128)
        program, wrong = POINTWISE.replace("gelu_scale", "from_threads"), []
        expected = pointwise(x, w)

        def work(i):
            for rows in range(1, 20):
                try:
                    torch.testing.assert_close(generated([x[:rows], w], program)[0], expected[:rows])
                except Exception as e:
                    wrong.append(e)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])

    def start_elsewhere(self, library=LIBRARY, before="", groups=1, **environment):
        """The pointwise program, as so many groups, in a process of its own, which says its largest difference."""
        code = f"""
import torch
{before}
torch.ops.load_library({str(library)!r})
x, w = torch.randn(7, 8), torch.randn(8)
for i in range({groups}):
    got = torch.ops.graft.generated([x, w], {POINTWISE!r}.replace("gelu_scale", f"group{{i}}").replace("alpha=2", f"alpha={{i + 2}}"))[0]
    torch.testing.assert_close(got, torch.nn.functional.gelu(x) * w + (i + 2) * x)
print((got - (torch.nn.functional.gelu(x) * w + (i + 2) * x)).abs().max().item())
"""
        return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env={**os.environ, **environment})

    def end(self, process):
        """The difference that it says, and what it says on stderr."""
        out, said = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, said)
        return float(out), said

    def run_elsewhere(self, *arguments, **environment):
        return self.end(self.start_elsewhere(*arguments, **environment))

    def run_by_kernels(self, *arguments, is_kept=True, **environment):
        """Likewise, and no group runs as ATen operators. Where the kernels are not kept on disk, one line says so."""
        difference, said = self.run_elsewhere(*arguments, **environment)
        self.assertLess(difference, 1e-5)
        self.assertEqual([line.count("not kept for the next process") for line in said.splitlines() if "graft::generated" in line],
                         [] if is_kept else [1])

    def test_parts_are_updated_where_they_lie(self):
        torch.manual_seed(0)
        shapes = ((5,), (), (0,), (3, 4), (1000,))
        sets = [[torch.randn(s), torch.randn(s), torch.randn(())] for s in shapes] + [[*torch.randn(2, 6, 4).transpose(1, 2), torch.tensor(2.0)]]
        wanted = [(p + m * rate, m + p) for p, m, rate in sets]
        versions = [s[0]._version for s in sets]
        torch.ops.graft.generated_parts([t for s in sets for t in s], [t for s in sets for t in s[:2]], UPDATE)
        for (p, m, _), (y, z), version in zip(sets, wanted, versions):
            torch.testing.assert_close(p, y)
            torch.testing.assert_close(m, z)
            self.assertGreater(p._version, version)
        torch.library.opcheck(torch.ops.graft.generated_parts.default, ([torch.randn(4), torch.randn(4), torch.tensor(1.0)],
                                                                        [torch.empty(4), torch.empty(4)], UPDATE))

    def test_parts_of_a_group_that_is_not_elementwise(self):
        program = ("generated 1\ngraph s {\n  input %x : f32[4,8]\n  %s = aten.softmax.int(%x, -1, None) : f32[4,8]\n"
                   "  %y = aten.mul.Tensor(%s, %x) : f32[4,8]\n  return %y\n}\n")
        sets = [torch.randn(4, 8), torch.randn(3, 50)]
        wanted = [torch.softmax(x, -1) * x for x in sets]
        torch.ops.graft.generated_parts(sets, sets, program)
        for x, y in zip(sets, wanted):
            torch.testing.assert_close(x, y)

    def test_parts_that_do_not_fit_the_program_are_refused(self):
        p, m, rate = torch.randn(4), torch.randn(4), torch.tensor(1.0)
        with self.assertRaisesRegex(RuntimeError, "takes 3 tensors and gives 2; there are 5 inputs and 2 results"):
            torch.ops.graft.generated_parts([p, m, rate, p, m], [p, m], UPDATE)
        with self.assertRaisesRegex(RuntimeError, "result 1 has to be of Float and sizes"):
            torch.ops.graft.generated_parts([p, m, rate], [p.clone(), torch.empty(4, dtype=torch.int32)], UPDATE)
        weight = torch.nn.Parameter(p)
        with self.assertRaisesRegex(RuntimeError, "under torch.no_grad"):
            torch.ops.graft.generated_parts([weight, m, rate], [weight, m], UPDATE)

    def test_a_cache_that_is_absent_or_damaged_costs_nothing_but_time(self):
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(2):
                self.run_by_kernels(GRAFT_CACHE_DIR=folder)
            (file,) = pathlib.Path(folder).rglob("*.code")
            whole = file.read_bytes()
            for damaged in (whole[:-9], b"", whole[:-9] + b"123456789", b"x" * len(whole), whole + b"more"):
                file.write_bytes(damaged)
                self.run_by_kernels(GRAFT_CACHE_DIR=folder)
                self.assertEqual(file.read_bytes(), whole)
            file.unlink()
            file.mkdir()
            self.run_by_kernels(GRAFT_CACHE_DIR=folder, is_kept=False)
        self.run_by_kernels(GRAFT_CACHE_DIR="/proc/nowhere", is_kept=False)

    def test_a_cache_that_nothing_can_be_written_to_costs_nothing_but_time(self):
        with tempfile.TemporaryDirectory() as folder:
            code = pathlib.Path(folder) / "code"
            code.mkdir(0o700)
            # A disk that takes no more than a kilobyte of a file.
            full = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))"
            self.run_by_kernels(before=full, groups=3, GRAFT_CACHE_DIR=folder, is_kept=False)
            self.assertEqual(list(code.iterdir()), [])
            code.chmod(0o500)
            self.run_by_kernels(groups=2, GRAFT_CACHE_DIR=folder, is_kept=os.geteuid() == 0)
            code.chmod(0o777)
            self.run_by_kernels(groups=2, GRAFT_CACHE_DIR=folder, is_kept=False)
            code.chmod(0o700)

    def test_processes_fill_one_cache_at_the_same_time(self):
        with tempfile.TemporaryDirectory() as folder:
            running = [self.start_elsewhere(groups=6, GRAFT_CACHE_DIR=folder) for _ in range(4)]
            for process in running:
                self.assertNotIn("graft::generated", self.end(process)[1])
            files = sorted((pathlib.Path(folder) / "code").iterdir())
            self.assertEqual([f.suffix for f in files], [".code"] * 6)
            before = [f.read_bytes() for f in files]
            self.run_by_kernels(groups=6, GRAFT_CACHE_DIR=folder)
            self.assertEqual([f.read_bytes() for f in files], before)

    def test_where_no_kernel_can_be_made_it_runs_as_aten_operators_and_says_so_once(self):
        with tempfile.TemporaryDirectory() as folder:
            alone = pathlib.Path(folder) / LIBRARY.name  # without the library that makes machine code
            shutil.copy(LIBRARY, alone)
            difference, said = self.run_elsewhere(library=alone, groups=5, GRAFT_CACHE_DIR=folder)
            self.assertLess(difference, 1e-5)
            self.assertEqual(said.count("run as ATen operators"), 1, said)

    def test_switched_off_it_runs_as_aten_operators(self):
        difference, said = self.run_elsewhere(GRAFT_GENERATED="0")
        self.assertEqual(difference, 0.0)
        self.assertNotIn("graft::generated", said)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
