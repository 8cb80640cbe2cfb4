"""Compares every graft:: operator with the fp64 result of its plain formula: dtypes, odd sizes, strides, masks, edge values, the Meta
version, gradients.

    python operators_test.py libgraft_ops.so
"""

import ctypes
import itertools
import json
import sys
import unittest

import torch
import torch.nn.functional as F

from support import ACTIVATIONS, DTYPES, OperatorCase, attention, graft, library, linear, random, wide


class Attention(OperatorCase):
    def check(self, *args, **kwargs):
        out = super().check(graft.attention, attention, *args, **kwargs)
        if out.dim() == 4:
            self.assertTrue(out.transpose(1, 2).is_contiguous())
        return out

    def inputs(self, b, h, hkv, s, t, d, dtype=torch.float32):
        return random(b, h, s, d, dtype=dtype), random(b, hkv, t, d, dtype=dtype), random(b, hkv, t, d, dtype=dtype)

    def test_sizes_and_dtypes(self):
        for dtype, (b, h, hkv, s, t, d) in itertools.product(
            DTYPES,
            ((1, 1, 1, 1, 1, 1), (2, 3, 3, 7, 7, 5), (1, 4, 2, 16, 16, 32), (2, 6, 1, 5, 33, 64), (1, 2, 2, 65, 130, 40),
             (1, 12, 12, 128, 128, 32), (1, 2, 2, 3, 700, 128), (1, 1, 1, 4, 9, 200),
             (2, 6, 3, 1, 300, 64), (1, 2, 2, 2, 37, 72)),
        ):
            with self.subTest(dtype=dtype, size=(b, h, hkv, s, t, d)):
                self.check(*self.inputs(b, h, hkv, s, t, d, dtype))

    def test_masks(self):
        for dtype in DTYPES:
            q, k, v = self.inputs(2, 4, 2, 9, 21, 16, dtype)
            for shape in ((2, 4, 9, 21), (2, 1, 1, 21), (1, 1, 9, 21), (9, 21), (2, 4, 9, 1), (1, 1, 1, 1), (21,), (1, 4, 1, 21)):
                keep = torch.rand(shape) > 0.3
                for mask in (keep, random(*shape, dtype=dtype), torch.where(keep, 0.0, -torch.inf).to(dtype)):
                    for causal in (False, True):
                        with self.subTest(dtype=dtype, shape=shape, mask=mask.dtype, causal=causal):
                            self.check(q, k, v, mask, causal=causal)

    def test_fp32_mask_for_half_inputs(self):
        q, k, v = self.inputs(1, 2, 2, 4, 4, 8, torch.bfloat16)
        self.check(q, k, v, random(1, 1, 4, 4))

    def test_smallest_float_masks_as_hugging_face_uses_them(self):
        q, k, v = self.inputs(2, 2, 2, 5, 20, 32)
        mask = torch.zeros(2, 1, 1, 20)
        mask[0, ..., 12:] = torch.finfo(torch.float32).min
        mask[1] = torch.finfo(torch.float32).min
        with torch.no_grad():
            got = graft.attention(q, k, v, mask)
            want = torch.softmax(q @ k.transpose(-1, -2) * 32**-0.5 + mask, -1) @ v
        torch.testing.assert_close(got, want)

    def test_fully_masked_rows_are_zero(self):
        q, k, v = self.inputs(1, 2, 2, 4, 6, 8)
        mask = torch.ones(4, 6, dtype=torch.bool)
        mask[2] = False
        for m in (mask, torch.where(mask, 0.0, -torch.inf)):
            out = self.check(q, k, v, m)
            self.assertTrue((out[:, :, 2] == 0).all())

    def test_three_dimensions(self):
        q, k, v = random(6, 5, 16), random(6, 9, 16), random(6, 9, 16)
        self.check(q, k, v)
        self.check(q, k, v, random(6, 5, 9))
        self.check(q, k, v, random(5, 9), scale=0.3)

    def test_one_sample_for_all(self):
        for dtype in DTYPES:
            q, k, v = self.inputs(3, 4, 2, 9, 21, 16, dtype)
            masks = (None, random(3, 1, 1, 21, dtype=dtype), random(1, 4, 9, 21, dtype=dtype), torch.rand(3, 1, 9, 21) > 0.3)
            for name, (q, k, v) in {
                "q": (q[:1], k, v), "k and v": (q, k[:1], v[:1]), "v": (q, k, v[:1]), "q and v": (q[:1], k, v[:1]), "all": (q[:1], k[:1], v[:1]),
            }.items():
                for mask, causal in itertools.product(masks, (False, True)):
                    with self.subTest(dtype=dtype, of_one=name, mask=mask is not None and mask.shape, causal=causal):
                        out = self.check(q, k, v, mask, causal=causal)
                        tensors = (q, k, v) if mask is None else (q, k, v, mask)
                        self.assertEqual(out.shape, (max(t.shape[0] for t in tensors), 4, 9, 16))
        q, k, v = random(6, 5, 16), random(6, 9, 16), random(6, 9, 16)
        self.check(q[:1], k, v)
        self.check(q, k[:1], v[:1], random(6, 5, 9))
        self.check(q[:1], k[:1], v[:1], random(6, 1, 9))
        self.check(*self.inputs(1, 2, 2, 1, 40, 64)[:1], *self.inputs(5, 2, 2, 1, 40, 64)[1:])  # one query
        self.check(random(1, 2, 4, 8), random(0, 2, 4, 8), random(0, 2, 4, 8))

    def test_one_query(self):
        q, k, v = self.inputs(3, 4, 2, 1, 50, 64)
        mask = torch.rand(3, 1, 1, 50) > 0.5
        mask[1] = False
        self.check(q, k, v, mask)
        self.check(q, k, v, random(4, 1, 50), causal=True)
        k[0, 0, 3, 0] = torch.nan
        self.check(q, k, v)

    def test_causal_and_scale(self):
        for s, t in ((9, 9), (4, 9), (9, 4), (70, 70), (2, 9)):
            self.check(*self.inputs(2, 2, 2, s, t, 16), causal=True, scale=0.7)

    def test_strided_and_expanded(self):
        x = random(2, 10, 3, 4, 32)
        q, k, v = (x[:, :, i].transpose(1, 2) for i in range(3))
        self.check(q, k, v)
        self.check(q, k[:1].expand(2, 4, 10, 32), v)
        self.check(q[..., ::2], k[..., ::2], v[..., ::2])
        self.check(q.flip(2), k[:, :, ::2], v[:, :, ::2])

    def test_value_head_size_may_differ(self):
        self.check(random(1, 2, 5, 16), random(1, 2, 7, 16), random(1, 2, 7, 24))

    def test_samples_share_keys_or_values_alone(self):
        for heads in 1, 4:
            for length in 6, 70:
                q, k, v = self.inputs(3, heads, heads, 5, length, 8)
                for keys, values in ((k[:1], v), (k[:1].expand_as(k), v), (k, v[:1]), (k, v[:1].expand_as(v)), (k[:, :1].expand_as(k), v)):
                    torch.testing.assert_close(graft.attention(q, keys, values), torch.nn.functional.scaled_dot_product_attention(
                        q, keys.expand_as(k), values.expand_as(v)), rtol=1e-4, atol=1e-5)

    def test_empty(self):
        self.check(*self.inputs(0, 2, 2, 4, 4, 8))
        self.check(*self.inputs(1, 2, 2, 0, 4, 8))
        self.check(*self.inputs(1, 2, 2, 4, 0, 8))

    def test_nan_and_inf_stay_where_they_are(self):
        q, k, v = self.inputs(1, 2, 2, 20, 20, 16)
        q[0, 0, 3, 2] = torch.nan
        v[0, 1, 5, 1] = torch.inf
        self.check(q, k, v)
        k[0, 1, 4, 0] = torch.nan
        self.check(q, k, v)

    def test_large_scores_do_not_overflow(self):
        q, k, v = self.inputs(1, 1, 1, 17, 17, 32)
        self.check(q * 30, k * 30, v)

    def test_refusals(self):
        q, k, v = self.inputs(1, 4, 4, 5, 5, 8)
        for message, call in (
            ("heads of k and v should divide", lambda: graft.attention(q, k[:, :3], v[:, :3])),
            ("batch sizes differ", lambda: graft.attention(q.expand(2, -1, -1, -1), k.expand(3, -1, -1, -1), v)),
            ("batch sizes differ", lambda: graft.attention(q, k.expand(2, -1, -1, -1), v.expand(3, -1, -1, -1))),
            ("head size", lambda: graft.attention(q, k[..., :4], v)),
            ("does not broadcast", lambda: graft.attention(q, k, v, torch.zeros(4, 5))),
            ("mask is Long", lambda: graft.attention(q, k, v, torch.zeros(5, 5, dtype=torch.long))),
            ("k is Half", lambda: graft.attention(q, k.half(), v)),
        ):
            with self.assertRaisesRegex(RuntimeError, message):
                call()


