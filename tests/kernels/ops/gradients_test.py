"""Gradients of the graft:: operators beside fp64 autograd's of the plain formula: dtypes, odd sizes, strides, masks, empty dimensions,
derivatives of derivatives, and what a tracer sees.

    python gradients_test.py libgraft_ops.so [--device cuda]

On the CPU the backward operators run as ATen's; on a GPU tests/gpu/backward_test.py runs the same cases on the kernels.
"""

import itertools
import sys
import unittest

import torch
import torch.nn.functional as F

DEVICE = "cpu"
if "--device" in sys.argv:
    DEVICE = sys.argv.pop(sys.argv.index("--device") + 1)
    sys.argv.remove("--device")

from support import ACTIVATIONS, attention, graft, linear  # noqa: E402

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
# Of the largest value: gradients are sums of rounded terms, some of which cancel.
ALLOWED = {torch.float64: 1e-10, torch.float32: 2e-5, torch.float16: 6e-3, torch.bfloat16: 4e-2}


before_each = lambda: None  # tests/gpu/backward_test.py fills the free memory with NaN


def random(*shape, dtype=torch.float32, scale=1.0):
    return (torch.randn(shape, device=DEVICE) * scale).to(dtype)


def leaves_of(value):
    return [v for v in torch.utils._pytree.tree_leaves(value) if torch.is_tensor(v)]


def layer_norm(x, residual, weight, bias, eps=1e-5, *, input_bias=None):
    x = x if input_bias is None else x + input_bias
    x = x if residual is None else x + residual
    return F.layer_norm(x, x.shape[-1:], weight, bias, eps)


def rms_norm(x, residual, weight, eps=1e-6):
    s = x if residual is None else x + residual
    y = s * torch.rsqrt(s.pow(2).mean(-1, keepdim=True) + eps)
    return (y if weight is None else y * weight), s


def masked_softmax(x, mask=None, *, scale=1.0, dim=-1):
    x = x * scale
    if mask is not None:
        x = x.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else x + mask
    return x.softmax(dim)


def rotary(q, k, cos, sin):
    def heads(t):
        return t[None, None] if t.dim() == 2 else t.unsqueeze(1) if t.dim() == 3 else t

    def turn(x):
        a, b = x.chunk(2, -1)
        return x * heads(cos) + torch.cat((-b, a), -1) * heads(sin)

    return turn(q), turn(k)


def swiglu(gate, up):
    return F.silu(gate) * up


def embedding_norm(ids, tables, weight, bias, eps=1e-5):
    total = sum(F.embedding(i, t) for i, t in zip(ids, tables))
    return F.layer_norm(total, total.shape[-1:], weight, bias, eps)


