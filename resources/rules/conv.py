"""Rules for convolutional networks: batch norms folded into weights, then convolution, bias, addition and activation in one.

    graft apply resnet.pt --rules resources/rules/conv.py --recipe ConvNetChannelsLast --inputs images.pt -o resnet_fast.pt
"""

import torch
import torch.nn.functional as F
from graft import Recipe, Rule, Tensor, Weight, any_of, kernels, _
from graft import eliminate_dead, fold_constants, normalize, remove_dropout


def conv(x, w, b, stride, padding, dilation, groups):
    """A convolution as torch.export and scripting spell it, and as tracing does."""
    return any_of(
        torch.conv2d(x, w, b, stride, padding, dilation, groups),
        torch.conv1d(x, w, b, stride, padding, dilation, groups),
        torch.conv3d(x, w, b, stride, padding, dilation, groups),
        torch.ops.aten._convolution(x, w, b, stride, padding, dilation, False, _, groups, _, _, _, _),
    )


def batch_norm_of(
    x, w: Weight, mean: Weight, var: Weight, gamma: Weight, beta: Weight, eps: float,
    stride: list[int], padding: list[int], dilation: list[int], groups: int,
):
    y = conv(x, w, None, stride, padding, dilation, groups)
    return F.batch_norm(y, mean, var, gamma, beta, training=False, momentum=_, eps=eps)


def batch_norm_of_biased(
    x, w: Weight, b: Weight, mean: Weight, var: Weight, gamma: Weight, beta: Weight, eps: float,
    stride: list[int], padding: list[int], dilation: list[int], groups: int,
):
    y = conv(x, w, b, stride, padding, dilation, groups)
    return F.batch_norm(y, mean, var, gamma, beta, training=False, momentum=_, eps=eps)


class FoldBatchNorm(Rule):
    """At inference a batch norm is a scale and a shift of each channel: they go into the convolution's weights."""

    pattern = batch_norm_of

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

    pattern = batch_norm_of_biased

    def replacement(
        x, w: Weight, b: Weight, mean: Weight, var: Weight, gamma: Weight, beta: Weight, eps: float,
        stride: list[int], padding: list[int], dilation: list[int], groups: int,
    ):
        factor = gamma * torch.rsqrt(var + eps)
        bias = (b - mean) * factor + beta
        return torch.conv2d(x, w * factor.view(-1, 1, 1, 1), bias, stride, padding, dilation, groups)

    def where(w):
        return w.dim() == 4


# Branches of one image that are added: RepVGG, MobileOne, FastViT. They are one convolution, whose filters are the sum.


class AddedConvolutions(Rule):
    """The smaller filters lie in the middle of the larger ones."""

    def pattern(
        x, w: Weight, b: Weight, w2: Weight, b2: Weight,
        stride: list[int], padding: list[int], padding2: list[int], dilation: list[int], groups: int,
    ):
        larger = conv(x, w, b, stride, padding, dilation, groups)
        return larger + conv(x, w2, b2, stride, padding2, dilation, groups)

    def replacement(
        x, w: Weight, b: Weight, w2: Weight, b2: Weight,
        stride: list[int], padding: list[int], padding2: list[int], dilation: list[int], groups: int,
    ):
        rows, columns = padding[0] - padding2[0], padding[1] - padding2[1]
        filters = w + F.pad(w2, [columns, columns, rows, rows])
        return torch.conv2d(x, filters, b + b2, stride, padding, dilation, groups)

    def where(w, w2, padding, padding2, dilation):
        return w.dim() == 4 and w2.dim() == 4 and w.shape[0] == w2.shape[0] and w.shape[1] == w2.shape[1] and (
            padding[0] >= padding2[0] and w.shape[2] - w2.shape[2] == 2 * (padding[0] - padding2[0])) and (
            padding[1] >= padding2[1] and w.shape[3] - w2.shape[3] == 2 * (padding[1] - padding2[1])) and (
            w.shape == w2.shape or (dilation[0] == 1 and dilation[1] == 1))


def beside_batch_norm(
    x, w: Weight, b: Weight, mean: Weight, var: Weight, gamma: Weight, beta: Weight, eps: float,
    padding: list[int], groups: int,
):
    normalized = F.batch_norm(x, mean, var, gamma, beta, training=False, momentum=_, eps=eps)
    return conv(x, w, b, [1, 1], padding, [1, 1], groups) + normalized


