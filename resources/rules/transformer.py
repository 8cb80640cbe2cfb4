"""Rules for transformer encoders: BERT and its relatives, sentence encoders, vision transformers.

Apply them with `--rules resources/rules/transformer.py --recipe Encoder`. The rules expect dropout to be gone or inactive; the
recipe removes it first.
"""

import torch
import torch.nn.functional as F
from graft import Recipe, Rule, Tensor, Weight, any_of, kernels, optional, _
from graft import eliminate_dead, fold_constants, normalize, remove_dropout, simplify_masks


def scalar(number):
    """A number that a model puts into a tensor without dimensions."""
    return torch.full([], number, dtype=_, layout=_, device=_, pin_memory=_)


def keep(x):
    """What inference leaves of a dropout."""
    return optional(F.dropout, x, p=_, training=False)


def cast_back(x, like):
    """A change to the dtype that something else has, if there is one."""
    return any_of(optional(torch.Tensor.to, x, dtype=_), x.type_as(like))


def probabilities(scores):
    """A softmax, perhaps computed in float32 and cast back, before or behind a dropout that does nothing."""
    wide = optional(torch.Tensor.to, scores, dtype=_)
    return cast_back(keep(cast_back(torch.softmax(wide, dim=-1, dtype=_), _)), _)


def wide(scores):
    """Scores, perhaps in float32, where distances that are in float32 are added."""
    return optional(torch.Tensor.to, scores, dtype=_)


def same(x):
    """The shape that x has, asked for once more."""
    return optional(torch.Tensor.view, x, x.shape)


def positions(n):
    """0 to n - 1 along one dimension."""
    return torch.arange(n, dtype=_, layout=_, device=_, pin_memory=_)


def cast(x):
    return optional(torch.Tensor.to, x, dtype=_, layout=_, device=_)


def whole(x):
    """What x[:] leaves in a traced model."""
    return optional(torch.ops.aten.slice.Tensor, x, dim=_, start=0, end=9223372036854775807, step=1)


def padding_mask(m, batch, queries, keys):
    """True where a key is no padding, for each query: how transformers writes the mask of an encoder, [batch, 1, queries, keys]."""
    b = whole(positions(batch)).unsqueeze(1).unsqueeze(2).unsqueeze(3)
    q = whole((positions(queries) + 0).unsqueeze(0).unsqueeze(1)).unsqueeze(3)
    k = whole((positions(keys) + 0).unsqueeze(0).unsqueeze(1).unsqueeze(2))
    true = any_of(
        torch.full([], True, dtype=_, layout=_, device=_, pin_memory=_),
        q.new_ones([], dtype=_, layout=_, device=_, pin_memory=_),
    )
    return true & cast(q >= 0) & cast(torch.ops.aten.index.Tensor(m, [b, k]))


def one_row(m, batch, queries, keys):
    """The same as a view of m."""
    return m[:batch, :keys].unsqueeze(1).unsqueeze(2).expand(batch, 1, queries, keys)


class PaddingMask(Rule):
    """A mask that says the same to every query is one row, spread over the queries without being written out."""

    def pattern(m: Tensor, batch: int, queries: int, keys: int, size: list[int]):
        return padding_mask(m, batch, queries, keys).expand(size)

    def replacement(m: Tensor, batch: int, queries: int, keys: int):
        return one_row(m, batch, queries, keys)

    def where(m, size):
        return m.dim() == 2 and m.dtype == torch.bool and len(size) == 4


class PaddingMaskBroadcast(Rule):
    """The same where no `expand` follows."""

    def pattern(m: Tensor, batch: int, queries: int, keys: int):
        return padding_mask(m, batch, queries, keys)

    def replacement(m: Tensor, batch: int, queries: int, keys: int):
        return one_row(m, batch, queries, keys)

    def where(m):
        return m.dim() == 2 and m.dtype == torch.bool


class SelectBeforeExpand(Rule):
    """What a mask selects is spread over new dimensions afterwards, as a view."""

    def pattern(m: Tensor, size: list[int], value: Tensor, other: float):
        return torch.where(m.expand(size), value, other)

    def replacement(m: Tensor, size: list[int], value: Tensor, other: float):
        return torch.where(m, value, other).expand(size)

    def where(value):
        return value.dim() == 0


def of_one_width(x, wq, wk, wv):
    return x.dim() == 3 and wk.shape == wv.shape and wq.shape[1] == wk.shape[1]


