"""Saves torch.fx graphs so that Graft can open them. Copy it beside your model or put its folder on PYTHONPATH; needs torch alone.

    import graft_fx
    gm = torch.fx.symbolic_trace(model)
    graft_fx.save(gm, "model.fx", example_inputs)       # a GraphModule
    graft_fx.capture(model, example_inputs, "model.fx")   # whatever torch.compile makes of a model

Then `graft info model.fx`. A file is an uncompressed zip: graft_fx.json holds, for each graph, the FX nodes as they were (all six
opcodes, targets, arguments, module types and constructor values) and the ATen operators they come down to for the example inputs;
weights/N are the tensors' bytes. No class of yours is pickled, so reading the file runs none of your code.
"""

import inspect
import json
import math
import re
import struct
import types
import zipfile

import torch
import torch.fx
from torch.fx.experimental.proxy_tensor import get_proxy_mode, make_fx

__all__ = ["save", "capture"]
VERSION = 1


def save(gm, path, example_inputs=()):
    """Writes the GraphModule `gm` to `path`. `example_inputs`: its positional inputs, which say dtypes and ranks."""
    if not isinstance(gm, torch.fx.GraphModule):
        raise TypeError(f"graft_fx.save takes a torch.fx.GraphModule, not {type(gm).__name__}; "
                        "use graft_fx.capture(model, inputs, path) for other modules")
    writer = _Writer()
    writer.write(path, type(gm).__name__, [_graph(gm, tuple(example_inputs), {}, gm, writer)])


def capture(model, inputs, path):
    """Runs `model` once under torch.compile and writes every graph that it captured: one, or several where the capture broke."""
    writer, captured, guards = _Writer(), [], []
    own = {id(t) for t in _named_tensors(model).values()}

    def backend(gm, example_inputs):
        placeholders = [n.name for n in gm.graph.nodes if n.op == "placeholder"]
        lifted = {name: v for name, v in zip(placeholders, example_inputs) if id(v) in own}
        captured.append((gm, tuple(v for v in example_inputs if id(v) not in own), lifted))
        return gm.forward

    torch._dynamo.reset()
    before = dict(torch._dynamo.utils.counters["graph_break"])
    compiled = torch._dynamo.optimize(backend, guard_export_fn=lambda g: guards.append([_guard_text(x) for x in g]))(model)
    with torch.no_grad():
        compiled(*inputs)
    breaks = [r for r, n in torch._dynamo.utils.counters["graph_break"].items() if n > before.get(r, 0)]
    if not captured:
        raise RuntimeError("torch.compile captured no graph of this model")
    torch._dynamo.reset()
    # Lowered after the run: while torch.compile is at work, its own fake tensors are in the way.
    graphs = [_graph(gm, given, lifted, model, writer) for gm, given, lifted in captured]
    for i, graph in enumerate(graphs):
        graph["guards"] = guards[i] if i < len(guards) else []
        graph["break"] = breaks[min(i, len(breaks) - 1)] if breaks and i + 1 < len(graphs) else None
    writer.write(path, type(model).__name__, graphs)


# ---------------------------------------------------------------------------------------------------------------------------------


def _named_tensors(module):
    """Parameters, buffers and plain tensor attributes by path; a shared tensor once."""
    out, seen = {}, set()
    for name, t in [*module.named_parameters(), *module.named_buffers()]:
        if id(t) not in seen:
            seen.add(id(t))
            out[name] = t
    return out


class _Lowering(torch.fx.Interpreter):
    """Runs an FX graph under make_fx and notes which FX node made which ATen nodes, and which FX nodes are plain numbers."""

    def __init__(self, gm, numbers):
        super().__init__(gm, garbage_collect_values=False)
        self.numbers = numbers

    def run_node(self, node):
        graph = get_proxy_mode().tracer.graph
        count = len(graph.nodes)
        result = super().run_node(node)
        if node.op not in ("placeholder", "output"):
            for made in list(graph.nodes)[count:]:
                made.meta.setdefault("graft_from", node.name)
                for key in ("nn_module_stack", "stack_trace"):
                    if node.meta.get(key):
                        made.meta[key] = node.meta[key]
        if isinstance(result, (bool, int, float)):
            self.numbers[node.name] = result
        return result