def keeps_sizes(w, padding):
    return w.dim() == 4 and w.shape[2] == 2 * padding[0] + 1 and w.shape[3] == 2 * padding[1] + 1


def of_one_dtype(w, mean, gamma):
    return w.dtype == gamma.dtype and w.dtype == mean.dtype


def with_filter_of_one_place(x, w, b, added, added_bias, padding, groups):
    filters = w + F.pad(added, [padding[1], padding[1], padding[0], padding[0]])
    return torch.conv2d(x, filters, b + added_bias, [1, 1], padding, [1, 1], groups)


class AddedBatchNorm(Rule):
    """A batch norm of the same image is a filter of one place, from each channel to itself."""

    pattern = beside_batch_norm

    def replacement(
        x, w: Weight, b: Weight, mean: Weight, var: Weight, gamma: Weight, beta: Weight, eps: float,
        padding: list[int], groups: int,
    ):
        factor = gamma * torch.rsqrt(var + eps)
        to_itself = torch.diag(factor).unsqueeze(-1).unsqueeze(-1)
        return with_filter_of_one_place(x, w, b, to_itself, beta - mean * factor, padding, groups)

    def where(w, mean, gamma, padding, groups):
        return keeps_sizes(w, padding) and of_one_dtype(w, mean, gamma) and groups == 1 and w.shape[0] == w.shape[1]


class AddedBatchNormByChannel(Rule):
    """The same for filters of one channel each."""

    pattern = beside_batch_norm

    def replacement(
        x, w: Weight, b: Weight, mean: Weight, var: Weight, gamma: Weight, beta: Weight, eps: float,
        padding: list[int], groups: int,
    ):
        factor = gamma * torch.rsqrt(var + eps)
        return with_filter_of_one_place(x, w, b, factor.view(-1, 1, 1, 1), beta - mean * factor, padding, groups)

    def where(w, mean, gamma, padding, groups):
        return keeps_sizes(w, padding) and of_one_dtype(w, mean, gamma) and w.shape[1] == 1 and w.shape[0] == groups


# Over time and in volumes.


class FoldBatchNormOverTime(Rule):
    """FoldBatchNorm over time."""

    pattern = batch_norm_of

    def replacement(
        x, w: Weight, mean: Weight, var: Weight, gamma: Weight, beta: Weight, eps: float,
        stride: list[int], padding: list[int], dilation: list[int], groups: int,
    ):
        factor = gamma * torch.rsqrt(var + eps)
        bias = beta - mean * factor
        return torch.conv1d(x, w * factor.view(-1, 1, 1), bias, stride, padding, dilation, groups)

    def where(w):
        return w.dim() == 3


class FoldBatchNormWithBiasOverTime(Rule):
    """FoldBatchNormWithBias over time."""

    pattern = batch_norm_of_biased

    def replacement(
        x, w: Weight, b: Weight, mean: Weight, var: Weight, gamma: Weight, beta: Weight, eps: float,
        stride: list[int], padding: list[int], dilation: list[int], groups: int,
    ):
        factor = gamma * torch.rsqrt(var + eps)
        bias = (b - mean) * factor + beta
        return torch.conv1d(x, w * factor.view(-1, 1, 1), bias, stride, padding, dilation, groups)

    def where(w):
        return w.dim() == 3


class FoldBatchNormInVolumes(Rule):
    """FoldBatchNorm in volumes."""

    pattern = batch_norm_of

    def replacement(
        x, w: Weight, mean: Weight, var: Weight, gamma: Weight, beta: Weight, eps: float,
        stride: list[int], padding: list[int], dilation: list[int], groups: int,
    ):
        factor = gamma * torch.rsqrt(var + eps)
        bias = beta - mean * factor
        return torch.conv3d(x, w * factor.view(-1, 1, 1, 1, 1), bias, stride, padding, dilation, groups)

    def where(w):
        return w.dim() == 5