def one_product(x, weight, bias, wq, wk, head_dim):
    """Queries, keys and values by one product; keys and values may have fewer heads."""
    return kernels.qkv_projection(x, weight, bias, heads=wq.shape[0] // head_dim, kv_heads=wk.shape[0] // head_dim)


class QkvProjection(Rule):
    """Three projections of one input, each split into heads, become one product with the weights side by side."""

    def pattern(x, wq: Weight, bq: Weight, wk: Weight, bk: Weight, wv: Weight, bv: Weight, head_dim: int):
        q = F.linear(x, wq, bq).view(x.shape[0], x.shape[1], _, head_dim)
        k = F.linear(x, wk, bk).view(x.shape[0], x.shape[1], _, head_dim)
        v = F.linear(x, wv, bv).view(x.shape[0], x.shape[1], _, head_dim)
        return (
            any_of(q.transpose(1, 2), q.permute(0, 2, 1, 3)),
            any_of(k.transpose(1, 2), k.permute(0, 2, 1, 3)),
            any_of(v.transpose(1, 2), v.permute(0, 2, 1, 3)),
        )

    def replacement(x, wq: Weight, bq: Weight, wk: Weight, bk: Weight, wv: Weight, bv: Weight, head_dim: int):
        return one_product(x, torch.cat([wq, wk, wv]), torch.cat([bq, bk, bv]), wq, wk, head_dim)

    where = of_one_width


def split_heads(x, head_dim):
    """[batch, length, features] to [batch, heads, length, head size]."""
    split = x.view(x.shape[0], _, _, head_dim)
    return optional(torch.Tensor.contiguous, any_of(split.transpose(1, 2), split.permute(0, 2, 1, 3)))


class QkvProjectionScaled(Rule):
    """The same as Whisper has it: queries are scaled before they are split, keys have no bias. The scale goes into the weights."""

    def pattern(x, wq: Weight, bq: Weight, wk: Weight, wv: Weight, bv: Weight, scale: float, head_dim: int):
        q = F.linear(x, wq, bq) * scale
        k = F.linear(x, wk)
        v = F.linear(x, wv, bv)
        return split_heads(q, head_dim), split_heads(k, head_dim), split_heads(v, head_dim)

    def replacement(x, wq: Weight, bq: Weight, wk: Weight, wv: Weight, bv: Weight, scale: float, head_dim: int):
        return one_product(x, torch.cat([wq * scale, wk, wv]), torch.cat([bq * scale, torch.zeros_like(bv), bv]), wq, wk, head_dim)

    where = of_one_width


class QkvProjectionKeyWithoutBias(Rule):
    """BEiT's: only keys have no bias, because a softmax over keys does not see one."""

    def pattern(x, wq: Weight, bq: Weight, wk: Weight, wv: Weight, bv: Weight, head_dim: int):
        q = F.linear(x, wq, bq)
        k = F.linear(x, wk)
        v = F.linear(x, wv, bv)
        return split_heads(k, head_dim), split_heads(q, head_dim), split_heads(v, head_dim)  # the search begins with what is rare

    def replacement(x, wq: Weight, bq: Weight, wk: Weight, wv: Weight, bv: Weight, head_dim: int):
        q, k, v = one_product(x, torch.cat([wq, wk, wv]), torch.cat([bq, torch.zeros_like(bv), bv]), wq, wk, head_dim)
        return k, q, v

    where = of_one_width


class QkvProjectionScaledWithBias(Rule):
    """OPT's and older BART's: queries are scaled before they are split, and all three have a bias."""

    def pattern(x, wq: Weight, bq: Weight, wk: Weight, bk: Weight, wv: Weight, bv: Weight, scale: float, head_dim: int):
        q = F.linear(x, wq, bq) * scale
        k = F.linear(x, wk, bk)
        v = F.linear(x, wv, bv)
        return split_heads(q, head_dim), split_heads(k, head_dim), split_heads(v, head_dim)

    def replacement(x, wq: Weight, bq: Weight, wk: Weight, bk: Weight, wv: Weight, bv: Weight, scale: float, head_dim: int):
        return one_product(x, torch.cat([wq * scale, wk, wv]), torch.cat([bq * scale, bk, bv]), wq, wk, head_dim)

    where = of_one_width


class SelectedFill(Rule):
    """Hidden places that where() fills with a number, which may stand in a tensor: filled with the number."""

    def pattern(hidden: Tensor, scores: Tensor, fill: float):
        return any_of(torch.where(hidden, scalar(fill), scores), torch.where(hidden, fill, scores))

    def replacement(hidden: Tensor, scores: Tensor, fill: float):
        return scores.masked_fill(hidden, fill)

    def where(hidden, scores):
        return hidden.dtype == torch.bool and hidden.dim() <= scores.dim()


def four_dimensional(q, k, v):
    return q.dim() == 4 and k.dim() == 4 and v.dim() == 4


class ScaledDotProductAttention(Rule):
    """A call of PyTorch's own attention, without dropout."""

    def pattern(q, k, v, mask: Tensor | None, causal: bool, scale: float | None):
        return F.scaled_dot_product_attention(q, k, v, mask, 0.0, causal, scale=scale, enable_gqa=_)

    def replacement(q, k, v, mask: Tensor | None, causal: bool, scale: float | None):
        return kernels.attention(q, k, v, mask, scale=scale, causal=causal)

    where = four_dimensional


class AttentionOfFewKeyHeads(Rule):
    """The same where queries have more heads than keys and a mask or broadcasting says how: PyTorch's fused kernels do not
    take that, and it computes the scores in memory."""

    def pattern(q, k, v, mask: Tensor | None, causal: bool, scale: float | None, grouped: bool):
        return F.scaled_dot_product_attention(q, k, v, mask, 0.0, causal, scale=scale, enable_gqa=grouped)

    def replacement(q, k, v, mask: Tensor | None, causal: bool, scale: float | None):
        return kernels.attention(q, k, v, mask, scale=scale, causal=causal)

    def where(q, k, v, mask, grouped):
        return four_dimensional(q, k, v) and q.shape[1] != k.shape[1] and k.shape[1] == v.shape[1] and (
            not grouped or mask is not None)


class AttentionWithoutHeads(Rule):
    """The same of [batch, length, size]: PyTorch's fused kernels take four dimensions, and it computes the scores of
    others in memory."""

    def pattern(q, k, v, mask: Tensor | None, causal: bool, scale: float | None):
        return F.scaled_dot_product_attention(q, k, v, mask, 0.0, causal, scale=scale, enable_gqa=False)

    def replacement(q, k, v, mask: Tensor | None, causal: bool, scale: float | None):
        return kernels.attention(q, k, v, mask, scale=scale, causal=causal)

    def where(q, k, v):
        return q.dim() == 3 and k.dim() == 3 and v.dim() == 3


class AttentionInBlocks(Rule):
    """The same of [batch, heads, blocks, length, size] or [batch, blocks, heads, length, size], as in windows and videos."""

    def pattern(q, k, v, mask: Tensor | None, causal: bool, scale: float | None):
        return F.scaled_dot_product_attention(q, k, v, mask, 0.0, causal, scale=scale, enable_gqa=False)

    def replacement(q, k, v, mask: Tensor | None, causal: bool, scale: float | None):
        flat = kernels.attention(q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1), mask, scale=scale, causal=causal)
        return flat.unflatten(0, (q.shape[0], q.shape[1]))

    def where(q, k, v, mask):
        return q.dim() == 5 and k.dim() == 5 and v.dim() == 5 and (
            q.shape[0] == k.shape[0] and k.shape[0] == v.shape[0] and q.shape[1] == k.shape[1]) and (
            k.shape[1] == v.shape[1] and q.shape[2] == k.shape[2] and k.shape[2] == v.shape[2]) and (
            mask is None or mask.dim() <= 3)


