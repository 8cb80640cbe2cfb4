"""Takes torch.fx graphs out of Python for Graft, and puts rewritten ones back. Copy it beside your model or put its folder on
PYTHONPATH; it needs torch alone.

    import graft_fx
    gm = torch.fx.symbolic_trace(model)
    graft_fx.save(gm, "model.fx", example_inputs)                       # a GraphModule
    graft_fx.capture(model, example_inputs, "model.fx")                 # whatever torch.compile makes of a model
    graft_fx.capture(model, example_inputs, "model.fx", joint=True)     # and of its training: AOTAutograd's graphs
    fast = torch.compile(model, backend=graft_fx.backend("rules.py"))   # runs what Graft makes of each graph

Then `graft info model.fx`. A file is an uncompressed zip: graft_fx.json holds, for each graph, the FX nodes as they were (all six
opcodes, targets, arguments, module types and constructor values) and the ATen operators they come down to for the example inputs;
weights/N are the tensors' bytes. No class of yours is pickled, so reading the file runs none of your code.
"""

import contextlib
import inspect
import itertools
import json
import logging
import math
import os
import pathlib
import re
import shutil
import struct
import subprocess
import tempfile
import types
import warnings
import zipfile

import torch
import torch.fx
import torch.utils._pytree as pytree
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental import proxy_tensor
from torch.fx.experimental.symbolic_shapes import ShapeEnv

__all__ = ["backend", "capture", "save"]
VERSION = 1
LOG = logging.getLogger("graft_fx")
SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)


def save(gm, path, example_inputs=(), lower=False):
    """Writes the GraphModule `gm` to `path`.

    `example_inputs`: its inputs, a tuple or a dict by name, which say dtypes and ranks; sizes stay symbolic where the model takes
    others too. What FX left whole, modules that its tracer calls leaves and functions under `torch.fx.wrap`, stays one node each,
    which Graft shows and keeps but cannot run; `lower=True` opens them down to ATen's operators.
    """
    if not isinstance(gm, torch.fx.GraphModule):
        raise TypeError(f"graft_fx.save takes a torch.fx.GraphModule, not {type(gm).__name__}; "
                        "use graft_fx.capture(model, inputs, path) for other modules")
    placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
    names = [str(n.target) for n in placeholders]
    args, kwargs = _arguments(example_inputs)
    unknown = [k for k in kwargs if k not in names]
    if unknown or len(args) > len(names):
        raise ValueError(f"graft_fx.save: the graph has the inputs {', '.join(names)}; given were "
                         f"{', '.join(unknown) if unknown else len(args)}")
    values = []
    for i, n in enumerate(placeholders):
        if i >= len(args) and names[i] not in kwargs and not n.args:
            raise ValueError(f"graft_fx.save: an example for the input '{names[i]}' is missing (inputs: {', '.join(names)})")
        values.append(args[i] if i < len(args) else kwargs.get(names[i], n.args[0] if n.args else None))
    writer = _Writer()
    graph = _graph(gm, values, {}, gm, writer, lower=lower)
    writer.write(path, type(gm).__name__, [graph])