class FoldBatchNormWithBiasInVolumes(Rule):
    """FoldBatchNormWithBias in volumes."""

    pattern = batch_norm_of_biased

    def replacement(
        x, w: Weight, b: Weight, mean: Weight, var: Weight, gamma: Weight, beta: Weight, eps: float,
        stride: list[int], padding: list[int], dilation: list[int], groups: int,
    ):
        factor = gamma * torch.rsqrt(var + eps)
        bias = (b - mean) * factor + beta
        return torch.conv3d(x, w * factor.view(-1, 1, 1, 1, 1), bias, stride, padding, dilation, groups)

    def where(w):
        return w.dim() == 5


def linear_normed(x, w: Weight, mean: Weight, var: Weight, gamma: Weight, beta: Weight, eps: float):
    """A linear layer with the batch norm behind it in its weights."""
    factor = gamma * torch.rsqrt(var + eps)
    return F.linear(x, w * factor.view(-1, 1), beta - mean * factor)


def linear_with_bias_normed(x, w: Weight, b: Weight, mean: Weight, var: Weight, gamma: Weight, beta: Weight, eps: float):
    """The same of one that has a bias."""
    factor = gamma * torch.rsqrt(var + eps)
    return F.linear(x, w * factor.view(-1, 1), (b - mean) * factor + beta)


class FoldBatchNormOfLinear(Rule):
    """The same for a linear layer."""

    def pattern(x, w: Weight, mean: Weight, var: Weight, gamma: Weight, beta: Weight, eps: float):
        y = F.linear(x, w, None)
        return F.batch_norm(y, mean, var, gamma, beta, training=False, momentum=_, eps=eps)

    def replacement(x, w: Weight, mean: Weight, var: Weight, gamma: Weight, beta: Weight, eps: float):
        return linear_normed(x, w, mean, var, gamma, beta, eps)

    def where(x):
        return x.dim() == 2


class FoldBatchNormOfLinearWithBias(Rule):
    """The same for a linear layer that has a bias."""

    def pattern(x, w: Weight, b: Weight, mean: Weight, var: Weight, gamma: Weight, beta: Weight, eps: float):
        y = F.linear(x, w, b)
        return F.batch_norm(y, mean, var, gamma, beta, training=False, momentum=_, eps=eps)

    def replacement(x, w: Weight, b: Weight, mean: Weight, var: Weight, gamma: Weight, beta: Weight, eps: float):
        return linear_with_bias_normed(x, w, b, mean, var, gamma, beta, eps)

    def where(x):
        return x.dim() == 2


# A bias may be missing, and a residual is any tensor of the output's rank: numbers and vectors are cheaper elsewhere.


def conv_add_relu(
    x, w: Weight, b: Tensor | None, residual, stride: list[int], padding: list[int], dilation: list[int], groups: int
):
    return F.relu(conv(x, w, b, stride, padding, dilation, groups) + residual)


def conv_add(
    x, w: Weight, b: Tensor | None, residual: Tensor, stride: list[int], padding: list[int], dilation: list[int], groups: int
):
    return conv(x, w, b, stride, padding, dilation, groups) + residual


def conv_relu(x, w: Weight, b: Tensor | None, stride: list[int], padding: list[int], dilation: list[int], groups: int):
    return F.relu(conv(x, w, b, stride, padding, dilation, groups))


def conv_alone(x, w: Weight, b: Tensor | None, stride: list[int], padding: list[int], dilation: list[int], groups: int):
    return conv(x, w, b, stride, padding, dilation, groups)


class ConvAddRelu(Rule):
    """The end of a residual block: convolution, bias, addition and ReLU in one."""

    pattern = conv_add_relu

    def replacement(
        x, w: Weight, b: Tensor | None, residual, stride: list[int], padding: list[int], dilation: list[int], groups: int
    ):
        return kernels.conv_bias_add_relu(x, w, b, residual, stride, padding, dilation, groups)

    def where(w):
        return w.dim() >= 3 and w.is_floating_point()


class ConvAdd(Rule):
    """A residual block that ends without ReLU, as MobileNet's and EfficientNet's do."""

    pattern = conv_add

    def replacement(
        x, w: Weight, b: Tensor | None, residual: Tensor, stride: list[int], padding: list[int], dilation: list[int], groups: int
    ):
        return kernels.conv_bias_add_relu(x, w, b, residual, stride, padding, dilation, groups, relu=False)

    def where(w, residual):
        return w.dim() >= 3 and residual.dim() == w.dim() and residual.dtype == w.dtype and w.is_floating_point()