class Attention(Rule):
    """Scaled dot-product attention with an additive mask becomes one kernel."""

    def pattern(q, k, v, mask, scale: float):
        scores = torch.matmul(q, k.transpose(-1, -2)) / scale
        return torch.matmul(probabilities(wide(scores) + mask), v)

    def replacement(q, k, v, mask, scale: float):
        return kernels.attention(q, k, v, mask, scale=1 / scale)

    where = four_dimensional


class PositionAttention(Rule):
    """MPNet's attention: a bias by relative position is added before the mask."""

    def pattern(q, k, v, bias, mask, scale: float):
        scores = torch.matmul(q, k.transpose(-1, -2)) / scale
        return torch.matmul(probabilities(wide(scores) + bias + mask), v)

    def replacement(q, k, v, bias, mask, scale: float):
        return kernels.attention(q, k, v, bias + mask, scale=1 / scale)

    where = four_dimensional


class AttentionWithoutMask(Rule):
    """Attention that looks everywhere, as vision models have it."""

    def pattern(q, k, v, scale: float):
        scores = torch.matmul(q, k.transpose(-1, -2)) / scale
        return torch.matmul(probabilities(scores), v)

    def replacement(q, k, v, scale: float):
        return kernels.attention(q, k, v, scale=1 / scale)

    where = four_dimensional