def capture(model, inputs, path, joint=False, dynamic=None):
    """Runs `model` once under torch.compile and writes every graph that it captured: one, or several where the capture broke, each
    with its guards and the reason of the break. `inputs`: a tuple of positional or a dict of keyword arguments.

    The graphs are called forward, forward.1, ...: `graft info model.fx --method forward.1`. `joint=True` takes gradients as well
    and writes, for each, AOTAutograd's joint graph and the two it is parted into: joint, forward and backward. `dynamic` is that
    of torch.compile. The model's buffers and gradients and the random numbers' state are left as they were.
    """
    args, kwargs = _arguments(inputs)
    writer, graphs, captures, problems = _Writer(), [], [], []
    own = {id(t): name for name, t in reversed(_named_tensors(model))}
    position = {id(t): i for i, t in enumerate(pytree.tree_leaves((args, kwargs))) if isinstance(t, torch.Tensor)}

    def compiler(gm, example_inputs):
        suffix = f".{len(captures)}" if captures else ""
        why = getattr(gm, "compile_subgraph_reason", None)
        notes = {"guards": [], "break": _break_text(why) if why is not None and why.graph_break else None}
        captures.append(notes)
        placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
        known = _weights(placeholders, example_inputs, own)
        order = {n.name: position.get(id(v), len(position)) for n, v in zip(placeholders, example_inputs)}

        def note(name, graph, values, known, names=None):
            try:
                made = _graph(graph, values, known, model, writer, names=names)
                # As the model's caller gave them; torch.compile has them in the order of their first use.
                made["inputs"].sort(key=lambda i: order.get(i["wish"], len(position)))
                graphs.append(made | notes | {"name": name + suffix})
            except Exception as e:  # torch.compile would take it for a reason to go on without us
                problems.append(e)

        if not joint:
            note("forward", gm, [_fake(n, v) for n, v in zip(placeholders, example_inputs)], known)
            return gm.forward
        return _joint(gm, example_inputs, placeholders, known, note)

    def guards(found):  # called after each graph, before the next
        captures[-1]["guards"] += dict.fromkeys(_guard_text(g) for g in found)

    torch._dynamo.reset()
    with torch.set_grad_enabled(joint), _untouched(model):
        compiled = torch._dynamo.optimize(compiler, guard_export_fn=guards, dynamic=dynamic)(model)
        outputs = compiled(*args, **kwargs)
        if joint:
            ends = [t.sum() for t in pytree.tree_leaves(outputs) if isinstance(t, torch.Tensor) and t.requires_grad]
            if not ends:
                raise ValueError("graft_fx.capture: no output of the model depends on anything that requires a gradient")
            wanted = [t for t in [*model.parameters(), *pytree.tree_leaves((args, kwargs))]
                      if isinstance(t, torch.Tensor) and t.requires_grad]
            torch.autograd.grad(ends, wanted, allow_unused=True)
    torch._dynamo.reset()
    if problems:
        raise problems[0]
    if not graphs:
        raise RuntimeError("torch.compile captured no graph of this model")
    writer.write(path, type(model).__name__, graphs)


def backend(rules, recipe=None, *, graft=None, library=None, verify=True, strict=False):
    """A backend for torch.compile that lets Graft rewrite each captured graph by the rule file `rules` and runs the result.

        model = torch.compile(model, backend=graft_fx.backend("rules.py", recipe="Encoder"))
        with torch.no_grad(): model(x)

    Graft proves each result on the inputs of the first call (`verify`), and this module compares it with the graph it came from
    once more. The model's weights are shared, not copied; weights that a rule merged are made again when the model's change. Where
    a graph cannot be rewritten, it runs as it was and a warning says why; `strict=True` raises instead. `.reports` of the result
    lists what was done. `graft` is the program and `library` its operators: the default is $GRAFT, then the build that this file
    lies in, then the PATH. For inference: a graph that needs gradients is left alone.
    """
    return _Backend(str(rules), recipe, graft, library, verify, strict)


# --- what a graph is, as data ----------------------------------------------------------------------------------------------------


def _arguments(inputs):
    if isinstance(inputs, dict):
        return (), dict(inputs)
    return ((inputs,) if isinstance(inputs, torch.Tensor) else tuple(inputs)), {}


def _named_tensors(module):
    """(path, tensor) of parameters, buffers and plain tensor attributes, the official name of a shared tensor first."""
    out = [*module.named_parameters(), *module.named_buffers(), *module.named_parameters(remove_duplicate=False)]
    for path, m in module.named_modules():
        out += [(f"{path}.{k}".lstrip("."), t) for k, t in vars(m).items() if isinstance(t, torch.Tensor)]
    return out


def _is_torch(module):
    return (module or "").split(".")[0] in ("torch", "_operator", "operator", "builtins", "math")


