"""Rules for convolutional networks: batch norms folded into weights, then convolution, bias, addition and ReLU in one.

    graft apply resnet.pt --rules resources/rules/conv.py --recipe ConvNet --inputs images.pt -o resnet_fast.pt
"""

import torch
import torch.nn.functional as F
from graft import Recipe, Rule, Tensor, Weight, any_of, kernels
from graft import eliminate_dead, fold_constants, normalize, remove_dropout


def conv(x, w, b, stride, padding, dilation, groups):
    """A convolution as torch.export and scripting spell it, and as tracing does."""
    return any_of(
        torch.conv2d(x, w, b, stride, padding, dilation, groups),
        torch.ops.aten._convolution(x, w, b, stride, padding, dilation, False, _, groups, _, _, _, _),
    )


class FoldBatchNorm(Rule):
    """At inference a batch norm is a scale and a shift of each channel: they go into the convolution's weights."""

    def pattern(
        x, w: Weight, mean: Weight, var: Weight, gamma: Weight, beta: Weight, eps: float,
        stride: list[int], padding: list[int], dilation: list[int], groups: int,
    ):
        y = conv(x, w, None, stride, padding, dilation, groups)
        return F.batch_norm(y, mean, var, gamma, beta, training=False, momentum=_, eps=eps)

    def replacement(
        x, w: Weight, mean: Weight, var: Weight, gamma: Weight, beta: Weight, eps: float,
        stride: list[int], padding: list[int], dilation: list[int], groups: int,
    ):
        factor = gamma * torch.rsqrt(var + eps)
        return torch.conv2d(x, w * factor.view(-1, 1, 1, 1), beta - mean * factor, stride, padding, dilation, groups)

    def where(w):
        return w.dim() == 4


class FoldBatchNormWithBias(Rule):
    """The same for a convolution that has a bias."""

    def pattern(
        x, w: Weight, b: Weight, mean: Weight, var: Weight, gamma: Weight, beta: Weight, eps: float,
        stride: list[int], padding: list[int], dilation: list[int], groups: int,
    ):
        y = conv(x, w, b, stride, padding, dilation, groups)
        return F.batch_norm(y, mean, var, gamma, beta, training=False, momentum=_, eps=eps)

    def replacement(
        x, w: Weight, b: Weight, mean: Weight, var: Weight, gamma: Weight, beta: Weight, eps: float,
        stride: list[int], padding: list[int], dilation: list[int], groups: int,
    ):
        factor = gamma * torch.rsqrt(var + eps)
        bias = (b - mean) * factor + beta
        return torch.conv2d(x, w * factor.view(-1, 1, 1, 1), bias, stride, padding, dilation, groups)

    def where(w):
        return w.dim() == 4


def conv_add_relu(x, w: Weight, b: Weight, residual, stride: list[int], padding: list[int], dilation: list[int], groups: int):
    return F.relu(conv(x, w, b, stride, padding, dilation, groups) + residual)


def conv_add(x, w: Weight, b: Weight, residual: Tensor, stride: list[int], padding: list[int], dilation: list[int], groups: int):
    return conv(x, w, b, stride, padding, dilation, groups) + residual


def conv_relu(x, w: Weight, b: Weight, stride: list[int], padding: list[int], dilation: list[int], groups: int):
    return F.relu(conv(x, w, b, stride, padding, dilation, groups))


class ConvAddRelu(Rule):
    """The end of a residual block: convolution, bias, addition and ReLU in one."""

    pattern = conv_add_relu

    def replacement(
        x, w: Weight, b: Weight, residual, stride: list[int], padding: list[int], dilation: list[int], groups: int
    ):
        return kernels.conv_bias_add_relu(x, w, b, residual, stride, padding, dilation, groups)

    def where(w):
        return w.dim() == 4


