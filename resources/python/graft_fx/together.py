"""Casts of what a half gets and of what it gives, many of one kind, and counters that go up. Each alone is a kernel of a few microseconds,
whatever its size; PyTorch's foreach functions do all of a kind in a few kernels. They leave the graph that kernels are generated for: those
of arguments run before it, and those of results stand in it again when it is done, some at a time, so that few wait in both dtypes.

A training step under autocast has a hundred and more: parameters cast for the products that read them, and gradients cast back.
"""

import operator

import torch
import torch.fx

from .nodes import ALIASES, PRODUCTS, RESHAPES, TURNS, behind, copied

aten = torch.ops.aten
LEAST = 4  # of a kind
WAITING = 32 << 20  # bytes of results that wait for their casts
VIEWS = (*TURNS, *RESHAPES, *ALIASES, aten.expand.default, aten.squeeze.dim, aten.unsqueeze.default)
LIBRARY = (*PRODUCTS, aten.baddbmm.default, aten.convolution.default, aten.convolution_backward.default)


def tensor_of(node, device):
    """What the node gives, if that is a tensor of known sizes on such a device whose elements fill its memory."""
    value = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
    if not isinstance(value, torch.Tensor) or value.device.type != device or not value.numel():
        return None
    if not all(isinstance(n, int) for n in (*value.shape, *value.stride())) or not aten.is_non_overlapping_and_dense(value):
        return None
    return value


def cast_of(node, device):
    """The dtype of a cast that does nothing else, or None."""
    if node.target is not aten._to_copy.default or node.kwargs.get("memory_format") is not None:
        return None
    value, source = tensor_of(node, device), tensor_of(node.args[0], device)
    if value is None or source is None or value.dtype == source.dtype or value.stride() != source.stride():
        return None
    return value.dtype


def counted_up(node, device):
    """The number that is added to an integer tensor, or None."""
    if node.target is not aten.add.Tensor or node.kwargs or len(node.args) != 2 or type(node.args[1]) is not int:
        return None
    value, source = tensor_of(node, device), tensor_of(node.args[0], device)
    same = value is not None and source is not None and value.dtype == source.dtype and not value.is_floating_point()
    return node.args[1] if same else None


def is_for_products(node):
    """Whether products and results alone read the node: where a generated kernel reads it, it casts on the way."""
    return all(user.op == "output" or user.target in LIBRARY or (user.target in VIEWS and is_for_products(user)) for user in node.users)


def comes_from_product(node):
    node = behind(behind(node, VIEWS), (operator.getitem,))
    return node.op == "call_function" and node.target in LIBRARY


def cast_all(tensors, dtype):
    out = [torch.empty_like(t, dtype=dtype) for t in tensors]
    torch._foreach_copy_(out, tensors)
    return out


class Outside:
    """The half's graph in `module`, and what runs around it."""

    def __init__(self, module, device):
        self.module = copied(module)
        graph = self.module.graph
        placeholders = graph.find_nodes(op="placeholder")
        self.before = []  # (function of a list of tensors, the places of these)
        self.after = []  # (dtype, the places of what is cast to it)
        made = self.take_from_arguments(graph, placeholders, device)
        self.take_from_results(graph, device)
        unused = {p for p in placeholders if not p.users} if made else set()
        self.given = [i for i, p in enumerate(placeholders) if p not in unused]
        for p in unused:
            graph.erase_node(p)
        self.module.recompile()

    def take_from_arguments(self, graph, placeholders, device):
        kinds = {}
        for i, p in enumerate(placeholders):
            for n in list(p.users):
                cast, count = cast_of(n, device), counted_up(n, device)
                if cast is not None and is_for_products(n):
                    kinds.setdefault(("cast", p.meta["val"].dtype, cast), []).append((i, n))
                elif count is not None:
                    kinds.setdefault(("count", p.meta["val"].dtype, count), []).append((i, n))
        last, made = placeholders[-1] if placeholders else None, 0
        for (what, _, how), nodes in kinds.items():
            if len(nodes) < LEAST:
                continue
            function = (lambda tensors, how=how: cast_all(tensors, how)) if what == "cast" else \
                (lambda tensors, how=how: torch._foreach_add(tensors, how))
            self.before.append((function, [i for i, _ in nodes]))
            for _, n in nodes:
                with graph.inserting_after(last):
                    last = graph.placeholder(f"together_{made}")
                last.meta = {"val": n.meta["val"]}
                n.replace_all_uses_with(last)
                graph.erase_node(n)
                made += 1
        return made

    def take_from_results(self, graph, device):
        output = graph.output_node()
        results, kinds = list(output.args[0]), {}
        for i, n in enumerate(results):
            cast = cast_of(n, device) if isinstance(n, torch.fx.Node) and n.op == "call_function" and len(n.users) == 1 else None
            if cast is not None and results.count(n) == 1 and comes_from_product(n.args[0]):
                kinds.setdefault((n.args[0].meta["val"].dtype, cast), []).append((i, n))
        for (_, dtype), nodes in kinds.items():
            if len(nodes) < LEAST:
                continue
            self.after.append((dtype, [i for i, _ in nodes]))
            for i, n in nodes:
                results[i] = n.args[0]
        output.args = (tuple(results),)
        graph.eliminate_dead_code()

    def is_used(self):
        return bool(self.before or self.after)

    def arguments(self, arguments):
        """What the graph takes, made of the half's arguments."""
        made = [t for function, places in self.before for t in function([arguments[i] for i in places])]
        return [arguments[i] for i in self.given] + made

    def cast_results(self, module):
        """Adds the casts of results to the graph, or to what has become of it: behind the last of some that are cast together."""
        graph = module.graph
        output = graph.output_node()
        results, order = list(output.args[0]), {n: i for i, n in enumerate(graph.nodes)}
        for dtype, places in self.after:
            batch, size = [], 0
            places = sorted(places, key=lambda i: order[results[i]])
            for i in places:
                batch.append(i)
                value = results[i].meta.get("val")
                size += value.nbytes if isinstance(value, torch.Tensor) else WAITING // 8
                if size < WAITING and i != places[-1]:
                    continue
                with graph.inserting_after(results[i]):
                    last = made = graph.call_function(cast_all, ([results[k] for k in batch], dtype))
                for number, k in enumerate(batch):
                    with graph.inserting_after(last):
                        last = results[k] = graph.call_function(operator.getitem, (made, number))
                batch, size = [], 0
        output.args = (tuple(results),)
        module.recompile()
        return module

    def around(self, run):
        """The half that calls `run`, which takes and empties a list, for the graph with the casts of its results."""
        def half(arguments):
            given = self.arguments(arguments)
            arguments.clear()
            return run(given)

        half._boxed_call = True
        return half
