"""Batch norms in training. Their statistics take passes over the whole input, and what they return follows from input and statistics, element by
element. A backward half that computes the result again shall not compute the statistics again: so a joint graph says both apart before it is
cut, and the forward half says them together again."""

import operator

import torch
import torch.fx

from .autocast import HALVES
from .nodes import ALIASES, arguments_of, behind, called, look_alike

aten = torch.ops.aten
DEVICES = ("cuda",)  # where a kernel computes the elements beside what reads them
# Their first three results are the normalised tensor, the mean and the inverse deviation.
NORMS = (aten._native_batch_norm_legit_functional.default, aten._native_batch_norm_legit.default, aten._native_batch_norm_legit.no_stats,
         aten.native_batch_norm.default, aten.cudnn_batch_norm.default, aten._batch_norm_with_update.default,
         aten._batch_norm_with_update_functional.default)
GRADIENTS = (aten.native_batch_norm_backward.default, aten.cudnn_batch_norm_backward.default, aten.batch_norm_backward.default)
APART = "graft_norm"  # in a node's meta: its name, and that of the norm whose result it is


def base_of(node):
    """What a node is another name of."""
    return behind(node, ALIASES)


def value_of(node):
    return node.meta.get("val")


class Norm:
    """A batch norm: what it takes, and its statistics."""

    def __init__(self, node):
        self.given = given = arguments_of(node)
        self.x, self.weight, self.bias = base_of(given["input"]), given.get("weight"), given.get("bias")
        items = {u.args[1]: u for u in node.users if u.target is operator.getitem}
        self.result, self.mean, self.deviation = items.get(0), items.get(1), items.get(2)

    def is_known(self):
        """Whether it trains, and its statistics are read somewhere, in single precision at least."""
        trains = self.given.get("training", self.given.get("train", True))
        return trains and None not in (self.mean, self.deviation) and self.has_exact_statistics()

    def has_exact_statistics(self):
        # Of a CPU's statistics PyTorch says that they are in half precision where the input alone is.
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


def norm_behind(relu):
    """The norm whose result a ReLU takes, if it is known well enough, or None."""
    if not isinstance(relu, torch.fx.Node) or relu.target is not aten.relu.default:
        return None
    item = base_of(relu.args[0])
    if item.target is not operator.getitem or item.args[1] != 0 or item.args[0].target not in NORMS:
        return None
    norm = Norm(item.args[0])
    return norm if norm.is_known() and norm.is_read_backwards() and look_alike(relu, norm.x) else None


def scaled_input(norm, call):
    """Nodes for (x - mean) * deviation * weight, in single precision at least, and the function that turns a tensor of channels to fit."""
    wide = torch.float64 if value_of(norm.x).dtype is torch.float64 else torch.float32

    def widened(node):
        return node if value_of(node).dtype is wide else call(aten._to_copy.default, node, dtype=wide)

    def by_channel(node):
        return call(aten.view.default, widened(node), [-1] + [1] * (value_of(norm.x).dim() - 2))

    scaled = call(aten.mul.Tensor, call(aten.sub.Tensor, widened(norm.x), by_channel(norm.mean)), by_channel(norm.deviation))
    if norm.weight is not None:
        scaled = call(aten.mul.Tensor, scaled, by_channel(norm.weight))
    return scaled, by_channel


def apart(module):
    """Rewrites a joint graph in place: results of norms, element by element. Returns how many there are."""
    graph, count = module.graph, 0
    for node in [n for n in graph.nodes if n.target in NORMS]:
        norm = Norm(node)
        if norm.result is None or not norm.is_known() or value_of(norm.x).device.type not in DEVICES:
            continue
        for item in (norm.deviation, norm.mean, norm.result):
            node.append(item)
        made = []
        with graph.inserting_before(norm.deviation.next):
            def call(*arguments, **options):
                made.append(called(graph, *arguments, meta=norm.result.meta, **options))
                return made[-1]

            elements, by_channel = scaled_input(norm, call)
            if norm.bias is not None:
                elements = call(aten.add.Tensor, elements, by_channel(norm.bias))
            if value_of(elements).dtype is not value_of(norm.result).dtype:
                elements = call(aten._to_copy.default, elements, dtype=value_of(norm.result).dtype)
        if not look_alike(elements, norm.result):
            for n in reversed(made):
                graph.erase_node(n)
            continue
        elements.meta[APART] = elements.name, node.name
        norm.result.replace_all_uses_with(elements)
        count += 1
    return count


def together(forward):
    """Rewrites a forward half in place: where it has a norm, that computes the result."""
    graph, by_name = forward.graph, {n.name: n for n in forward.graph.nodes}
    results = [n.meta[APART] for n in graph.nodes if APART in n.meta and n.meta[APART][0] == n.name]
    if not results:
        return
    for name, norm in results:
        if norm not in by_name:
            continue
        elements, made = by_name[name], by_name[norm]
        with graph.inserting_before(elements):
            elements.replace_all_uses_with(called(graph, operator.getitem, made, 0, meta={k: v for k, v in elements.meta.items() if k != APART}))
    graph.eliminate_dead_code()
    forward.recompile()
