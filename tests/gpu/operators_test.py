"""Compares every CUDA operator with the fp64 result of its plain formula, on random inputs (a new seed each run) and edge cases.

    python tests/gpu/operators_test.py build/lib/libgraft_ops.so [--only linear] [--quick]

Tolerances are those of torch.testing.assert_close for each dtype. Where values cancel in a sum, the absolute tolerance is scaled with
the reduction: |out - ref| <= atol * scale + rtol * |ref|. Before each case the caching allocator's free memory is filled with NaN, so
that an output element which a kernel does not write is NaN. Without a GPU it prints "skipped: no GPU" and exits 77.
"""
import argparse
import math
import sys

import torch
import torch.nn.functional as F

RTOL = {torch.float64: 1e-10, torch.float32: 1.3e-6, torch.float16: 1e-3, torch.bfloat16: 1.6e-2}
failures, cases = [], 0
only, quick = None, False


CONV_ACTIVATIONS = {
    "none": lambda t: t, "relu": F.relu, "gelu": F.gelu, "gelu_tanh": lambda t: F.gelu(t, approximate="tanh"), "silu": F.silu,
    "sigmoid": torch.sigmoid, "tanh": torch.tanh, "hardswish": F.hardswish, "hardsigmoid": F.hardsigmoid,
    "hardtanh": lambda t: t.clamp(-0.5, 2), "leaky_relu": lambda t: F.leaky_relu(t, -0.5)}


def poison():
    for size in (1 << 24, 1 << 20, 1 << 16, 1 << 12):
        junk = [torch.full((size,), float("nan"), device="cuda") for _ in range(2)]
        del junk


def check(name, out, ref, dtype, atol=1e-5, scale=1.0):
    """scale: the magnitude of the terms that cancel in a sum, times the square root of their number."""
    global cases
    cases += 1
    out64, ref64 = out.detach().double(), ref.double()
    if out.shape != ref.shape:
        failures.append(f"{name}: shape {tuple(out.shape)} != {tuple(ref.shape)}")
        return
    if out.dtype != dtype:
        failures.append(f"{name}: dtype {out.dtype} != {dtype}")
        return
    if not torch.equal(out64.isnan(), ref64.isnan()):
        failures.append(f"{name}: NaN in other places ({int(out64.isnan().sum())} vs {int(ref64.isnan().sum())})")
        return
    rtol = RTOL[dtype]
    bound = atol * scale + rtol * ref64.abs()
    same = (out64 == ref64) | ref64.isnan()
    error = torch.where(same, torch.zeros_like(ref64), (out64 - ref64).abs())
    bad = error > bound
    if bad.any():
        i = (error / bound).flatten().argmax().item()
        failures.append(f"{name}: {int(bad.sum())}/{bad.numel()} off, worst {out64.flatten()[i]:.6g} vs {ref64.flatten()[i]:.6g}")


def rand(*shape, dtype, scale=1.0):
    return (torch.randn(*shape, device="cuda", dtype=torch.float32) * scale).to(dtype)


def activation64(y, name):
    return {"none": lambda t: t, "relu": F.relu, "gelu": F.gelu, "gelu_tanh": lambda t: F.gelu(t, approximate="tanh"),
            "silu": F.silu}[name](y)


def linear64(x, w, b, act, r):
    y = x.double() @ w.double().t()
    if b is not None:
        y = y + b.double()
    y = activation64(y, act)
    return y if r is None else y + r.double()


def test_linear(dtype):
    ops = torch.ops.graft
    shapes = [(1, 8, 8), (16, 768, 768), (128, 768, 2304), (100, 3072, 768), (128, 768, 3072), (513, 768, 768), (1024, 768, 3072),
              (3, 40, 72), (257, 72, 200), (129, 200, 136), (5, 7, 9), (64, 65, 33), (0, 64, 64), (4096, 768, 2304)]
    for m, k, n in shapes:
        for act in ("none", "gelu") if m > 600 else ("none", "relu", "gelu", "gelu_tanh", "silu"):
            for bias in (True, False):
                for res in (True, False):
                    if quick and (bias != res):
                        continue
                    x, w = rand(m, k, dtype=dtype), rand(n, k, dtype=dtype, scale=1 / math.sqrt(max(k, 1)))
                    b = rand(n, dtype=dtype) if bias else None
                    r = rand(m, n, dtype=dtype) if res else None
                    poison()
                    y = ops.linear(x, w, b, activation=act, residual=r)
                    # With cuBLASLt the product is rounded once more, before our epilogue: an ulp of the largest intermediate.
                    twice = m * n * k and (act != "none" or res) and "cublaslt" in ops.cuda_linear_algorithm(x, w, b, activation=act, residual=r)
                    check(f"linear {m}x{k}x{n} {act} bias={bias} residual={res} {dtype}", y, linear64(x, w, b, act, r), dtype,
                          scale=1 if dtype == torch.float32 else 6e5 * RTOL[dtype] if twice or (n | k) % 8 or not n * k else 20)
    x = rand(4, 50, 2 * 64, dtype=dtype)[:, :, :64]
    w = rand(96, 64, dtype=dtype)
    check(f"linear strided {dtype}", ops.linear(x, w), linear64(x, w, None, "none", None), dtype, scale=100)
    xt = rand(64, 50, dtype=dtype).t()
    check(f"linear transposed {dtype}", ops.linear(xt, w), linear64(xt, w, None, "none", None), dtype, scale=100)
    r1 = rand(96, dtype=dtype)
    twice = "cublaslt" in ops.cuda_linear_algorithm(x, w, None, activation="none", residual=r1)
    check(f"linear broadcast residual {dtype}", ops.linear(x, w, residual=r1), linear64(x, w, None, "none", r1), dtype,
          scale=6e5 * RTOL[dtype] if twice and dtype != torch.float32 else 100)
    e = torch.empty(5, 0, device="cuda", dtype=dtype)
    check(f"linear k=0 {dtype}", ops.linear(e, torch.empty(96, 0, device="cuda", dtype=dtype), r1, activation="gelu"),
          activation64(r1.double(), "gelu").expand(5, 96), dtype)
    try:
        ops.linear(x, w, activation="tanh")
        failures.append("linear: unknown activation accepted")
    except RuntimeError as error:
        if "activation" not in str(error):
            failures.append(f"linear: unclear refusal {error}")


