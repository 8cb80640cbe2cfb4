"""Shared by the operators' tests: the loaded library, the comparison with fp64, and the plain formulas of two operators.

The library's path is the first argument of the command line, or GRAFT_OPS_LIBRARY.
"""

import ctypes
import os
import sys
import unittest

import torch
import torch.nn.functional as F

LIBRARY = os.environ.get("GRAFT_OPS_LIBRARY", "build/lib/libgraft_ops.so")
if len(sys.argv) > 1 and sys.argv[1].endswith(".so"):
    LIBRARY = sys.argv.pop(1)
torch.ops.load_library(LIBRARY)
graft = torch.ops.graft
library = ctypes.CDLL(LIBRARY)
for name in ("graft_ops_describe", "graft_ops_cuda_status", "graft_ops_cpu_capability"):
    getattr(library, name).restype = ctypes.c_char_p

DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def random(*shape, dtype=torch.float32, scale=1.0):
    return (torch.randn(shape) * scale).to(dtype)


def wide(value):
    """The same value in fp64, lists and None included."""
    if isinstance(value, (list, tuple)):
        return [wide(v) for v in value]
    return value.double() if torch.is_tensor(value) and value.is_floating_point() else value


class OperatorCase(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)

    def check(self, operator, reference, *args, rounding=None, **kwargs):
        """operator(args) must be close to the fp64 reference, and the Meta version must agree in shape and strides. `rounding`: the
        allowed error relative to the largest value; by default that of assert_close."""
        with torch.no_grad():
            got = operator(*args, **kwargs)
            want = reference(*[wide(a) for a in args], **{k: wide(v) for k, v in kwargs.items()})
        meta = operator(*[to_meta(a) for a in args], **{k: to_meta(v) for k, v in kwargs.items()})
        single = torch.is_tensor(got)
        for g, w, m in zip(*[[x] if single else x for x in (got, want, meta)]):
            allowed = {} if rounding is None else dict(rtol=0, atol=rounding * float(w.abs().max()) if w.numel() else 0.0)
            torch.testing.assert_close(g, w.to(g.dtype), equal_nan=True, **allowed)
            self.assertEqual((m.shape, m.stride(), m.dtype), (g.shape, g.stride(), g.dtype))
        return got


def to_meta(value):
    if isinstance(value, (list, tuple)):
        return [to_meta(v) for v in value]
    if not torch.is_tensor(value):
        return value
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")


def attention(q, k, v, mask=None, *, scale=None, causal=False):
    three = q.dim() == 3
    if three:
        q, k, v = q.unsqueeze(1), k.unsqueeze(1), v.unsqueeze(1)
        mask = mask.unsqueeze(1) if mask is not None and mask.dim() == 3 else mask
    group = q.shape[1] // k.shape[1] if k.shape[1] else 1
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = q @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    if causal:
        keep = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        scores = scores.masked_fill(~keep, -torch.inf)
    unseen = (scores == -torch.inf).all(-1, keepdim=True)
    out = scores.masked_fill(unseen, 0).softmax(-1).masked_fill(unseen, 0) @ v
    return out.squeeze(1) if three else out


def linear(x, weight, bias=None, *, activation="none", residual=None):
    y = F.linear(x, weight, bias)
    y = {"none": lambda t: t, "relu": F.relu, "gelu": F.gelu, "gelu_tanh": lambda t: F.gelu(t, approximate="tanh"), "silu": F.silu}[
        activation
    ](y)
    return y if residual is None else y + residual


ACTIVATIONS = ("none", "relu", "gelu", "gelu_tanh", "silu")