class Linear(OperatorCase):
    def check(self, *args, **kwargs):
        return super().check(graft.linear, linear, *args, **kwargs)

    def test_long_rows_round_off_no_more_than_in_pytorch(self):
        """Verification allows a rewrite about twice the original's error, and sums of thousands of products have one."""
        for rows in (1, 4, 24, 25, 49, 256):
            x, w = random(rows, 3072), random(96, 3072)
            exact = F.linear(x.double(), w.double())
            error = lambda y: float((y.double() - exact).square().mean().sqrt())
            self.assertLess(error(graft.linear(x, w)), 1.5 * error(F.linear(x, w)), rows)

    def test_sizes_dtypes_activations(self):
        for dtype, activation, (m, k, n) in itertools.product(DTYPES, ACTIVATIONS, ((1, 1, 1), (5, 7, 3), (33, 64, 130), (16, 384, 96))):
            w = random(n, k, dtype=dtype, scale=k**-0.5)
            with self.subTest(dtype=dtype, activation=activation, size=(m, k, n)):
                self.check(random(2, m, k, dtype=dtype), w, random(n, dtype=dtype), activation=activation)
                self.check(random(m, k, dtype=dtype), w, activation=activation, residual=random(m, n, dtype=dtype))

    def test_blocks_of_rows(self):
        for dtype, rows in itertools.product(DTYPES, (63, 64, 65, 130, 256, 257)):
            x, w = random(rows, 40, dtype=dtype), random(100, 40, dtype=dtype, scale=0.2)
            self.check(x, w, random(100, dtype=dtype), activation="relu", residual=random(rows, 100, dtype=dtype))

    def test_residual_broadcasts(self):
        self.check(random(2, 5, 8), random(6, 8), residual=random(5, 6))
        self.check(random(2, 5, 8), random(6, 8), residual=random(1))

    def test_one_dimension_and_empty(self):
        self.check(random(8), random(6, 8), random(6))
        self.check(random(0, 3, 8), random(6, 8), random(6), activation="gelu")
        self.check(random(4, 0), random(6, 0), random(6))

    def test_strided(self):
        self.check(random(9, 5, 16).transpose(0, 1), random(16, 12).t(), random(24)[::2], activation="relu")
        self.check(random(1, 1, 16).expand(3, 4, 16), random(12, 32)[:, ::2])
        self.check(random(4, 16), random(1, 16).expand(12, 16))

    def test_nan_and_inf(self):
        x = random(5, 8)
        x[1, 2] = torch.nan
        x[3, 4] = torch.inf
        for activation in ACTIVATIONS:
            with self.subTest(activation=activation):
                self.check(x, random(6, 8), random(6), activation=activation)

    def test_extreme_activations(self):
        x = torch.tensor([[0.0, -0.0, 1e-30, -1e-30, 5.0, -5.0, 30.0, -30.0, 100.0, -100.0, 1e4, -1e4, 1e20, -1e20]]).t()
        for activation in ACTIVATIONS:
            with self.subTest(activation=activation):
                self.check(x.contiguous(), torch.ones(3, 1), activation=activation)

    def test_changed_weights_are_seen(self):
        w, x = random(32, 16), random(4, 16)
        self.check(x, w)
        with torch.no_grad():
            w.mul_(2)
        self.check(x, w)
        w.data.add_(1)  # not counted as a change by PyTorch
        self.check(x, w)
        w.numpy()[:] = 3
        self.check(x, w)

    def test_reused_memory_is_not_taken_for_the_old_weight(self):
        x = random(4, 64)
        for _ in range(50):
            self.check(x, random(64, 64))

    def test_inference_tensors(self):
        with torch.inference_mode():
            w, x = random(32, 16), random(4, 16)
            for _ in range(2):
                torch.testing.assert_close(graft.linear(x, w), F.linear(x, w))
                w.add_(1)

    def test_results_repeat(self):
        w, x = random(96, 64), random(16, 64)
        first = graft.linear(x, w, activation="gelu")
        for _ in range(5):
            self.assertTrue(torch.equal(first, graft.linear(x, w, activation="gelu")))

    def test_refusals(self):
        for message, call in (
            ("does not fit weight", lambda: graft.linear(random(4, 5), random(3, 6))),
            (r"bias \[4\] should be \[3\]", lambda: graft.linear(random(4, 6), random(3, 6), random(4))),
            ("unknown activation 'swish'", lambda: graft.linear(random(4, 6), random(3, 6), activation="swish")),
            ("x is Long", lambda: graft.linear(torch.ones(4, 6, dtype=torch.long), random(3, 6))),
        ):
            with self.assertRaisesRegex(RuntimeError, message):
                call()


