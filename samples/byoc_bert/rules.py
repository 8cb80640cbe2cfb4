"""The rewrites of "Bring your own compiler", each as a rule, and recipes: what keeps the numbers, what trades them, and what parts the
model for another compiler."""

import torch
import torch.nn.functional as F
from torch import nn
from graft import Recipe, Rule, Weight, fold_constants, fuse, normalize, partition, swap_module


class FoldDivision(Rule):
    """A product divided by a constant: the division goes into the weight, once."""

    def pattern(x, w: Weight, c: float):
        return torch.matmul(x, w) / c

    def replacement(x, w: Weight, c: float):
        return torch.matmul(x, w / c)


class AddRelu(Rule):
    """An addition and its ReLU become PyTorch's own fused operator."""

    def pattern(x, y):
        return torch.relu(x + y)

    def replacement(x, y):
        return torch.ops.aten._add_relu(x, y)


class AddCDiv(Rule):
    """A quotient that is added becomes addcdiv."""

    def pattern(x, y: Tensor, z: Tensor):
        return x + y / z

    def replacement(x, y: Tensor, z: Tensor):
        return torch.addcdiv(x, y, z)

    def where(x, y, z):
        return x.shape == y.shape and y.shape == z.shape


class CombineProjections(Rule):
    """Query, key and value have one input: one product of three times the width."""

    def pattern(x, wq: Weight, bq: Weight, wk: Weight, bk: Weight, wv: Weight, bv: Weight):
        return F.linear(x, wq, bq), F.linear(x, wk, bk), F.linear(x, wv, bv)

    def replacement(x, wq: Weight, bq: Weight, wk: Weight, bk: Weight, wv: Weight, bv: Weight):
        both = F.linear(x, torch.cat([wq, wk, wv]), torch.cat([bq, bk, bv]))
        a, b = wq.shape[0], wq.shape[0] + wk.shape[0]
        return both[..., :a], both[..., a:b], both[..., b:]


class LayerNormToBatchNorm(Rule):
    """Opt-in, and wrong until the model is trained again: LayerNorm becomes a BatchNorm that could be folded away. Its statistics are those
    of normalised data. `graft apply` shows the error."""

    changes_numbers = True

    def pattern(x, shape: list[int], weight: Weight, bias: Weight, eps: float):
        return F.layer_norm(x, shape, weight, bias, eps)

    def replacement(x, weight: Weight, bias: Weight, eps: float):
        mean, var = torch.zeros_like(weight), torch.ones_like(weight)
        return F.batch_norm(x.transpose(1, 2), mean, var, weight, bias, False, 0.1, eps).transpose(1, 2)

    def where(x, shape):
        return x.dim() == 3 and len(shape) == 1


class Fuse(Recipe):
    """What computes the same."""

    steps = [normalize, FoldDivision, AddRelu, AddCDiv, CombineProjections]
    expect = {FoldDivision: 1, AddRelu: 1, AddCDiv: 1, CombineProjections: 1}


class Retrain(Recipe):
    """What changes the numbers and wants training afterwards."""

    steps = [swap_module(nn.GELU, nn.ReLU), LayerNormToBatchNorm]
    expect = {LayerNormToBatchNorm: 1}


class Parts(Recipe):
    """What one backend can run becomes submodules, npu_0 and so on, each with a forward of its own."""

    steps = [normalize, partition([torch.matmul, nn.Linear, "aten.div", "aten.add", torch.tanh, torch.sigmoid, "aten.mul"], "npu")]
    expect = {partition: 2}


class PartsGenerated(Recipe):
    """The same parts, and Graft's own compiler for them: one kernel for what lies between the products, kept on disk."""

    steps = [normalize, partition(["aten.div", "aten.add", torch.tanh, torch.sigmoid, "aten.mul"], "npu"), fuse(only=["npu"])]
    expect = {partition: 2, fuse: 2}