class AttentionScaledBefore(Rule):
    """Attention with a mask where the model scales the queries before the product, or nothing at all."""

    def pattern(q, k, v, mask):
        scores = torch.matmul(q, k.transpose(-1, -2))
        return torch.matmul(probabilities(scores + mask), v)

    def replacement(q, k, v, mask):
        return kernels.attention(q, k, v, mask, scale=1.0)

    where = four_dimensional


class AttentionScaledBeforeWithoutMask(Rule):
    """The same without a mask, as Whisper's encoder has it."""

    def pattern(q, k, v):
        scores = torch.matmul(q, k.transpose(-1, -2))
        return torch.matmul(probabilities(scores), v)

    def replacement(q, k, v):
        return kernels.attention(q, k, v, scale=1.0)

    where = four_dimensional


class BiasedAttention(Rule):
    """The same with a bias by relative position added before the mask, as T5 has it."""

    def pattern(q, k, v, bias, mask):
        scores = wide(torch.matmul(q, k.transpose(-1, -2))) + bias
        return torch.matmul(probabilities(scores + mask), v)

    def replacement(q, k, v, bias, mask):
        return kernels.attention(q, k, v, bias + mask, scale=1.0)

    where = four_dimensional


class AlibiAttention(Rule):
    """Falcon's attention: alibi is added before the scores are scaled, a mask after it."""

    def pattern(q, k, v, bias, mask, scale: float):
        scores = (wide(same(torch.matmul(q, k.transpose(-1, -2)))) + bias) * scale
        return torch.matmul(cast_back(same(probabilities(scores + mask)), _), v)

    def replacement(q, k, v, bias, mask, scale: float):
        return kernels.attention(q, k, v, bias * scale + mask, scale=scale)

    where = four_dimensional


class AlibiAttentionWithoutMask(Rule):
    """The same where nothing is added after the scale: a bias, or its sum with a mask."""

    def pattern(q, k, v, bias, scale: float):
        scores = (wide(torch.matmul(q, k.transpose(-1, -2))) + bias) * scale
        return torch.matmul(probabilities(scores), v)

    def replacement(q, k, v, bias, scale: float):
        return kernels.attention(q, k, v, bias * scale, scale=scale)

    where = four_dimensional


class AlibiAttentionMaskedBefore(Rule):
    """The same where bias and mask are added one after the other."""

    def pattern(q, k, v, bias, mask, scale: float):
        scores = (wide(torch.matmul(q, k.transpose(-1, -2))) + bias + mask) * scale
        return torch.matmul(probabilities(scores), v)

    def replacement(q, k, v, bias, mask, scale: float):
        return kernels.attention(q, k, v, (bias + mask) * scale, scale=scale)

    where = four_dimensional


class FoldedAlibiAttention(Rule):
    """BLOOM's attention: heads folded into the batch, and one product that scales the scores and adds alibi."""

    def pattern(q, k, v, bias, mask, scale: float, heads: int):
        scores = torch.baddbmm(bias, q, k.transpose(-1, -2), beta=1.0, alpha=scale).view(_, heads, _, _)
        return torch.bmm(probabilities(scores + mask).view(-1, _, _), v)

    def replacement(q, k, v, bias, mask, scale: float, heads: int):
        both = bias.view(-1, heads, bias.shape[1], bias.shape[2]) + mask
        shown = both.expand(-1, -1, q.shape[1], k.shape[1]).reshape(q.shape[0], q.shape[1], k.shape[1])
        return kernels.attention(q, k, v, shown, scale=scale)

    def where(q, k, v, bias, mask):
        return q.dim() == 3 and k.dim() == 3 and v.dim() == 3 and bias.dim() == 3 and mask.dim() == 4


def lowest(fill):
    """A number that swallows any score when it is added, so rows that are hidden whole stay the average they are. Half precision has no
    such number; float32 has, and attention adds in float32."""
    return max(fill * 1e34, -3.4028234663852886e38)


def lowered(hidden, fill):
    """The same as something to add."""
    return torch.where(hidden, lowest(fill), 0.0)


def hides(q, k, v, fill):
    """No score outweighs the number: it is the lowest that the dtype has, or nearly so."""
    return q.dim() == 4 and k.dim() == 4 and v.dim() == 4 and (fill < -1e30 or (fill <= -65504.0 and q.dtype == torch.float16))