class QkvProjection(OperatorCase):
    @staticmethod
    def reference(x, weight, bias=None, *, heads, kv_heads):
        y = F.linear(x, weight, bias)
        y = y.view(*x.shape[:2], heads + 2 * kv_heads, weight.shape[0] // (heads + 2 * kv_heads)).transpose(1, 2)
        return y[:, :heads], y[:, heads : heads + kv_heads], y[:, heads + kv_heads :]

    def test_all(self):
        for dtype, (b, s, e, h, hkv, d) in itertools.product(DTYPES, ((1, 1, 3, 1, 1, 2), (2, 5, 24, 4, 2, 6), (0, 3, 8, 2, 2, 4))):
            with self.subTest(dtype=dtype, size=(b, s, e, h, hkv, d)):
                w, bias = random((h + 2 * hkv) * d, e, dtype=dtype, scale=e**-0.5), random((h + 2 * hkv) * d, dtype=dtype)
                x = random(b, s, e, dtype=dtype)
                self.check(graft.qkv_projection, self.reference, x, w, bias, heads=h, kv_heads=hkv)
                self.check(graft.qkv_projection, self.reference, x, w, heads=h, kv_heads=hkv)

    def test_the_block_lives_as_long_as_any_output(self):
        q, k, v = graft.qkv_projection(random(2, 5, 8), random(24, 8), heads=2, kv_heads=2)
        kept = v.clone()
        del q, k
        for _ in range(20):
            random(240)
        self.assertTrue(torch.equal(v, kept))

    def test_refusals(self):
        with self.assertRaisesRegex(RuntimeError, "does not divide into"):
            graft.qkv_projection(random(1, 2, 8), random(25, 8), heads=2, kv_heads=2)
        with self.assertRaisesRegex(RuntimeError, "should divide heads"):
            graft.qkv_projection(random(1, 2, 8), random(24, 8), heads=3, kv_heads=2)


class Norms(OperatorCase):
    @staticmethod
    def layer(x, residual, weight, bias, eps=1e-5, *, input_bias=None):
        x = x if input_bias is None else x + input_bias
        x = x if residual is None else x + residual
        return F.layer_norm(x, x.shape[-1:], weight, bias, eps)

    @staticmethod
    def rms(x, residual, weight, eps=1e-6):
        s = x if residual is None else x + residual
        y = s * torch.rsqrt(s.pow(2).mean(-1, keepdim=True) + eps)
        return (y if weight is None else y * weight), s

    def test_layer_norm(self):
        for dtype, shape in itertools.product(DTYPES, ((2, 3, 384), (5, 1), (7, 17), (1, 1, 33), (0, 4, 8), (3000, 20), (16,))):
            vec = lambda: random(shape[-1], dtype=dtype)
            with self.subTest(dtype=dtype, shape=shape):
                x = random(*shape, dtype=dtype)
                self.check(graft.add_layer_norm, self.layer, x, random(*shape, dtype=dtype), vec(), vec())
                self.check(graft.add_layer_norm, self.layer, x, None, None, None, 0.1)
                self.check(graft.add_layer_norm, self.layer, x, random(*shape, dtype=dtype), vec(), vec(), 1e-12, input_bias=vec())

    def test_x_and_residual_broadcast(self):
        for dtype in DTYPES:
            vec = lambda n=32: random(n, dtype=dtype)
            w, b = random(32, 24, dtype=dtype, scale=0.3), vec()
            for rows, residual in (((1, 5), (3, 5)), ((3, 1), (3, 5)), ((1, 5), (3, 1)), ((5,), (3, 5)), ((1,), (3, 5)), ((1, 5), (0, 5)), ((2, 1, 4), (3, 1)), ((), (3, 5))):
                with self.subTest(dtype=dtype, rows=rows, residual=residual):
                    x, y, r = random(*rows, 32, dtype=dtype), random(*rows, 24, dtype=dtype), random(*residual, 32, dtype=dtype)
                    shape = torch.broadcast_shapes(x.shape, r.shape)
                    rounding = None if dtype in (torch.float32, torch.float64) else 8 * torch.finfo(dtype).eps
                    out = self.check(graft.add_layer_norm, self.layer, x, r, vec(), vec())
                    self.assertEqual(out.shape, shape)
                    self.assertEqual([t.shape for t in graft.add_rms_norm(x, r, vec())], [shape, shape])
                    for ours, wanted in zip(graft.add_rms_norm(x, r, b), graft.add_rms_norm(x.expand(shape), r.expand(shape), b)):
                        self.assertTrue(torch.equal(ours, wanted))
                    for act in ("none", "relu"):
                        self.check(graft.linear, linear, y, w, b, activation=act, residual=r)
                    self.check(graft.linear_add_layer_norm, lambda x, w, b, r, nw, nb: self.layer(F.linear(x, w, b), r, nw, nb), y, w, b, r, vec(), vec(),
                               rounding=rounding)
                    w2 = random(8, 32, dtype=dtype, scale=0.3)
                    ours = graft.linear_norm_linear(y, w, b, r, b, b, w2, None)
                    normed = graft.linear_add_layer_norm(y, w, b, r, b, b)
                    self.assertTrue(torch.equal(ours[0], normed) and torch.equal(ours[1], graft.linear(normed, w2)))
            q, r = random(1, 2, 5, 12, dtype=dtype), random(3, 5, 32, dtype=dtype)
            ours = graft.attention_norm_linear(q, q, q, None, w, b, r, b, b, w2, None)
            wanted = graft.linear_norm_linear(graft.attention(q, q, q).transpose(1, 2).reshape(1, 5, 24), w, b, r, b, b, w2, None)
            self.assertTrue(torch.equal(ours[0], wanted[0]) and torch.equal(ours[1], wanted[1]))

    def test_linear_and_layer_norm(self):
        def reference(x, weight, bias, residual, norm_weight, norm_bias, eps=1e-5):
            return self.layer(F.linear(x, weight, bias), residual, norm_weight, norm_bias, eps)

        for dtype, (rows, n, k) in itertools.product(DTYPES, (((2, 3), 48, 32), ((1,), 7, 5), ((0, 4), 8, 8), ((70,), 24, 40), ((), 16, 8))):
            x, w, residual = random(*rows, k, dtype=dtype), random(n, k, dtype=dtype, scale=0.3), random(*rows, n, dtype=dtype)
            vec = lambda: random(n, dtype=dtype)
            for arguments in ((x, w, vec(), residual, vec(), vec()), (x, w, None, vec(), None, None, 0.1)):
                with self.subTest(dtype=dtype, rows=rows, n=n, k=k, bias=arguments[2] is not None):
                    # The 16-bit types are rounded between product and norm, which magnifies small sums.
                    rounding = None if dtype in (torch.float32, torch.float64) else 8 * torch.finfo(dtype).eps
                    self.check(graft.linear_add_layer_norm, reference, *arguments, rounding=rounding)
        with self.assertRaisesRegex(RuntimeError, r"norm_weight \[4\] should be \[8\]"):
            graft.linear_add_layer_norm(random(2, 6), random(8, 6), None, random(2, 8), random(4), None)
        with self.assertRaisesRegex(RuntimeError, "residual .* does not broadcast to the output"):
            graft.linear_add_layer_norm(random(2, 6), random(8, 6), None, random(3, 8), None, None)

    def test_blocks_are_the_operators_that_they_stand_for(self):
        for dtype in DTYPES:
            x, w, w2 = random(2, 3, 32, dtype=dtype), random(48, 32, dtype=dtype, scale=0.3), random(20, 48, dtype=dtype, scale=0.3)
            vec = lambda n=48: random(n, dtype=dtype)
            residual = random(2, 3, 48, dtype=dtype)
            for b, nw, nb, b2, act in ((vec(), vec(), vec(), vec(20), "gelu"), (None, None, None, None, "none")):
                with self.subTest(dtype=dtype, activation=act):
                    normed = graft.linear_add_layer_norm(x, w, b, residual, nw, nb, 1e-6)
                    out = graft.linear(normed, w2, b2, activation=act)
                    ours = graft.linear_norm_linear(x, w, b, residual, nw, nb, w2, b2, 1e-6, activation=act)
                    self.assertTrue(torch.equal(ours[0], normed) and torch.equal(ours[1], out))
                    q, k, v = random(2, 4, 3, 8, dtype=dtype), random(2, 2, 5, 8, dtype=dtype), random(2, 2, 5, 8, dtype=dtype)
                    mask = random(2, 1, 1, 5, dtype=dtype)
                    a = graft.attention(q, k, v, mask, scale=0.3).transpose(1, 2).reshape(2, 3, 32)
                    expected = graft.linear_norm_linear(a, w, b, residual, nw, nb, w2, b2, 1e-6, activation=act)
                    ours = graft.attention_norm_linear(q, k, v, mask, w, b, residual, nw, nb, w2, b2, 1e-6, scale=0.3, activation=act)
                    self.assertTrue(torch.equal(ours[0], expected[0]) and torch.equal(ours[1], expected[1]))
                    # One sample of q for all.
                    rest = (k, v, mask, w, b, residual, nw, nb, w2, b2, 1e-6)
                    ours = graft.attention_norm_linear(q[:1], *rest, activation=act)
                    expected = graft.attention_norm_linear(q[:1].expand_as(q), *rest, activation=act)
                    self.assertTrue(torch.equal(ours[0], expected[0]) and torch.equal(ours[1], expected[1]))
        with self.assertRaisesRegex(RuntimeError, r"next_weight \[9, 7\] does not fit the output of weight \[8, 6\]"):
            graft.linear_norm_linear(random(2, 6), random(8, 6), None, random(2, 8), None, None, random(9, 7), None)
        with self.assertRaisesRegex(RuntimeError, "does not fit the heads of q"):
            q = random(1, 2, 3, 4)
            graft.attention_norm_linear(q, q, q, None, random(8, 7), None, random(1, 3, 8), None, None, random(9, 8), None)

    def test_rms_norm(self):
        for dtype, shape in itertools.product(DTYPES, ((2, 3, 384), (5, 1), (7, 17), (0, 4, 8), (3000, 20), (16,))):
            with self.subTest(dtype=dtype, shape=shape):
                x = random(*shape, dtype=dtype)
                self.check(graft.add_rms_norm, self.rms, x, random(*shape, dtype=dtype), random(shape[-1], dtype=dtype))
                self.check(graft.add_rms_norm, self.rms, x, None, None, 1e-3)

    def test_strided_and_broadcast(self):
        x = random(6, 4, 32).transpose(0, 1)
        for residual in (random(4, 6, 32), random(6, 32), random(1), random(4, 6, 64)[..., ::2], random(1, 1, 32).expand(4, 6, 32)):
            self.check(graft.add_layer_norm, self.layer, x, residual, random(64)[::2], None)
            self.check(graft.add_rms_norm, self.rms, x[..., ::2], residual[..., ::2] if residual.dim() > 1 else residual, None)

    def test_constant_and_shifted_rows(self):
        self.check(graft.add_layer_norm, self.layer, torch.full((2, 40), 3.0), None, None, None)
        self.check(graft.add_layer_norm, self.layer, random(4, 384) + 1000, None, None, None, 1e-3)

    def test_nan_and_inf_stay_in_their_rows(self):
        x = random(4, 40)
        x[1, 3], x[2, 5] = torch.nan, torch.inf
        self.check(graft.add_layer_norm, self.layer, x, None, random(40), random(40))
        self.check(graft.add_rms_norm, self.rms, x, random(4, 40), random(40))

    def test_sum_is_a_new_tensor(self):
        x = random(3, 8)
        self.assertNotEqual(graft.add_rms_norm(x, None, None)[1].data_ptr(), x.data_ptr())

    def test_refusals(self):
        with self.assertRaisesRegex(RuntimeError, r"weight \[4\] should be \[8\]"):
            graft.add_layer_norm(random(2, 8), None, random(4), None)
        with self.assertRaisesRegex(RuntimeError, "residual .* does not broadcast to x"):
            graft.add_rms_norm(random(2, 8), random(3, 8), None)


class MaskedSoftmax(OperatorCase):
    @staticmethod
    def reference(x, mask=None, *, scale=1.0, dim=-1):
        x = x * scale
        if mask is not None:
            x = x.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else x + mask
        return x.softmax(dim)

    def check(self, *args, **kwargs):
        return super().check(graft.masked_softmax, self.reference, *args, **kwargs)

    def test_masks_dims_dtypes(self):
        for dtype in DTYPES:
            x = random(2, 3, 5, 19, dtype=dtype)
            for dim, scale in ((-1, 1.0), (3, 0.125), (1, 2.0), (0, 1.0)):
                self.check(x, scale=scale, dim=dim)
                for shape in ((2, 3, 5, 19), (2, 1, 1, 19), (5, 19), (2, 1, 5, 1), (1,), (19,), ()):
                    keep = torch.rand(shape) > 0.3
                    for mask in (keep, random(*shape, dtype=dtype), random(*shape)):
                        with self.subTest(dtype=dtype, dim=dim, shape=shape, mask=mask.dtype):
                            self.check(x, mask, scale=scale, dim=dim)

    def test_sizes(self):
        for shape in ((1,), (3, 1), (700, 33), (2, 0, 4), (4, 0), (2, 1025)):
            self.check(random(*shape))

    def test_fully_masked_rows_are_nan(self):
        mask = torch.ones(4, 6, dtype=torch.bool)
        mask[2] = False
        for m in (mask, torch.where(mask, 0.0, -torch.inf)):
            self.assertTrue(self.check(random(4, 6), m)[2].isnan().all())

    def test_nan_and_inf(self):
        x = random(4, 20)
        x[0, 1], x[1, 2], x[2, 3] = torch.nan, torch.inf, -torch.inf
        self.check(x)
        self.check(x * 1e4)

    def test_strided(self):
        self.check(random(6, 4, 20).transpose(0, 2), random(6, 4).t())
        self.check(random(4, 1).expand(4, 9), random(18)[::2])

    def test_refusals(self):
        with self.assertRaisesRegex(RuntimeError, "dim 2 is not a dimension"):
            graft.masked_softmax(random(2, 3), dim=2)


class RotaryEmbedding(OperatorCase):
    @staticmethod
    def reference(q, k, cos, sin):
        def heads(t):
            return t[None, None] if t.dim() == 2 else t.unsqueeze(1) if t.dim() == 3 else t

        def turn(x):
            a, b = x.chunk(2, -1)
            return x * heads(cos) + torch.cat((-b, a), -1) * heads(sin)

        return turn(q), turn(k)

    def test_all(self):
        for dtype, (b, h, hkv, s, d) in itertools.product(DTYPES, ((1, 1, 1, 1, 2), (2, 4, 2, 5, 6), (2, 3, 3, 7, 64), (0, 2, 2, 3, 8))):
            for shape in ((s, d), (1, s, d), (b, s, d), (b, 1, s, d)):
                with self.subTest(dtype=dtype, shape=shape):
                    q, k = random(b, h, s, d, dtype=dtype), random(b, hkv, s, d, dtype=dtype)
                    self.check(graft.rotary_embedding, self.reference, q, k, random(*shape, dtype=dtype), random(*shape, dtype=dtype))

    def test_strides_are_kept(self):
        x = random(2, 5, 3, 8)
        out, _ = self.check(graft.rotary_embedding, self.reference, x.transpose(1, 2), x.transpose(1, 2), random(5, 8), random(1, 5, 8))
        self.assertTrue(out.transpose(1, 2).is_contiguous())
        q = random(2, 3, 8, 5).transpose(2, 3)
        wide = random(2, 5, 3, 16).transpose(1, 2)[..., ::2]
        self.check(graft.rotary_embedding, self.reference, q, wide, random(2, 5, 8), random(5, 8))
        self.check(graft.rotary_embedding, self.reference, q.double(), wide.double(), random(2, 5, 8).double(), random(5, 8).double())

    def test_fp32_tables_for_half_inputs(self):
        q = random(1, 2, 4, 8, dtype=torch.bfloat16)
        self.check(graft.rotary_embedding, self.reference, q, q, random(4, 8), random(4, 8))

    def test_refusals(self):
        with self.assertRaisesRegex(RuntimeError, "even head size"):
            graft.rotary_embedding(random(1, 1, 2, 3), random(1, 1, 2, 3), random(2, 3), random(2, 3))


class Swiglu(OperatorCase):
    @staticmethod
    def reference(gate, up):
        return F.silu(gate) * up

    def test_all(self):
        for dtype, shape in itertools.product(DTYPES, ((1,), (3, 17), (0, 4), (2, 100, 300))):
            self.check(graft.swiglu, self.reference, random(*shape, dtype=dtype, scale=4), random(*shape, dtype=dtype))

    def test_halves_of_one_tensor(self):
        gate, up = random(5, 40).chunk(2, -1)
        self.check(graft.swiglu, self.reference, gate, up)
        self.check(graft.swiglu, self.reference, gate.t(), up[:, :1].expand(5, 20).t())

    def test_gate_and_up_broadcast(self):
        for dtype in DTYPES:
            for a, b in (((1, 5, 8), (3, 5, 8)), ((3, 1, 8), (5, 8)), ((8,), (3, 8)), ((1, 8), (0, 8))):
                self.check(graft.swiglu, self.reference, random(*a, dtype=dtype), random(*b, dtype=dtype))
                self.check(graft.swiglu, self.reference, random(*b, dtype=dtype), random(*a, dtype=dtype))
        with self.assertRaisesRegex(RuntimeError, "differ in shape"):
            graft.swiglu(random(2, 8), random(3, 8))

    def test_edge_values(self):
        x = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan, 1e38, -1e38, 1e-40, -90.0, 90.0])
        self.check(graft.swiglu, self.reference, x, torch.ones(10))


