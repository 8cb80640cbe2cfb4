"""Masks of ReLU behind batch norms. The backward pass of ReLU reads its result to see where it is 0. Where a batch norm in training comes
right before it, the backward pass of the norm reads the norm's input in any case, and the signs of its results follow from that and from its
statistics. So a kernel for both reads one large tensor less, and ReLU's result is kept only if others need it."""

import operator

import torch
import torch.fx

from .autocast import HALVES
from .nodes import ALIASES, arguments_of, behind, called, look_alike

aten = torch.ops.aten
DEVICES = ("cuda",)  # where a kernel holds the mask and the norm's gradient
# Their first three results are the normalised tensor, the mean and the inverse deviation.
NORMS = (aten._native_batch_norm_legit_functional.default, aten._native_batch_norm_legit.default, aten._native_batch_norm_legit.no_stats,
         aten.native_batch_norm.default, aten.cudnn_batch_norm.default, aten._batch_norm_with_update.default,
         aten._batch_norm_with_update_functional.default)
POOLS = (aten.max_pool2d_with_indices_backward.default, aten.max_pool3d_with_indices_backward.default)
GRADIENTS = (aten.native_batch_norm_backward.default, aten.cudnn_batch_norm_backward.default, aten.batch_norm_backward.default)


def base_of(node):
    """What a node is another name of."""
    return behind(node, ALIASES)


def value_of(node):
    return node.meta.get("val")


class Norm:
    """The batch norm in training whose result a ReLU takes."""

    def __init__(self, node):
        self.given = given = arguments_of(node)
        self.x, self.weight, self.bias = base_of(given["input"]), given.get("weight"), given.get("bias")
        items = {u.args[1]: u for u in node.users if u.target is operator.getitem}
        self.mean, self.deviation = items.get(1), items.get(2)

    @staticmethod
    def behind(relu):
        """The norm that is known well enough, or None."""
        if not isinstance(relu, torch.fx.Node) or relu.target is not aten.relu.default:
            return None
        item = base_of(relu.args[0])
        if item.target is not operator.getitem or item.args[1] != 0 or item.args[0].target not in NORMS:
            return None
        norm = Norm(item.args[0])
        if not norm.given.get("training", norm.given.get("train", True)) or None in (norm.mean, norm.deviation):
            return None
        return norm if norm.has_exact_statistics() and norm.is_read_backwards() and look_alike(relu, norm.x) else None

    def has_exact_statistics(self):
        """Whether they are in single precision at least. Of a CPU's PyTorch says otherwise where parameters are and the input is not."""
        kept = {value_of(self.mean).dtype, value_of(self.deviation).dtype}
        if value_of(self.x).device.type == "cpu" and self.weight is not None:
            kept = {value_of(self.weight).dtype}
        return not kept & set(HALVES)

    def is_read_backwards(self):
        """Whether its gradient reads its input and its statistics."""
        def reads(node, kept):
            return any(base_of(a) is kept for a in node.args)

        open_, seen = [self.x], set()
        while open_:
            for user in open_.pop().users:
                if user.target in ALIASES and user not in seen:
                    seen.add(user)
                    open_.append(user)
                elif user.target in GRADIENTS and reads(user, self.x) and reads(user, self.mean):
                    return True
        return False


class Masks:
    def __init__(self, module):
        self.graph, self.done, self.norms = module.graph, {}, {}

    def call(self, like, target, *args, **kwargs):
        return called(self.graph, target, *args, meta=like.meta, **kwargs)

    def where_not_positive(self, norm, like):
        """Whether (x - mean) * deviation * weight + bias is 0 or less, as a comparison with -bias: how a sum rounds depends on who makes
        it, and a comparison is exact."""
        call, wide = self.call, torch.float64 if value_of(norm.x).dtype is torch.float64 else torch.float32

        def widened(node):
            return node if value_of(node).dtype is wide else call(like, aten._to_copy.default, node, dtype=wide)

        def by_channel(node):
            return call(like, aten.view.default, widened(node), [-1] + [1] * (value_of(norm.x).dim() - 2))

        scaled = call(like, aten.mul.Tensor, call(like, aten.sub.Tensor, widened(norm.x), by_channel(norm.mean)), by_channel(norm.deviation))
        if norm.weight is not None:
            scaled = call(like, aten.mul.Tensor, scaled, by_channel(norm.weight))
        if norm.bias is None:
            return call(like, aten.le.Scalar, scaled, 0)
        return call(like, aten.le.Tensor, scaled, call(like, aten.neg.default, by_channel(norm.bias)))

    def rewrite(self, node):
        """Whether the gradient of a ReLU reads what its norm has read, from now on."""
        relu = base_of(node.args[1])
        norm = Norm.behind(relu)
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