class FilledAttention(Rule):
    """Attention whose mask fills hidden places with a number far below any score."""

    def pattern(q, k, v, hidden, scale: float, fill: float):
        scores = (torch.matmul(q, k.transpose(-1, -2)) / scale).masked_fill(hidden, fill)
        return torch.matmul(probabilities(scores), v)

    def replacement(q, k, v, hidden, scale: float, fill: float):
        return kernels.attention(q, k, v, lowered(hidden, fill), scale=1 / scale)

    where = hides


class FilledAttentionScaledBefore(Rule):
    """The same where the model scales the queries before the product, or nothing at all."""

    def pattern(q, k, v, hidden, fill: float):
        scores = torch.matmul(q, k.transpose(-1, -2)).masked_fill(hidden, fill)
        return torch.matmul(probabilities(scores), v)

    def replacement(q, k, v, hidden, fill: float):
        return kernels.attention(q, k, v, lowered(hidden, fill), scale=1.0)

    where = hides


class BiasedFilledAttention(Rule):
    """MPT's attention: alibi is added to the scaled scores before hidden places are filled."""

    def pattern(q, k, v, bias, hidden, scale: float, fill: float):
        scores = (wide(torch.matmul(q, k.transpose(-1, -2)) / scale) + bias).masked_fill(hidden, fill)
        return torch.matmul(probabilities(scores), v)

    def replacement(q, k, v, bias, hidden, scale: float, fill: float):
        return kernels.attention(q, k, v, lowered(hidden, fill) + bias, scale=1 / scale)

    where = hides


class BiasedFilledAttentionScaledBefore(Rule):
    """The same without a scale behind the product."""

    def pattern(q, k, v, bias, hidden, fill: float):
        scores = (wide(torch.matmul(q, k.transpose(-1, -2))) + bias).masked_fill(hidden, fill)
        return torch.matmul(probabilities(scores), v)

    def replacement(q, k, v, bias, hidden, fill: float):
        return kernels.attention(q, k, v, lowered(hidden, fill) + bias, scale=1.0)

    where = hides


class DisentangledAttention(Rule):
    """DeBERTa's attention: heads folded into the batch, scores by content and by relative position, a mask that fills."""

    def pattern(q, k, v, by_position, hidden, root, heads: int, fill: float):
        scores = torch.bmm(q, k.transpose(-1, -2) / root) + by_position
        scores = scores.view(-1, heads, _, _).masked_fill(hidden, fill)
        return torch.bmm(probabilities(scores).view(-1, _, _), v)

    def replacement(q, k, v, by_position, hidden, root, heads: int, fill: float):
        shown = by_position.view(-1, heads, by_position.shape[1], by_position.shape[2]) + lowered(hidden, fill)
        return kernels.attention(q, k / root, v, shown.view(by_position.shape), scale=1.0)

    def where(by_position, root, fill):
        return by_position.dim() == 3 and root.dim() == 0 and (fill < -1e30 or (fill <= -65504.0 and by_position.dtype == torch.float16))


def in_windows(q, k, v, bias, masks):
    # How many pictures there are is a size of the run: a quotient of sizes would be the one of the traced batch.
    pictures = q.view(-1, masks.shape[0], q.shape[1], q.shape[2], q.shape[3])
    both = (bias + masks.unsqueeze(1)).unsqueeze(0).expand(pictures.shape[0], -1, -1, -1, -1).flatten(0, 1)
    return kernels.attention(pictures.flatten(0, 1), k, v, both, scale=1.0)


class WindowAttention(Rule):
    """Swin's attention in shifted windows: a bias by position for each head, a mask for each window."""

    def pattern(q, k, v, bias, mask):
        scores = torch.matmul(q, k.transpose(-1, -2)) + bias
        scores = scores.view(_, mask.shape[0], q.shape[1], _, _) + mask.unsqueeze(1).unsqueeze(0)
        return torch.matmul(probabilities(scores.view(-1, q.shape[1], _, _)), v)

    def replacement(q, k, v, bias, mask):
        return in_windows(q, k, v, bias, mask)

    def where(q, mask):
        return q.dim() == 4 and mask.dim() == 3


class GridAttention(Rule):
    """SAM's attention over a picture: heads folded into the batch, a bias by height and by width laid out as a grid."""

    def pattern(q, k, v, bias, scale: float):
        scores = torch.matmul(q * scale, k.transpose(-1, -2))
        return torch.matmul(probabilities(scores + bias.reshape_as(scores)), v)

    def replacement(q, k, v, bias, scale: float):
        return kernels.attention(q, k, v, bias.reshape(q.shape[0], q.shape[1], k.shape[1]), scale=scale)

    def where(q, k, v):
        return q.dim() == 3 and k.dim() == 3 and v.dim() == 3