class _Notes:
    """FX nodes that are plain numbers, and those that hand on what another one made (contiguous of what is)."""

    def __init__(self):
        self.numbers, self.same, self.first = {}, {}, {}


class _Lowering(torch.fx.Interpreter):
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
        if self.lower or _is_torch(type(module).__module__):
            return super().call_module(target, args, kwargs)
        return self.leaf(module, _type(module), args, kwargs)

    def call_function(self, target, args, kwargs):
        opaque = not isinstance(target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket, torch._ops.HigherOrderOperator))
        if self.lower or not opaque or _is_torch(getattr(target, "__module__", "torch")):
            return super().call_function(target, args, kwargs)
        return self.leaf(target, _target(target), args, kwargs)

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


def _fake(node, value):
    """What torch.compile put in place of an input, with the sizes that it takes for variable; else the value itself."""
    for key in ("val", "example_value"):
        v = node.meta.get(key)
        if isinstance(v, (FakeTensor, *SYMBOLS)):
            return v
    return value


def _trace(gm, values, notes, lower):
    """The ATen graph behind `gm`. Values are tensors, fake tensors, numbers, symbols; bools and None are fixed."""
    mode = next((v.fake_mode for v in values if isinstance(v, FakeTensor)), None)
    fixed = [isinstance(v, bool) or not isinstance(v, (torch.Tensor, int, float, *SYMBOLS)) for v in values]

    def run(*given):
        given = iter(given)
        return _Lowering(gm, notes, lower).run(*[v if f else next(given) for v, f in zip(values, fixed)])

    def attempt(mode):
        notes.__init__()
        accepted, mode.allow_non_fake_inputs = mode.allow_non_fake_inputs, True
        try:
            fakes = [_faked(mode, v, i) for i, v in enumerate(values) if not fixed[i]]
            with torch.no_grad(), mode:
                return proxy_tensor.make_fx(run, tracing_mode="real", pre_dispatch=True)(*fakes)
        finally:
            mode.allow_non_fake_inputs = accepted

    if mode is not None:
        return attempt(mode), fixed
    try:
        return attempt(FakeTensorMode(shape_env=ShapeEnv(duck_shape=False))), fixed
    except Exception as e:  # some models insist on sizes that are numbers
        LOG.info("sizes are fixed at those of the example inputs: %s", e)
        return attempt(FakeTensorMode(shape_env=ShapeEnv(), static_shapes=True)), fixed


def _faked(mode, value, i):
    if isinstance(value, (FakeTensor, *SYMBOLS)):
        return value
    source = ConstantSource(f"input{i}")
    if isinstance(value, torch.Tensor):
        return mode.from_tensor(value, source=source)
    if mode.static_shapes or isinstance(value, float):
        return value
    return mode.shape_env.create_symintnode(mode.shape_env.create_symbol(value, source, positive=None), hint=value, source=source)


def _graph(gm, values, known, root, writer, names=None, lower=False):
    """One graph as data. `known`: (tensor, path) by the name of the placeholder that stands for a tensor of the model."""
    notes = _Notes()
    placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
    aten, fixed = _trace(gm, values, notes, lower)
    paths = {id(t): name for m in (gm, root) for name, t in reversed(_named_tensors(m))}
    parameters = {id(t) for t in root.parameters()}
    inputs = iter([n for n, f in zip(placeholders, fixed) if not f])
    arguments, nodes = [], []
    for n in aten.graph.nodes:
        entry = {"name": n.name, "op": n.op, "value": _value(n.meta.get("val"))}
        tensor = None
        if n.op == "placeholder":
            stands_for = next(inputs).name
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
            entry |= {"data": writer.tensor(tensor),
                      "buffer": id(tensor) not in parameters and not isinstance(tensor, torch.nn.Parameter)}
        else:
            entry |= {"target": getattr(n.target, "leaf", None) or _target(n.target), "args": [_encode(a) for a in n.args],
                      "kwargs": [[k, _encode(v)] for k, v in n.kwargs.items()], "from": n.meta.get("graft_from"),
                      "modules": _modules(n.meta.get("nn_module_stack")), "stack": n.meta.get("stack_trace")}
        nodes.append(entry)
    fx = [_fx_node(n, notes) for n in gm.graph.nodes]
    for entry in fx:
        if entry["name"] in known:
            entry["path"] = known[entry["name"]][1]
    return {"name": "forward", "symbols": _ranges(aten), "inputs": arguments, "aten": nodes, "fx": fx, "code": gm.code,
            "modules": {name: {"type": _type(m), "constructor": _constructor(m), "training": m.training}
                        for name, m in root.named_modules() if name}}