def qkv(x, weight, bias=None, *, heads, kv_heads):
    y = F.linear(x, weight, bias)
    y = y.view(*x.shape[:2], heads + 2 * kv_heads, -1 if y.numel() else weight.shape[0] // (heads + 2 * kv_heads)).transpose(1, 2)
    return y[:, :heads], y[:, heads : heads + kv_heads], y[:, heads + kv_heads :]


class GradientCase(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)

    def prepared(self, value, wide, fixed):
        """The value as a leaf that requires a gradient where it may; `wide`: in fp64."""
        if isinstance(value, (list, tuple)):
            return [self.prepared(v, wide, fixed) for v in value]
        if not torch.is_tensor(value) or not value.is_floating_point():
            return value
        made = value.detach().double() if wide else value.detach()
        return made if any(value is f for f in fixed) else made.requires_grad_()

    def check(self, operator, formula, *args, fixed=(), allowed=None, **kwargs):
        """Each gradient must be that of fp64 autograd. `fixed`: tensors that require none."""
        def both(wide):
            a = [self.prepared(v, wide, fixed) for v in args]
            k = {n: self.prepared(v, wide, fixed) for n, v in kwargs.items()}
            out = leaves_of((formula if wide else operator)(*a, **k))
            return [v for v in leaves_of((a, k)) if v.requires_grad], out

        before_each()
        leaves, out = both(False)
        wide_leaves, wide_out = both(True)
        tangents = [torch.randn_like(o) for o in out]
        before_each()
        got = torch.autograd.grad(out, leaves, tangents, allow_unused=True)
        want = torch.autograd.grad(wide_out, wide_leaves, [t.double() for t in tangents], allow_unused=True)
        for i, (leaf, g, w) in enumerate(zip(leaves, got, want)):
            self.assertIsNotNone(g, f"no gradient of input {i}")
            w = torch.zeros_like(leaf, dtype=torch.float64) if w is None else w
            self.assertEqual((g.shape, g.dtype), (leaf.shape, leaf.dtype))
            if not g.numel():
                continue
            self.assertTrue(torch.equal(g.isnan(), w.isnan()), f"NaN elsewhere in the gradient of input {i}")
            largest = max(float(w.abs().nan_to_num().max()), 0.5)
            off = float((g.double() - w).abs().nan_to_num().max()) / largest
            self.assertLess(off, allowed or ALLOWED[leaf.dtype], f"the gradient of input {i} {list(leaf.shape)} is off by {off:.3g} of its largest value")
        return got


class Linear(GradientCase):
    def test_sizes_dtypes_activations(self):
        for dtype, activation, (m, k, n) in itertools.product(DTYPES, ACTIVATIONS, ((1, 1, 1), (5, 7, 3), (33, 64, 130), (65, 24, 96))):
            w = random(n, k, dtype=dtype, scale=k**-0.5)
            with self.subTest(dtype=dtype, activation=activation, size=(m, k, n)):
                self.check(graft.linear, linear, random(2, m, k, dtype=dtype), w, random(n, dtype=dtype), activation=activation)
                self.check(graft.linear, linear, random(m, k, dtype=dtype), w, activation=activation, residual=random(m, n, dtype=dtype))

    def test_residual_broadcasts_and_odd_shapes(self):
        self.check(graft.linear, linear, random(2, 5, 8), random(6, 8), residual=random(5, 6))
        self.check(graft.linear, linear, random(2, 5, 8), random(6, 8), random(6), activation="gelu", residual=random(1))
        self.check(graft.linear, linear, random(8), random(6, 8), random(6), activation="silu")
        self.check(graft.linear, linear, random(0, 3, 8), random(6, 8), random(6), activation="gelu")
        self.check(graft.linear, linear, random(4, 0), random(6, 0), random(6))

    def test_strided(self):
        self.check(graft.linear, linear, random(9, 5, 16).transpose(0, 1), random(16, 12).t(), random(24)[::2], activation="relu")
        self.check(graft.linear, linear, random(1, 1, 16).expand(3, 4, 16), random(12, 32)[:, ::2], activation="gelu_tanh")

    def test_frozen(self):
        x, w, b = random(5, 8), random(6, 8), random(6)
        for fixed in ((x,), (w,), (b,), (x, b), (w, b), (x, w)):
            self.check(graft.linear, linear, x, w, b, activation="gelu", fixed=fixed)

    def test_expanded_gradient(self):
        x, w = random(5, 8).requires_grad_(), random(6, 8).requires_grad_()
        graft.linear(x, w, activation="relu").sum().backward()
        x2, w2 = x.detach().clone().requires_grad_(), w.detach().clone().requires_grad_()
        F.linear(x2, w2).relu().sum().backward()
        torch.testing.assert_close((x.grad, w.grad), (x2.grad, w2.grad))

    def test_extreme_values(self):
        x = torch.tensor([[0.0, 1e-30, -1e-30, 5.0, -5.0, 30.0, -30.0, 100.0, -100.0, 1e4, -1e4, 1e18, -1e18]], device=DEVICE).t().contiguous()
        for activation in ACTIVATIONS:
            with self.subTest(activation=activation):
                w = torch.ones(8, 1, device=DEVICE)
                self.check(graft.linear, linear, x, w, activation=activation, fixed=(w,))

    def test_batched_and_qkv(self):
        for dtype in DTYPES:
            self.check(graft.batched_linear, torch.matmul, random(5, 8, dtype=dtype), random(3, 8, 6, dtype=dtype))
            self.check(graft.batched_linear, torch.matmul, random(3, 5, 8, dtype=dtype), random(3, 8, 6, dtype=dtype))
            self.check(graft.qkv_projection, qkv, random(2, 5, 24, dtype=dtype), random(48, 24, dtype=dtype, scale=0.2), random(48, dtype=dtype),
                       heads=4, kv_heads=2)


class Norms(GradientCase):
    def test_layer_norm(self):
        for dtype, shape in itertools.product(DTYPES, ((2, 3, 384), (7, 17), (1, 1, 33), (0, 4, 8), (300, 24), (16,), (5, 1032), (3, 9000))):
            vec = lambda: random(shape[-1], dtype=dtype)
            with self.subTest(dtype=dtype, shape=shape):
                x = random(*shape, dtype=dtype)
                self.check(graft.add_layer_norm, layer_norm, x, random(*shape, dtype=dtype), vec(), vec())
                self.check(graft.add_layer_norm, layer_norm, x, None, None, None, 0.1)
                self.check(graft.add_layer_norm, layer_norm, x, random(*shape, dtype=dtype), vec(), vec(), 1e-12, input_bias=vec())

    def test_frozen_and_broadcast(self):
        x, r, w, b, ib = random(4, 6, 32), random(6, 32), random(32), random(32), random(32)
        for fixed in ((x, r), (w, b), (x, r, w, b), (x, r, ib), (w,), (r,)):
            self.check(graft.add_layer_norm, layer_norm, x, r, w, b, input_bias=ib, fixed=fixed)
        for residual in (random(1), random(4, 6, 64)[..., ::2], random(1, 1, 32).expand(4, 6, 32)):
            self.check(graft.add_layer_norm, layer_norm, x.transpose(0, 1).contiguous().transpose(0, 1), residual, random(64)[::2], None)
            self.check(graft.add_rms_norm, rms_norm, x, residual, w)

    def test_rms_norm(self):
        for dtype, shape in itertools.product(DTYPES, ((2, 3, 384), (7, 17), (0, 4, 8), (300, 24), (16,), (5, 1032), (3, 9000))):
            with self.subTest(dtype=dtype, shape=shape):
                x = random(*shape, dtype=dtype)
                self.check(graft.add_rms_norm, rms_norm, x, random(*shape, dtype=dtype), random(shape[-1], dtype=dtype))
                self.check(graft.add_rms_norm, rms_norm, x, None, None, 1e-3)

    def test_rms_norm_with_one_gradient(self):
        for which in (0, 1):
            pick = lambda f: lambda *a: f(*a)[which]
            self.check(pick(graft.add_rms_norm), pick(rms_norm), random(5, 16), random(5, 16), random(16))

    def test_rows_of_equal_numbers(self):
        x, w = torch.full((3, 40), 3.0, device=DEVICE), random(40)
        self.check(graft.add_layer_norm, layer_norm, x, None, w, None, 1e-3)

    def test_nan_stays_in_its_row(self):
        x = random(4, 40)
        x[1, 3] = torch.nan
        x.requires_grad_()
        for out in (graft.add_layer_norm(x, None, None, None), graft.add_rms_norm(x, None, None)[0]):
            g, = torch.autograd.grad(out, x, torch.ones_like(out))
            self.assertEqual(g.isnan().any(-1).tolist(), [False, True, False, False])

    def test_linear_and_layer_norm(self):
        def formula(x, weight, bias, residual, norm_weight, norm_bias, eps=1e-5):
            return layer_norm(F.linear(x, weight, bias), residual, norm_weight, norm_bias, eps)

        for dtype, (rows, n, k) in itertools.product(DTYPES, (((2, 3), 48, 32), ((70,), 24, 40), ((0, 4), 8, 8))):
            x, w, residual = random(*rows, k, dtype=dtype), random(n, k, dtype=dtype, scale=0.3), random(*rows, n, dtype=dtype)
            vec = lambda: random(n, dtype=dtype)
            self.check(graft.linear_add_layer_norm, formula, x, w, vec(), residual, vec(), vec())
            self.check(graft.linear_add_layer_norm, formula, x, w, None, vec(), None, None, 0.1)

    def test_blocks(self):
        def formula(x, w, b, r, nw, nb, w2, b2, eps=1e-5, *, activation="none"):
            normed = layer_norm(F.linear(x, w, b), r, nw, nb, eps)
            return normed, linear(normed, w2, b2, activation=activation)

        args = random(2, 5, 8), random(6, 8), random(6), random(2, 5, 6), random(6), random(6), random(10, 6), random(10)
        self.check(graft.linear_norm_linear, formula, *args, activation="gelu")

    def test_embedding(self):
        for dtype in DTYPES:
            tables = [random(n, 40, dtype=dtype) for n in (100, 16, 2)]
            ids = [torch.randint(100, (3, 7), device=DEVICE), torch.arange(7, device=DEVICE)[None], torch.zeros(3, 1, dtype=torch.long, device=DEVICE)]
            w, b = random(40, dtype=dtype), random(40, dtype=dtype)
            self.check(graft.embedding_layer_norm, embedding_norm, ids, tables, w, b, 1e-12)
            self.check(graft.embedding_layer_norm, embedding_norm, ids[::-1], tables[::-1], w, b)
            self.check(graft.embedding_layer_norm, embedding_norm, ids[:1], tables[:1], None, None)
            self.check(graft.embedding_layer_norm, embedding_norm, [i[:0] for i in ids[:1]], tables[:1], w, b)


class Attention(GradientCase):
    def inputs(self, b, h, hkv, s, t, d, dtype=torch.float32):
        return random(b, h, s, d, dtype=dtype), random(b, hkv, t, d, dtype=dtype), random(b, hkv, t, d, dtype=dtype)

    def test_sizes_and_dtypes(self):
        for dtype, (b, h, hkv, s, t, d), causal in itertools.product(
                DTYPES, ((1, 1, 1, 1, 1, 8), (2, 3, 3, 7, 7, 5), (1, 4, 2, 16, 16, 32), (2, 6, 1, 5, 33, 64), (1, 2, 2, 65, 130, 40), (1, 12, 12, 128, 128, 64),
                         (2, 2, 2, 4, 4, 128)), (False, True)):
            with self.subTest(dtype=dtype, size=(b, h, hkv, s, t, d), causal=causal):
                self.check(graft.attention, attention_on_device, *self.inputs(b, h, hkv, s, t, d, dtype), causal=causal, scale=0.3)

    def test_masks(self):
        for dtype in DTYPES:
            q, k, v = self.inputs(2, 4, 2, 9, 21, 16, dtype)
            for shape in ((2, 4, 9, 21), (2, 1, 1, 21), (9, 21), (2, 4, 9, 1), (21,)):
                keep = torch.rand(shape, device=DEVICE) > 0.3
                for mask in (keep, random(*shape, dtype=dtype), torch.where(keep, 0.0, -torch.inf).to(dtype)):
                    for causal in (False, True):
                        with self.subTest(dtype=dtype, shape=shape, mask=mask.dtype, causal=causal):
                            self.check(graft.attention, attention_on_device, q, k, v, mask, causal=causal, fixed=(mask,))

    def test_one_sample_for_all(self):
        q, k, v = self.inputs(3, 4, 2, 9, 21, 16)
        for mask in (None, random(3, 1, 1, 21)):
            args = () if mask is None else (mask,)
            self.check(graft.attention, attention_on_device, q[:1], k, v, *args)
            self.check(graft.attention, attention_on_device, q, k[:1], v[:1], *args)
        self.check(graft.attention, attention_on_device, q[:1], k[:1], v[:1], random(3, 1, 1, 21))

    def test_gradient_of_the_mask(self):
        q, k, v = self.inputs(2, 2, 2, 8, 16, 16)
        self.check(graft.attention, attention_on_device, q, k, v, random(2, 1, 8, 16))
        self.check(graft.attention, attention_on_device, q, k, v, random(8, 16))

    def test_fp32_masks_of_half_inputs(self):
        q, k, v = self.inputs(2, 2, 2, 5, 24, 32, torch.float16)
        mask = torch.zeros(2, 1, 1, 24, device=DEVICE)
        mask[0, ..., 12:] = torch.finfo(torch.float32).min
        mask[1] = torch.finfo(torch.float32).min  # even attention, not zero
        fp16 = torch.where(mask < -65504, -65504.0, mask)
        self.check(lambda q, k, v: graft.attention(q, k, v, mask), lambda q, k, v: attention_on_device(q, k, v, fp16.double()), q, k, v)

    def test_rows_that_see_nothing(self):
        for dtype in DTYPES:
            q, k, v = self.inputs(1, 2, 2, 4, 16, 16, dtype)
            mask = torch.ones(4, 16, dtype=torch.bool, device=DEVICE)
            mask[2] = False
            for m in (mask, torch.where(mask, 0.0, -torch.inf).to(dtype)):
                with self.subTest(dtype=dtype, mask=m.dtype):
                    got = self.check(graft.attention, attention_on_device, q, k, v, m, fixed=(m,))
                    self.assertTrue((got[0][:, :, 2] == 0).all())

    def test_three_dimensions_strides_and_empty(self):
        q, k, v = random(6, 5, 16), random(6, 9, 16), random(6, 9, 16)
        mask = random(6, 5, 9)
        self.check(graft.attention, attention_on_device, q, k, v)
        self.check(graft.attention, attention_on_device, q, k, v, mask, fixed=(mask,))
        x = random(2, 10, 3, 4, 32)
        q, k, v = (x[:, :, i].transpose(1, 2) for i in range(3))
        self.check(graft.attention, attention_on_device, q, k, v)
        out = graft.attention(q.detach().requires_grad_(), k, v)
        self.assertTrue(out.transpose(1, 2).is_contiguous())
        self.check(graft.attention, attention_on_device, *self.inputs(0, 2, 2, 4, 4, 8))


def attention_on_device(q, k, v, mask=None, *, scale=None, causal=False):
    with torch.device(DEVICE):
        return attention(q, k, v, mask, scale=scale, causal=causal)


class Elementwise(GradientCase):
    def test_operands_that_broadcast(self):
        self.check(graft.swiglu, swiglu, random(1, 5, 8), random(3, 5, 8))
        self.check(graft.swiglu, swiglu, random(3, 5, 8), random(5, 8))
        x, r, w = random(1, 5, 8), random(3, 5, 8), random(8)
        self.check(lambda x, r, w: graft.add_layer_norm(x, r, w, None), lambda x, r, w: F.layer_norm(x + r, [8], w), x, r, w)
        self.check(lambda x, r, w: graft.add_rms_norm(x, r, w)[0], lambda x, r, w: F.rms_norm(x + r, [8], w, 1e-6), x, r, w)
        y, m = random(1, 5, 6), random(8, 6)
        self.check(lambda y, m, r: graft.linear(y, m, None, activation="relu", residual=r), lambda y, m, r: F.relu(F.linear(y, m)) + r, y, m, r)
        self.check(lambda y, m, r: graft.linear_add_layer_norm(y, m, None, r, None, None), lambda y, m, r: F.layer_norm(F.linear(y, m) + r, [8]), y, m, r)

    def test_swiglu(self):
        for dtype, shape in itertools.product(DTYPES, ((1,), (3, 17), (0, 4), (2, 100, 304))):
            self.check(graft.swiglu, swiglu, random(*shape, dtype=dtype, scale=4), random(*shape, dtype=dtype))
        gate, up = random(5, 40).chunk(2, -1)
        self.check(graft.swiglu, swiglu, gate, up)
        self.check(graft.swiglu, swiglu, gate.t(), up.t())
        self.check(graft.swiglu, swiglu, torch.tensor([0.0, -0.0, 1e30, -1e30, 1e-40, -90.0, 90.0], device=DEVICE), torch.ones(7, device=DEVICE))

    def test_rotary(self):
        for dtype, (b, h, hkv, s, d) in itertools.product(DTYPES, ((1, 1, 1, 1, 2), (2, 4, 2, 5, 6), (2, 3, 3, 7, 64), (0, 2, 2, 3, 8))):
            for shape in ((s, d), (1, s, d), (b, s, d), (b, 1, s, d)):
                with self.subTest(dtype=dtype, shape=shape):
                    q, k = random(b, h, s, d, dtype=dtype), random(b, hkv, s, d, dtype=dtype)
                    cos, sin = random(*shape, dtype=dtype), random(*shape)
                    self.check(graft.rotary_embedding, rotary, q, k, cos, sin, fixed=(cos, sin))
        q, cos, sin = random(2, 5, 3, 8), random(5, 8), random(1, 5, 8)
        self.check(graft.rotary_embedding, rotary, q.transpose(1, 2), q.transpose(1, 2), cos, sin, fixed=(cos, sin))
        self.check(graft.rotary_embedding, rotary, q.transpose(1, 2), q.transpose(1, 2), cos, sin)
        wide = random(2, 3, 5, 16)[..., ::2]
        self.check(graft.rotary_embedding, rotary, wide, random(2, 3, 8, 5).transpose(2, 3), cos, sin, fixed=(cos, sin))

    def test_masked_softmax(self):
        for dtype in DTYPES:
            x = random(2, 3, 5, 19, dtype=dtype)
            for dim, scale in ((-1, 1.0), (3, 0.125), (1, 2.0)):
                self.check(graft.masked_softmax, masked_softmax, x, scale=scale, dim=dim)
                for shape in ((2, 3, 5, 19), (2, 1, 1, 19), (5, 19), (1,)):
                    keep = torch.rand(shape, device=DEVICE) > 0.2
                    keep[..., :1] = True
                    mask = random(*shape, dtype=dtype)
                    if dim in (-1, 3):
                        self.check(graft.masked_softmax, masked_softmax, x, keep, scale=scale, dim=dim)
                    self.check(graft.masked_softmax, masked_softmax, x, mask, scale=scale, dim=dim, fixed=(mask,))
                    self.check(graft.masked_softmax, masked_softmax, x, mask, scale=scale, dim=dim)
        for shape in ((1,), (3, 1), (700, 33), (2, 0, 4), (4, 0), (2, 1025), (3, 8, 4096)):
            self.check(graft.masked_softmax, masked_softmax, random(*shape))


class Autograd(GradientCase):
    def samples(self):
        t = lambda *shape: random(*shape, scale=0.5).requires_grad_()
        ids = torch.randint(9, (2, 5), device=DEVICE)
        return {
            "attention": ((t(2, 4, 8, 8), t(2, 2, 16, 8), t(2, 2, 16, 8)), dict(scale=0.3)),
            "linear": ((t(2, 5, 8), t(6, 8), t(6)), dict(activation="gelu", residual=t(2, 5, 6))),
            "qkv_projection": ((t(2, 5, 8), t(32, 8), t(32)), dict(heads=4, kv_heads=2)),
            "add_layer_norm": ((t(2, 5, 8), t(2, 5, 8), t(8), t(8), 1e-5), dict(input_bias=t(8))),
            "linear_add_layer_norm": ((t(2, 5, 8), t(6, 8), t(6), t(2, 5, 6), t(6), t(6)), {}),
            "linear_norm_linear": ((t(2, 5, 8), t(6, 8), t(6), t(2, 5, 6), t(6), t(6), t(10, 6), t(10)), dict(activation="gelu")),
            "add_rms_norm": ((t(2, 5, 8), t(2, 5, 8), t(8)), {}),
            "masked_softmax": ((t(2, 5, 8),), dict(scale=0.5)),
            "rotary_embedding": ((t(2, 4, 5, 8), t(2, 2, 5, 8), random(5, 8), random(5, 8)), {}),
            "swiglu": ((t(3, 8), t(3, 8)), {}),
            "embedding_layer_norm": (([ids, ids[:1]], [t(9, 8), t(9, 8)], t(8), t(8)), {}),
        }

    def test_the_composites_give_the_same(self):
        for name, (args, kwargs) in self.samples().items():
            with self.subTest(operator=name):
                leaves = [v for v in leaves_of((args, kwargs)) if v.requires_grad]
                found = []
                for own in (True, False):
                    before = graft.own_backward(own)
                    try:
                        out = leaves_of(getattr(graft, name)(*args, **kwargs))
                        found.append([[o.stride() for o in out], out, torch.autograd.grad(out, leaves, [o.detach().cos() for o in out])])
                    finally:
                        graft.own_backward(before)
                self.assertEqual(found[0][0], found[1][0])
                torch.testing.assert_close(found[0][1:], found[1][1:], rtol=1e-4, atol=1e-5)

    def test_derivatives_of_derivatives(self):
        for name, (args, kwargs) in self.samples().items():
            if name == "attention":
                continue  # PyTorch's fused kernels have none
            with self.subTest(operator=name):
                leaves = [v for v in leaves_of((args, kwargs)) if v.requires_grad]
                found = []
                for own in (True, False):
                    before = graft.own_backward(own)
                    try:
                        out = leaves_of(getattr(graft, name)(*args, **kwargs))
                        first = torch.autograd.grad(sum(o.sin().sum() for o in out), leaves, create_graph=True)
                        found.append(torch.autograd.grad(sum(f.cos().sum() for f in first), leaves, allow_unused=True))
                    finally:
                        graft.own_backward(before)
                for a, b in zip(*found):
                    self.assertEqual(a is None, b is None)
                    if a is not None:
                        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)

    def test_going_through_a_graph_again(self):
        x, w = random(3, 8).requires_grad_(), random(8).requires_grad_()
        out = graft.add_layer_norm(x, None, w, None)
        out.sum().backward(retain_graph=True)
        out.sum().backward()
        with self.assertRaisesRegex(RuntimeError, "saved tensors|freed"):
            out.sum().backward()

    def test_a_saved_tensor_written_in_place_is_noticed(self):
        x, w = random(3, 8).requires_grad_(), random(6, 8)
        y = x * 1
        out = graft.linear(y, w.requires_grad_())
        with torch.no_grad():
            y.add_(1)
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            out.sum().backward()

    def test_what_is_not_read_is_not_kept(self):
        import weakref
        x, residual, w = random(4, 16).requires_grad_(), random(4, 16).requires_grad_(), random(16)
        made = x * 2
        out, _ = graft.add_rms_norm(made, residual, w)
        gone = weakref.ref(made)
        del made
        self.assertIsNone(gone())
        out.sum().backward()
        self.assertIsNotNone(residual.grad)

    def test_a_tracer_sees_both_halves(self):
        from torch._functorch.aot_autograd import aot_function
        expected = {
            "linear": ["linear_backward"], "add_layer_norm": ["add_layer_norm_training", "add_layer_norm_backward"],
            "add_rms_norm": ["add_rms_norm_training", "add_rms_norm_backward"], "swiglu": ["swiglu", "swiglu_backward"],
            "rotary_embedding": ["rotary_embedding", "rotary_backward"], "masked_softmax": ["masked_softmax", "masked_softmax_backward"],
            "linear_add_layer_norm": ["linear_backward", "add_layer_norm_training", "add_layer_norm_backward"], "attention": []}
        for dynamic in (False, True):
            for name, operators in expected.items():
                args, tree = torch.utils._pytree.tree_flatten(self.samples()[name])
                seen = []

                def keep(graph, _):
                    seen.extend(str(n.target) for n in graph.graph.nodes)
                    return graph

                with self.subTest(operator=name, dynamic=dynamic):
                    def call(*flat):
                        args, kwargs = torch.utils._pytree.tree_unflatten(flat, tree)
                        return getattr(graft, name)(*args, **kwargs)

                    out = leaves_of(aot_function(call, keep, keep, dynamic=dynamic)(*args))
                    leaves = [a for a in args if torch.is_tensor(a) and a.requires_grad]
                    got = torch.autograd.grad(out, leaves, [o.detach().cos() for o in out])
                    plain = leaves_of(call(*args))
                    torch.testing.assert_close(got, torch.autograd.grad(plain, leaves, [o.detach().cos() for o in plain]))
                    for operator in operators:
                        self.assertIn(f"graft.{operator}.default", seen)

    def test_opcheck_of_the_backward_operators(self):
        x, g, w, cos = random(2, 5, 8), random(2, 5, 6), random(6, 8), random(5, 8)
        n, q = random(2, 5, 8), random(2, 3, 5, 8)
        out, mean, rstd = graft.add_layer_norm_training(x, n, cos[0], cos[1], 1e-5, None)
        _, total, scale = graft.add_rms_norm_training(x, n, cos[0], 1e-6)
        tests = ("test_schema", "test_faketensor", "test_autograd_registration")
        for name, args in (
                ("linear_backward", (g, x, w, g, "gelu", [True, True, True])), ("linear_backward", (g, x, w, None, "none", [False, True, False])),
                ("add_layer_norm_training", (x, n, cos[0], cos[1], 1e-5, cos[2])),
                ("add_layer_norm_backward", (n, x, n, cos[2], mean, rstd, cos[0], [True] * 4)),
                ("add_layer_norm_backward", (n, x, None, None, mean, rstd, None, [False, False, True, False])),
                ("add_rms_norm_training", (x, None, None, 1e-6)), ("add_rms_norm_backward", (n, n, total, scale, cos[0], [True, True])),
                ("add_rms_norm_backward", (None, n, total, scale, cos[0], [True, True])),
                ("swiglu_backward", (n, x, n)), ("rotary_backward", (q, cos, cos)), ("masked_softmax_backward", (n, x, 0.5, 1))):
            with self.subTest(operator=name):
                torch.library.opcheck(getattr(graft, name).default, args, test_utils=tests)

    def test_refusals(self):
        x, w = random(2, 8), random(6, 8)
        for message, call in (
                ("linear_backward: grad .* should have the output's shape", lambda: graft.linear_backward(random(2, 5), x, w, None, "none", [True] * 3)),
                ("preactivation is expected with an activation", lambda: graft.linear_backward(random(2, 6), x, w, None, "gelu", [True] * 3)),
                ("mean and rstd should be", lambda: graft.add_layer_norm_backward(x, x, None, None, random(3), random(2), None, [True] * 4)),
                ("swiglu_backward: grad .* differ in shape", lambda: graft.swiglu_backward(random(3), x, x)),
                ("masked_softmax_backward: grad", lambda: graft.masked_softmax_backward(random(3), x, 1.0, -1))):
            with self.assertRaisesRegex(RuntimeError, message):
                call()


if __name__ == "__main__":
    unittest.main()