def test_linear_algorithms(dtype):
    """Each GEMM algorithm by name, on shapes that exercise its edges."""
    if dtype == torch.float32:
        return
    ops = torch.ops.graft
    algorithms = [a for a in ops.cuda_linear_algorithms().split() if not a.startswith("cublaslt") or a.endswith(("-0", "-1"))]
    for m, k, n in [(16, 768, 768), (32, 768, 200), (7, 3072, 768), (16, 1024, 24), (30, 2048, 96), (128, 768, 2304), (200, 1032, 200), (1, 520, 8), (300, 3072, 768), (1000, 768, 3072), (2500, 768, 768)]:
        x, w = rand(m, k, dtype=dtype), rand(n, k, dtype=dtype, scale=1 / math.sqrt(k))
        b, r = rand(n, dtype=dtype), rand(m, n, dtype=dtype)
        for algorithm in algorithms:
            for act, bb, rr in (("gelu", b, r), ("none", None, None), ("none", b, r), ("gelu", b, None)):
                poison()
                y = ops.cuda_linear_by(x, w, bb, activation=act, residual=rr, algorithm=algorithm)
                if y is None:
                    continue
                # With cuBLASLt the product is rounded once more, before our epilogue: an ulp of the largest intermediate.
                scale = 20 if not algorithm.startswith("cublaslt") else 6e5 * RTOL[dtype]
                check(f"{algorithm} {m}x{k}x{n} {act} {dtype}", y, linear64(x, w, bb, act, rr), dtype, scale=scale)
                if not algorithm.startswith("cublaslt"):
                    again = ops.cuda_linear_by(x, w, bb, activation=act, residual=rr, algorithm=algorithm)
                    if not torch.equal(again, y):
                        failures.append(f"{algorithm} {m}x{k}x{n} {act} {dtype}: differs from run to run")


def attention64(q, k, v, mask, scale, causal):
    q, k, v = q.double(), k.double(), v.double()
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    s = q @ k.transpose(-1, -2) * scale
    if mask is not None:
        s = s.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else s + mask.double()
    if causal:
        s = s.masked_fill(~torch.ones(s.shape[-2:], dtype=torch.bool, device="cuda").tril(), -math.inf)
    dead = (s == -math.inf).all(-1, keepdim=True)
    return torch.where(dead, torch.zeros_like(s), torch.softmax(s, -1)) @ v