def _graph(gm, inputs, lifted, root, writer):
    """One captured graph. `lifted`: tensors of the model by the name of the placeholder that stands for them."""
    numbers = {}
    placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]

    def run(*given):
        given = iter(given)
        return _Lowering(gm, numbers).run(*[lifted[n.name] if n.name in lifted else next(given) for n in placeholders])

    with torch.no_grad():
        try:
            aten = make_fx(run, tracing_mode="symbolic", pre_dispatch=True, _allow_non_fake_inputs=True)(*inputs)
        except Exception:  # some models insist on sizes that are numbers
            numbers.clear()
            aten = make_fx(run, tracing_mode="fake", pre_dispatch=True, _allow_non_fake_inputs=True)(*inputs)
    paths = {id(t): name for m in (root, gm) for name, t in _named_tensors(m).items()}
    paths |= {id(t): name for name, t in _named_tensors(root).items()}
    parameters = {id(t) for t in root.parameters()}
    names = iter(n.name for n in placeholders if n.name not in lifted)
    arguments, nodes = [], []
    for n in aten.graph.nodes:
        if n.op == "placeholder":
            arguments.append({"name": n.name, "wish": next(names), "value": _value(n.meta.get("val"))})
            continue
        entry = {"name": n.name, "op": n.op, "target": _target(n.target), "args": [_encode(a) for a in n.args],
                 "kwargs": {k: _encode(v) for k, v in n.kwargs.items()}, "value": _value(n.meta.get("val")),
                 "from": n.meta.get("graft_from"), "modules": _modules(n.meta.get("nn_module_stack")),
                 "stack": n.meta.get("stack_trace")}
        if n.op == "get_attr":
            t = getattr(aten, n.target)
            if not isinstance(t, torch.Tensor):
                raise ValueError(f"graft_fx: {n.target} holds a {type(t).__name__}; only straight graphs can be saved")
            entry |= {"data": writer.tensor(t), "path": paths.get(id(t)), "buffer": id(t) not in parameters}
        nodes.append(entry)
    fx = [_fx_node(n, numbers) for n in gm.graph.nodes]
    for entry, n in zip(fx, gm.graph.nodes):
        if n.name in lifted:
            entry["path"] = paths[id(lifted[n.name])]
    return {"inputs": arguments, "aten": nodes, "fx": fx, "code": gm.code,
            "modules": {name: {"type": _type(m), "constructor": _constructor(m), "training": m.training}
                        for name, m in root.named_modules() if name}}


def _fx_node(n, numbers):
    return {"name": n.name, "op": n.op, "target": _target(n.target), "shown": str(n.target), "args": [_encode(a) for a in n.args],
            "kwargs": {k: _encode(v) for k, v in n.kwargs.items()}, "number": numbers.get(n.name)}


def _target(t):
    if isinstance(t, str):
        return t
    if isinstance(t, torch._ops.OpOverload):
        return str(t)
    module = getattr(t, "__module__", None) or ""
    if module in ("_operator", "builtins", "math"):
        return f"{'operator' if module == '_operator' else module}.{t.__name__}"
    try:
        return torch.fx.node._get_qualified_name(t)
    except Exception:
        return f"{module}.{getattr(t, '__qualname__', getattr(t, '__name__', repr(t)))}"


