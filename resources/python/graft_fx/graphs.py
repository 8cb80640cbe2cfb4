"""What a graph is, as data: FX nodes as they were, and the ATen operators that they come down to."""

import contextlib
import inspect
import itertools
import logging
import math
import re
import types

import torch
import torch.fx
import torch.utils._pytree as pytree
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental import proxy_tensor
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from .autocast import ExplicitCasts, devices

LOG = logging.getLogger("graft_fx")
SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)


def graph_data(gm, values, known, root, writer, names=None, lower=False, signature=None):
    """One graph as data. `known`: (tensor, path) by the name of the placeholder that stands for a tensor of the model. `signature`:
    what a graph of a training step takes and returns, by the names of the placeholders (compiled.Signature)."""
    notes = Notes()
    placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
    aten, fixed = trace_aten(gm, values, notes, lower)
    paths = {id(t): name for m in (gm, root) for name, t in reversed(named_tensors(m))}
    parameters = {id(t) for t in root.parameters()}
    inputs = iter([n for n, f in zip(placeholders, fixed) if not f])
    arguments, nodes, made_for = [], [], {}
    place_sums_of_gradients(aten.graph)
    for n in aten.graph.nodes:
        entry = {"name": n.name, "op": n.op, "value": value_type(n.meta.get("val"))}
        tensor = None
        if n.op == "placeholder":
            stands_for = next(inputs).name
            made_for[stands_for] = n.name
            if stands_for not in known:
                arguments.append(entry | {"wish": (names or {}).get(stands_for, stands_for)})
                continue
            tensor, path = known[stands_for]
            entry |= {"op": "get_attr", "path": path}
        elif n.op == "get_attr":
            tensor = getattr(aten, n.target)
            if not isinstance(tensor, torch.Tensor):
                raise ValueError(f"graft_fx: {n.target} holds a {type(tensor).__name__}; only straight graphs can be saved")
            entry |= {"path": paths.get(id(tensor))}
        if tensor is not None:
            entry |= {"data": writer.tensor(tensor), "frozen": not tensor.requires_grad,
                      "buffer": id(tensor) not in parameters and not isinstance(tensor, torch.nn.Parameter)}
        else:
            entry |= {"target": getattr(n.target, "leaf", None) or target_name(n.target), "args": [encode(a) for a in n.args],
                      "kwargs": [[k, encode(v)] for k, v in n.kwargs.items()], "from": n.meta.get("graft_from"),
                      "modules": module_stack(n.meta.get("nn_module_stack"), getattr(root, "names", ())), "stack": n.meta.get("stack_trace")}
        nodes.append(entry)
    fx = [fx_node(n, notes) for n in gm.graph.nodes]
    for entry in fx:
        if entry["name"] in known:
            entry["path"] = known[entry["name"]][1]
    if signature is not None:
        def renamed(listed):
            return [made_for[name] for name in listed if name in made_for]

        signature = {"returns": [[kind, of or ""] for kind, of in signature.returns],
                     "tangents": renamed(signature.tangents), "parameters": renamed(signature.parameters)}
    return {"name": "forward", "signature": signature, "symbols": symbol_ranges(aten), "inputs": arguments, "aten": nodes, "fx": fx, "code": gm.code,
            "modules": {name: {"type": type_name(m), "constructor": constructor_values(m), "training": m.training}
                        for name, m in root.named_modules() if name}}


class Surroundings(torch.nn.Module):
    """What a plain function uses from around it: the modules and tensors of its closure and of its globals, by their names."""

    def __init__(self, found):
        super().__init__()
        for name, value in found.items():
            if isinstance(value, (torch.nn.Module, torch.Tensor)):
                setattr(self, name, value)
        self.names = set(found)


def root_of(model):
    """The module that holds what `model` computes with: itself, that of a bound method, or what a function or another object has."""
    owner = getattr(model, "__self__", None)
    for module in (model, owner):
        if isinstance(module, torch.nn.Module):
            return module
    function = getattr(model, "func", model)  # of a functools.partial
    if not inspect.isfunction(function):
        root = Surroundings({k: v for k, v in getattr(owner or model, "__dict__", {}).items() if k.isidentifier()})
        root.names = set()  # torch.compile finds them below L['self']
        return root
    used = inspect.getclosurevars(function)
    return Surroundings({**used.globals, **used.nonlocals})


