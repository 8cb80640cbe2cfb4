"""What passes over graphs of ATen operators share: which operators only look at a tensor, and how nodes are made and traced back."""

import contextlib

import torch
import torch.fx
from torch._guards import detect_fake_mode

aten = torch.ops.aten
ALIASES = (aten.detach.default, aten.alias.default)
RESHAPES = (aten.view.default, aten._unsafe_view.default, aten.reshape.default)  # elements stay in their order
TURNS = (aten.t.default, aten.permute.default, aten.transpose.int)
PRODUCTS = (aten.mm.default, aten.addmm.default, aten.bmm.default)


def behind(node, targets):
    """What the node is made of by those operators, each of which takes it as its first argument."""
    while isinstance(node, torch.fx.Node) and node.op == "call_function" and node.target in targets:
        node = node.args[0]
    return node


def arguments_of(node):
    """The arguments of a call of an operator, by its parameters' names."""
    return dict(zip((a.name for a in node.target._schema.arguments), node.args)) | dict(node.kwargs)


def is_in_place(node):
    """Whether a call's name says that it writes to what it takes: add_, but not __add__."""
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    return name.endswith("_") and not name.endswith("__")


def lie_alike(a, b):
    """Whether two tensors have the same sizes and, where these count, the same strides."""
    return a.shape == b.shape and (not a.numel() or all(s == t for n, s, t in zip(a.shape, a.stride(), b.stride()) if n != 1))


def look_alike(a, b):
    """Whether the values of both lie in memory alike."""
    a, b = a.meta["val"], b.meta["val"]
    return a.dtype == b.dtype and a.shape == b.shape and a.stride() == b.stride()


def copied(module):
    """The module with a graph of its own."""
    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(module.graph, {}))
    return torch.fx.GraphModule(module, graph)


def called(graph, target, *args, meta=None, **kwargs):
    """A new node with its value, which is fake where its arguments' values or that of `meta` are, and with what else `meta` has."""
    node = graph.call_function(target, args, kwargs)
    given = torch.fx.map_arg(args, lambda n: n.meta["val"])
    mode = detect_fake_mode([given, (meta or {}).get("val")])
    with torch.no_grad(), mode or contextlib.nullcontext():
        node.meta = dict(meta or {}) | {"val": target(*given, **kwargs)}
    return node