def _fx_node(n, notes):
    return {"name": n.name, "op": n.op, "target": _target(n.target), "shown": str(n.target), "args": [_encode(a) for a in n.args],
            "kwargs": [[k, _encode(v)] for k, v in n.kwargs.items()], "number": notes.numbers.get(n.name),
            "same": notes.same.get(n.name)}


def _target(t):
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
    if isinstance(a, SYMBOLS):
        return {"symbol": str(a)}
    return {"text": repr(a)}


def _size(d):
    if isinstance(d, torch.SymInt) and d.node.expr.is_number:
        return int(d.node.expr)
    return d if isinstance(d, int) else str(d)


def _ranges(aten):
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


def _value(v):
    if isinstance(v, torch.Tensor):
        return {"dtype": str(v.dtype)[6:], "device": str(v.device), "shape": [_size(d) for d in v.shape]}
    if isinstance(v, (list, tuple)):
        return [_value(x) for x in v]
    for kind, name in ((bool, "bool"), (torch.SymBool, "bool"), (int, "int"), (torch.SymInt, "int"), (float, "float"),
                       (torch.SymFloat, "float")):
        if isinstance(v, kind):
            return name
    return None


def _dotted(text):
    """A path as people write it; torch.compile writes it as a Python expression: L['self']._modules['layer']._modules['0']."""
    text = re.sub(r"^(?:[LG]\[['\"][^'\"]*['\"]\]|L__self__)", "", text)
    text = re.sub(r"\.?_(?:modules|parameters|buffers)\[['\"]([^'\"]*)['\"]\]", r".\1", text)
    return re.sub(r"\[['\"]?([^\]'\"]*)['\"]?\]", r".\1", text).replace("._modules.", ".").strip(".")