def named_tensors(module):
    """(path, tensor) of parameters, buffers and plain tensor attributes, the official name of a shared tensor first."""
    out = [*module.named_parameters(), *module.named_buffers(), *module.named_parameters(remove_duplicate=False)]
    for path, m in module.named_modules():
        out += [(f"{path}.{k}".lstrip("."), t) for k, t in vars(m).items() if isinstance(t, torch.Tensor)]
    return out


def trace_aten(gm, values, notes, lower):
    """The ATen graph behind `gm`. Values are tensors, fake tensors, numbers, symbols; bools and None are fixed."""
    mode = next((v.fake_mode for v in values if isinstance(v, FakeTensor)), None)
    fixed = [isinstance(v, bool) or not isinstance(v, (torch.Tensor, int, float, *SYMBOLS)) for v in values]

    casts = devices() or any(n.target is torch.amp.autocast_mode._enter_autocast for n in gm.graph.nodes)

    def run(*given):
        given = iter(given)
        with ExplicitCasts() if casts else contextlib.nullcontext():
            return Lowering(gm, notes, lower).run(*[v if f else next(given) for v, f in zip(values, fixed)])

    def attempt(mode):
        notes.__init__()
        accepted, mode.allow_non_fake_inputs = mode.allow_non_fake_inputs, True
        # Fake tensors know the values of numbers, and a graph that writes to one writes to the tensor itself.
        numbers = [(t, t.detach().clone()) for _, t in named_tensors(gm) if t.numel() == 1 and not isinstance(t, FakeTensor)]
        try:
            fakes = [faked(mode, v, i) for i, v in enumerate(values) if not fixed[i]]
            with torch.no_grad(), mode:
                return proxy_tensor.make_fx(run, tracing_mode="real", pre_dispatch=True)(*fakes)
        finally:
            mode.allow_non_fake_inputs = accepted
            with torch.no_grad():
                for t, value in numbers:
                    if not torch.equal(t, value):
                        t.copy_(value)

    if mode is not None:
        return attempt(mode), fixed
    try:
        return attempt(FakeTensorMode(shape_env=ShapeEnv(duck_shape=False))), fixed
    except Exception as e:  # some models insist on sizes that are numbers
        LOG.info("sizes are fixed at those of the example inputs: %s", e)
        return attempt(FakeTensorMode(shape_env=ShapeEnv(), static_shapes=True)), fixed


def faked(mode, value, i):
    if isinstance(value, (FakeTensor, *SYMBOLS)):
        return value
    source = ConstantSource(f"input{i}")
    if isinstance(value, torch.Tensor):
        return mode.from_tensor(value, source=source)
    if mode.static_shapes or isinstance(value, float):
        return value
    return mode.shape_env.create_symintnode(mode.shape_env.create_symbol(value, source, positive=None), hint=value, source=source)


class Notes:
    """FX nodes that are plain numbers, and those that hand on what another one made (contiguous of what is)."""

    def __init__(self):
        self.numbers, self.same, self.first = {}, {}, {}


