"""Generated kernels for what no rule covers: Graft finds groups of operators and makes one kernel of each.

    graft apply model.pt --rules resources/rules/generated.py --recipe Generated --inputs in.pt -o model_fast.pt
"""

from conv import ConvAddLast, ConvAddReluLast, ConvClamp, ConvGelu, ConvGeluTanh, ConvHardSigmoid, ConvHardSwish, ConvLast
from conv import ConvLeakyRelu, ConvRelu6, ConvReluLast, ConvSigmoid, ConvSilu, ConvTanh, FoldBatchNorm, FoldBatchNormWithBias
from graft import Recipe
from graft import eliminate_common, eliminate_dead, fold_constants, fuse, normalize, remove_dropout
from transformer import GeluLinear, GeluTanhLinear, Linear, LinearAdd, LinearWithoutBias, ReluLinear


class Generated(Recipe):
    """Any model. Batch norms go into the weights before them, convolutions and linear layers run with packed weights and
    take their activations along, and all else becomes generated kernels."""

    steps = [
        normalize,
        remove_dropout,
        fold_constants,
        eliminate_common,
        FoldBatchNorm,
        FoldBatchNormWithBias,
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
        fuse(),
        eliminate_dead,
    ]


class Fused(Recipe):
    """Behind another recipe: generated kernels of what that one leaves, and nothing else."""

    steps = [fuse(), eliminate_dead]
