"""Dropouts on a GPU in two steps: `graft::random_states` draws from PyTorch's generator, once for several dropouts, and `graft::dropout_mask`
follows from that alone. So generated kernels compute the mask wherever a pass reads it, and nobody stores it. They are numbered as in
PyTorch's own dropout."""

import torch
import torch.fx

from .nodes import called

aten = torch.ops.aten
DEVICES = ("cuda",)
THREADS = 256  # of a block of PyTorch's kernel
VECTORS = {torch.float32: 4, torch.float16: 8, torch.bfloat16: 8}  # elements that its threads take at a time
LANES = 4  # numbers in a block of Philox


def threads_for(count, device):
    """How many threads PyTorch's kernel has for a tensor of so many elements."""
    blocks = -(-count // THREADS)
    if device.type == "cuda":
        p = torch.cuda.get_device_properties(device)
        blocks = min(blocks, p.multi_processor_count * (p.max_threads_per_multi_processor // THREADS))
    return THREADS * blocks


def draws_numbers(node):
    return node.op == "call_function" and torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


class Dropout:
    """A dropout whose numbers are known."""

    def __init__(self, node):
        self.node, self.p = node, float(node.args[1])
        value = node.args[0].meta["val"]
        self.device = value.device
        self.size, self.vector = [int(n) for n in value.shape], VECTORS[value.dtype]
        self.threads = threads_for(value.numel(), value.device)
        self.blocks = -(-value.numel() // (LANES * self.threads))

    @staticmethod
    def of(node):
        """None where PyTorch's kernel numbers its elements otherwise, or draws nothing."""
        if node.target is not aten.native_dropout.default or node.args[2] is not True or not 0 < node.args[1] < 1:
            return None
        value = node.args[0].meta.get("val")
        if not isinstance(value, torch.Tensor) or value.device.type not in DEVICES or value.dtype not in VECTORS:
            return None
        if not all(isinstance(n, int) for n in value.shape) or not value.is_contiguous():
            return None
        return None if value.numel() == 0 or value.numel() % VECTORS[value.dtype] else Dropout(node)

    def rewrite(self, graph, states, row):
        ops = torch.ops.graft
        with graph.inserting_before(self.node):
            mask = called(graph, ops.dropout_mask.default, states, row, self.size, self.p, self.vector, self.threads, meta=self.node.meta)
            y = called(graph, aten.native_dropout_backward.default, self.node.args[0], mask, 1.0 / (1.0 - self.p), meta=self.node.meta)
        for item in list(self.node.users):
            item.replace_all_uses_with((y, mask)[item.args[1]])
            graph.erase_node(item)
        graph.erase_node(self.node)


def runs(module):
    """The dropouts, those together between which nothing else draws: so all keep their turns."""
    out, last = [], None
    for node in [n for n in module.graph.nodes if draws_numbers(n)]:
        dropout = Dropout.of(node)
        if dropout is not None and last is not None:
            last.append(dropout)
        elif dropout is not None:
            last = [dropout]
            out.append(last)
        else:
            last = None
    return out


def in_two_steps(module, library=None):
    """Rewrites a joint graph in place; returns how many dropouts it has changed. `library`: has the operators, which otherwise must be
    loaded."""
    count, found = 0, runs(module)
    if found and library:
        torch.ops.load_library(library)
    inputs = [p for p in module.graph.find_nodes(op="placeholder") if p.name.startswith("primals") and isinstance(p.meta.get("val"), torch.Tensor)]
    for dropouts in found:
        device = dropouts[0].device
        like = next((p for p in inputs if p.meta["val"].device == device), None)
        if like is None or any(d.device != device for d in dropouts):
            continue
        count += len(dropouts)
        with module.graph.inserting_before(dropouts[0].node):
            states = called(module.graph, torch.ops.graft.random_states.default, like, [d.blocks for d in dropouts],
                            meta=dropouts[0].node.meta)
        for row, dropout in enumerate(dropouts):
            dropout.rewrite(module.graph, states, row)
    return count
