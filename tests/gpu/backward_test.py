"""Compares the gradients of the CUDA operators with those of fp64 autograd on the plain formulas: the cases of
tests/kernels/ops/gradients_test.py on the GPU, and each backward kernel on the sizes that choose its variants.

    python tests/gpu/backward_test.py build/lib/libgraft_ops.so [TESTS]

The kernels are off by default; the test switches them on. Before each case the caching allocator's free memory is filled with NaN, so that an element which a kernel does not write is NaN.
Without a GPU it prints "skipped: no GPU" and exits 77.
"""
import math
import os
import pathlib
import sys
import unittest

import torch
import torch.nn.functional as F

if not torch.cuda.is_available():
    print("skipped: no GPU")
    sys.exit(77)
torch.manual_seed(int.from_bytes(os.urandom(4), "little"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "kernels" / "ops"))
sys.argv[2:2] = ["--device", "cuda"]
import gradients_test as cases  # noqa: E402
from gradients_test import *  # noqa: E402, F403
from gradients_test import DTYPES, GradientCase, graft, random  # noqa: E402


def poison():
    for size in (1 << 22, 1 << 18, 1 << 14, 1 << 10):
        junk = [torch.full((size,), math.nan, device="cuda") for _ in range(2)]
        del junk


cases.before_each = poison
graft.backward_kernels(True)
# A sum of `count` rounded terms is allowed so many steps of the type, of the largest value.
STEPS = {torch.float32: 6e-7, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


class Kernels(unittest.TestCase):
    def near(self, what, got, want, dtype, count=1):
        for i, (g, w) in enumerate(zip(got, want)):
            if w is None:
                continue
            self.assertEqual((g.shape, g.dtype), (w.shape, dtype), f"{what}, result {i}")
            self.assertTrue(torch.equal(g.isnan(), w.isnan()), f"{what}, result {i}: NaN elsewhere")
            if g.numel():
                largest = max(float(w.abs().nan_to_num().max()), 0.5)
                off = float((g.double() - w).abs().nan_to_num().max()) / largest
                self.assertLess(off, STEPS[dtype] * (1 + 0.5 * math.sqrt(count) if dtype == torch.float32 else 1), f"{what}, result {i}")

    def twice(self, what, call):
        """The results, which must be the same in a second call."""
        poison()
        first = call()
        poison()
        for a, b in zip(first, call()):
            self.assertTrue(torch.equal(a.nan_to_num(), b.nan_to_num()), f"{what} differs from run to run")
        return first

    def test_norms(self):
        for dtype in DTYPES:
            for rows, n in ((1, 8), (3, 40), (5, 256), (4096, 768), (130, 772), (77, 1024), (600, 1032), (300, 2048), (40, 4096), (9, 5120), (7, 8192), (5, 9000), (33, 17)):
                x, r, g, s = (random(rows, n, dtype=dtype) for _ in range(4))
                w, b, ib = (random(n, dtype=dtype) for _ in range(3))
                for name, residual, input_bias, weight in (("all", r, ib, w), ("bare", None, None, None), ("weight", None, None, w)):
                    what = f"layer norm {rows}x{n} {name} {dtype}"
                    out, mean, rstd = self.twice(what, lambda: graft.add_layer_norm_training(x, residual, weight, b, 1e-5, input_bias))
                    v = x.double() + (0 if residual is None else r.double()) + (0 if input_bias is None else ib.double())
                    v.requires_grad_()
                    w64 = torch.ones(n, device="cuda", dtype=torch.float64) if weight is None else w.double()
                    w64.requires_grad_()
                    ref = F.layer_norm(v, (n,), w64, b.double(), 1e-5)
                    dv, dw = torch.autograd.grad(ref, (v, w64), g.double())
                    self.near(what, [out], [ref.detach()], dtype, 4)
                    self.near(what, [mean, rstd], [v.detach().mean(-1), 1 / (v.detach().var(-1, unbiased=False) + 1e-5).sqrt()], torch.float32, 16)
                    got = self.twice(what, lambda: graft.add_layer_norm_backward(g, x, residual, input_bias, mean, rstd, weight, [True] * 4))
                    self.near(what, got, [dv, dw, g.double().sum(0), dv.sum(0)], dtype, rows + 16)
                what = f"rms norm {rows}x{n} {dtype}"
                out, total, rstd = self.twice(what, lambda: graft.add_rms_norm_training(x, r, w, 1e-6))
                v = total.double().requires_grad_()
                w64 = w.double().requires_grad_()
                ref = v * torch.rsqrt(v.square().mean(-1, keepdim=True) + 1e-6) * w64
                dv, dw = torch.autograd.grad(ref, (v, w64), g.double())
                self.near(what, [out], [ref.detach()], dtype, 4)
                got = self.twice(what, lambda: graft.add_rms_norm_backward(g, s, total, rstd, w, [True, True]))
                self.near(what, got, [dv + s.double(), dw], dtype, rows + 16)

    def test_linear(self):
        for dtype in DTYPES:
            for m, k, n in ((1, 8, 8), (300, 64, 768), (4096, 64, 3072), (5, 7, 9), (33, 40, 33), (1000, 8, 130), (70000, 8, 16)):
                x, w, g, z = random(m, k, dtype=dtype), random(n, k, dtype=dtype, scale=k**-0.5), random(m, n, dtype=dtype), random(m, n, dtype=dtype, scale=3)
                for activation, f in (("none", None), ("relu", F.relu), ("gelu", F.gelu), ("gelu_tanh", lambda t: F.gelu(t, approximate="tanh")), ("silu", F.silu)):
                    what = f"linear backward {m}x{k}x{n} {activation} {dtype}"
                    z64 = z.double().requires_grad_()
                    dz = torch.autograd.grad(f(z64), z64, g.double())[0] if f else g.double()
                    got = self.twice(what, lambda: graft.linear_backward(g, x, w, z if f else None, activation, [True] * 3))
                    self.near(what, got, [dz @ w.double(), dz.t() @ x.double(), dz.sum(0)], dtype, m + n)

    def test_extremes(self):
        for dtype in DTYPES:
            most = torch.finfo(dtype).max
            z = torch.tensor([0.0, -0.0, 1e-6, 6.9, 7.1, -6.9, -7.1, -12.0, 12.0, 40.0, -40.0, most, -most, math.inf, -math.inf, math.nan], device="cuda").to(dtype)[None]
            eye, x, g = torch.eye(16, device="cuda", dtype=dtype), torch.zeros(1, 16, device="cuda", dtype=dtype), torch.ones(1, 16, device="cuda", dtype=dtype)
            for activation, f in (("relu", F.relu), ("gelu", F.gelu), ("gelu_tanh", lambda t: F.gelu(t, approximate="tanh")), ("silu", F.silu)):
                z64 = z.double()[:, :13].requires_grad_()
                dz = torch.autograd.grad(f(z64).sum(), z64)[0].nan_to_num()
                got = graft.linear_backward(g, x, eye, z, activation, [False, False, True])[2]
                self.near(f"{activation} {dtype}", [got[:13]], [dz[0]], dtype, 4)
                self.near(f"{activation} {dtype} at infinity", [got[13:15]], [torch.tensor([1.0, 0.0], device="cuda", dtype=torch.float64)], dtype, 4)

    def test_softmax(self):
        for dtype in DTYPES:
            for rows, n in ((5, 8), (1000, 128), (33, 197), (700, 512), (64, 2048), (3, 5000), (9, 4097), (4, 20000)):
                x, g = random(rows, n, dtype=dtype, scale=3), random(rows, n, dtype=dtype)
                y = graft.masked_softmax(x)
                p = y.double()
                want = 0.5 * p * (g.double() - (g.double() * p).sum(-1, keepdim=True))
                poison()
                got = graft.masked_softmax_backward(g, y, 0.5, -1)
                self.assertLess(float((got.double() - want).abs().max()), STEPS[dtype] * float(want.abs().max()) * 4, f"softmax backward {rows}x{n} {dtype}")

    def test_dropped_rows_of_grouped_heads(self):
        """Attention with grouped heads in the flash kernel, beside repeated heads in fp64."""
        for dtype in (torch.float16, torch.bfloat16):
            for causal in (False, True):
                q, k, v = random(2, 8, 128, 64, dtype=dtype), random(2, 2, 128, 64, dtype=dtype), random(2, 2, 128, 64, dtype=dtype)
                case = cases.Attention("test_masks")
                case.check(graft.attention, cases.attention_on_device, q, k, v, causal=causal)


if __name__ == "__main__":
    unittest.main()