def _modules(stack):
    """[key, path, type] from the outside in."""
    return [[str(key), _dotted(path), kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"]
            for key, (path, kind) in (stack or {}).items()]


def _type(m):
    return f"{type(m).__module__}.{type(m).__qualname__}".replace("<locals>.", "")


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


class _Writer:
    """The file's tensors, each once: views of the same memory are one."""

    def __init__(self):
        self.tensors, self.known = [], {}

    def tensor(self, t):
        """Notes the tensor and says where its bytes will lie."""
        key = (t.data_ptr(), t.dtype, tuple(t.shape), t.stride()) if t.numel() else id(t)
        if key not in self.known:
            self.known[key] = {"record": f"weights/{len(self.tensors)}", "dtype": str(t.dtype)[6:], "shape": list(t.shape)}
            self.tensors.append(t)  # holding t keeps its memory from being given away
        return self.known[key]

    def write(self, path, name, graphs):
        """Complete or not at all: beside its place first, then renamed."""
        document = {"format": "graft-fx", "version": VERSION, "torch": torch.__version__, "name": name, "graphs": graphs}
        part = f"{os.fspath(path)}.{os.getpid()}.part"
        try:
            with zipfile.ZipFile(part, "w", zipfile.ZIP_STORED) as z:
                self._add(z, "graft_fx.json", json.dumps(document, allow_nan=False).encode())
                for i, t in enumerate(self.tensors):
                    plain = t.detach().cpu().contiguous()
                    self._add(z, f"weights/{i}", plain.reshape(-1).view(torch.uint8).numpy().tobytes() if plain.numel() else b"")
            os.replace(part, path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.remove(part)

    @staticmethod
    def _add(z, name, data):
        # Data begins at a multiple of 64, so that readers can map it: the extra field is padding.
        info = zipfile.ZipInfo(name)
        start = z.fp.tell() + 30 + len(name)
        padding = -(start + 4) % 64
        info.extra = struct.pack("<HH", 0x4246, padding) + bytes(padding)
        z.writestr(info, data)


# --- torch.compile ---------------------------------------------------------------------------------------------------------------


def _source(node):
    """Where torch.compile found an input: "L['self']._modules['fc']._parameters['weight']"."""
    source = getattr(node, "_dynamo_source", None) or getattr(node.meta.get("grapharg"), "source", None)
    name = getattr(source, "name", "")
    return name() if callable(name) else name or ""


def _weights(placeholders, values, own):
    """(tensor, path) by placeholder, for those inputs of a captured graph that are the model's own tensors."""
    out, taken = {}, {}
    for n, v in zip(placeholders, values):
        source = _source(n)
        if not isinstance(v, torch.Tensor):
            continue
        if id(v) not in own and not isinstance(v, torch.nn.Parameter) and not source.startswith(("L['self']", 'L["self"]')) \
                and not re.search(r"_(parameters|buffers)\[", source):
            continue
        path = own.get(id(v)) or _dotted(source) or n.name
        while taken.setdefault(path, id(v)) != id(v):
            path += "_"
        out[n.name] = (v, path)
    return out


def _break_text(why):
    """"Unsupported: ... (model.py:12)"."""
    frame = why.user_stack[-1] if why.user_stack else None
    reason = re.sub(r"\n\s*\n.*", "", why.reason.strip(), flags=re.S)  # after the cause comes general advice
    return " ".join(reason.split()) + (f" ({frame.filename}:{frame.lineno}: {(frame.line or '').strip()})" if frame else "")


def _guard_text(guard):
    """"TENSOR_MATCH L['x']", and what it says in Python where it does."""
    code = " and ".join(map(str, guard.code_list or []))
    return f"{guard.create_fn_name()} {guard.name}".strip() + (f": {code}" if code else "")


@contextlib.contextmanager
def _untouched(model):
    """Running a model in training changes its buffers and draws random numbers: both are put back."""
    kept = [(b, b.detach().clone()) for b in model.buffers()]
    with torch.random.fork_rng(devices=range(torch.cuda.device_count()) if torch.cuda.is_initialized() else []):
        try:
            yield
        finally:
            with torch.no_grad():
                for buffer, before in kept:
                    if not torch.equal(buffer, before):
                        buffer.copy_(before)


def _joint(gm, example_inputs, placeholders, known, note):
    """Compiles through AOTAutograd, which traces forward and backward as one graph and then parts it."""
    from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func
    from torch._functorch.partitioners import default_partition

    def of(graph, name):
        # AOTAutograd numbers the inputs: primals_3 is the third.
        ours, names = {}, {}
        nodes = [n for n in graph.graph.nodes if n.op == "placeholder"]
        for n in nodes:
            number = re.fullmatch(r"primals_(\d+)", n.name)
            if number and int(number[1]) <= len(placeholders):
                was = placeholders[int(number[1]) - 1].name
                names[n.name] = was
                if was in known:
                    ours[n.name] = known[was]
        note(name, graph, [_fake(n, None) for n in nodes], ours, names)

    def partition(joint, joint_inputs, **options):
        of(joint, "joint")
        return default_partition(joint, joint_inputs, **options)

    def forward(graph, _):
        of(graph, "forward")
        return make_boxed_func(graph.forward)

    def backward(graph, _):
        of(graph, "backward")
        return make_boxed_func(graph.forward)

    return aot_module_simplified(gm, example_inputs, fw_compiler=forward, bw_compiler=backward, partition_fn=partition)


class _Unfit(Exception):
    """Why a graph runs as it was."""


class _Backend:
    VARIANTS = 32  # sets of weights that one graph is used with, such as a block that a model has many times

    def __init__(self, rules, recipe, graft, library, verify, strict):
        self.rules, self.recipe, self.verify, self.strict = rules, recipe, verify, strict
        here = pathlib.Path(__file__).resolve().parents[2] / "build"
        self.graft = graft or os.environ.get("GRAFT") or next(
            (str(p) for p in [here / "bin/graft"] if p.exists()), None) or shutil.which("graft")
        if not self.graft:
            raise FileNotFoundError("graft_fx.backend: there is no program graft in the PATH; build it, or say where it is: "
                                    "backend(rules, graft=\"build/bin/graft\")")
        if not os.path.exists(self.rules):
            raise FileNotFoundError(f"graft_fx.backend: there is no rule file {self.rules}")
        self.library = library or os.environ.get("GRAFT_OPS") or str(
            pathlib.Path(self.graft).resolve().parents[1] / "lib/libgraft_ops.so")
        self.reports = []
        self.__name__ = "graft"

    def __call__(self, gm, example_inputs):
        report = {"graph": len(self.reports), "rewritten": False}
        self.reports.append(report)
        try:
            return self._rewrite(gm, example_inputs, report)
        except Exception as e:
            if self.strict:
                raise
            report["reason"] = str(e) if isinstance(e, _Unfit) else f"{type(e).__name__}: {e}"
            warnings.warn(f"graft_fx: graph {report['graph']} runs as it was: {report['reason']}", stacklevel=2)
            return gm.forward

    def _rewrite(self, gm, example_inputs, report):
        if torch.is_grad_enabled() and any(isinstance(v, torch.Tensor) and v.requires_grad for v in example_inputs):
            raise _Unfit("gradients may be asked for, and rewritten graphs have none; call the model under torch.no_grad()")
        placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
        known = _weights(placeholders, example_inputs, {})
        values = [_fake(n, v) for n, v in zip(placeholders, example_inputs)]
        writer = _Writer()
        graph = _graph(gm, values, known, gm, writer, lower=True)
        weights = [i for i, n in enumerate(placeholders) if n.name in known]
        given = [i for i, n in enumerate(placeholders) if n.name not in known]
        paths = {known[placeholders[i].name][1]: i for i in weights}
        outputs = len(next(iter(reversed(gm.graph.nodes))).args[0])

        def make(arguments):
            """The rewritten graph for these arguments' weights, and which of those were merged into others."""
            now = {id(known[placeholders[i].name][0]): arguments[i] for i in weights}
            fresh = _Writer()
            fresh.tensors = [now.get(id(t), t) for t in writer.tensors]
            with tempfile.TemporaryDirectory(prefix="graft-") as folder:
                fresh.write(f"{folder}/graph.fx", "Captured", [graph])
                document = self._apply(folder, [arguments[i] for i in given])
                report["graft"] = document
                if not any(r["matches"] for r in document["rules"]):
                    wrong = [r["name"] for r in document["rules"] if r["rolled_back"]]
                    raise _Unfit(f"{', '.join(wrong)} computes something else and was taken back" if wrong else "no rule matches in it")
                loaded = self._load(f"{folder}/out.pt", arguments, given)
            self._check(gm, loaded, arguments, given, outputs, exact=document["verify"]["passed"] is not False)
            merged = False
            for name, t in [*loaded.named_parameters(), *loaded.named_buffers()]:
                own = arguments[paths[name]] if name in paths else None
                if own is not None and own.dtype == t.dtype and own.device == t.device and torch.equal(own, t):
                    t.data = own.detach()
                else:
                    merged = True
            return loaded, merged

        def state(arguments, versions):
            tensors = [arguments[i] for i in weights]
            return (tuple([t.data_ptr() for t in tensors]),
                    tuple([0 if t.is_inference() else t._version for t in tensors]) if versions else ())

        variants, refused = {}, [None]

        def variant(arguments):
            made, merged = make(arguments)
            where, _ = state(arguments, False)
            variants[where] = (made, merged, state(arguments, merged)[1])
            return made

        def run(*arguments):
            where, _ = state(arguments, False)
            found = variants.get(where)
            made = found[0] if found and (not found[1] or found[2] == state(arguments, True)[1]) else None
            if made is None:
                if refused[0]:
                    return gm.forward(*arguments)
                try:
                    if found is None and len(variants) >= self.VARIANTS:
                        raise _Unfit(f"it is used with more than {self.VARIANTS} sets of weights")
                    made = variant(arguments)
                except Exception as e:
                    if self.strict:
                        raise
                    refused[0] = str(e)
                    warnings.warn(f"graft_fx: graph {report['graph']} runs as it was with other weights: {e}", stacklevel=2)
                    return gm.forward(*arguments)
            result = made(*[arguments[i] for i in given])
            return tuple(result) if outputs != 1 else (result,)

        # A symbol's hint: asking for its value would fix it.
        variant([v.node.hint if isinstance(v, SYMBOLS) else v for v in example_inputs])
        document = report["graft"]
        report["rewritten"] = True
        LOG.info("graph %d: %d nodes became %d: %s", report["graph"], document["nodes"], document["nodes_after"],
                 ", ".join(f"{r['name']} {r['matches']}" for r in document["rules"] if r["matches"]))
        return run

    def _apply(self, folder, inputs):
        torch.save(tuple(v.detach() if isinstance(v, torch.Tensor) else v for v in inputs), f"{folder}/inputs.pt")
        command = [self.graft, "apply", f"{folder}/graph.fx", "--rules", self.rules, "--inputs", f"{folder}/inputs.pt",
                   "-o", f"{folder}/out.pt", "--no-timing", "--json"]
        command += ["--recipe", self.recipe] if self.recipe else []
        command += [] if self.verify else ["--no-verify"]
        run = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                             env=os.environ | {"GRAFT_OPS": self.library})
        if run.returncode:
            said = run.stderr.strip().replace(f"{folder}/graph.fx", "the graph") or f"exit code {run.returncode}"
            raise _Unfit(f"graft apply: {said}")
        return json.loads(run.stdout)

    def _load(self, path, arguments, given):
        torch.ops.load_library(self.library)
        devices = {v.device for v in arguments if isinstance(v, torch.Tensor)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of TorchScript, which is what graft apply writes
            return torch.jit.load(path, map_location=devices.pop() if len(devices) == 1 else None)

    def _check(self, gm, loaded, arguments, given, outputs, exact):
        """Both once on copies of the arguments: the same outputs in the same order."""
        copies = [[v.detach().clone() if isinstance(v, torch.Tensor) else v for v in arguments] for _ in range(2)]
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            expected = gm.forward(*copies[0])
            got = loaded(*[copies[1][i] for i in given])
        got = tuple(got) if outputs != 1 else (got,)
        if len(got) != len(expected):
            raise _Unfit(f"the rewritten graph gives {len(got)} outputs instead of {len(expected)}")
        for i, (a, b) in enumerate(zip(expected, got)):
            if not isinstance(a, torch.Tensor):
                if a != b:
                    raise _Unfit(f"output {i} is {b} instead of {a}")
                continue
            if not isinstance(b, torch.Tensor) or a.shape != b.shape or a.dtype != b.dtype:
                raise _Unfit(f"output {i} is {_value(b)} instead of {_value(a)}")
            if not exact or not a.numel():
                continue
            # Graft has compared more closely; this is for outputs that changed places.
            scale, apart = a.abs().double().nan_to_num().max(), (a.double() - b.double()).abs().nan_to_num(posinf=0).max()
            tolerance = 0 if not a.is_floating_point() else 5e-2 if a.dtype in (torch.float16, torch.bfloat16) else 1e-3
            if apart > tolerance * max(scale, 1e-6):
                raise _Unfit(f"output {i} differs from the graph's by {apart:.3g} (largest value {scale:.3g})")