class ConvAdd(Rule):
    """A residual block that ends without ReLU, as MobileNet's and EfficientNet's do."""

    pattern = conv_add

    def replacement(
        x, w: Weight, b: Weight, residual: Tensor, stride: list[int], padding: list[int], dilation: list[int], groups: int
    ):
        return kernels.conv_bias_add_relu(x, w, b, residual, stride, padding, dilation, groups, relu=False)

    def where(w, residual):
        return w.dim() == 4 and residual.dim() == 4 and residual.dtype == w.dtype


class ConvRelu(Rule):
    """Convolution, bias and ReLU in one."""

    pattern = conv_relu

    def replacement(x, w: Weight, b: Weight, stride: list[int], padding: list[int], dilation: list[int], groups: int):
        return kernels.conv_bias_add_relu(x, w, b, None, stride, padding, dilation, groups)

    def where(w):
        return w.dim() == 4


# The same once more with weights in channels-last: convolutions then take and give images laid out so, which tensor cores
# want, and cuDNN does bias, addition and ReLU in the convolution's own kernel.


class ConvAddReluLast(Rule):
    """ConvAddRelu with channels innermost."""

    pattern = conv_add_relu

    def replacement(x, w: Weight, b: Weight, residual, stride: list[int], padding: list[int], dilation: list[int], groups: int):
        laid = w.contiguous(memory_format=torch.channels_last)
        return kernels.conv_bias_add_relu(x, laid, b, residual, stride, padding, dilation, groups)

    def where(w):
        return w.dim() == 4


class ConvAddLast(Rule):
    """ConvAdd with channels innermost."""

    pattern = conv_add

    def replacement(
        x, w: Weight, b: Weight, residual: Tensor, stride: list[int], padding: list[int], dilation: list[int], groups: int
    ):
        laid = w.contiguous(memory_format=torch.channels_last)
        return kernels.conv_bias_add_relu(x, laid, b, residual, stride, padding, dilation, groups, relu=False)

    def where(w, residual):
        return w.dim() == 4 and residual.dim() == 4 and residual.dtype == w.dtype


class ConvReluLast(Rule):
    """ConvRelu with channels innermost."""

    pattern = conv_relu

    def replacement(x, w: Weight, b: Weight, stride: list[int], padding: list[int], dilation: list[int], groups: int):
        laid = w.contiguous(memory_format=torch.channels_last)
        return kernels.conv_bias_add_relu(x, laid, b, None, stride, padding, dilation, groups)

    def where(w):
        return w.dim() == 4


class ConvLast(Rule):
    """Any other convolution, so that the layout goes on."""

    def pattern(x, w: Weight, b: Weight, stride: list[int], padding: list[int], dilation: list[int], groups: int):
        return conv(x, w, b, stride, padding, dilation, groups)

    def replacement(x, w: Weight, b: Weight, stride: list[int], padding: list[int], dilation: list[int], groups: int):
        laid = w.contiguous(memory_format=torch.channels_last)
        return kernels.conv_bias_add_relu(x, laid, b, None, stride, padding, dilation, groups, relu=False)

    def where(w):
        return w.dim() == 4


class ConvNet(Recipe):
    """ResNet and its relatives."""

    steps = [
        normalize,
        remove_dropout,
        fold_constants,
        FoldBatchNorm,
        FoldBatchNormWithBias,
        ConvAddRelu,
        ConvAdd,
        ConvRelu,
        eliminate_dead,
    ]


class ConvNetChannelsLast(Recipe):
    """The same with all weights in channels-last, for half types on a GPU: cuDNN then does each convolution with its bias, addition
    and ReLU in one kernel. Images between the layers change their layout, so a model that calls `view` on them may refuse."""

    steps = [
        normalize,
        remove_dropout,
        fold_constants,
        FoldBatchNorm,
        FoldBatchNormWithBias,
        ConvAddReluLast,
        ConvAddLast,
        ConvReluLast,
        ConvLast,
        eliminate_dead,
    ]