class CosineAttention(Rule):
    """Swin v2's attention: scores of unit vectors, scaled by a number for each head, and a bias by position."""

    def pattern(q, k, v, scale, bias):
        scores = torch.matmul(q, k.transpose(-1, -2)) * scale + bias
        return torch.matmul(probabilities(scores), v)

    def replacement(q, k, v, scale, bias):
        return kernels.attention(q * scale, k, v, bias, scale=1.0)

    def where(q, scale):
        return q.dim() == 4 and scale.dim() == 3 and scale.shape[1] == 1 and scale.shape[2] == 1


class CosineWindowAttention(Rule):
    """The same in shifted windows with a mask for each, which transformers adds twice."""

    def pattern(q, k, v, scale, bias, mask):
        scores = torch.matmul(q, k.transpose(-1, -2)) * scale + bias
        scores = scores.view(_, mask.shape[0], q.shape[1], _, _) + mask.unsqueeze(1).unsqueeze(0)
        scores = (scores + mask.unsqueeze(1).unsqueeze(0)).view(-1, q.shape[1], _, _)
        return torch.matmul(probabilities(scores), v)

    def replacement(q, k, v, scale, bias, mask):
        return in_windows(q * scale, k, v, bias, 2 * mask)

    def where(q, scale, mask):
        return q.dim() == 4 and mask.dim() == 3 and scale.dim() == 3 and scale.shape[1] == 1 and scale.shape[2] == 1


class LayerScale(Rule):
    """ConvNeXt's factor for each channel goes into the weights of the linear layer before it."""

    def pattern(x, w: Weight, b: Weight, factor: Weight):
        return F.linear(x, w, b).permute(0, 3, 1, 2) * factor

    def replacement(x, w: Weight, b: Weight, factor: Weight):
        return F.linear(x, w * factor.view(-1, 1), b * factor.view(-1)).permute(0, 3, 1, 2)

    def where(w, factor):
        return factor.dim() == 3 and factor.shape[0] == w.shape[0] and factor.numel() == w.shape[0]


class LayerScaleLinear(Rule):
    """The same where channels are last, as BEiT, DINOv2 and CaiT have it."""

    def pattern(x, w: Weight, b: Weight, factor: Weight):
        return F.linear(x, w, b) * factor

    def replacement(x, w: Weight, b: Weight, factor: Weight):
        return F.linear(x, w * factor.view(-1, 1), b * factor)

    def where(w, factor):
        return factor.dim() == 1 and factor.shape[0] == w.shape[0]


class NewGelu(Rule):
    """GELU's approximation by tanh, written out."""

    def pattern(x):
        return 0.5 * x * (1.0 + torch.tanh(0.7978845608028654 * (x + 0.044715 * torch.pow(x, 3.0))))

    def replacement(x):
        return F.gelu(x, approximate="tanh")


class QuickGelu(Rule):
    """CLIP's approximation of GELU between two linear layers is a SiLU with its factor in the weights."""

    def pattern(x, w1: Weight, b1: Weight, w2: Weight, b2: Weight, factor: float):
        h = F.linear(x, w1, b1)
        return F.linear(h * torch.sigmoid(h * factor), w2, b2)

    def replacement(x, w1: Weight, b1: Weight, w2: Weight, b2: Weight, factor: float):
        return F.linear(kernels.linear(x, w1 * factor, b1 * factor, activation="silu"), w2 / factor, b2)

    def where(factor):
        return factor > 0.1 and factor < 10


class GeluLinear(Rule):
    """A linear layer and its GELU become one kernel."""

    def pattern(x, w: Weight, b: Weight):
        return F.gelu(F.linear(x, w, b))

    def replacement(x, w: Weight, b: Weight):
        return kernels.linear(x, w, b, activation="gelu")


class GeluTanhLinear(Rule):
    """The same for GELU's approximation by tanh."""

    def pattern(x, w: Weight, b: Weight):
        return F.gelu(F.linear(x, w, b), approximate="tanh")

    def replacement(x, w: Weight, b: Weight):
        return kernels.linear(x, w, b, activation="gelu_tanh")


class ReluLinear(Rule):
    """A linear layer and its ReLU become one kernel."""

    def pattern(x, w: Weight, b: Weight):
        return F.relu(F.linear(x, w, b))

    def replacement(x, w: Weight, b: Weight):
        return kernels.linear(x, w, b, activation="relu")


