"""Regions of torch.utils.checkpoint: opened for the rules, found again in what these made, and tagged for the cut."""

import operator

import torch
import torch.fx
from torch.utils.checkpoint import CheckpointPolicy

REGION = "torch.utils.checkpoint.checkpoint"  # the type of the module call that stands for a region


def opened(gm):
    """The graph with each region's nodes in the region's place, in a module call of their own. A region that says itself what it
    saves stays closed: what it was given decides for each operator as it is."""
    if not any(is_region(n) for n in gm.graph.nodes):
        return gm
    graph, values, count = torch.fx.Graph(), {}, 0
    for n in gm.graph.nodes:
        if n.op == "get_attr" and n.users and all(is_region(u) for u in n.users):
            continue
        if is_region(n):
            values[n] = copied(gm, n, graph, values, count)
            count += 1
        elif n.target is operator.getitem and isinstance(values.get(n.args[0]), (tuple, list)):
            values[n] = values[n.args[0]][n.args[1]]
        else:
            values[n] = graph.node_copy(n, lambda old: values[old])
    graph.lint()
    return torch.fx.GraphModule(gm, graph)


def is_region(node):
    return (node.op == "call_function" and node.target is torch.ops.higher_order.tag_activation_checkpoint
            and "_checkpoint_context_fn" not in getattr(node.graph.owning_module, node.args[0].target).meta)


def copied(gm, region, graph, values, number):
    """What the region returns, as nodes of `graph`."""
    body = getattr(gm, region.args[0].target)
    around = list(region.meta.get("nn_module_stack") or {})
    _, named = region.target.divide_kwargs(region.kwargs)
    given = iter([values.get(a, a) if isinstance(a, torch.fx.Node) else a for a in region.args[1:]])
    inner = {}
    for n in body.graph.nodes:
        if n.op == "placeholder":
            a = named.get(n.target)
            inner[n] = (values.get(a, a) if isinstance(a, torch.fx.Node) else a) if n.target in named else next(given)
        elif n.op == "output":
            return torch.fx.node.map_arg(n.args[0], lambda old: inner[old])
        elif is_region(n):  # computed again with what is around it
            inner[n] = copied(body, n, graph, inner, number)
        elif n.target is operator.getitem and isinstance(inner.get(n.args[0]), (tuple, list)):
            inner[n] = inner[n.args[0]][n.args[1]]
        elif n.op == "get_attr" and n.users and all(is_region(u) for u in n.users):
            continue
        else:
            copy = graph.node_copy(n, lambda old: inner[old])
            if n.op in ("get_attr", "call_module"):
                copy.target = f"{region.args[0].target}.{n.target}"
            copy.meta = dict(n.meta) | {"nn_module_stack": marked(n.meta.get("nn_module_stack") or {}, around, number)}
            inner[n] = copy
    raise AssertionError("a graph returns")


def marked(stack, around, number):
    """The module calls that a node is in, with the region's below those that the region is in."""
    calls, at = list(stack.items()), 0
    while at < min(len(calls), len(around)) and calls[at][0] == around[at]:
        at += 1
    path = calls[at - 1][1][0] if at else ""
    return dict([*calls[:at], (f"checkpoint_{number}", (f"{path}.checkpoint_{number}".lstrip("."), REGION)), *calls[at:]])


def tag(graph):
    """Asks that the nodes of regions are computed again, as torch.compile asks it of a region that is closed."""
    found = False
    for n in graph.nodes:
        for key, (_, kind) in (n.meta.get("nn_module_stack") or {}).items():
            if kind == REGION and n.op == "call_function":
                n.meta |= {"recompute": CheckpointPolicy.PREFER_RECOMPUTE, "ac_graph_id": key}
                found = True
    return found