class ConvRelu(Rule):
    """Convolution, bias and ReLU in one."""

    pattern = conv_relu

    def replacement(
        x, w: Weight, b: Tensor | None, stride: list[int], padding: list[int], dilation: list[int], groups: int
    ):
        return kernels.conv_bias_add_relu(x, w, b, None, stride, padding, dilation, groups)

    def where(w):
        return w.dim() >= 3 and w.is_floating_point()


class Conv(Rule):
    """Any other convolution: on a CPU its weight is packed once."""

    pattern = conv_alone

    def replacement(
        x, w: Weight, b: Tensor | None, stride: list[int], padding: list[int], dilation: list[int], groups: int
    ):
        return kernels.conv_bias_add_relu(x, w, b, None, stride, padding, dilation, groups, relu=False)

    def where(w):
        return w.dim() >= 3 and w.is_floating_point()


# The same once more with weights in channels-last: convolutions then take and give images laid out so. Tensor cores want it,
# and cuDNN does bias, addition and ReLU in the convolution's own kernel. On a CPU oneDNN wants it too.


class ConvAddReluLast(Rule):
    """ConvAddRelu with channels innermost."""

    pattern = conv_add_relu

    def replacement(
        x, w: Weight, b: Tensor | None, residual, stride: list[int], padding: list[int], dilation: list[int], groups: int
    ):
        laid = w.contiguous(memory_format=torch.channels_last)
        return kernels.conv_bias_add_relu(x, laid, b, residual, stride, padding, dilation, groups)

    def where(w):
        return w.dim() == 4 and w.is_floating_point()


class ConvAddLast(Rule):
    """ConvAdd with channels innermost."""

    pattern = conv_add

    def replacement(
        x, w: Weight, b: Tensor | None, residual: Tensor, stride: list[int], padding: list[int], dilation: list[int], groups: int
    ):
        laid = w.contiguous(memory_format=torch.channels_last)
        return kernels.conv_bias_add_relu(x, laid, b, residual, stride, padding, dilation, groups, relu=False)

    def where(w, residual):
        return w.dim() == 4 and residual.dim() == 4 and residual.dtype == w.dtype and w.is_floating_point()


class ConvReluLast(Rule):
    """ConvRelu with channels innermost."""

    pattern = conv_relu

    def replacement(
        x, w: Weight, b: Tensor | None, stride: list[int], padding: list[int], dilation: list[int], groups: int
    ):
        laid = w.contiguous(memory_format=torch.channels_last)
        return kernels.conv_bias_add_relu(x, laid, b, None, stride, padding, dilation, groups)

    def where(w):
        return w.dim() == 4 and w.is_floating_point()


class ConvLast(Rule):
    """Any other convolution, so that the layout goes on."""

    pattern = conv_alone

    def replacement(
        x, w: Weight, b: Tensor | None, stride: list[int], padding: list[int], dilation: list[int], groups: int
    ):
        laid = w.contiguous(memory_format=torch.channels_last)
        return kernels.conv_bias_add_relu(x, laid, b, None, stride, padding, dilation, groups, relu=False)

    def where(w):
        return w.dim() == 4 and w.is_floating_point()


# What the rules above leave behind: convolutions whose activation is another one.


def taken(x, w, b, residual, stride, padding, dilation, groups):
    return kernels.conv_bias_add_relu(x, w, b, residual, stride, padding, dilation, groups, relu=False)


class ConvSilu(Rule):
    """A convolution and SiLU, EfficientNet's."""

    def pattern(
        x, w: Weight, b: Tensor | None, residual: Tensor | None, stride: list[int], padding: list[int], dilation: list[int],
        groups: int,
    ):
        y = taken(x, w, b, residual, stride, padding, dilation, groups)
        return F.silu(y)

    def replacement(
        x, w: Weight, b: Tensor | None, residual: Tensor | None, stride: list[int], padding: list[int], dilation: list[int],
        groups: int,
    ):
        return kernels.conv_activation(x, w, b, residual, stride, padding, dilation, groups, "silu")


