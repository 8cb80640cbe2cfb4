"""Rules for decoders: GPT-2, Llama and their relatives; T5's encoder and encoders with rotary positions.

Recipes `Gpt2`, `Llama`, `T5` and `RotaryEncoder`. Half precision is allowed for: the casts to float32 and back that these models write around
their norms and softmax are part of the patterns.
"""

import torch
import torch.nn.functional as F
from graft import Recipe, Rule, Tensor, Weight, any_of, kernels, optional, _
from graft import eliminate_common, eliminate_dead, fold_constants, normalize, remove_dropout, simplify_masks
from transformer import AddLayerNorm, GeluLinear, GeluTanhLinear, Linear, LinearAdd, LinearWithoutBias, NewGelu
from transformer import AlibiAttention, AlibiAttentionMaskedBefore, AlibiAttentionWithoutMask, AttentionScaledBefore
from transformer import AttentionScaledBeforeWithoutMask
from transformer import AttentionWithoutMask, BiasedAttention, BiasedFilledAttention, BiasedFilledAttentionScaledBefore
from transformer import FilledAttention as NumberFilledAttention  # Gpt2's own fills with minus infinity
from transformer import FilledAttentionScaledBefore, FoldedAlibiAttention, PositionAttention
from transformer import QkvProjection as QkvProjectionWithBias  # Qwen2's and Phi's
from transformer import ScaledDotProductAttention, SelectedFill, SwiGlu
from transformer import four_dimensional, hides, lowest, of_one_width, one_product, probabilities, same


def cast(x):
    """A change of dtype that may be there."""
    return optional(torch.Tensor.to, x, dtype=_)


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


def heads_of(x, head_dim):
    """[batch, length, features] to [batch, heads, length, head size]."""
    return x.view(x.shape[0], _, _, head_dim).transpose(1, 2)


class Conv1D(Rule):
    """GPT-2's linear layer, which keeps its weight the other way round, becomes a linear layer."""

    def pattern(x, w: Weight, b: Weight):
        return torch.addmm(b, x.view(-1, x.shape[-1]), w).view(x.shape[0], x.shape[1], _)

    def replacement(x, w: Weight, b: Weight):
        return F.linear(x, w.t().contiguous(), b)

    def where(x):
        return x.dim() == 3


class MatmulLinear(Rule):
    """Falcon's linear layer is a product with a weight that lies the other way round."""

    def pattern(x, w: Weight):
        return torch.matmul(x, w)

    def replacement(x, w: Weight):
        return F.linear(x, w.t().contiguous())

    def where(x, w):
        return x.dim() >= 2 and w.dim() == 2


class MatmulLinearWithBias(Rule):
    """The same with the bias that is added to it."""

    def pattern(x, w: Weight, b: Weight):
        return torch.matmul(x, w) + b

    def replacement(x, w: Weight, b: Weight):
        return F.linear(x, w.t().contiguous(), b)

    def where(x, w, b):
        return x.dim() >= 2 and w.dim() == 2 and b.dim() == 1 and b.shape[0] == w.shape[1]


class ReluLinear(Rule):
    """A linear layer without bias and its ReLU become one kernel."""

    def pattern(x, w: Weight):
        return F.relu(F.linear(x, w))

    def replacement(x, w: Weight):
        return kernels.linear(x, w, activation="relu")


class GeluLinearWithoutBias(Rule):
    """The same for GELU, as MPT has it."""

    def pattern(x, w: Weight):
        return F.gelu(F.linear(x, w))

    def replacement(x, w: Weight):
        return kernels.linear(x, w, activation="gelu")


class GeluTanhLinearWithoutBias(Rule):
    """The same for GELU's approximation by tanh, as Gemma and T5 1.1 have it before their gates."""

    def pattern(x, w: Weight):
        return F.gelu(F.linear(x, w), approximate="tanh")

    def replacement(x, w: Weight):
        return kernels.linear(x, w, activation="gelu_tanh")