class EmbeddingLayerNorm(OperatorCase):
    @staticmethod
    def reference(ids, tables, weight, bias, eps=1e-5):
        total = sum(F.embedding(i, t) for i, t in zip(ids, tables))
        return F.layer_norm(total, total.shape[-1:], weight, bias, eps)

    def test_bert(self):
        for dtype, index in itertools.product(DTYPES, (torch.long, torch.int)):
            tables = [random(n, 40, dtype=dtype) for n in (100, 16, 2)]
            ids = [torch.randint(100, (3, 7), dtype=index), torch.arange(7, dtype=index)[None], torch.zeros(3, 1, dtype=index)]
            w, b = random(40, dtype=dtype), random(40, dtype=dtype)
            with self.subTest(dtype=dtype, index=index):
                self.check(graft.embedding_layer_norm, self.reference, ids, tables, w, b, 1e-12)
                self.check(graft.embedding_layer_norm, self.reference, ids[:1], tables[:1], None, None)
                self.check(graft.embedding_layer_norm, self.reference, [i[:0] for i in ids[:1]], tables[:1], w, b)

    def test_more_tables_than_the_loop_takes(self):
        self.check(graft.embedding_layer_norm, self.reference, [torch.randint(9, (4,)) for _ in range(11)],
                   [random(9, 12) for _ in range(11)], None, None)

    def test_ids_outside_the_table(self):
        for bad in (5, -1):
            with self.assertRaisesRegex(IndexError, f"id {bad} in ids 0 is outside its table of 5"):
                graft.embedding_layer_norm([torch.tensor([0, bad])], [random(5, 4)], None, None)


