"""Functions of PyTorch that are no operator of their own, as PyTorch computes them: a rule that calls one looks for these
operators. `F.name` is `name` here, `torch.name` is `torch_name`, and a tensor's method is `Tensor_name`.

Two functions are known in this file alone. `by_rank(x, a, b, c)` is `a` of an `x` with three dimensions, `b` of four and
`c` of five. `times(v, n)` is a list: n times the number v, or the list v.
"""

import torch
import torch.nn.functional as F


# Activations

def softsign(input):
    return input / (input.abs() + 1)


def softmin(input, dim=None, _stacklevel=3, dtype=None):
    return torch.softmax(-input, dim, dtype=dtype)


def tanhshrink(input):
    return input - input.tanh()


# Dropout of whole channels

def dropout1d(input, p=0.5, training=True, inplace=False):
    return torch.feature_dropout(input, p, training)


def dropout2d(input, p=0.5, training=True, inplace=False):
    return torch.feature_dropout(input, p, training)


def dropout3d(input, p=0.5, training=True, inplace=False):
    return torch.feature_dropout(input, p, training)


# Norms

def normalize(input, p=2.0, dim=1, eps=1e-12):
    return input / input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input)


def instance_norm(input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1,
                  eps=1e-05):
    return torch.ops.aten.instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True)


def local_response_norm(input, size, alpha=0.0001, beta=0.75, k=1.0):
    square = input.mul(input)
    rows = F.pad(square.unsqueeze(1), (0, 0, size // 2, (size - 1) // 2))
    rows = F.avg_pool2d(rows, (size, 1), stride=(1, 1)).squeeze(1)
    images = square.view(input.size(0), 1, input.size(1), input.size(2), -1)
    images = F.pad(images, (0, 0, 0, 0, size // 2, (size - 1) // 2))
    images = F.avg_pool3d(images, (size, 1, 1), stride=(1, 1, 1)).squeeze(1)
    images = images.view(input.size(0), input.size(1), input.size(2), input.size(3))
    return input / by_rank(input, rows, images).mul(alpha).add(k).pow(beta)


# Pooling

def _lp(pooled, norm_type, count):
    return (torch.sign(pooled) * F.relu(torch.abs(pooled))).mul(count).pow(1.0 / norm_type)


def lp_pool1d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    pooled = F.avg_pool1d(input.pow(norm_type), kernel_size, [] if stride is None else stride, 0, ceil_mode)
    return _lp(pooled, norm_type, kernel_size)


def lp_pool2d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    high, wide = times(kernel_size, 2)
    pooled = F.avg_pool2d(input.pow(norm_type), times(kernel_size, 2), [] if stride is None else stride, 0, ceil_mode)
    return _lp(pooled, norm_type, high * wide)


def adaptive_avg_pool2d(input, output_size):
    high, wide = times(output_size, 2)
    return torch.ops.aten.adaptive_avg_pool2d(
        input, [input.size(-2) if high is None else high, input.size(-1) if wide is None else wide])


# Losses. `reduction` is a number where an operator takes it.

def _reduction(reduction):
    return 0 if reduction == "none" else 1 if reduction == "mean" else 2


def cross_entropy(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean",
                  label_smoothing=0.0):
    return torch.ops.aten.cross_entropy_loss(input, target, weight, _reduction(reduction), ignore_index, label_smoothing)


def nll_loss(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
    return torch.ops.aten.nll_loss_nd(input, target, weight, _reduction(reduction), ignore_index)


def kl_div(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    return (torch.ops.aten.kl_div(input, target, 2, log_target=log_target) / input.size(0) if reduction == "batchmean" else
            torch.ops.aten.kl_div(input, target, _reduction(reduction), log_target=log_target))


def poisson_nll_loss(input, target, log_input=True, full=False, size_average=None, eps=1e-08, reduce=None, reduction="mean"):
    return torch.ops.aten.poisson_nll_loss(input, target, log_input, full, eps, _reduction(reduction))


# Pictures

def _nearest(op, x, n, size, scale):
    return op.vec(x, None, times(scale, n)) if size is None else op.default(x, times(size, n))


def _between(op, x, n, size, scale, align):
    return op.vec(x, None, align, times(scale, n)) if size is None else op.default(x, times(size, n), align)


def _area(x, size):
    return by_rank(x, torch.ops.aten.adaptive_avg_pool1d(x, times(size, 1)),
                   torch.ops.aten.adaptive_avg_pool2d(x, times(size, 2)),
                   torch.ops.aten.adaptive_avg_pool3d(x, times(size, 3)))


def interpolate(input, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None,
                antialias=False):
    align = False if align_corners is None else align_corners
    return (
        by_rank(input, _nearest(torch.ops.aten.upsample_nearest1d, input, 1, size, scale_factor),
                _nearest(torch.ops.aten.upsample_nearest2d, input, 2, size, scale_factor),
                _nearest(torch.ops.aten.upsample_nearest3d, input, 3, size, scale_factor)) if mode == "nearest" else
        by_rank(input, _nearest(torch.ops.aten._upsample_nearest_exact1d, input, 1, size, scale_factor),
                _nearest(torch.ops.aten._upsample_nearest_exact2d, input, 2, size, scale_factor),
                _nearest(torch.ops.aten._upsample_nearest_exact3d, input, 3, size, scale_factor)) if mode == "nearest-exact" else
        _area(input, size) if mode == "area" else
        _between(torch.ops.aten.upsample_linear1d, input, 1, size, scale_factor, align) if mode == "linear" else
        _between(torch.ops.aten.upsample_trilinear3d, input, 3, size, scale_factor, align) if mode == "trilinear" else
        _between(torch.ops.aten._upsample_bilinear2d_aa if antialias else torch.ops.aten.upsample_bilinear2d, input, 2, size,
                 scale_factor, align) if mode == "bilinear" else
        _between(torch.ops.aten._upsample_bicubic2d_aa if antialias else torch.ops.aten.upsample_bicubic2d, input, 2, size,
                 scale_factor, align)
    )


def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    return F.interpolate(input, size, scale_factor, mode, align_corners)


def grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    return torch.ops.aten.grid_sampler(
        input, grid, 0 if mode == "bilinear" else 1 if mode == "nearest" else 2,
        0 if padding_mode == "zeros" else 1 if padding_mode == "border" else 2,
        False if align_corners is None else align_corners)


def affine_grid(theta, size, align_corners=None):
    return torch.ops.aten.affine_grid_generator(theta, size, False if align_corners is None else align_corners)


# torch and Tensor

def torch_tensordot(a, b, dims=2):
    return (torch.ops.aten.tensordot(a, b, [-1], [0]) if dims == 1 else
            torch.ops.aten.tensordot(a, b, [-2, -1], [0, 1]) if dims == 2 else
            torch.ops.aten.tensordot(a, b, dims[0], dims[1]))


def torch_unique(input, sorted=True):
    return torch.ops.aten._unique2(input, sorted, False, False)[0]


def Tensor_type(self, dtype):
    return self.to(dtype)
