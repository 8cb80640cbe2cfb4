"""Generated kernels for what no rule covers: Graft finds groups of operators and makes one kernel of each.

    graft apply model.pt --rules resources/rules/generated.py --recipe Generated --inputs in.pt -o model_fast.pt
"""

import torch
import torch.nn.functional as F
from conv import AddedBatchNorm, AddedBatchNormByChannel, AddedConvolutions
from conv import ConvAddLast, ConvAddReluLast, ConvClamp, ConvGelu, ConvGeluTanh, ConvHardSigmoid, ConvHardSwish, ConvLast
from conv import ConvLeakyRelu, ConvRelu6, ConvReluLast, ConvSigmoid, ConvSilu, ConvTanh, FoldBatchNorm, FoldBatchNormInVolumes
from conv import FoldBatchNormOfLinear, FoldBatchNormOfLinearWithBias, FoldBatchNormOverTime, FoldBatchNormWithBias
from conv import FoldBatchNormWithBiasInVolumes, FoldBatchNormWithBiasOverTime, linear_normed, linear_with_bias_normed
from graft import Recipe, Rule, Weight, any_of, channels_last, complex_as_real, conv1d_as_conv2d, kernels, _
from graft import eliminate_common, eliminate_dead, find_attention, find_linear, find_products, fold_constants, functionalize
from graft import fuse, normalize, remove_dropout, share_masks, simplify_masks, split_bias
from transformer import AttentionInBlocks, AttentionOfFewKeyHeads, AttentionWithoutHeads
from transformer import GeluLinear, GeluTanhLinear, Linear, LinearAdd, LinearWithoutBias, ReluLinear


class FoldBatchNormOfFlatLinear(Rule):
    """A batch norm behind a linear layer of [batch, length, channels], for which the first two are taken together, goes into
    the layer's weights."""

    def pattern(x, w: Weight, mean: Weight, var: Weight, gamma: Weight, beta: Weight, eps: float):
        y = F.linear(x, w, None)
        return F.batch_norm(y.flatten(0, 1), mean, var, gamma, beta, training=False, momentum=_, eps=eps).reshape_as(y)

    def replacement(x, w: Weight, mean: Weight, var: Weight, gamma: Weight, beta: Weight, eps: float):
        return linear_normed(x, w, mean, var, gamma, beta, eps)

    def where(x):
        return x.dim() == 3


class FoldBatchNormOfFlatLinearWithBias(Rule):
    """The same for a linear layer that has a bias."""

    def pattern(x, w: Weight, b: Weight, mean: Weight, var: Weight, gamma: Weight, beta: Weight, eps: float):
        y = F.linear(x, w, b)
        return F.batch_norm(y.flatten(0, 1), mean, var, gamma, beta, training=False, momentum=_, eps=eps).reshape_as(y)

    def replacement(x, w: Weight, b: Weight, mean: Weight, var: Weight, gamma: Weight, beta: Weight, eps: float):
        return linear_with_bias_normed(x, w, b, mean, var, gamma, beta, eps)

    def where(x):
        return x.dim() == 3


# Products with weights that no linear layer holds: they are packed, too.


class Product(Rule):
    """A product with a weight that lies the other way round, as nn.Parameter often does."""

    def pattern(x, w: Weight):
        return torch.matmul(x, w)

    def replacement(x, w: Weight):
        return kernels.linear(x, w.t().contiguous())

    def where(x, w):
        return w.dim() == 2 and x.dim() >= 2 and w.is_floating_point() and x.dtype == w.dtype


class ProductWithBias(Rule):
    """The same with a bias, GPT-2's Conv1D."""

    def pattern(x, w: Weight, b: Weight):
        return torch.addmm(b, x, w)

    def replacement(x, w: Weight, b: Weight):
        return kernels.linear(x, w.t().contiguous(), b)

    def where(w, b):
        return b.dim() == 1 and b.shape[0] == w.shape[1] and w.is_floating_point()


class BatchedProduct(Rule):
    """The same tokens through a matrix for each expert, or each expert's tokens through its own."""

    def pattern(x, w: Weight):
        return any_of(torch.matmul(x, w), torch.bmm(x, w))

    def replacement(x, w: Weight):
        return kernels.batched_linear(x, w)

    def where(x, w):
        return w.dim() == 3 and w.is_floating_point() and x.dtype == w.dtype and (
            x.dim() == 2 or (x.dim() == 3 and x.shape[0] == w.shape[0]))


class Generated(Recipe):
    """Any model. Batch norms go into the weights before them, convolutions and linear layers run with packed weights and
    take their activations along, attention that is spelled with products and a softmax is one kernel, and all else becomes
    generated kernels."""

    steps = [
        normalize,
        remove_dropout,
        functionalize,
        complex_as_real,
        find_linear,
        fold_constants,
        eliminate_common,
        find_products,
        find_attention,
        simplify_masks,
        FoldBatchNorm,
        FoldBatchNormWithBias,
        FoldBatchNormOverTime,
        FoldBatchNormWithBiasOverTime,
        FoldBatchNormInVolumes,
        FoldBatchNormWithBiasInVolumes,
        FoldBatchNormOfLinear,
        FoldBatchNormOfLinearWithBias,
        FoldBatchNormOfFlatLinear,
        FoldBatchNormOfFlatLinearWithBias,
        AddedConvolutions,
        AddedBatchNorm,
        AddedBatchNormByChannel,
        AddedConvolutions,  # with what these two made
        AttentionOfFewKeyHeads,
        AttentionWithoutHeads,
        AttentionInBlocks,
        share_masks,
        conv1d_as_conv2d,
        ConvAddReluLast,
        ConvAddLast,
        ConvReluLast,
        ConvLast,
        ConvSilu,
        ConvGelu,
        ConvGeluTanh,
        ConvSigmoid,
        ConvTanh,
        ConvHardSwish,
        ConvHardSigmoid,
        ConvRelu6,
        ConvClamp,
        ConvLeakyRelu,
        GeluLinear,
        GeluTanhLinear,
        ReluLinear,
        LinearAdd,
        Linear,
        LinearWithoutBias,
        Product,
        ProductWithBias,
        BatchedProduct,
        channels_last,
        fold_constants,
        split_bias,
        fuse(),
        eliminate_dead,
    ]


class Fused(Recipe):
    """Behind another recipe: generated kernels of what that one leaves, and nothing else."""

    steps = [
        functionalize,
        complex_as_real,
        find_products,
        find_attention,
        simplify_masks,
        share_masks,
        conv1d_as_conv2d,
        fold_constants,
        channels_last,
        fold_constants,
        split_bias,
        fuse(),
        eliminate_dead,
    ]