class Lowering(torch.fx.Interpreter):
    """Runs an FX graph under make_fx and notes which FX node made which ATen nodes."""

    def __init__(self, gm, notes, lower):
        super().__init__(gm, garbage_collect_values=False)  # so that no two tensors have one id
        self.notes, self.lower = notes, lower

    def run_node(self, node):
        tracer = proxy_tensor.get_proxy_mode().tracer
        count = len(tracer.graph.nodes)
        result = super().run_node(node)
        if node.op not in ("placeholder", "output"):
            for made in itertools.islice(reversed(tracer.graph.nodes), len(tracer.graph.nodes) - count):  # the new ones
                made.meta.setdefault("graft_from", node.name)
                for key in ("nn_module_stack", "stack_trace"):
                    if node.meta.get(key):
                        made.meta[key] = node.meta[key]
                if node.meta.get("fwd_nn_module_stack"):  # of the backward pass: the module's second call
                    made.meta["nn_module_stack"] = {f"{key}.backward": at for key, at in node.meta["fwd_nn_module_stack"].items()}
        if getattr(node.target, "__name__", "") == "getitem" and isinstance(result, torch.Tensor):
            # An element of a list was made together with the list.
            slot = proxy_tensor.get_proxy_slot(result, tracer, None)
            if slot is not None and getattr(slot.proxy.node.target, "__name__", "") == "getitem":
                slot.proxy.node.meta["graft_from"] = node.name
        if isinstance(result, (bool, int, float)):
            self.notes.numbers[node.name] = result
        if isinstance(result, torch.Tensor) and self.notes.first.setdefault(id(result), node.name) != node.name:
            self.notes.same[node.name] = self.notes.first[id(result)]
        return result

    def call_module(self, target, args, kwargs):
        module = self.fetch_attr(target)
        if self.lower or is_torch(type(module).__module__):
            return super().call_module(target, args, kwargs)
        return self.leaf(module, type_name(module), args, kwargs)

    def call_function(self, target, args, kwargs):
        if getattr(target, "namespace", "") == "prims":
            return plain_prim(target)(*args, **kwargs)
        opaque = not isinstance(target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket, torch._ops.HigherOrderOperator))
        if self.lower or not opaque or is_torch(getattr(target, "__module__", "torch")):
            return super().call_function(target, args, kwargs)
        return self.leaf(target, target_name(target), args, kwargs)

    def leaf(self, function, name, args, kwargs):
        """One node for the whole call. It runs once, on tensors without data, to tell what comes out."""
        tracer = proxy_tensor.get_proxy_mode().tracer
        try:
            with proxy_tensor.disable_proxy_modes_tracing():
                result = function(*args, **kwargs)
                given = {id(t) for t in pytree.tree_leaves((args, kwargs))}
                result = pytree.tree_map(lambda t: torch.ops.aten.alias(t) if id(t) in given and isinstance(t, torch.Tensor)
                                         else t, result)
        except Exception as e:
            raise ValueError(f"graft_fx: {name} cannot tell its outputs without data ({e}); make it an operator with "
                             "torch.library.custom_op and register_fake, or trace through it") from e

        def stub(*args, **kwargs):
            raise NotImplementedError

        stub.__name__, stub.__module__, stub.leaf = "leaf", "graft_fx", name
        proxies = pytree.tree_map(tracer.unwrap_proxy, (tuple(args), dict(kwargs)))
        made = tracer.create_proxy("call_function", stub, *proxies, name=name.rsplit(".", 1)[-1].lower())
        return proxy_tensor.track_tensor_tree(result, made, constant=None, tracer=tracer)


def plain_prim(prim):
    """What a prim (torch._prims) computes, in ATen's operators: prims exist in Python alone."""
    aten = torch.ops.aten
    if prim in (torch.ops.prims.convert_element_type.default, torch.ops.prims.device_put.default):
        key = "dtype" if prim is torch.ops.prims.convert_element_type.default else "device"
        return lambda a, to, *rest: aten._to_copy.default(a, **{key: to})
    if prim is torch.ops.prims.iota.default:
        return lambda length, *, start, step, dtype, device, requires_grad: aten.arange.start_step(
            start, start + length * step, step, dtype=dtype, device=device)
    return getattr(prim, "impl_aten", None) or getattr(prim._overloadpacket, "impl_aten", None) or prim


def is_torch(module):
    return (module or "").split(".")[0] in ("torch", "_operator", "operator", "builtins", "math")


def fx_node(n, notes):
    return {"name": n.name, "op": n.op, "target": target_name(n.target), "shown": str(n.target), "args": [encode(a) for a in n.args],
            "kwargs": [[k, encode(v)] for k, v in n.kwargs.items()], "number": notes.numbers.get(n.name),
            "same": notes.same.get(n.name)}


def target_name(t):
    if isinstance(t, str):
        return t
    if isinstance(t, torch._ops.OpOverload):
        return str(t)
    module = getattr(t, "__module__", None) or ""
    if module in ("_operator", "builtins", "math"):
        return f"{'operator' if module == '_operator' else module}.{t.__name__}"
    try:
        name = torch.fx.node._get_qualified_name(t)
    except Exception:
        name = f"{module}.{getattr(t, '__qualname__', getattr(t, '__name__', repr(t)))}"
    return name.replace("<locals>.", "")