class BatchedLinear(OperatorCase):
    def check(self, *args):
        return super().check(graft.batched_linear, torch.matmul, *args)

    def test_rows_sizes_and_dtypes(self):
        for dtype, batch, rows, (inputs, outputs) in itertools.product(DTYPES, (1, 3), (1, 7, 64, 257), ((5, 9), (130, 49), (64, 96))):
            with self.subTest(dtype=dtype, batch=batch, rows=rows, inputs=inputs):
                w = random(batch, inputs, outputs, dtype=dtype, scale=0.2)
                self.check(random(rows, inputs, dtype=dtype), w)
                self.check(random(batch, rows, inputs, dtype=dtype), w)

    def test_a_batch_of_one_serves_all(self):
        for dtype in DTYPES:
            w = random(3, 16, 24, dtype=dtype, scale=0.2)
            self.check(random(1, 5, 16, dtype=dtype), w)
            self.check(random(3, 5, 16, dtype=dtype), w[:1])
            self.check(random(0, 5, 16, dtype=dtype), w[:1])

    def test_strides_and_no_elements(self):
        w = random(4, 9, 6).transpose(1, 2)
        self.check(random(6, 5).t(), w)
        self.check(random(5, 4, 6).transpose(0, 1), w)
        self.check(random(0, 6), w)
        self.check(random(3, 6), random(0, 6, 5))

    def test_changed_weights_are_packed_again(self):
        x, w = random(8, 16), random(2, 16, 24)
        self.check(x, w)
        w[1, 3, 5] += 1
        self.check(x, w)

    def test_refusals(self):
        for x, w in ((random(3, 5), random(2, 6, 4)), (random(3, 2, 6), random(2, 6, 4)), (random(6), random(2, 6, 4)), (random(3, 6), random(6, 4))):
            with self.assertRaisesRegex(RuntimeError, "graft::batched_linear: x .* does not fit weight"):
                graft.batched_linear(x, w)