class QkvSplit(Rule):
    """GPT-2's one projection for queries, keys and values: written as the attention reads them, not split afterwards."""

    def pattern(x, w: Weight, b: Weight, width: int, head_dim: int):
        q, k, v = F.linear(x, w, b).split(width, dim=2)
        return heads_of(q, head_dim), heads_of(k, head_dim), heads_of(v, head_dim)

    def replacement(x, w: Weight, b: Weight, width: int, head_dim: int):
        return kernels.qkv_projection(x, w, b, heads=width // head_dim, kv_heads=width // head_dim)

    def where(x, w, width):
        return x.dim() == 3 and w.shape[0] == 3 * width


class QkvChunk(Rule):
    """MPT's and CodeGen's: the same cut into three equal parts, with a bias or without."""

    def pattern(x, w: Weight, b: Weight | None, head_dim: int):
        q, k, v = F.linear(x, w, b).chunk(3, dim=2)
        return heads_of(q, head_dim), heads_of(k, head_dim), heads_of(v, head_dim)

    def replacement(x, w: Weight, b: Weight | None, head_dim: int):
        return kernels.qkv_projection(x, w, b, heads=w.shape[0] // (3 * head_dim), kv_heads=w.shape[0] // (3 * head_dim))

    def where(x, w, head_dim):
        return x.dim() == 3 and w.shape[0] % (3 * head_dim) == 0


class QkvSlices(Rule):
    """Phi-3's: cut at two places, so that keys and values may have fewer heads."""

    def pattern(x, w: Weight, b: Weight | None, queries: int, keys: int, head_dim: int):
        y = F.linear(x, w, b)
        return (
            heads_of(y[..., :queries], head_dim),
            heads_of(y[..., queries:keys], head_dim),
            heads_of(y[..., keys:], head_dim),
        )

    def replacement(x, w: Weight, b: Weight | None, queries: int, keys: int, head_dim: int):
        return kernels.qkv_projection(x, w, b, heads=queries // head_dim, kv_heads=(keys - queries) // head_dim)

    def where(x, w, queries, keys):
        return x.dim() == 3 and w.shape[0] - keys == keys - queries


class QkvUnbind(Rule):
    """ModernBERT's: seen as three times so many heads, and unbound."""

    def pattern(x, w: Weight, b: Weight | None, head_dim: int):
        q, k, v = F.linear(x, w, b).view(x.shape[0], x.shape[1], 3, _, head_dim).unbind(2)
        return q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)

    def replacement(x, w: Weight, b: Weight | None, head_dim: int):
        return kernels.qkv_projection(x, w, b, heads=w.shape[0] // (3 * head_dim), kv_heads=w.shape[0] // (3 * head_dim))

    def where(x):
        return x.dim() == 3


def by_heads(x, w, b, head_dim):
    """One projection whose weight holds query, key and value of each head in turn: put into the order that attention reads."""
    heads = w.shape[0] // (3 * head_dim)
    rows = w.view(heads, 3, head_dim, w.shape[1]).transpose(0, 1).reshape(w.shape[0], w.shape[1])
    return kernels.qkv_projection(x, rows, b.view(heads, 3, head_dim).transpose(0, 1).reshape(w.shape[0]), heads=heads, kv_heads=heads)


class QkvByHeads(Rule):
    """GPT-NeoX's and Pythia's: each head has its query, key and value side by side."""

    def pattern(x, w: Weight, b: Weight, width: int):
        q, k, v = F.linear(x, w, b).view(x.shape[0], x.shape[1], _, width).transpose(1, 2).chunk(3, dim=-1)
        return q, k, v

    def replacement(x, w: Weight, b: Weight, width: int):
        return by_heads(x, w, b, width // 3)

    def where(x, width):
        return x.dim() == 3 and width % 3 == 0


class QkvSelected(Rule):
    """Falcon's and BLOOM's: the same, taken apart by selecting."""

    def pattern(x, w: Weight, b: Weight, head_dim: int):
        y = F.linear(x, w, b).view(x.shape[0], x.shape[1], _, 3, head_dim)
        q, k, v = y.select(3, 0).transpose(1, 2), y.select(3, 1).transpose(1, 2), y.select(3, 2).transpose(1, 2)
        return same(q), same(k), same(v)

    def replacement(x, w: Weight, b: Weight, head_dim: int):
        return by_heads(x, w, b, head_dim)

    def where(x):
        return x.dim() == 3


class QkvProjection(Rule):
    """Three projections without bias become one product; keys and values may have fewer heads."""

    def pattern(x, wq: Weight, wk: Weight, wv: Weight, head_dim: int):
        return heads_of(F.linear(x, wq), head_dim), heads_of(F.linear(x, wk), head_dim), heads_of(F.linear(x, wv), head_dim)

    def replacement(x, wq: Weight, wk: Weight, wv: Weight, head_dim: int):
        return one_product(x, torch.cat([wq, wk, wv]), None, wq, wk, head_dim)

    where = of_one_width


class RepeatedScaledDotProductAttention(Rule):
    """A call of PyTorch's own attention over repeated keys and values."""

    def pattern(q, k, v, mask: Tensor | None, causal: bool, scale: float | None):
        return F.scaled_dot_product_attention(q, repeat(k), repeat(v), mask, 0.0, causal, scale=scale, enable_gqa=False)

    def replacement(q, k, v, mask: Tensor | None, causal: bool, scale: float | None):
        return kernels.attention(q, k, v, mask, scale=scale, causal=causal)

    def where(q, k, v):
        return q.dim() == 4 and k.shape[1] == v.shape[1]


class CausalAttention(Rule):
    """Attention over what came before, its mask made on the spot from ones."""

    def pattern(q, k, v, scale: float):
        scores = torch.matmul(q, k.transpose(-1, -2)) * scale
        ones = torch.ones([_, _], dtype=_, device=_)
        hidden = any_of(
            ones.triu(1).to(_), ones.triu(1) == 1, ones.triu(1), ones.tril() == 0, ones.tril().logical_not(), ~ones.tril()
        )
        return torch.matmul(probabilities(scores.masked_fill(hidden, float("-inf"))), v)

    def replacement(q, k, v, scale: float):
        return kernels.attention(q, k, v, scale=scale, causal=True)

    where = four_dimensional


class FilledAttention(Rule):
    """Attention whose mask fills hidden places: a buffer of ones below the diagonal, 0 where a key is hidden."""

    def pattern(q, k, v, shown, scale: float):
        scores = (torch.matmul(q, k.transpose(-1, -2)) * scale).masked_fill(shown == 0, float("-inf"))
        return torch.matmul(probabilities(scores), v)

    def replacement(q, k, v, shown, scale: float):
        return kernels.attention(q, k, v, shown != 0, scale=scale)

    where = four_dimensional


class WhereAttention(Rule):
    """Older GPT-2: where() keeps the score or puts the lowest number there is, which swallows any score when it is added."""

    def pattern(q, k, v, shown, scale: float, fill: float):
        scores = torch.where(shown, torch.matmul(q, k.transpose(-1, -2)) * scale, fill)
        return torch.matmul(probabilities(scores), v)

    def replacement(q, k, v, shown, scale: float, fill: float):
        return kernels.attention(q, k, v, torch.where(shown, 0.0, lowest(fill)), scale=scale)

    where = hides


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

    where = four_dimensional


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


class Gpt2(Recipe):
    """GPT-2 and models built like it."""

    steps = [
        normalize,
        remove_dropout,
        simplify_masks,
        SelectedFill,  # before numbers in tensors become constants
        fold_constants,
        Conv1D,
        MatmulLinearWithBias,
        MatmulLinear,
        QkvSplit,
        QkvChunk,
        QkvByHeads,
        QkvSelected,
        ScaledDotProductAttention,
        CausalAttention,
        FilledAttention,
        WhereAttention,
        NumberFilledAttention,
        FilledAttentionScaledBefore,
        BiasedFilledAttention,
        BiasedFilledAttentionScaledBefore,
        AlibiAttention,
        AlibiAttentionMaskedBefore,
        AlibiAttentionWithoutMask,
        FoldedAlibiAttention,
        PositionAttention,
        BiasedAttention,
        Attention,
        AttentionWithoutMask,
        AttentionScaledBefore,
        AttentionScaledBeforeWithoutMask,
        Rotary,
        NewGelu,
        GeluLinear,
        GeluLinearWithoutBias,
        GeluTanhLinear,
        AddLayerNorm,
        LinearAdd,
        Linear,
        LinearWithoutBias,
        simplify_masks,  # of attention that the rules above found
        eliminate_dead,
    ]


class Llama(Recipe):
    """Llama, Mistral, Qwen and models built like them."""

    steps = [
        normalize,
        remove_dropout,
        simplify_masks,
        fold_constants,
        QkvProjection,
        QkvProjectionWithBias,
        QkvSlices,
        RepeatedScaledDotProductAttention,
        ScaledDotProductAttention,
        GroupedQueryAttention,
        Attention,
        Rotary,
        AddRmsNorm,
        RmsNorm,
        SwiGlu,
        NewGelu,
        GeluTanhLinear,
        GeluTanhLinearWithoutBias,
        Linear,
        LinearWithoutBias,
        simplify_masks,  # of attention that the rules above found
        eliminate_dead,
    ]


class T5(Recipe):
    """T5 and models built like it: attention with a bias by relative position, added to a mask or not."""

    steps = [
        normalize,
        remove_dropout,
        simplify_masks,
        SelectedFill,  # before numbers in tensors become constants
        fold_constants,
        QkvProjection,
        ScaledDotProductAttention,
        PositionAttention,
        BiasedAttention,
        Attention,
        AttentionWithoutMask,
        AttentionScaledBefore,
        AttentionScaledBeforeWithoutMask,
        NumberFilledAttention,
        FilledAttentionScaledBefore,
        BiasedFilledAttention,
        BiasedFilledAttentionScaledBefore,
        AddRmsNorm,
        RmsNorm,
        ReluLinear,
        NewGelu,
        GeluTanhLinearWithoutBias,
        LinearWithoutBias,
        simplify_masks,  # of attention that the rules above found
        eliminate_dead,
    ]


class RotaryEncoder(Recipe):
    """ModernBERT and encoders built like it."""

    steps = [
        normalize,
        remove_dropout,
        simplify_masks,
        fold_constants,
        QkvUnbind,
        QkvProjection,
        QkvProjectionWithBias,
        ScaledDotProductAttention,
        Attention,
        Rotary,
        GeluLinear,
        GeluLinearWithoutBias,
        AddLayerNorm,
        LinearAdd,
        Linear,
        LinearWithoutBias,
        simplify_masks,  # of attention that the rules above found
        eliminate_dead,
    ]
