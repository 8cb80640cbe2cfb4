"""Matrix products in half precision whose sizes are no multiples of 8, as those with a vocabulary often are. On a GPU their rows begin where
no wide access may, and libraries take kernels for them that are several times slower. Operands get zeros beside them, and the result is
cut, where that is faster by far."""

import functools

import torch

from .autocast import HALVES
from .nodes import PRODUCTS, RESHAPES, TURNS, behind, called

aten = torch.ops.aten
WIDE = 8  # elements of half precision that are loaded together
# What an H100 reaches, in operations and in bytes per microsecond; that the first two are apart is what counts.
SLOW, FAST, MEMORY = 100e6, 400e6, 2.5e6


def base_of(node):
    """(the matrix that lies row by row, whether the node is it turned), or None."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.dim() != 2 or not all(isinstance(n, int) for n in (*value.shape, *value.stride())):
        return None
    if value.is_contiguous():
        return node, False
    if node.target in TURNS and value.t().is_contiguous():
        return node.args[0], True
    return None


def missing(size):
    return -size % WIDE


class Product:
    """a @ b, perhaps with a bias."""

    def __init__(self, node):
        self.node = node
        self.bias = node.args[0] if node.target is aten.addmm.default else None
        self.a, self.b = node.args[-2:] if self.bias is None else node.args[1:3]
        self.bases = [base_of(n) for n in (self.a, self.b)]

    def pads(self, device):
        """(rows, inner, columns) to add, or None where that is not worth it."""
        value = self.node.meta.get("val")
        if None in self.bases or value.dtype not in HALVES or value.device.type != device or self.node.kwargs:
            return None
        if self.bias is not None and self.bias.meta["val"].shape != value.shape[1:]:
            return None
        (m, k), n = self.a.meta["val"].shape, self.b.meta["val"].shape[1]
        is_left_turned, is_right_turned = (turned for _, turned in self.bases)
        rows = missing(m) if is_left_turned else 0
        inner = missing(k) if not is_left_turned or is_right_turned else 0
        columns = missing(n)  # the result's rows, too
        if not rows + inner + columns:
            return None
        work, moved = 2 * m * n * k, 0
        if rows or inner:
            moved += 2 * 2 * m * k
        if inner or columns:
            moved += 2 * 2 * k * n
        if columns:
            moved += 2 * 2 * m * n
        return (rows, inner, columns) if work / FAST + moved / MEMORY < 0.7 * work / SLOW else None


def pad_products(module, device="cuda"):
    """Rewrites the graph in place; returns how many products on that kind of device were widened."""
    graph, done, count = module.graph, {}, 0

    call = functools.partial(called, graph)

    def read_from(base, padded, rows):
        """Has what else reads the base read the padded tensor, so that the base need not be stored if a kernel computes it. Without more
        rows, only rows begin elsewhere, where wide accesses may: not what a view or a result tells of."""
        made = behind(base, RESHAPES)
        if made.op != "call_function" or made.target in PRODUCTS:
            return
        readers = [n for n in base.users if n is not padded and (rows or (n.op != "output" and n.target not in (*RESHAPES, *TURNS)))]
        if not readers:
            return
        with graph.inserting_after(padded):
            narrow = call(aten.slice.Tensor, padded, 0 if rows else 1, 0, base.meta["val"].shape[0 if rows else 1])
        for n in readers:
            n.replace_input_with(base, narrow)

    def wide(operand, base, turned, rows, columns):
        """The operand with so many more rows and columns of zeros."""
        if not rows and not columns:
            return operand
        if turned:
            rows, columns = columns, rows
        key = base, rows, columns
        if key not in done:
            with graph.inserting_after(base):
                done[key] = call(aten.constant_pad_nd.default, base, [0, columns, 0, rows])
            if not (rows and columns):
                read_from(base, done[key], rows)
        return call(aten.permute.default, done[key], [1, 0]) if turned else done[key]

    for node in [n for n in graph.nodes if n.target in (aten.mm.default, aten.addmm.default)]:
        product = Product(node)
        pads = product.pads(device)
        if pads is None:
            continue
        rows, inner, columns = pads
        (m, k), n = product.a.meta["val"].shape, product.b.meta["val"].shape[1]
        with graph.inserting_before(node):
            a = wide(product.a, *product.bases[0], rows, inner)
            b = wide(product.b, *product.bases[1], inner, columns)
            if product.bias is None:
                made = call(aten.mm.default, a, b)
            else:
                bias = call(aten.constant_pad_nd.default, product.bias, [0, columns]) if columns else product.bias
                made = call(aten.addmm.default, bias, a, b)
            if columns:
                made = call(aten.slice.Tensor, made, 1, 0, n)
            if rows:
                made = call(aten.slice.Tensor, made, 0, 0, m)
            if columns:  # what reads it may rely on its strides
                made = call(aten.clone.default, made, memory_format=torch.contiguous_format)
        made.meta = dict(node.meta) | {"val": made.meta["val"]}
        node.replace_all_uses_with(made)
        graph.erase_node(node)
        count += 1
    if count:
        graph.eliminate_dead_code()
        module.recompile()
    return count