def encode(a):
    if isinstance(a, torch.fx.Node):
        return {"node": a.name}
    if a is None or isinstance(a, (bool, int, str)):
        return a
    if isinstance(a, float):
        return a if math.isfinite(a) else {"float": repr(a)}
    if isinstance(a, complex):
        return {"complex": [a.real, a.imag]}
    if isinstance(a, tuple):
        return {"tuple": [encode(x) for x in a]}
    if isinstance(a, list):
        return [encode(x) for x in a]
    if isinstance(a, dict):
        return {"dict": [[encode(k), encode(v)] for k, v in a.items()]}
    if isinstance(a, slice):
        return {"slice": [encode(a.start), encode(a.stop), encode(a.step)]}
    if a is Ellipsis:
        return {"ellipsis": True}
    if isinstance(a, torch.dtype):
        return {"dtype": str(a)[6:]}
    if isinstance(a, torch.device):
        return {"device": str(a)}
    if isinstance(a, (torch.layout, torch.memory_format)):
        return {"named": str(a)}
    if isinstance(a, SYMBOLS):
        return {"symbol": str(a)}
    return {"text": repr(a)}


def size_text(d):
    if isinstance(d, torch.SymInt) and d.node.expr.is_number:
        return int(d.node.expr)
    return d if isinstance(d, int) else str(d)


def symbol_ranges(aten):
    """[least, most] of each symbol that sizes are written with; None where there is no bound."""
    def bound(b):
        return int(b) if b.is_Integer and abs(int(b)) < 2**62 else None

    sizes = [d for n in aten.graph.nodes for v in [n.meta.get("val")]
             for d in (v.shape if isinstance(v, torch.Tensor) else [v]) if isinstance(d, SYMBOLS)]
    out = {}
    for d in sizes:
        for s in d.node.expr.free_symbols:
            known = d.node.shape_env.var_to_range.get(s)
            if known is not None:
                out[str(s)] = [bound(known.lower), bound(known.upper)]
    return out


def value_type(v):
    if isinstance(v, torch.Tensor):
        return {"dtype": str(v.dtype)[6:], "device": str(v.device), "shape": [size_text(d) for d in v.shape]}
    if isinstance(v, (list, tuple)):
        return [value_type(x) for x in v]
    for kind, name in ((bool, "bool"), (torch.SymBool, "bool"), (int, "int"), (torch.SymInt, "int"), (float, "float"),
                       (torch.SymFloat, "float")):
        if isinstance(v, kind):
            return name
    return None


def dotted(text, kept=()):
    """A path as people write it; torch.compile writes it as a Python expression: L['self']._modules['layer']._modules['0'].
    The name in front is left out, but for those in `kept`."""
    text = re.sub(r"^[LG]\[['\"]([^'\"]*)['\"]\]", lambda m: m[1] if m[1] in kept else m[0], text)
    text = re.sub(r"^(?:[LG]\[['\"][^'\"]*['\"]\]|L__self__)", "", text)
    text = re.sub(r"\.?_(?:modules|parameters|buffers)\[['\"]([^'\"]*)['\"]\]", r".\1", text)
    return re.sub(r"\[['\"]?([^\]'\"]*)['\"]?\]", r".\1", text).replace("._modules.", ".").strip(".")


def place_sums_of_gradients(graph):
    """Autograd adds gradients where several operators read a value, and names no module there. A sum belongs to the innermost
    call of the backward pass that holds all that it adds."""
    for node in graph.nodes:
        stacks = [n.meta.get("nn_module_stack") for n in node.all_input_nodes if n.op == "call_function"]
        if node.op != "call_function" or node.meta.get("nn_module_stack") or not stacks or not all(stacks):
            continue
        around = [at for at in stacks[0].items() if at[0].endswith(".backward")]
        while around and not all(around[-1][0] in stack for stack in stacks):
            around.pop()
        if around:
            node.meta["nn_module_stack"] = dict(around)


def module_stack(stack, kept=()):
    """[key, path, type] from the outside in."""
    return [[str(key), dotted(path, kept), kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"]
            for key, (path, kind) in (stack or {}).items()]


def type_name(m):
    return f"{type(m).__module__}.{type(m).__qualname__}".replace("<locals>.", "")


def constructor_values(m):
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
        out.append([name, encode(value)])
    return out
