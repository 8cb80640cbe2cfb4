"""Rules for decoders: GPT-2, Llama and their relatives, T5's encoder.

Recipes `Gpt2`, `Llama` and `T5`. Half precision is allowed for: the casts to float32 and back that these models write around
their norms and softmax are part of the patterns.
"""

import torch
import torch.nn.functional as F
from graft import Recipe, Rule, Weight, any_of, kernels, optional
from graft import eliminate_common, eliminate_dead, fold_constants, normalize, remove_dropout


def cast(x):
    """A change of dtype that may be there."""
    return optional(torch.Tensor.to, x, dtype=_)


def probabilities(scores):
    """A softmax, perhaps computed in float32 and cast back, perhaps with an inactive dropout."""
    return optional(F.dropout, cast(torch.softmax(scores, dim=-1, dtype=_)), p=_, training=False)


def rms(x, eps):
    """x divided by its root mean square over the last dimension."""
    h = cast(x)
    return cast(h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps))


def rotate_half(x):
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


def repeat(x):
    """Keys and values of grouped-query attention, repeated for every query head of their group."""
    b, h, s, d = x.shape
    return x[:, :, None].expand(b, h, _, s, d).reshape(b, _, s, d)


class Conv1D(Rule):
    """GPT-2's linear layer, which keeps its weight the other way round, becomes a linear layer."""

    def pattern(x, w: Weight, b: Weight):
        return torch.addmm(b, x.view(-1, x.shape[-1]), w).view(x.shape[0], x.shape[1], _)

    def replacement(x, w: Weight, b: Weight):
        return F.linear(x, w.t().contiguous(), b)

    def where(x):
        return x.dim() == 3


class NewGelu(Rule):
    """GELU's approximation by tanh, written out."""

    def pattern(x):
        return 0.5 * x * (1.0 + torch.tanh(0.7978845608028654 * (x + 0.044715 * torch.pow(x, 3.0))))

    def replacement(x):
        return F.gelu(x, approximate="tanh")


class GeluTanhLinear(Rule):
    """A linear layer and its GELU become one kernel."""

    def pattern(x, w: Weight, b: Weight):
        return F.gelu(F.linear(x, w, b), approximate="tanh")

    def replacement(x, w: Weight, b: Weight):
        return kernels.linear(x, w, b, activation="gelu_tanh")


class ReluLinear(Rule):
    """A linear layer without bias and its ReLU become one kernel."""

    def pattern(x, w: Weight):
        return F.relu(F.linear(x, w))

    def replacement(x, w: Weight):
        return kernels.linear(x, w, activation="relu")


class GroupedQueryAttention(Rule):
    """Attention over repeated keys and values reads each of them once."""

    def pattern(q, k, v, mask, scale: float):
        scores = torch.matmul(q, repeat(k).transpose(2, 3)) * scale
        return torch.matmul(probabilities(scores + mask), repeat(v))

    def replacement(q, k, v, mask, scale: float):
        return kernels.attention(q, k, v, mask, scale=scale)

    def where(q, k, v):
        return q.dim() == 4 and k.shape[1] == v.shape[1]


class Attention(Rule):
    """Scaled dot-product attention with an additive mask becomes one kernel."""

    def pattern(q, k, v, mask, scale: float):
        scores = torch.matmul(q, k.transpose(-1, -2)) * scale
        return torch.matmul(probabilities(scores + mask), v)

    def replacement(q, k, v, mask, scale: float):
        return kernels.attention(q, k, v, mask, scale=scale)

    def where(q, k, v):
        return q.dim() == 4 and k.dim() == 4 and v.dim() == 4


class BiasedAttention(Rule):
    """T5's attention: no scale, and a bias by relative position added before the mask."""

    def pattern(q, k, v, bias, mask):
        scores = torch.matmul(q, k.transpose(-1, -2)) + bias
        return torch.matmul(probabilities(scores + mask), v)

    def replacement(q, k, v, bias, mask):
        return kernels.attention(q, k, v, bias + mask, scale=1.0)

    def where(q, k, v):
        return q.dim() == 4 and k.dim() == 4 and v.dim() == 4