class ConvGelu(Rule):
    """A convolution and GELU."""

    def pattern(
        x, w: Weight, b: Tensor | None, residual: Tensor | None, stride: list[int], padding: list[int], dilation: list[int],
        groups: int,
    ):
        y = taken(x, w, b, residual, stride, padding, dilation, groups)
        return F.gelu(y)

    def replacement(
        x, w: Weight, b: Tensor | None, residual: Tensor | None, stride: list[int], padding: list[int], dilation: list[int],
        groups: int,
    ):
        return kernels.conv_activation(x, w, b, residual, stride, padding, dilation, groups, "gelu")


class ConvGeluTanh(Rule):
    """A convolution and GELU's approximation by tanh."""

    def pattern(
        x, w: Weight, b: Tensor | None, residual: Tensor | None, stride: list[int], padding: list[int], dilation: list[int],
        groups: int,
    ):
        y = taken(x, w, b, residual, stride, padding, dilation, groups)
        return F.gelu(y, approximate="tanh")

    def replacement(
        x, w: Weight, b: Tensor | None, residual: Tensor | None, stride: list[int], padding: list[int], dilation: list[int],
        groups: int,
    ):
        return kernels.conv_activation(x, w, b, residual, stride, padding, dilation, groups, "gelu_tanh")


class ConvSigmoid(Rule):
    """A convolution and the sigmoid of squeeze and excitation."""

    def pattern(
        x, w: Weight, b: Tensor | None, residual: Tensor | None, stride: list[int], padding: list[int], dilation: list[int],
        groups: int,
    ):
        y = taken(x, w, b, residual, stride, padding, dilation, groups)
        return torch.sigmoid(y)

    def replacement(
        x, w: Weight, b: Tensor | None, residual: Tensor | None, stride: list[int], padding: list[int], dilation: list[int],
        groups: int,
    ):
        return kernels.conv_activation(x, w, b, residual, stride, padding, dilation, groups, "sigmoid")


class ConvTanh(Rule):
    """A convolution and tanh."""

    def pattern(
        x, w: Weight, b: Tensor | None, residual: Tensor | None, stride: list[int], padding: list[int], dilation: list[int],
        groups: int,
    ):
        y = taken(x, w, b, residual, stride, padding, dilation, groups)
        return torch.tanh(y)

    def replacement(
        x, w: Weight, b: Tensor | None, residual: Tensor | None, stride: list[int], padding: list[int], dilation: list[int],
        groups: int,
    ):
        return kernels.conv_activation(x, w, b, residual, stride, padding, dilation, groups, "tanh")


class ConvHardSwish(Rule):
    """A convolution and MobileNetV3's hardswish."""

    def pattern(
        x, w: Weight, b: Tensor | None, residual: Tensor | None, stride: list[int], padding: list[int], dilation: list[int],
        groups: int,
    ):
        y = taken(x, w, b, residual, stride, padding, dilation, groups)
        return F.hardswish(y)

    def replacement(
        x, w: Weight, b: Tensor | None, residual: Tensor | None, stride: list[int], padding: list[int], dilation: list[int],
        groups: int,
    ):
        return kernels.conv_activation(x, w, b, residual, stride, padding, dilation, groups, "hardswish")


class ConvHardSigmoid(Rule):
    """A convolution and hardsigmoid."""

    def pattern(
        x, w: Weight, b: Tensor | None, residual: Tensor | None, stride: list[int], padding: list[int], dilation: list[int],
        groups: int,
    ):
        y = taken(x, w, b, residual, stride, padding, dilation, groups)
        return F.hardsigmoid(y)

    def replacement(
        x, w: Weight, b: Tensor | None, residual: Tensor | None, stride: list[int], padding: list[int], dilation: list[int],
        groups: int,
    ):
        return kernels.conv_activation(x, w, b, residual, stride, padding, dilation, groups, "hardsigmoid")


class ConvRelu6(Rule):
    """A convolution and MobileNetV2's ReLU up to 6."""

    def pattern(
        x, w: Weight, b: Tensor | None, residual: Tensor | None, stride: list[int], padding: list[int], dilation: list[int],
        groups: int,
    ):
        y = taken(x, w, b, residual, stride, padding, dilation, groups)
        return F.relu6(y)

    def replacement(
        x, w: Weight, b: Tensor | None, residual: Tensor | None, stride: list[int], padding: list[int], dilation: list[int],
        groups: int,
    ):
        return kernels.conv_activation(x, w, b, residual, stride, padding, dilation, groups, "hardtanh", alpha=0.0, beta=6.0)