class ConvBiasAddRelu(OperatorCase):
    @staticmethod
    def reference(x, weight, bias, residual, stride, padding, dilation, groups, relu=True):
        conv = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}[x.dim()]
        y = conv(x, weight, bias, stride, padding, dilation, groups)
        y = y if residual is None else y + residual
        return y.relu() if relu else y

    def check(self, *args):
        return super().check(graft.conv_bias_add_relu, self.reference, *args)

    def test_spatial_dimensions_and_dtypes(self):
        for dtype, n in itertools.product(DTYPES, (1, 2, 3)):
            x, w = random(2, 4, *[9, 8, 7][:n], dtype=dtype), random(6, 2, *[3] * n, dtype=dtype, scale=0.2)
            out = self.check(x, w, random(6, dtype=dtype), None, [2] * n, [1] * n, [1] * n, 2)
            self.check(x, w, None, random(*out.shape, dtype=dtype), [2] * n, [1] * n, [1] * n, 2)
            self.check(x, w, None, random(*out.shape, dtype=dtype), [2] * n, [1] * n, [1] * n, 2, False)
            self.check(x, w, None, random(6, *[1] * n, dtype=dtype), [1] * n, [0] * n, [2] * n, 2)

    def test_channels_last(self):
        x = random(2, 8, 6, 6).to(memory_format=torch.channels_last)
        out = self.check(x, random(4, 8, 3, 3), random(4), random(2, 4, 6, 6), [1, 1], [1, 1], [1, 1], 1)
        self.assertTrue(out.is_contiguous(memory_format=torch.channels_last))

    def test_weights_in_channels_last_make_the_output_so(self):
        for dtype in DTYPES:
            x, w = random(2, 8, 6, 6, dtype=dtype), random(4, 8, 3, 3, dtype=dtype).to(memory_format=torch.channels_last)
            out = self.check(x, w, random(4, dtype=dtype), random(2, 4, 6, 6, dtype=dtype), [1, 1], [1, 1], [1, 1], 1)
            self.assertTrue(out.is_contiguous(memory_format=torch.channels_last))
            meta = graft.conv_bias_add_relu(x.to("meta"), w.to("meta"), None, None, [1, 1], [1, 1], [1, 1], 1)
            self.assertEqual(meta.stride(), out.stride())

    def test_kernels_in_channels_last(self):
        """Products of channels, depthwise and grouped kernels, strides and dilation, odd numbers of channels."""
        cases = (
            (8, 12, 1, 1, 0, 1, 1), (8, 12, 1, 2, 0, 1, 1), (8, 12, 1, 1, 1, 1, 1), (16, 16, 3, 1, 1, 1, 16), (16, 32, 3, 2, 1, 1, 16),
            (12, 18, 3, 1, 2, 2, 3), (3, 5, 5, 2, 2, 1, 1), (7, 1, 1, 1, 0, 1, 1), (1, 4, 3, 1, 1, 1, 1))  # fmt: skip
        for dtype, (inputs, outputs, k, stride, padding, dilation, groups) in itertools.product(DTYPES, cases):
            for n, format in ((2, torch.channels_last), (3, torch.channels_last_3d)):
                with self.subTest(dtype=dtype, case=(inputs, outputs, k), n=n):
                    x = random(2, inputs, *[9, 8, 7][:n], dtype=dtype).to(memory_format=format)
                    w = random(outputs, inputs // groups, *[k] * n, dtype=dtype, scale=0.2)
                    numbers = [stride] * n, [padding] * n, [dilation] * n, groups
                    out = self.check(x, w, random(outputs, dtype=dtype), None, *numbers, False)
                    self.check(x, w, None, random(*out.shape, dtype=dtype), *numbers)

    def test_depthwise_kernels_in_channels_last(self):
        """Images smaller and larger than a kernel and than a tile of outputs, channels that no vector divides, steps and dilation by
        rows; each with an activation and a residual."""
        cases = itertools.product((8, 16, 24, 40), ((3, 3), (5, 5), (7, 7), (1, 3), (5, 3), (4, 4)), ((1, 1), (2, 2), (2, 1)), ((1, 1), (6, 5), (9, 23)))
        for channels, kernel, stride, size in cases:
            padding = [k // 2 for k in kernel]
            with self.subTest(channels=channels, kernel=kernel, stride=stride, size=size):
                x = random(2, channels, *size).to(memory_format=torch.channels_last)
                w = random(channels, 1, *kernel, scale=0.3)
                out = self.check(x, w, random(channels), None, list(stride), padding, [1, 1], channels)
                self.check(x, w, None, random(*out.shape), list(stride), padding, [1, 1], channels, False)
                self.check(x, w, None, None, list(stride), [2 * padding[0] + 1, padding[1]], [2, 1], channels, False)
        x, w = random(1, 24, 9, 9).to(memory_format=torch.channels_last), random(24, 1, 3, 3)
        x[0, 3, 4, 4], x[0, 5, 0, 0] = float("nan"), float("inf")
        self.check(x, w, random(24), random(1, 24, 9, 9), [1, 1], [1, 1], [1, 1], 24)
        for dtype in DTYPES:
            self.check(x.nan_to_num(0, 1).to(dtype), w.to(dtype), random(24, dtype=dtype), random(1, 24, 9, 9, dtype=dtype), [1, 1], [1, 1], [1, 1], 24)

    def test_weights_larger_than_the_images(self):
        for dtype, n, k in itertools.product(DTYPES, (1, 2, 3), (1, 3)):
            x, w = random(1, 40, *[3] * n, dtype=dtype), random(48, 40, *[k] * n, dtype=dtype, scale=0.1)
            self.check(x, w, random(48, dtype=dtype), None, [1] * n, [k // 2] * n, [1] * n, 1)

    def test_one_pixel_and_no_pixel_more(self):
        for dtype in DTYPES:
            self.check(random(3, 20, 1, 1, dtype=dtype), random(7, 20, 1, 1, dtype=dtype), random(7, dtype=dtype), None, [1, 1], [0, 0], [1, 1], 1)
            self.check(random(1, 4, 3, 3, dtype=dtype), random(7, 4, 3, 3, dtype=dtype), None, None, [1, 1], [0, 0], [1, 1], 1)

    def test_strided_images(self):
        x = random(2, 7, 8, 6).transpose(1, 3)[:, :, ::2]  # [2, 6, 4, 7]
        w = random(4, 6, 3, 3)
        for format in (torch.contiguous_format, torch.channels_last):
            self.check(x, w.to(memory_format=format), random(4), random(4, 1, 7), [1, 1], [1, 1], [1, 1], 1)
        self.check(x, random(4, 6, 1, 1).to(memory_format=torch.channels_last), None, None, [1, 1], [0, 0], [1, 1], 1)

    def test_images_of_many_sizes_share_a_weight(self):
        w = random(24, 12, 3, 3, scale=0.1)
        for stride in ([1, 1], [2, 2]):
            for size in (5, 40, 6, 65, 33, 7, 5, 12, 40):
                x = random(1 + size % 3, 12, size, size + 2).to(memory_format=torch.channels_last)
                self.check(x, w, random(24), None, stride, [1, 1], [1, 1], 1)
        wide = random(24, 12, 1, 1)
        self.check(random(1, 12, 5, 5).to(memory_format=torch.channels_last), wide, None, None, [2, 2], [0, 0], [1, 1], 1)
        self.check(random(1, 24, 5, 5).to(memory_format=torch.channels_last), wide, None, None, [2, 2], [0, 0], [1, 1], 2)  # other groups

    def test_changed_weights_are_packed_again(self):
        x = random(1, 16, 6, 6).to(memory_format=torch.channels_last)
        for k in (1, 3):
            w = random(16, 16, k, k)
            args = [1, 1], [k // 2, k // 2], [1, 1], 1
            self.check(x, w, None, None, *args)
            w[3, 5, 0, 0] += 1  # one element, which the version tells
            self.check(x, w, None, None, *args)
            w.data.mul_(2)  # all elements, which no version tells
            self.check(x, w, None, None, *args)

    def test_packed_copies_are_freed_with_their_weights(self):
        library.graft_ops_packed_bytes.restype = ctypes.c_int64
        library.graft_ops_forget_weights()
        x = random(1, 16, 6, 6).to(memory_format=torch.channels_last)
        run = lambda: graft.conv_bias_add_relu(x, random(16, 16, 3, 3), None, None, [1, 1], [1, 1], [1, 1], 1)
        run()
        once = library.graft_ops_packed_bytes()
        self.assertGreater(once, 0)
        for _ in range(5):
            run()
        self.assertEqual(library.graft_ops_packed_bytes(), once)

    def test_weights_of_inference_mode_are_not_packed(self):
        library.graft_ops_packed_bytes.restype = ctypes.c_int64
        library.graft_ops_forget_weights()
        with torch.inference_mode():
            w = random(16, 16, 3, 3)
            self.check(random(1, 16, 6, 6).to(memory_format=torch.channels_last), w, None, None, [1, 1], [1, 1], [1, 1], 1)
        self.assertEqual(library.graft_ops_packed_bytes(), 0)

    def test_nan_and_infinity_in_channels_last(self):
        for k, value in itertools.product((1, 3), (torch.nan, torch.inf, -torch.inf)):
            x = random(1, 8, 5, 5).to(memory_format=torch.channels_last)
            x[0, 2, 2, 2] = value
            self.check(x, random(6, 8, k, k), None, random(1, 6, 5, 5), [1, 1], [k // 2, k // 2], [1, 1], 1)

    def test_empty_batch(self):
        self.check(random(0, 4, 6, 6), random(4, 4, 3, 3), None, None, [1, 1], [1, 1], [1, 1], 1)

    def test_nan_passes_relu(self):
        x = random(1, 2, 5, 5)
        x[0, 0, 2, 2] = torch.nan
        self.check(x, random(3, 2, 3, 3), None, random(1, 3, 5, 5), [1, 1], [1, 1], [1, 1], 1)

    def test_refusals(self):
        with self.assertRaisesRegex(RuntimeError, "do not fit together"):
            graft.conv_bias_add_relu(random(1, 3, 5, 5), random(4, 2, 3, 3), None, None, [1, 1], [0, 0], [1, 1], 1)
        with self.assertRaisesRegex(RuntimeError, "larger than the padded x"):
            graft.conv_bias_add_relu(random(1, 2, 2, 2), random(4, 2, 3, 3), None, None, [1, 1], [0, 0], [1, 1], 1)


class ConvActivation(OperatorCase):
    ACTIVATIONS = {
        "none": lambda y, a, b: y, "relu": lambda y, a, b: y.relu(), "gelu": lambda y, a, b: F.gelu(y),
        "gelu_tanh": lambda y, a, b: F.gelu(y, approximate="tanh"), "silu": lambda y, a, b: F.silu(y),
        "sigmoid": lambda y, a, b: y.sigmoid(), "tanh": lambda y, a, b: y.tanh(), "hardswish": lambda y, a, b: F.hardswish(y),
        "hardsigmoid": lambda y, a, b: F.hardsigmoid(y), "hardtanh": lambda y, a, b: y.clamp(a, b),
        "leaky_relu": lambda y, a, b: F.leaky_relu(y, a)}  # fmt: skip

    @classmethod
    def reference(cls, x, weight, bias, residual, stride, padding, dilation, groups, activation, alpha=0.0, beta=0.0):
        y = ConvBiasAddRelu.reference(x, weight, bias, residual, stride, padding, dilation, groups, False)
        return cls.ACTIVATIONS[activation](y, alpha, beta)

    def check(self, *args):
        return super().check(graft.conv_activation, self.reference, *args)

    def test_activations_and_dtypes(self):
        for dtype, activation, k, format in itertools.product(
            DTYPES, self.ACTIVATIONS, (1, 3), (torch.contiguous_format, torch.channels_last)):  # fmt: skip
            with self.subTest(dtype=dtype, activation=activation, k=k, format=format):
                x = random(2, 6, 7, 6, dtype=dtype).to(memory_format=format)
                w = random(10, 6, k, k, dtype=dtype, scale=0.5)
                rest = [1, 1], [k // 2] * 2, [1, 1], 1, activation, 0.125, 1.5
                out = self.check(x, w, random(10, dtype=dtype), None, *rest)
                self.check(x, w, None, random(*out.shape, dtype=dtype), *rest)

    def test_many_pixels_of_one_product(self):
        for activation in self.ACTIVATIONS:
            x = random(1, 32, 20, 20).to(memory_format=torch.channels_last)
            self.check(x, random(48, 32, 1, 1, scale=0.2), random(48), None, [1, 1], [0, 0], [1, 1], 1, activation, -0.5, 0.5)

    def test_other_dimensions(self):
        for n, activation in itertools.product((1, 3), self.ACTIVATIONS):
            x, w = random(2, 4, *[6] * n), random(6, 2, *[3] * n, scale=0.3)
            self.check(x, w, random(6), None, [2] * n, [1] * n, [1] * n, 2, activation, -1.0, 1.0)

    def test_extreme_values(self):
        """The convolution passes values through: NaN, infinities, zeros and large numbers reach each activation."""
        values = [torch.nan, torch.inf, -torch.inf, 0.0, -0.0, 1e-30, -1e-30, 88.0, -88.0, 100.0, -100.0, 1e30, -1e30, 3.0, -3.0, 0.2, -0.2]
        x = torch.tensor(values).view(1, 1, 1, -1)
        for activation, dtype in itertools.product(self.ACTIVATIONS, (torch.float32, torch.bfloat16)):
            for at in ([1, 1], [1, 2]):
                with self.subTest(activation=activation, dtype=dtype, stride=at):
                    self.check(x.to(dtype), torch.ones(1, 1, 1, 1, dtype=dtype), None, None, at, [0, 0], [1, 1], 1, activation, -2.0, 2.0)

    def test_refusals(self):
        args = [1, 1], [0, 0], [1, 1], 1
        with self.assertRaisesRegex(RuntimeError, "unknown activation 'mish'; known are none, relu"):
            graft.conv_activation(random(1, 2, 5, 5), random(4, 2, 3, 3), None, None, *args, "mish")
        with self.assertRaisesRegex(RuntimeError, "graft::conv_activation: x .* do not fit together"):
            graft.conv_activation(random(1, 3, 5, 5), random(4, 2, 3, 3), None, None, *args, "silu")


def samples(requires_grad=False):
    def t(*shape):
        return random(*shape, scale=0.5).requires_grad_(requires_grad)

    ids = torch.randint(9, (2, 5))
    program = ("generated 1\ngraph tanh_mul {\n  input %x : f32[3,4]\n  input %w : f32[4]\n  %t = aten.tanh.default(%x) : f32[3,4]\n"
               "  %m = aten.mul.Tensor(%t, %w) : f32[3,4]\n  return %m, %t\n}\n")
    return {
        "generated": (([t(3, 4), t(4)], program), {}),
        "attention": ((t(2, 4, 5, 8), t(2, 2, 7, 8), t(2, 2, 7, 8), t(2, 1, 5, 7)), dict(causal=True)),
        "linear": ((t(2, 5, 8), t(6, 8), t(6)), dict(activation="gelu", residual=t(2, 5, 6))),
        "qkv_projection": ((t(2, 5, 8), t(32, 8), t(32)), dict(heads=4, kv_heads=2)),
        "add_layer_norm": ((t(2, 5, 8), t(2, 5, 8), t(8), t(8), 1e-5), dict(input_bias=t(8))),
        "linear_add_layer_norm": ((t(2, 5, 8), t(6, 8), t(6), t(2, 5, 6), t(6), t(6)), {}),
        "linear_norm_linear": ((t(2, 5, 8), t(6, 8), t(6), t(2, 5, 6), t(6), t(6), t(10, 6), t(10)), dict(activation="gelu")),
        "attention_norm_linear": (
            (t(2, 4, 5, 8), t(2, 2, 7, 8), t(2, 2, 7, 8), t(2, 1, 5, 7), t(6, 32), t(6), t(2, 5, 6), t(6), t(6), t(10, 6), t(10)),
            dict(causal=True, activation="gelu")),
        "add_rms_norm": ((t(2, 5, 8), t(2, 5, 8), t(8)), {}),
        "masked_softmax": ((t(2, 5, 8), t(5, 8)), dict(scale=0.5)),
        "rotary_embedding": ((t(2, 4, 5, 8), t(2, 2, 5, 8), t(5, 8), t(5, 8)), {}),
        "swiglu": ((t(3, 8), t(3, 8)), {}),
        "batched_linear": ((t(5, 8), t(3, 8, 6)), {}),
        "embedding_layer_norm": (([ids, ids[:1]], [t(9, 8), t(9, 8)], t(8), t(8)), {}),
        "conv_activation": (
            (t(2, 4, 6, 6), t(6, 2, 3, 3), t(6), t(2, 6, 6, 6), [1, 1], [1, 1], [1, 1], 2), dict(activation="silu")),  # fmt: skip
        "conv_bias_add_relu": ((t(2, 4, 6, 6), t(6, 2, 3, 3), t(6), t(2, 6, 6, 6), [1, 1], [1, 1], [1, 1], 2), {}),
    }


class Library(unittest.TestCase):
    def test_opcheck(self):
        for name, (args, kwargs) in samples().items():
            with self.subTest(operator=name):
                torch.library.opcheck(getattr(graft, name).default, args, kwargs)

    def test_gradients_flow_through_the_composite(self):
        for name, (args, kwargs) in samples(requires_grad=True).items():
            with self.subTest(operator=name):
                double = lambda v: [double(x) for x in v] if isinstance(v, list) else (
                    v.detach().double().requires_grad_() if torch.is_tensor(v) and v.is_floating_point() else v)
                args2, kwargs2 = [double(a) for a in args], {k: double(v) for k, v in kwargs.items()}
                leaves = [v for v in torch.utils._pytree.tree_leaves((args2, kwargs2)) if torch.is_tensor(v) and v.requires_grad]
                self.assertTrue(torch.autograd.gradcheck(lambda *_: getattr(graft, name)(*args2, **kwargs2), leaves, fast_mode=True))

    def test_gradients_are_refused_nowhere_and_values_agree(self):
        for name, (args, kwargs) in samples(requires_grad=True).items():
            with self.subTest(operator=name):
                with_grad = torch.utils._pytree.tree_leaves(getattr(graft, name)(*args, **kwargs))
                with torch.no_grad():
                    without = torch.utils._pytree.tree_leaves(getattr(graft, name)(*args, **kwargs))
                for a, b in zip(with_grad, without):
                    torch.testing.assert_close(a, b)
                    self.assertEqual(a.stride(), b.stride())

    def test_description_lists_every_operator(self):
        listed = {entry["name"]: entry for entry in json.loads(library.graft_ops_describe())}
        self.assertEqual(set(samples()), set(listed))
        for entry in listed.values():
            self.assertTrue(entry["doc"] and entry["needs"] and entry["schema"].startswith(entry["name"] + "("))
            self.assertLessEqual({"cpu", "meta"}, set(entry["runs_on"]))

    def test_cuda_status_explains(self):
        status = library.graft_ops_cuda_status().decode()
        cuda = all("cuda" in entry["runs_on"] for entry in json.loads(library.graft_ops_describe()))
        self.assertEqual(status == "", cuda, status)

    def test_torchscript_saves_and_loads(self):
        import io

        class Block(torch.nn.Module):
            def forward(self, x, w):
                return torch.ops.graft.linear(x, w, None, activation="silu")

        buffer = io.BytesIO()
        torch.jit.save(torch.jit.script(Block()), buffer)
        buffer.seek(0)
        x, w = random(3, 8), random(5, 8)
        torch.testing.assert_close(torch.jit.load(buffer)(x, w), F.silu(F.linear(x, w)))


if __name__ == "__main__":
    # --operators: the classes that test one operator each, without the library's own.
    arguments = [c.__name__ for c in OperatorCase.__subclasses__()] if "--operators" in sys.argv else []
    unittest.main(argv=[a for a in sys.argv if a != "--operators"] + arguments)