class SwiGlu(Rule):
    """The gate of feed-forward layers in Llama and DINOv2."""

    def pattern(gate, up):
        return F.silu(gate) * up

    def replacement(gate, up):
        return kernels.swiglu(gate, up)

    def where(gate, up):
        return gate.shape == up.shape


class EmbeddingLayerNorm(Rule):
    """Words, positions and segments looked up, added and normalised in one pass."""

    def pattern(a, b, c, wa: Weight, wb: Weight, wc: Weight, shape: list[int], weight: Weight, bias: Weight, eps: float):
        total = F.embedding(a, wa, padding_idx=_) + F.embedding(b, wb, padding_idx=_) + F.embedding(c, wc, padding_idx=_)
        return F.layer_norm(total, shape, weight, bias, eps)

    def replacement(a, b, c, wa: Weight, wb: Weight, wc: Weight, weight: Weight, bias: Weight, eps: float):
        return kernels.embedding_layer_norm([a, b, c], [wa, wb, wc], weight, bias, eps)

    def where(shape):
        return len(shape) == 1


class TwoEmbeddingsLayerNorm(Rule):
    """The same for models without segments."""

    def pattern(a, b, wa: Weight, wb: Weight, shape: list[int], weight: Weight, bias: Weight, eps: float):
        total = F.embedding(a, wa, padding_idx=_) + F.embedding(b, wb, padding_idx=_)
        return F.layer_norm(total, shape, weight, bias, eps)

    def replacement(a, b, wa: Weight, wb: Weight, weight: Weight, bias: Weight, eps: float):
        return kernels.embedding_layer_norm([a, b], [wa, wb], weight, bias, eps)

    def where(shape):
        return len(shape) == 1


class LinearAddLayerNorm(Rule):
    """The end of a block: a projection, the residual added to it, and the norm of the sum."""

    def pattern(x, w: Weight, b: Weight, residual: Tensor, shape: list[int], weight: Weight, bias: Weight, eps: float):
        return F.layer_norm(keep(F.linear(x, w, b)) + residual, shape, weight, bias, eps)

    def replacement(x, w: Weight, b: Weight, residual: Tensor, weight: Weight, bias: Weight, eps: float):
        return kernels.linear_add_layer_norm(x, w, b, residual, weight, bias, eps)

    def where(x, w, residual, shape):
        return len(shape) == 1 and residual.shape == x.shape[:-1] + (w.shape[0],) and residual.dtype == w.dtype


class AddLayerNorm(Rule):
    """A residual added and normalised in one pass over memory."""

    def pattern(x, residual, shape: list[int], weight: Weight, bias: Weight, eps: float):
        return F.layer_norm(keep(x) + residual, shape, weight, bias, eps)

    def replacement(x, residual, weight: Weight, bias: Weight, eps: float):
        return kernels.add_layer_norm(x, residual, weight, bias, eps)

    def where(x, residual, shape):
        return len(shape) == 1 and x.shape == residual.shape


class LinearAdd(Rule):
    """A residual that no norm takes along is added while the product is written."""

    def pattern(x, w: Weight, b: Weight, residual: Tensor):
        return F.linear(x, w, b) + residual

    def replacement(x, w: Weight, b: Weight, residual: Tensor):
        return kernels.linear(x, w, b, residual=residual)

    def where(x, w, residual):
        return residual.shape == x.shape[:-1] + (w.shape[0],) and residual.dtype == w.dtype


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


def heads_together(heads, q, v):
    """[batch, heads, length, head size], perhaps said once more, to [batch, length, features]."""
    heads = optional(torch.Tensor.reshape, heads, [q.shape[0], _, q.shape[2], v.shape[3]])
    side_by_side = optional(torch.Tensor.contiguous, heads.transpose(1, 2))
    return optional(torch.Tensor.contiguous, side_by_side.reshape(_, _, _))