class ConvClamp(Rule):
    """A convolution and a clamp between two numbers."""

    def pattern(
        x, w: Weight, b: Tensor | None, residual: Tensor | None, stride: list[int], padding: list[int], dilation: list[int],
        groups: int, low: float, high: float,
    ):
        y = taken(x, w, b, residual, stride, padding, dilation, groups)
        return any_of(F.hardtanh(y, low, high), torch.clamp(y, low, high))

    def replacement(
        x, w: Weight, b: Tensor | None, residual: Tensor | None, stride: list[int], padding: list[int], dilation: list[int],
        groups: int, low: float, high: float,
    ):
        return kernels.conv_activation(x, w, b, residual, stride, padding, dilation, groups, "hardtanh", alpha=low, beta=high)


class ConvLeakyRelu(Rule):
    """A convolution and leaky ReLU."""

    def pattern(
        x, w: Weight, b: Tensor | None, residual: Tensor | None, stride: list[int], padding: list[int], dilation: list[int],
        groups: int, slope: float,
    ):
        y = taken(x, w, b, residual, stride, padding, dilation, groups)
        return F.leaky_relu(y, slope)

    def replacement(
        x, w: Weight, b: Tensor | None, residual: Tensor | None, stride: list[int], padding: list[int], dilation: list[int],
        groups: int, slope: float,
    ):
        return kernels.conv_activation(x, w, b, residual, stride, padding, dilation, groups, "leaky_relu", alpha=slope)


class ConvNetChannelsLast(Recipe):
    """ResNet and its relatives, with all weights of images in channels-last. On a CPU oneDNN reads images laid out so without a copy;
    on a GPU, for half types, cuDNN does each convolution with its bias, addition and ReLU in one kernel."""

    steps = [
        normalize,
        remove_dropout,
        fold_constants,
        FoldBatchNorm,
        FoldBatchNormWithBias,
        FoldBatchNormOverTime,
        FoldBatchNormWithBiasOverTime,
        FoldBatchNormInVolumes,
        FoldBatchNormWithBiasInVolumes,
        FoldBatchNormOfLinear,
        FoldBatchNormOfLinearWithBias,
        AddedConvolutions,
        AddedBatchNorm,
        AddedBatchNormByChannel,
        AddedConvolutions,  # with what these two made
        ConvAddReluLast,
        ConvAddLast,
        ConvReluLast,
        ConvLast,
        ConvAddRelu,  # over time and in volumes
        ConvAdd,
        ConvRelu,
        Conv,
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
        eliminate_dead,
    ]


class ConvNet(Recipe):
    """The same with weights as they are: images keep their layout."""

    steps = [
        normalize,
        remove_dropout,
        fold_constants,
        FoldBatchNorm,
        FoldBatchNormWithBias,
        FoldBatchNormOverTime,
        FoldBatchNormWithBiasOverTime,
        FoldBatchNormInVolumes,
        FoldBatchNormWithBiasInVolumes,
        FoldBatchNormOfLinear,
        FoldBatchNormOfLinearWithBias,
        AddedConvolutions,
        AddedBatchNorm,
        AddedBatchNormByChannel,
        AddedConvolutions,  # with what these two made
        ConvAddRelu,
        ConvAdd,
        ConvRelu,
        Conv,
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
        eliminate_dead,
    ]


class Folded(Recipe):
    """What torch.jit.freeze does: batch norms go into the weights of the convolutions and linear layers before them. The file needs
    no operators of Graft."""

    steps = [
        normalize,
        remove_dropout,
        fold_constants,
        FoldBatchNorm,
        FoldBatchNormWithBias,
        FoldBatchNormOverTime,
        FoldBatchNormWithBiasOverTime,
        FoldBatchNormInVolumes,
        FoldBatchNormWithBiasInVolumes,
        FoldBatchNormOfLinear,
        FoldBatchNormOfLinearWithBias,
        AddedConvolutions,
        AddedBatchNorm,
        AddedBatchNormByChannel,
        AddedConvolutions,  # with what these two made
        eliminate_dead,
    ]