def _encode(a):
    if isinstance(a, torch.fx.Node):
        return {"node": a.name}
    if a is None or isinstance(a, (bool, int, str)):
        return a
    if isinstance(a, float):
        return a if math.isfinite(a) else {"float": repr(a)}
    if isinstance(a, complex):
        return {"complex": [a.real, a.imag]}
    if isinstance(a, tuple):
        return {"tuple": [_encode(x) for x in a]}
    if isinstance(a, list):
        return [_encode(x) for x in a]
    if isinstance(a, dict):
        return {"dict": [[_encode(k), _encode(v)] for k, v in a.items()]}
    if isinstance(a, slice):
        return {"slice": [_encode(a.start), _encode(a.stop), _encode(a.step)]}
    if a is Ellipsis:
        return {"ellipsis": True}
    if isinstance(a, torch.dtype):
        return {"dtype": str(a)[6:]}
    if isinstance(a, torch.device):
        return {"device": str(a)}
    if isinstance(a, (torch.layout, torch.memory_format)):
        return {"named": str(a)}
    if isinstance(a, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return {"symbol": str(a)}
    return {"text": repr(a)}


def _value(v):
    if isinstance(v, torch.Tensor):
        return {"dtype": str(v.dtype)[6:], "device": str(v.device), "shape": [d if isinstance(d, int) else str(d) for d in v.shape]}
    if isinstance(v, (list, tuple)):
        return [_value(x) for x in v]
    for kind, name in ((bool, "bool"), (torch.SymBool, "bool"), (int, "int"), (torch.SymInt, "int"), (float, "float"),
                       (torch.SymFloat, "float")):
        if isinstance(v, kind):
            return name
    return None


def _modules(stack):
    """[key, path, type] from the outside in; torch.compile writes paths as Python expressions of its own."""
    out = []
    for key, (path, kind) in (stack or {}).items():
        path = re.sub(r"^L(\['self'\]|__self__)\.?", "", path)
        path = re.sub(r"\._modules\['([^']*)'\]|\[['\"]?([^\]'\"]*)['\"]?\]", lambda m: "." + (m[1] or m[2]), path)
        path = re.sub(r"^_modules\['([^']*)'\]", r"\1", path).replace("._modules.", ".").strip(".")
        out.append([str(key), path, kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"])
    return out


def _type(m):
    return f"{type(m).__module__}.{type(m).__qualname__}"


def _constructor(m):
    """Constructor values as the module prints them: (name, value), the name empty where it prints none."""
    names = list(getattr(m, "__constants__", []))
    try:
        names = [p for p in inspect.signature(type(m).__init__).parameters if p not in ("self", "args", "kwargs", "device", "dtype")] + names
    except (ValueError, TypeError):
        pass
    if type(m).__module__.startswith("torch.nn."):
        shown = m.extra_repr()
        names = [n for n in names if re.search(rf"\b{n}=", shown)] or names
    out = []
    for name in dict.fromkeys(names):
        value = getattr(m, name, inspect.Parameter.empty)
        if value is inspect.Parameter.empty or isinstance(value, (torch.nn.Module, types.FunctionType, types.MethodType)):
            continue
        if isinstance(value, torch.Tensor) or name == "bias":
            value = value is not None and value is not False
        out.append([name, _encode(value)])
    return out


def _guard_text(guard):
    code = getattr(guard, "code_list", None) or getattr(guard, "code", None) or []
    return f"{getattr(guard, 'guard_type', '')} {getattr(guard, 'name', '')} {' and '.join(map(str, code))}".strip()


class _Writer:
    def __init__(self):
        self.records, self.known = [], {}

    def tensor(self, t):
        """Notes the tensor's bytes once and says where they lie."""
        key = id(t)
        if key not in self.known:
            plain = t.detach().cpu().contiguous()
            raw = plain.reshape(-1).view(torch.uint8).numpy().tobytes() if plain.numel() else b""
            self.known[key] = {"record": f"weights/{len(self.records)}", "dtype": str(t.dtype)[6:], "shape": list(t.shape)}
            self.records.append((raw, t))  # holding t keeps its id from being given away
        return self.known[key]

    def write(self, path, name, graphs):
        document = {"format": "graft-fx", "version": VERSION, "torch": torch.__version__, "name": name, "graphs": graphs}
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as z:
            self._add(z, "graft_fx.json", json.dumps(document, allow_nan=False).encode())
            for i, (raw, _) in enumerate(self.records):
                self._add(z, f"weights/{i}", raw)

    @staticmethod
    def _add(z, name, data):
        # Data begins at a multiple of 64, so that readers can map it: the extra field is padding.
        info = zipfile.ZipInfo(name)
        start = z.fp.tell() + 30 + len(name)
        padding = -(start + 4) % 64
        info.extra = struct.pack("<HH", 0x4246, padding) + bytes(padding)
        z.writestr(info, data)
