"""Backward halves for results that nobody differentiates. A model that gives a loss and its logits is mostly trained by the loss alone, and the
gradient of the logits is 0. Autograd would fill a tensor with zeros, and the half would add it up. Here the half has no such argument."""

import operator

import torch
import torch.fx
import torch.utils._pytree as pytree

from .nodes import ALIASES, RESHAPES, TURNS, arguments_of, called, copied, look_alike

aten = torch.ops.aten
# 0 where their first argument is
LINEAR = {*ALIASES, *RESHAPES, *TURNS, aten._to_copy.default, aten.clone.default, aten.expand.default, aten.unsqueeze.default,
          aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.slice.Tensor, aten.select.int, aten.neg.default, aten.sum.default,
          aten.sum.dim_IntList, aten.div.Tensor, aten.div.Scalar, aten.mul.Scalar, aten.split.Tensor, aten.split_with_sizes.default}
# 0 where one of their arguments is
FACTORS = {aten.mul.Tensor, aten.mm.default, aten.bmm.default}
SUMS = {aten.add.Tensor: 1, aten.sub.Tensor: -1}


def tangents(graph):
    """Of the half's arguments, those that are gradients of results, by number."""
    return {i: p for i, p in enumerate(graph.find_nodes(op="placeholder"))
            if p.name.startswith("tangents") and isinstance(p.meta.get("val"), torch.Tensor)}


def has_known_sizes(graph):
    """Whether no size of the graph varies: zeros of any of its values can be made."""
    values = [v for n in graph.nodes for v in pytree.tree_leaves(n.meta.get("val"))]
    return all(isinstance(n, int) for v in values if isinstance(v, torch.Tensor) for n in (*v.shape, *v.stride()))


class Zeros:
    """Which values of a graph are 0 throughout."""

    def __init__(self, graph, known):
        self.graph, self.known = graph, set(known)

    def is_zero(self, node):
        return isinstance(node, torch.fx.Node) and node in self.known

    def follows(self, n):
        """Whether the node's results are 0 since an argument is."""
        if n.target in LINEAR or n.target is operator.getitem:
            return self.is_zero(n.args[0])
        if n.target in FACTORS:
            return any(map(self.is_zero, n.args[:2]))
        if n.target in SUMS:
            return all(map(self.is_zero, n.args[:2]))
        if n.target is aten.where.self:
            return all(map(self.is_zero, n.args[1:3]))
        if n.target is aten.constant_pad_nd.default:
            return self.is_zero(n.args[0]) and (len(n.args) < 3 or n.args[2] == 0)
        if isinstance(n.target, torch._ops.OpOverload):
            return self.is_gradient_of_zeros(n)
        return False

    def is_gradient_of_zeros(self, n):
        """Whether the operator computes gradients, and all that it is given are 0."""
        if n.target.namespace not in ("aten", "graft"):
            return False
        gradients = [v for name, v in arguments_of(n).items() if name.startswith("grad") and isinstance(v, torch.fx.Node)]
        return bool(gradients) and all(map(self.is_zero, gradients))

    def left(self, n):
        """What a sum with a zero is: its other operand, or None where it has another shape or dtype than the sum."""
        a, b = n.args[:2]
        other = a if self.is_zero(b) else b if self.is_zero(a) and SUMS[n.target] == 1 and n.kwargs.get("alpha", 1) == 1 else None
        return other if isinstance(other, torch.fx.Node) and look_alike(other, n) else None

    def made(self, node):
        """The zeros as a tensor, behind the node."""
        value = node.meta["val"]
        with self.graph.inserting_after(node):
            empty = called(self.graph, aten.empty_strided.default, list(value.shape), list(value.stride()), dtype=value.dtype,
                           device=value.device, meta={"val": value})
        with self.graph.inserting_after(empty):
            return called(self.graph, aten.fill.Scalar, empty, 0)

    def spread(self):
        for n in list(self.graph.nodes):
            if n.op != "call_function" or not any(map(self.is_zero, n.all_input_nodes)):
                continue
            if self.follows(n):
                self.known.add(n)
            elif n.target in SUMS and self.left(n) is not None:
                n.replace_all_uses_with(self.left(n))
        self.graph.eliminate_dead_code()
        made = {}
        for n in list(self.graph.nodes):  # who has no use for a zero gets a tensor
            if n in self.known:
                continue
            for z in [a for a in n.all_input_nodes if a in self.known]:
                if z not in made:
                    made[z] = self.made(z)
                n.replace_input_with(z, made[z])


def without(module, absent):
    """The half's graph without those of its arguments, by number, as if they were 0."""
    module = copied(module)
    graph = module.graph
    placeholders = graph.find_nodes(op="placeholder")
    gone = [placeholders[i] for i in absent]
    Zeros(graph, gone).spread()
    graph.eliminate_dead_code()
    for p in gone:
        graph.erase_node(p)
    module.recompile()
    return module


class ByTangents:
    """A backward half, which is made for each set of results whose gradients come as None. `make(graph, around)` makes the
    half of that graph; `around(half)` runs in its place."""

    _boxed_call = True

    def __init__(self, module, make):
        self.module, self.make = module, make
        self.tangents = sorted(tangents(module.graph))
        self.runs = {(): make(module, lambda half: half)}

    def __call__(self, arguments):
        absent = tuple(i for i in self.tangents if arguments[i] is None)
        if absent not in self.runs:
            self.runs[absent] = self.make(without(self.module, absent), lambda half: self.skipping(half, set(absent)))
        return self.runs[absent](arguments)

    @staticmethod
    def skipping(half, absent):
        def run(arguments):
            given = [v for i, v in enumerate(arguments) if i not in absent]
            arguments.clear()
            return half(given)

        run._boxed_call = True
        return run


def passed_on_as_none(results, arguments):
    """From now on autograd hands None to a compiled graph in place of zeros, for those of its results that have no gradient. `arguments`:
    those of the call. One of them may be a result, and then belongs to the graph that made it."""
    others = [v.grad_fn for v in arguments if isinstance(v, torch.Tensor) and v.grad_fn is not None]
    for r in results if isinstance(results, (tuple, list)) else (results,):
        node = r.grad_fn if isinstance(r, torch.Tensor) else None
        if type(node).__name__ == "CompiledFunctionBackward" and not any(node is other for other in others):
            node.set_materialize_grads(False)
            return