class AttentionNormLinear(Rule):
    """From attention to the first product of the feed-forward layer: for a few tokens two kernels instead of four."""

    def pattern(q, k, v, mask: Tensor | None, scale: float | None, causal: bool, w: Weight, b: Tensor | None, residual: Tensor,
                weight: Tensor | None, bias: Tensor | None, eps: float, next_w: Weight, next_b: Tensor | None, how: str):  # fmt: skip
        x = heads_together(kernels.attention(q, k, v, mask, scale=scale, causal=causal), q, v)
        y = kernels.linear_add_layer_norm(x, w, b, residual, weight, bias, eps)
        return kernels.linear(y, next_w, next_b, activation=how), y

    def replacement(q, k, v, mask: Tensor | None, scale: float | None, causal: bool, w: Weight, b: Tensor | None, residual: Tensor,
                    weight: Tensor | None, bias: Tensor | None, eps: float, next_w: Weight, next_b: Tensor | None, how: str):  # fmt: skip
        y, product = kernels.attention_norm_linear(
            q, k, v, mask, w, b, residual, weight, bias, next_w, next_b, eps, scale=scale, causal=causal, activation=how
        )
        return product, y

    def where(q, v, w, residual):
        return q.dim() == 4 and residual.dim() == 3 and residual.shape[0] == q.shape[0] and residual.shape[1] == q.shape[2] and w.shape[1] == q.shape[1] * v.shape[3]


class LinearNormLinear(Rule):
    """From the end of a block into the product that follows it: for a few rows the norm becomes part of the product."""

    def pattern(x, w: Weight, b: Tensor | None, residual: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, next_w: Weight, next_b: Tensor | None, how: str):
        y = kernels.linear_add_layer_norm(x, w, b, residual, weight, bias, eps)
        return kernels.linear(y, next_w, next_b, activation=how), y

    def replacement(x, w: Weight, b: Tensor | None, residual: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, next_w: Weight, next_b: Tensor | None, how: str):
        y, product = kernels.linear_norm_linear(x, w, b, residual, weight, bias, next_w, next_b, eps, activation=how)
        return product, y


class LinearNormQkv(Rule):
    """The same where queries, keys and values are projected next; they are views of one product."""

    def pattern(x, w: Weight, b: Tensor | None, residual: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, next_w: Weight, next_b: Tensor | None, heads: int, kv_heads: int):
        y = kernels.linear_add_layer_norm(x, w, b, residual, weight, bias, eps)
        q, k, v = kernels.qkv_projection(y, next_w, next_b, heads=heads, kv_heads=kv_heads)
        return q, k, v, y

    def replacement(x, w: Weight, b: Tensor | None, residual: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, next_w: Weight, next_b: Tensor | None, heads: int, kv_heads: int):
        y, product = kernels.linear_norm_linear(x, w, b, residual, weight, bias, next_w, next_b, eps)
        all_heads = product.view(product.shape[0], product.shape[1], heads + 2 * kv_heads, -1).transpose(1, 2)
        return all_heads[:, :heads], all_heads[:, heads : heads + kv_heads], all_heads[:, heads + kv_heads :], y


class Encoder(Recipe):
    """What `graft apply --recipe Encoder` runs, in order."""

    steps = [
        normalize,
        remove_dropout,
        EmbeddingLayerNorm,  # before the positions of fixed sizes are looked up for good
        TwoEmbeddingsLayerNorm,
        PaddingMask,
        PaddingMaskBroadcast,
        SelectBeforeExpand,
        SelectedFill,  # before numbers in tensors become constants
        CosineWindowAttention,  # before masks and their new dimensions become one constant
        simplify_masks,  # what the rules above leave of them
        fold_constants,
        LayerScale,
        LayerScaleLinear,
        QkvProjection,
        QkvProjectionScaled,
        QkvProjectionScaledWithBias,
        QkvProjectionKeyWithoutBias,
        ScaledDotProductAttention,
        AttentionWithoutHeads,
        AttentionInBlocks,
        PositionAttention,
        Attention,
        AttentionWithoutMask,
        AttentionScaledBefore,
        AttentionScaledBeforeWithoutMask,
        BiasedAttention,
        AlibiAttention,
        AlibiAttentionMaskedBefore,
        AlibiAttentionWithoutMask,
        FoldedAlibiAttention,
        FilledAttention,
        FilledAttentionScaledBefore,
        BiasedFilledAttention,
        BiasedFilledAttentionScaledBefore,
        DisentangledAttention,
        WindowAttention,
        GridAttention,
        CosineAttention,
        simplify_masks,  # of attention that the rules above found
        NewGelu,
        QuickGelu,
        GeluLinear,
        GeluTanhLinear,
        ReluLinear,
        SwiGlu,
        LinearAddLayerNorm,
        AddLayerNorm,
        LinearAdd,
        Linear,
        LinearWithoutBias,
        AttentionNormLinear,  # after all products have their kernels
        LinearNormLinear,
        LinearNormQkv,
        eliminate_dead,
    ]