class Rotary(Rule):
    """Queries and keys rotated by their positions, both in one kernel."""

    def pattern(q, k, cos, sin):
        return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin

    def replacement(q, k, cos, sin):
        return kernels.rotary_embedding(q, k, cos, sin)

    def where(q, k, cos):
        return q.dim() == 4 and k.dim() == 4 and cos.dim() == 4 and cos.shape[1] == 1


class AddRmsNorm(Rule):
    """A residual added and normalised in one pass; the sum goes on as the next residual."""

    def pattern(x, residual, w: Weight, eps: float):
        total = x + residual
        return rms(total, eps) * w, total

    def replacement(x, residual, w: Weight, eps: float):
        return kernels.add_rms_norm(x, residual, w, eps)

    def where(x, residual, w):
        return x.shape == residual.shape and x.dtype == w.dtype and w.dim() == 1


class RmsNorm(Rule):
    """A norm without a residual before it."""

    def pattern(x, w: Weight, eps: float):
        return rms(x, eps) * w

    def replacement(x, w: Weight, eps: float):
        normed, total = kernels.add_rms_norm(x, None, w, eps)
        return normed

    def where(x, w):
        return x.dtype == w.dtype and w.dim() == 1


class SwiGlu(Rule):
    """The gate of Llama's feed-forward layer."""

    def pattern(gate, up):
        return F.silu(gate) * up

    def replacement(gate, up):
        return kernels.swiglu(gate, up)

    def where(gate, up):
        return gate.shape == up.shape


class AddLayerNorm(Rule):
    """A residual added and normalised in one pass, where the sum is needed nowhere else."""

    def pattern(x, residual, shape: list[int], weight: Weight, bias: Weight, eps: float):
        return F.layer_norm(x + residual, shape, weight, bias, eps)

    def replacement(x, residual, weight: Weight, bias: Weight, eps: float):
        return kernels.add_layer_norm(x, residual, weight, bias, eps)

    def where(x, residual, shape):
        return len(shape) == 1 and x.shape == residual.shape


class Linear(Rule):
    """A linear layer that no rule before took: its weights are packed once instead of at every call."""

    def pattern(x, w: Weight, b: Weight):
        return F.linear(x, w, b)

    def replacement(x, w: Weight, b: Weight):
        return kernels.linear(x, w, b)

    def where(w, b):
        return w.dim() == 2 and b.dim() == 1 and w.is_floating_point()


class LinearWithoutBias(Rule):
    """The same for layers without a bias."""

    def pattern(x, w: Weight):
        return F.linear(x, w)

    def replacement(x, w: Weight):
        return kernels.linear(x, w)

    def where(w):
        return w.dim() == 2 and w.is_floating_point()


class Gpt2(Recipe):
    """GPT-2 and models built like it."""

    steps = [
        normalize,
        remove_dropout,
        fold_constants,
        Conv1D,
        Attention,
        NewGelu,
        GeluTanhLinear,
        AddLayerNorm,
        Linear,
        LinearWithoutBias,
        eliminate_dead,
    ]


class Llama(Recipe):
    """Llama, Mistral, Qwen and models built like them."""

    steps = [
        normalize,
        remove_dropout,
        fold_constants,
        GroupedQueryAttention,
        Attention,
        Rotary,
        AddRmsNorm,
        RmsNorm,
        SwiGlu,
        Linear,
        LinearWithoutBias,
        eliminate_dead,
    ]


class T5(Recipe):
    """T5's encoder."""

    steps = [
        normalize,
        remove_dropout,
        fold_constants,
        BiasedAttention,
        Attention,
        AddRmsNorm,
        RmsNorm,
        ReluLinear,
        LinearWithoutBias,
        eliminate_dead,
    ]
