"""Masks of ReLU behind batch norms. The backward pass of ReLU reads its result to see where it is 0. Where a batch norm in training comes
right before it, the backward pass of the norm reads the norm's input in any case, and the signs of its results follow from that and from its
statistics. So a kernel for both reads one large tensor less, and ReLU's result is kept only if others need it."""

import torch

from .nodes import called, look_alike
from .norms import base_of, norm_behind, scaled_input, value_of

aten = torch.ops.aten
DEVICES = ("cuda",)  # where a kernel holds the mask and the norm's gradient
POOLS = (aten.max_pool2d_with_indices_backward.default, aten.max_pool3d_with_indices_backward.default)


class Masks:
    def __init__(self, module):
        self.graph, self.done, self.norms = module.graph, {}, {}

    def call(self, like, target, *args, **kwargs):
        return called(self.graph, target, *args, meta=like.meta, **kwargs)

    def where_not_positive(self, norm, like):
        """Whether (x - mean) * deviation * weight + bias is 0 or less, as a comparison with -bias: how a sum rounds depends on who makes
        it, and a comparison is exact."""
        call = self.call
        scaled, by_channel = scaled_input(norm, lambda *arguments, **options: call(like, *arguments, **options))
        if norm.bias is None:
            return call(like, aten.le.Scalar, scaled, 0)
        return call(like, aten.le.Tensor, scaled, call(like, aten.neg.default, by_channel(norm.bias)))

    def rewrite(self, node):
        """Whether the gradient of a ReLU reads what its norm has read, from now on."""
        relu = base_of(node.args[1])
        norm = norm_behind(relu)
        if norm is None or node.args[2] != 0 or value_of(norm.x).device.type not in DEVICES:
            return False
        with self.graph.inserting_before(node):
            if relu not in self.done:
                self.done[relu] = self.where_not_positive(norm, node)
                self.norms[relu] = norm
            gradient = value_of(node)
            zero = self.call(node, aten.full.default, [], 0, dtype=gradient.dtype, device=gradient.device)
            made = self.call(node, aten.where.self, self.done[relu], zero, node.args[0])
        if not look_alike(made, node):
            self.graph.erase_node(made)
            return False
        node.replace_all_uses_with(made)
        self.graph.erase_node(node)
        return True

    def pool_without_results(self):
        """The gradient of a pooling takes its input for the sizes alone, which the norm's input has, too."""
        for pool in [n for n in self.graph.nodes if n.target in POOLS]:
            norm = self.norms.get(base_of(pool.args[1]))
            if norm is not None:
                pool.update_arg(1, norm.x)


def from_norms(module):
    """Rewrites a joint graph in place; returns how many gradients of ReLU it has changed."""
    masks = Masks(module)
    count = sum(masks.rewrite(n) for n in module.graph.find_nodes(op="call_function", target=aten.threshold_backward.default))
    if masks.done:
        masks.pool_without_results()
        module.graph.eliminate_dead_code()
    return count