def test_attention(dtype):
    ops = torch.ops.graft
    shapes = [(1, 12, 12, 16, 16, 64), (2, 12, 12, 128, 128, 64), (1, 12, 12, 512, 512, 64), (2, 3, 1, 77, 130, 64),
              (1, 8, 2, 65, 300, 128), (3, 4, 4, 33, 33, 32), (1, 2, 2, 200, 50, 96), (1, 2, 2, 5, 7, 40), (2, 2, 2, 1, 1, 64),
              (0, 2, 2, 16, 16, 64), (1, 2, 2, 17, 19, 33), (8, 12, 12, 197, 197, 64), (40, 12, 12, 128, 128, 64),
              (1, 2, 2, 9, 9, 512)] + [(2, 8, 4, 130, 200, d) for d in (48, 56, 72, 80, 88, 104, 112, 120, 128, 136, 192, 256)]
    shapes += [(1, 4, 1, 128, 128, 256), (1, 2, 2, 19, 300, 256)]
    tol = {torch.float32: 1.0, torch.float16: 60.0, torch.bfloat16: 500.0}[dtype]  # the weights are rounded to the half type
    lowest = torch.finfo(dtype).min
    for b, h, hk, s, t, d in shapes:
        masks = {"none": None, "key": "key", "key bool": "kb", "full": "full", "rows": "rows", "full bool": "fb", "lowest": "lowest", "float": "f32",
                 "left": "left", "float left": "fl", "query": "query", "double": "f64", "flat": "flat", "strided": "strided"}
        for name, kind in masks.items():
            for causal in (False, True):
                if quick and causal and name not in ("none", "key", "rows", "left"):
                    continue
                q, k, v = rand(b, s, h, d, dtype=dtype).transpose(1, 2), rand(b, t, hk, d, dtype=dtype).transpose(1, 2), \
                    rand(b, t, hk, d, dtype=dtype).transpose(1, 2)
                mask = None
                if kind == "key":
                    mask = torch.where(torch.rand(b, 1, 1, t, device="cuda") < 0.3, -math.inf, 0.0).to(dtype)
                elif kind == "lowest":
                    mask = torch.zeros(b, 1, 1, t, device="cuda", dtype=dtype)
                    mask[..., t // 2:] = lowest
                elif kind == "left":  # hides whole tiles and whole rows: even attention, no row of zeros
                    mask = torch.zeros(b, 1, 1, t, device="cuda", dtype=dtype)
                    mask[..., : t * 2 // 3] = lowest
                    mask[: b // 2] = lowest
                elif kind == "fl":
                    mask = torch.zeros(b, 1, 1, t, device="cuda")
                    mask[..., : t * 2 // 3] = -1e9
                    mask[: b // 2] = -3e38
                elif kind == "query":  # the same for all keys
                    mask = rand(b, 1, s, 1, dtype=dtype)
                elif kind == "f64":
                    mask = rand(1, 1, 1, t, dtype=torch.float64)
                elif kind == "flat":
                    mask = rand(t, dtype=dtype)
                elif kind == "strided":
                    mask = rand(b, t, s, dtype=dtype).transpose(1, 2)[:, None]
                elif kind == "kb":
                    mask = torch.rand(b, 1, 1, t, device="cuda") < 0.7
                    if b > 1:
                        mask[0] = False  # fully masked
                elif kind == "full":
                    mask = rand(b, h, s, t, dtype=dtype)
                elif kind == "rows":  # for all heads, rows of -inf and of the lowest value among them
                    mask = torch.where(torch.rand(b, 1, s, t, device="cuda") < 0.3, -math.inf, 1.0).to(dtype)
                    mask[:, :, :: 7] = -math.inf
                    mask[:, :, 1:: 9] = 0
                    mask[:, :, 1:: 9, t // 2:] = lowest
                    mask[:, :, 2:: 9] = lowest
                elif kind == "fb":
                    mask = torch.rand(1, h, s, t, device="cuda") < 0.6
                    mask[:, :, 0] = False
                elif kind == "f32":
                    mask = rand(s, t, dtype=torch.float32)
                poison()
                y = ops.attention(q, k, v, mask, scale=0.11, causal=causal)
                # Added to fp16's lowest value, a score keeps steps of 2^-8 in fp32, which decide the weights of such rows.
                coarse = 1000 if dtype == torch.float16 and name in ("rows", "left") else 0
                check(f"attention {(b, h, hk, s, t, d)} mask={name} causal={causal} {dtype}", y,
                      attention64(q, k, v, mask, 0.11, causal), dtype, scale=max(tol, coarse))
                if not y.transpose(1, 2).is_contiguous():
                    failures.append(f"attention {(b, h, s, d)}: output memory is not [batch, length, heads, head size]")
    q, k, v = (rand(2, 4, 20, 64, dtype=dtype) for _ in range(3))
    check(f"attention default scale {dtype}", ops.attention(q, k, v), attention64(q, k, v, None, 0.125, False), dtype, scale=tol)
    q, k, v = (rand(4, 20, 64, dtype=dtype) for _ in range(3))
    check(f"attention 3-d {dtype}", ops.attention(q, k, v),
          attention64(q[:, None], k[:, None], v[:, None], None, 0.125, False)[:, 0], dtype, scale=tol)
    for b, h, s, t, d in ((3, 12, 16, 16, 64), (4, 12, 130, 200, 64), (3, 4, 100, 300, 128), (2, 4, 7, 9, 33)):  # one sample for all
        q, k, v = rand(b, h, s, d, dtype=dtype), rand(b, h, t, d, dtype=dtype), rand(b, h, t, d, dtype=dtype)
        mask = rand(b, 1, 1, t, dtype=dtype)
        for name, (q, k, v) in {"q": (q[:1], k, v), "k and v": (q, k[:1], v[:1]), "all": (q[:1], k[:1], v[:1])}.items():
            for m in (mask,) if name == "all" else (None, mask):
                check(f"attention {(b, h, s, t, d)} one sample of {name} mask={m is not None} {dtype}", ops.attention(q, k, v, m),
                      attention64(q, k, v, m, d**-0.5, False), dtype, scale=tol)
    q, k, v = (rand(2, 4, 64, 20, dtype=dtype).transpose(2, 3) for _ in range(3))
    check(f"attention transposed head {dtype}", ops.attention(q, k, v), attention64(q, k, v, None, 0.125, False), dtype, scale=tol)


def test_qkv(dtype):
    x, w, b = rand(2, 33, 96, dtype=dtype), rand(8 * 32, 96, dtype=dtype, scale=0.1), rand(8 * 32, dtype=dtype)
    ref = linear64(x, w, b, "none", None).view(2, 33, 8, 32).transpose(1, 2)
    for out, part in zip(torch.ops.graft.qkv_projection(x, w, b, heads=4, kv_heads=2), (ref[:, :4], ref[:, 4:6], ref[:, 6:])):
        check(f"qkv {dtype}", out, part, dtype, scale=20)
    for out, heads in zip(torch.ops.graft.qkv_projection(x[:0], w, b, heads=4, kv_heads=2), (4, 2, 2)):
        check(f"qkv batch 0 {dtype}", out, torch.zeros(0, heads, 33, 32, device="cuda"), dtype)


def test_norms(dtype):
    ops = torch.ops.graft
    for rows, n in [(1, 768), (16, 768), (4096, 768), (7, 1), (5, 3), (33, 100), (9, 129), (3, 1024), (2000, 1024), (2, 2048),
                    (3, 4096), (2, 8192), (2, 10000), (4, 384), (2000, 257), (0, 768), (6, 64), (1030, 512)]:
        for full in (True, False):
            x = rand(rows, n, dtype=dtype) * 3 + 1
            r = rand(rows, n, dtype=dtype) if full else None
            w, b, ib = (rand(n, dtype=dtype) if full else None for _ in range(3))
            z = x.double() + (ib.double() + r.double() if full else 0)
            ref = F.layer_norm(z, (n,), w.double() if full else None, b.double() if full else None, 1e-5)
            poison()
            check(f"layer norm {rows}x{n} full={full} {dtype}", ops.add_layer_norm(x, r, w, b, 1e-5, input_bias=ib), ref, dtype,
                  scale=10)
            z = x.double() + (r.double() if full else 0)
            poison()
            normed, total = ops.add_rms_norm(x, r, w, 1e-6)
            check(f"rms sum {rows}x{n} full={full} {dtype}", total, z, dtype)
            z = total.double()
            ref = z * torch.rsqrt((z * z).mean(-1, keepdim=True) + 1e-6) * (w.double() if full else 1)
            check(f"rms norm {rows}x{n} full={full} {dtype}", normed, ref, dtype, scale=2)
    x = rand(4, 6, 128, dtype=dtype).transpose(0, 1)
    check(f"layer norm strided {dtype}", ops.add_layer_norm(x, None, None, None), F.layer_norm(x.double(), (128,)), dtype, scale=2)
    x = rand(4, 6, 256, dtype=dtype)[..., :128]
    r = rand(128, dtype=dtype)
    check(f"layer norm sliced, broadcast residual {dtype}", ops.add_layer_norm(x, r, None, None),
          F.layer_norm(x.double() + r.double(), (128,)), dtype, scale=2)
    words, places = rand(100, 96, dtype=dtype), rand(30, 96, dtype=dtype)
    ids, at = torch.randint(100, (3, 20), device="cuda"), torch.arange(20, device="cuda", dtype=torch.int32)
    w, b = rand(96, dtype=dtype), rand(96, dtype=dtype)
    check(f"embedding norm {dtype}", ops.embedding_layer_norm([ids, at], [words, places], w, b, 1e-5),
          F.layer_norm(words[ids].double() + places[at.long()].double(), (96,), w.double(), b.double()), dtype, scale=5)
    check(f"embedding norm batch 0 {dtype}", ops.embedding_layer_norm([ids[:0]], [words], w, b), words[ids[:0]].double(), dtype)
    big = rand(50, 2500, dtype=dtype)
    check(f"embedding norm wide {dtype}", ops.embedding_layer_norm([ids[0] % 50], [big], None, None),
          F.layer_norm(big[ids[0] % 50].double(), (2500,)), dtype, scale=5)


def test_linear_norm(dtype):
    ops = torch.ops.graft
    for rows, more in (((1, 16), (3, 16)), ((3, 1), (3, 16)), ((64,), (2, 64))):  # the residual has more rows
        x, w, r = rand(*rows, 96, dtype=dtype), rand(768, 96, dtype=dtype) * 0.1, rand(*more, 768, dtype=dtype)
        product = x.double() @ w.double().T
        check(f"linear {rows} and a residual {more} {dtype}", ops.linear(x, w, None, residual=r), product + r.double(), dtype, scale=100)
        z, normed = F.layer_norm(product + r.double(), (768,)), ops.linear_add_layer_norm(x, w, None, r, None, None)
        check(f"linear layer norm {rows} and a residual {more} {dtype}", normed, z, dtype, atol=max(3e-4, 8 * torch.finfo(dtype).eps * 6))
        if ops.linear_norm_linear(x, w, None, r, None, None, w.T.contiguous(), None)[1].shape != torch.Size((*more, 96)):
            failures.append(f"linear norm linear {rows} and a residual {more} {dtype}")
        y = rand(*rows, 768, dtype=dtype)
        sum64 = y.double() + r.double()
        check(f"layer norm {rows} and a residual {more} {dtype}", ops.add_layer_norm(y, r, None, None), F.layer_norm(sum64, (768,)), dtype, scale=2)
        check(f"rms norm {rows} and a residual {more} {dtype}", ops.add_rms_norm(y, r, None)[0], F.rms_norm(sum64, (768,), eps=1e-6), dtype, scale=2,
              atol=4 * torch.finfo(dtype).eps)
        check(f"swiglu {rows} and {more} {dtype}", ops.swiglu(y, r), F.silu(y.double()) * r.double(), dtype, scale=4)
    for rows, n, k in [(1, 768, 768), (16, 768, 3072), (300, 768, 768), (1024, 768, 3072), (5, 129, 100), (7, 1024, 64), (4096, 768, 768),
                       (33, 2048, 96), (0, 768, 64), (9, 64, 0), (130, 8, 8)]:
        for full in (True, False):
            x, w, r = rand(rows, k, dtype=dtype), rand(n, k, dtype=dtype) * 0.1, rand(rows, n, dtype=dtype) * 3 + 1
            b, nw, nb = (rand(n, dtype=dtype) if full else None for _ in range(3))
            if not full:
                r = r[:1] * 0 + rand(n, dtype=dtype)
            z = x.double() @ w.double().T + (b.double() if full else 0) + r.double()
            ref = F.layer_norm(z, (n,), nw.double() if full else None, nb.double() if full else None, 1e-5)
            poison()
            # Rounded once between product and norm, which magnifies small sums.
            between = max(3e-4, 8 * torch.finfo(dtype).eps * float(ref.abs().max())) if rows else 0.0
            check(f"linear layer norm {rows}x{k}x{n} full={full} {dtype}", ops.linear_add_layer_norm(x, w, b, r, nw, nb), ref, dtype,
                  atol=between, scale=1)


def norm_linear64(z, nw, nb, w, b, act):
    """normed and out in fp64, and the magnitude of normed's rounding errors after they are summed in the second product."""
    normed = F.layer_norm(z, z.shape[-1:], None if nw is None else nw.double(), None if nb is None else nb.double(), 1e-5)
    noise = math.sqrt(w.shape[1]) * float(w.double().square().mean().sqrt()) * max(1.0, float(normed.square().mean().sqrt())) if z.numel() else 0.0
    return normed, linear64(normed, w, b, act, None), noise


def test_norm_linear(dtype):
    """From a few rows, which run in one kernel, to many. Each sum is rounded before its norm, which magnifies small sums."""
    ops, eps = torch.ops.graft, torch.finfo(dtype).eps
    for rows, k, n, n2 in [(1, 768, 768, 3072), (16, 3072, 768, 2304), (16, 768, 768, 3072), (5, 520, 384, 1536), (17, 768, 768, 2304), (32, 1024, 1024, 4096),
                           (9, 64, 72, 40), (3, 768, 768, 10), (16, 2048, 512, 512), (33, 768, 768, 768), (300, 768, 768, 64), (0, 64, 64, 64), (7, 9, 15, 11)]:
        for full, act, mean in ((True, "gelu", 1.0), (False, "none", 0.0), (True, "none", 20.0)):
            x, w, r = rand(rows, k, dtype=dtype), rand(n, k, dtype=dtype, scale=1 / math.sqrt(k)), (rand(rows, n, dtype=dtype) * 3 + mean)
            b, nw, nb = (rand(n, dtype=dtype) if full else None for _ in range(3))
            w2, b2 = rand(n2, n, dtype=dtype, scale=1 / math.sqrt(n)), rand(n2, dtype=dtype) if full else None
            z = linear64(x, w, b, "none", r)
            normed, out, noise = norm_linear64(z, nw, nb, w2, b2, act)
            poison()
            ours = ops.linear_norm_linear(x, w, b, r, nw, nb, w2, b2, activation=act)
            between = 8 * eps * max(1.0, float(normed.abs().max()), mean) if rows else 0.0
            name = f"linear norm linear {rows}x{k}x{n}x{n2} {act} mean={mean} {dtype}"
            check(name + " normed", ours[0], normed, dtype, atol=between, scale=1)
            check(name, ours[1], out, dtype, atol=8 * eps * noise * max(1.0, mean / 3) + 1e-5, scale=1)
            again = ops.linear_norm_linear(x, w, b, r, nw, nb, w2, b2, activation=act)
            if not (torch.equal(again[0], ours[0]) and torch.equal(again[1], ours[1])):
                failures.append(f"{name}: differs from run to run")
    # A row of equal numbers has deviation 0: its norm is the bias, however small eps is.
    x, w, r = rand(4, 768, dtype=dtype) * 0, rand(768, 768, dtype=dtype), torch.full((4, 768), 3.0, dtype=dtype, device="cuda")
    nb, w2 = rand(768, dtype=dtype), rand(64, 768, dtype=dtype, scale=0.03)
    ours = ops.linear_norm_linear(x, w, None, r, None, nb, w2, None, 1e-12)
    check(f"linear norm linear, equal numbers {dtype}", ours[1], nb.double().expand(4, 768) @ w2.double().T, dtype, atol=0.03, scale=1)


def test_attention_norm_linear(dtype):
    ops, eps = torch.ops.graft, torch.finfo(dtype).eps
    for b, h, hk, s, t, d in [(1, 12, 12, 16, 16, 64), (1, 12, 12, 1, 1, 64), (3, 4, 4, 7, 7, 32), (2, 8, 2, 1, 32, 64), (1, 16, 16, 9, 20, 64), (2, 12, 4, 16, 31, 32),
                              (1, 12, 12, 17, 17, 64), (2, 6, 6, 5, 5, 64), (1, 4, 4, 16, 16, 96), (2, 4, 4, 40, 40, 64), (0, 4, 4, 16, 16, 64)]:
        for kind in ("none", "key", "rows", "dead", "key bool", "causal"):
            qkv = rand(b, max(s, t), h + 2 * hk, d, dtype=dtype)
            q, k, v = qkv[:, :s, :h].transpose(1, 2), qkv[:, :t, h : h + hk].transpose(1, 2), qkv[:, :t, h + hk :].transpose(1, 2)
            mask = None
            if kind in ("key", "key bool"):
                mask = torch.rand(b, 1, 1, t, device="cuda") < 0.7
                mask[..., 0] = True
            elif kind in ("rows", "dead"):
                mask = rand(b, 1, s, t, dtype=dtype)
            if kind == "key":
                mask = torch.where(mask, 0.0, -math.inf).to(dtype).expand(b, 1, s, t)
            if kind == "dead":
                mask[:, :, 0] = -math.inf
            n, n2 = 768, 3072
            w, bias, r = rand(n, h * d, dtype=dtype, scale=1 / math.sqrt(h * d)), rand(n, dtype=dtype), rand(b, s, n, dtype=dtype)
            nw, nb, w2, b2 = rand(n, dtype=dtype), rand(n, dtype=dtype), rand(n2, n, dtype=dtype, scale=1 / math.sqrt(n)), rand(n2, dtype=dtype)
            a = attention64(q, k, v, mask, 1 / math.sqrt(d), kind == "causal").transpose(1, 2).flatten(2)
            normed, out, noise = norm_linear64(linear64(a, w, bias, "none", r), nw, nb, w2, b2, "gelu")
            poison()
            ours = ops.attention_norm_linear(q, k, v, mask, w, bias, r, nw, nb, w2, b2, causal=kind == "causal", activation="gelu")
            name = f"attention norm linear {b}x{h}/{hk}x{s}x{t}x{d} {kind} {dtype}"
            check(name + " normed", ours[0], normed, dtype, atol=12 * eps * float(normed.abs().max()) if b else 0.0, scale=1)
            check(name, ours[1], out, dtype, atol=12 * eps * noise + 1e-5, scale=1)


def test_softmax(dtype):
    ops = torch.ops.graft
    for shape in [(2, 3, 5, 7), (4, 128), (2, 9, 264), (17, 500), (3, 5, 516), (11, 1024), (1, 2, 3, 3000), (3, 1), (2, 2, 2, 2, 9), (0, 4)]:
        x = rand(*shape, dtype=dtype, scale=3)
        mask = torch.rand(shape, device="cuda") < 0.7
        mask[..., :1] = True
        poison()
        check(f"softmax {shape} {dtype}", ops.masked_softmax(x, mask, scale=0.5),
              torch.softmax((x.double() * 0.5).masked_fill(~mask, -math.inf), -1), dtype)
        check(f"softmax {shape} plain {dtype}", ops.masked_softmax(x), torch.softmax(x.double(), -1), dtype)
        add = rand(shape[-1], dtype=dtype)
        check(f"softmax {shape} additive {dtype}", ops.masked_softmax(x, add), torch.softmax(x.double() + add.double(), -1), dtype)
    across = rand(3, 40, 5, 64, dtype=dtype).transpose(1, 2)
    check(f"softmax of a transposed tensor {dtype}", ops.masked_softmax(across), torch.softmax(across.double(), -1), dtype)
    x = rand(4, 5, 6, dtype=dtype)
    check(f"softmax dim 1 {dtype}", ops.masked_softmax(x, None, dim=1), torch.softmax(x.double(), 1), dtype)
    dead = torch.zeros(6, dtype=torch.bool, device="cuda")
    check(f"softmax dead {dtype}", ops.masked_softmax(x, dead), torch.full_like(x, math.nan).double(), dtype)


def test_elementwise(dtype):
    ops = torch.ops.graft
    g, u = rand(5, 300, dtype=dtype), rand(5, 300, dtype=dtype)
    for gg, uu in ((g, u), (g[:, :77], u[:, 3:80]), (g.t(), u.t()), (g[:0], u[:0])):
        poison()
        check(f"swiglu {tuple(gg.shape)} {dtype}", ops.swiglu(gg, uu), F.silu(gg.double()) * uu.double(), dtype)
    for batch, d in ((2, 64), (2, 32), (1, 96), (3, 128), (0, 64)):
        q, k = rand(batch, 9, 6, d, dtype=dtype).transpose(1, 2), rand(batch, 2, 9, d, dtype=dtype)
        angle, each = torch.rand(9, d, device="cuda") * 6, torch.rand(batch, 9, d, device="cuda") * 6
        for cos, sin in ((angle.cos(), angle.sin()), (angle.cos().to(dtype)[None], angle.sin().to(dtype)[None]), (each.cos(), each.sin())):
            c64, s64 = (t.double()[:, None] if t.dim() == 3 else t.double() for t in (cos, sin))
            for out, x in zip(ops.rotary_embedding(q, k, cos, sin), (q, k)):
                turned = torch.cat((-x[..., d // 2:], x[..., : d // 2]), -1).double()
                check(f"rotary {batch}x{d} {tuple(cos.shape)} {dtype}", out, x.double() * c64 + turned * s64, dtype)
    for k, name in ((1, "silu"), (3, "relu"), (3, "gelu")):  # a slice of channels, and what is added likewise
        wide = rand(2, 48, 9, 10, dtype=dtype).to(memory_format=torch.channels_last)
        x, r, w = wide[:, 8:24], wide[:, 24:40], rand(16, 16, k, k, dtype=dtype, scale=0.2 / k).to(memory_format=torch.channels_last)
        b = rand(16, dtype=dtype)
        ref = CONV_ACTIVATIONS[name](F.conv2d(x.double(), w.double(), b.double(), 1, k // 2) + r.double())
        for _ in range(2):
            poison()
            check(f"conv {k} of a slice {name} {dtype}", ops.conv_activation(x, w, b, r, [1, 1], [k // 2] * 2, [1, 1], 1, name), ref, dtype,
                  scale=max(300, 6e5 * RTOL[dtype]) if dtype != torch.float32 else 300)
    for channels_last in ("no", "weights", "all"):
        for c, o, groups, bias, res, relu in ((16, 24, 1, True, True, True), (16, 24, 1, True, False, True), (16, 24, 1, False, True, True),
                                              (16, 24, 2, True, False, True), (3, 7, 1, False, True, False), (3, 64, 1, True, False, True)):
            x, w = rand(2, c, 14, 13, dtype=dtype), rand(o, c // groups, 3, 3, dtype=dtype, scale=1 / math.sqrt(9 * c))
            if channels_last == "all":
                x = x.to(memory_format=torch.channels_last)
            if channels_last != "no":
                w = w.to(memory_format=torch.channels_last)
            b = rand(o, dtype=dtype) if bias else None
            ref = F.conv2d(x.double(), w.double(), None if b is None else b.double(), 2, 1, 1, groups)
            r = rand(*ref.shape, dtype=dtype) if res else None
            ref = ref if r is None else ref + r.double()
            poison()
            y = ops.conv_bias_add_relu(x, w, b, r, [2, 2], [1, 1], [1, 1], groups, relu)
            if y.is_contiguous(memory_format=torch.channels_last) != (channels_last != "no"):
                failures.append(f"conv {c}->{o} last={channels_last} {dtype}: the output has the other layout")
            check(f"conv {c}->{o} last={channels_last} {dtype}", y, F.relu(ref) if relu else ref, dtype,
                  scale=max(300, 6e5 * RTOL[dtype]) if dtype != torch.float32 else 300)
            for activation, f in CONV_ACTIVATIONS.items():
                if activation not in ("none", "relu", "silu", "hardtanh") and (o, groups, res) != (24, 1, True):
                    continue
                y = ops.conv_activation(x, w, b, r, [2, 2], [1, 1], [1, 1], groups, activation, -0.5, 2.0)
                if y.is_contiguous(memory_format=torch.channels_last) != (channels_last != "no"):
                    failures.append(f"conv {activation} {c}->{o} last={channels_last} {dtype}: the output has the other layout")
                check(f"conv {activation} {c}->{o} last={channels_last} {dtype}", y, f(ref), dtype,
                      scale=max(300, 6e5 * RTOL[dtype]) if dtype != torch.float32 else 300)


def test_pointwise_convolutions(dtype):
    """A filter of one place: a product of rows where the image lies with channels last."""
    ops = torch.ops.graft
    for batch, c, o, h, w in ((1, 24, 40, 7, 9), (3, 64, 96, 16, 16), (2, 96, 24, 33, 40), (5, 48, 16, 1, 1), (2, 12, 20, 5, 6), (2, 7, 9, 4, 4), (0, 16, 8, 4, 4)):
        wide = rand(batch, c + 16, h, w, dtype=dtype).to(memory_format=torch.channels_last)
        k = rand(o, c, 1, 1, dtype=dtype, scale=1 / math.sqrt(c))
        rows = rand(batch, o, h, w, dtype=dtype)
        images = (wide[:, :c].contiguous(), wide[:, 8:c + 8], wide[:, :c].contiguous(memory_format=torch.channels_last))
        for x, weight in zip(images, (k.to(memory_format=torch.channels_last), k, k)):
            for name, bias, residual in (("none", True, None), ("silu", True, None), ("gelu", False, None), ("gelu_tanh", True, None), ("sigmoid", True, None),
                                         ("none", True, rows), ("none", False, rows.to(memory_format=torch.channels_last)), ("silu", True, rows),
                                         ("none", True, rows[:, :, :1, :1])):
                b = rand(o, dtype=dtype) if bias else None
                ref = F.conv2d(x.double(), weight.double(), None if b is None else b.double())
                ref = CONV_ACTIVATIONS[name](ref if residual is None else ref + residual.double())
                for _ in range(2):  # the second call is tuned
                    poison()
                    y = ops.conv_activation(x, weight, b, residual, [1, 1], [0, 0], [1, 1], 1, name)
                    check(f"conv 1x1 {batch}x{c}->{o} {h}x{w} {name} {dtype}", y, ref, dtype, scale=max(300, 6e5 * RTOL[dtype]) if dtype != torch.float32 else 300)
                if y.numel() and weight.is_contiguous(memory_format=torch.channels_last) and not y.is_contiguous(memory_format=torch.channels_last):
                    failures.append(f"conv 1x1 {c}->{o} {dtype}: the output has the other layout")


def test_convolutions_in_groups(dtype):
    """Groups of several channels: cuDNN in either layout, or a product of each group's windows, which wins where filters are long."""
    ops = torch.ops.graft
    for batch, c, o, groups, kernel, stride, padding, dilation, size in (
            (1, 768, 768, 16, (1, 128), (1, 1), (0, 64), (1, 1), (1, 49)), (2, 256, 128, 8, (1, 64), (1, 2), (0, 31), (1, 2), (1, 150)),
            (1, 128, 256, 4, (16, 16), (2, 1), (8, 3), (1, 2), (24, 40)), (2, 64, 64, 8, (3, 3), (1, 1), (1, 1), (1, 1), (14, 13)),
            (3, 32, 32, 4, (31, 1), (1, 1), (15, 0), (1, 1), (7, 2)), (0, 32, 32, 4, (1, 9), (1, 1), (0, 4), (1, 1), (1, 20))):
        x = rand(batch, c, *size, dtype=dtype)
        w = rand(o, c // groups, *kernel, dtype=dtype, scale=1 / math.sqrt(c // groups * math.prod(kernel)))
        b = rand(o, dtype=dtype)
        ref = F.conv2d(x.double(), w.double(), b.double(), stride, padding, dilation, groups)
        r = rand(*ref.shape, dtype=dtype)
        for image, filters in ((x, w), (x, w.contiguous(memory_format=torch.channels_last)),
                               (x.contiguous(memory_format=torch.channels_last), w.contiguous(memory_format=torch.channels_last))):
            for name, residual in (("none", None), ("gelu", r)):
                for _ in range(2):  # the first call chooses
                    poison()
                    y = ops.conv_activation(image, filters, b, residual, stride, padding, dilation, groups, name)
                    check(f"conv {c}->{o} in {groups} groups {kernel} {name} {dtype}", y, CONV_ACTIVATIONS[name](ref if residual is None else ref + r.double()),
                          dtype, scale=max(300, 6e5 * RTOL[dtype]) if dtype != torch.float32 else 300)
            last = filters.is_contiguous(memory_format=torch.channels_last) and not filters.is_contiguous()
            if y.numel() and last and not y.is_contiguous(memory_format=torch.channels_last):
                failures.append(f"conv {c}->{o} in {groups} groups {dtype}: the output has the other layout")


def test_extremes(dtype):
    """NaN, infinities, and the largest values of a type."""
    ops, most = torch.ops.graft, torch.finfo(dtype).max
    for rows in (3, 200):
        x, w = rand(rows, 768, dtype=dtype), rand(768, 768, dtype=dtype).abs() * 0.01 + 0.01
        x[0, 5], x[1, 6], x[2, 7] = math.nan, math.inf, -math.inf
        for act in ("none", "relu", "silu"):
            check(f"linear, not numbers {rows} {act} {dtype}", ops.linear(x, w, activation=act), linear64(x, w, None, act, None), dtype, scale=100)
        y = ops.add_layer_norm(x, None, None, None)
        check(f"layer norm, not numbers {rows} {dtype}", y, F.layer_norm(x.double(), (768,)), dtype, scale=10)
        wide = torch.zeros(rows, 768, device="cuda", dtype=dtype)
        wide[:, :6] = torch.tensor([most, -most, most / 2, -1e4, 1e4, -9.0], device="cuda").to(dtype)
        eye = torch.eye(768, device="cuda", dtype=dtype)
        for act in ("none", "relu", "gelu", "silu"):
            check(f"linear, largest {rows} {act} {dtype}", ops.linear(wide, eye, activation=act), activation64(wide.double(), act), dtype)
    # PyTorch returns NaN for the exact GELU of -Inf. For half types Graft returns the limit, zero.
    y = ops.linear(torch.tensor([[-math.inf, 0, 0, 0, 0, 0, 0, 0]], device="cuda", dtype=dtype), torch.ones(8, 8, device="cuda", dtype=dtype), activation="gelu")
    if dtype != torch.float32:
        check(f"gelu of -inf {dtype}", y, torch.zeros(1, 8, device="cuda"), dtype)
    q, k, v = (rand(1, 2, 70, 64, dtype=dtype) for _ in range(3))
    q[0, 0, 3, 0], v[0, 1, 5, 6], v[0, 1, 6, 7] = math.nan, math.inf, math.nan
    check(f"attention, not numbers {dtype}", ops.attention(q, k, v), attention64(q, k, v, None, 0.125, False), dtype, scale=600)
    x = rand(5, 300, dtype=dtype)
    x[0, 3], x[1, 3], x[2, 3], x[3] = math.nan, math.inf, -math.inf, -most
    check(f"softmax, not numbers {dtype}", ops.masked_softmax(x), torch.softmax(x.double(), -1), dtype)
    check(f"swiglu, not numbers {dtype}", ops.swiglu(x, x[:, :1].expand_as(x)), F.silu(x.double()) * x.double()[:, :1], dtype)


def test_composites(dtype):
    """fp64 runs as the composite, and PyTorch's newer switch for TF32 (fp32_precision) is respected."""
    if dtype != torch.float32:
        return
    ops, double = torch.ops.graft, torch.float64
    x, w, r, v = rand(4, 8, dtype=double), rand(24, 8, dtype=double), rand(4, 24, dtype=double), rand(24, dtype=double)
    tight = dict(dtype=double, atol=1e-12)
    check("fp64 linear", ops.linear(x, w, v, activation="gelu", residual=r), linear64(x, w, v, "gelu", r), **tight)
    check("fp64 layer norm", ops.add_layer_norm(r, r, v, v), F.layer_norm(r + r, (24,), v, v), **tight)
    check("fp64 linear layer norm", ops.linear_add_layer_norm(x, w, v, r, v, v), F.layer_norm(linear64(x, w, v, "none", r), (24,), v, v), **tight)
    check("fp64 softmax", ops.masked_softmax(r), torch.softmax(r, -1), **tight)
    check("fp64 swiglu", ops.swiglu(r, r), F.silu(r) * r, **tight)
    ids = torch.tensor([0, 3], device="cuda")
    check("fp64 embedding", ops.embedding_layer_norm([ids], [r], v, v), F.layer_norm(r[ids], (24,), v, v), **tight)
    q = rand(2, 3, 5, 16, dtype=double)
    check("fp64 attention", ops.attention(q, q, q), attention64(q, q, q, None, 0.25, False), **tight)
    image, kernel = rand(1, 3, 8, 8, dtype=double), rand(4, 3, 3, 3, dtype=double)
    check("fp64 conv", ops.conv_bias_add_relu(image, kernel, None, None, [1, 1], [1, 1], [1, 1], 1, True), F.relu(F.conv2d(image, kernel, padding=1)), **tight)
    x, w = rand(64, 256, dtype=dtype), rand(128, 256, dtype=dtype)
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    try:
        check("linear under TF32", ops.linear(x, w), linear64(x, w, None, "none", None), dtype, atol=0.05)
        half = x.half(), w.half()
        check("linear of fp16 under TF32", ops.linear(*half), linear64(*half, None, "none", None), torch.float16, scale=100)
    finally:
        torch.backends.cuda.matmul.fp32_precision = "ieee"


def main():
    global only, quick
    parser = argparse.ArgumentParser()
    parser.add_argument("libraries", nargs="+")
    parser.add_argument("--only")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    only, quick = options.only, options.quick
    if not torch.cuda.is_available():
        print("skipped: no GPU")
        sys.exit(77)
    for library in options.libraries:
        torch.ops.load_library(library)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.set_grad_enabled(False)
    torch.manual_seed(torch.seed())
    print("seed", torch.initial_seed())
    for test in (test_linear_algorithms, test_linear, test_attention, test_qkv, test_norms, test_linear_norm, test_norm_linear,
                 test_attention_norm_linear, test_softmax, test_elementwise, test_pointwise_convolutions, test_convolutions_in_groups, test_extremes,
                 test_composites):
        if only and only not in test.__name__:
            continue
        for dtype in (torch.float16, torch.bfloat16, torch.float32):
            before = len(failures), cases
            try:
                test(dtype)
                torch.cuda.synchronize()
            except RuntimeError as error:
                failures.append(f"{test.__name__} {dtype}: {str(error).splitlines()[0]}")
                if "CUDA error" in str(error) or "cuda" in str(error).lower() and "illegal" in str(error):
                    break
            print(f"{test.__name__} {dtype}: {cases - before[1]} cases, {len(failures) - before[0]} failures", flush=True)
    for failure in failures[:60]:
        print("FAILED", failure)
    print(f"{cases} cases, {len(failures)} failures")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
