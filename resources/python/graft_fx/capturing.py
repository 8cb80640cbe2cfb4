"""Saves a GraphModule, and captures what torch.compile makes of a model: the functions that the package shows."""

import contextlib
import inspect

import torch
import torch.fx
import torch.utils._pytree as pytree

from .compiled import break_text, compile_jointly, fake_of, guard_text, untouched, weights_of
from .file import FileWriter
from .graphs import encode, graph_data, named_tensors, root_of, value_type
from .rewriting import Backend


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
    args, kwargs = split_inputs(example_inputs)
    unknown = [k for k in kwargs if k not in names]
    if unknown or len(args) > len(names):
        raise ValueError(f"graft_fx.save: the graph has the inputs {', '.join(names)}; given were "
                         f"{', '.join(unknown) if unknown else len(args)}")
    values = []
    for i, n in enumerate(placeholders):
        if i >= len(args) and names[i] not in kwargs and not n.args:
            raise ValueError(f"graft_fx.save: an example for the input '{names[i]}' is missing (inputs: {', '.join(names)})")
        values.append(args[i] if i < len(args) else kwargs.get(names[i], n.args[0] if n.args else None))
    writer = FileWriter()
    graph = graph_data(gm, values, {}, gm, writer, lower=lower)
    writer.write(path, type(gm).__name__, [graph])


def capture(model, inputs, path, joint=False, dynamic=None, decompose=None):
    """Runs `model` once under torch.compile and writes every graph that it captured: one, or several where the capture broke, each
    with its guards and the reason of the break. `model`: a module, a function or anything else that can be called; modules and tensors
    that a function uses from around it are the graph's weights. `inputs`: a tuple of positional or a dict of keyword arguments, nested as
    the model takes them, or `(args, kwargs)`.

    The graphs are called forward, forward.1, ...: `graft info model.fx --method forward.1`. `joint=True` takes gradients as well
    and writes, for each, AOTAutograd's joint graph and the two it is parted into: joint, forward and backward. With it,
    `decompose="core"` opens operators as PyTorch's core ATen set has them, `"inductor"` as its compiler does, and a table of
    decompositions as that says. `dynamic` is that of torch.compile; floats that the model holds stay numbers. The model's buffers and gradients and the random numbers' state are left as they were.
    """
    if decompose is not None and not joint:
        raise ValueError("graft_fx.capture: decompose= goes with joint=True; other graphs keep the operators that the model calls")
    args, kwargs = split_inputs(inputs)
    writer, graphs, captures, problems = FileWriter(), [], [], []
    root = root_of(model)
    own = {id(t): name for name, t in reversed(named_tensors(root))}
    position = {id(t): i for i, t in enumerate(pytree.tree_leaves((args, kwargs))) if isinstance(t, torch.Tensor)}

    def compiler(gm, example_inputs):
        suffix = f".{len(captures)}" if captures else ""
        why = getattr(gm, "compile_subgraph_reason", None)
        notes = {"guards": None, "break": break_text(why) if why is not None and why.graph_break else None}
        captures.append(notes)
        placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
        known = weights_of(placeholders, example_inputs, own, getattr(root, "names", ()))
        order = {n.name: position.get(id(v), len(position)) for n, v in zip(placeholders, example_inputs)}

        def note(name, graph, values, known, names=None, signature=None):
            try:
                made = graph_data(graph, values, known, root, writer, names=names, signature=signature)
                # As the model's caller gave them; torch.compile has them in the order of their first use.
                made["inputs"].sort(key=lambda i: order.get(i["wish"], len(position)))
                if name + suffix == "forward" and not joint:
                    given = {id(v): n.name for n, v in zip(placeholders, example_inputs) if n.name not in known}
                    made["call"] = call_of(model, args, kwargs, given, made["inputs"])
                graphs.append((made, notes, name + suffix))
            except Exception as e:  # torch.compile would take it for a reason to go on without us
                problems.append(e)

        if not joint:
            note("forward", gm, [fake_of(n, v) for n, v in zip(placeholders, example_inputs)], known)
            return gm.forward
        return compile_jointly(gm, example_inputs, placeholders, known, note, decompose)

    def guards(found):  # called for each frame after its graph; a frame that breaks at once has none
        if captures and captures[-1]["guards"] is None:
            captures[-1]["guards"] = list(dict.fromkeys(guard_text(g) for g in found))

    torch._dynamo.reset()
    # A float that the model holds (a dropout's rate, math.pi) is a number of the graph, as it is in torch.export: with dynamic sizes
    # torch.compile would make it one more input, which nobody gives.
    # LSTM and GRU are one operator each, which it would leave to Python.
    known = torch._dynamo.config
    settings = known.patch({name: True for name in ("specialize_float", "allow_rnn") if hasattr(known, name)})
    with torch.set_grad_enabled(joint), untouched(root), settings, separate_layers():
        compiled = torch._dynamo.optimize(compiler, guard_export_fn=guards, dynamic=dynamic)(model)
        outputs = compiled(*args, **kwargs)
        if joint:
            ends = [t.sum() for t in pytree.tree_leaves(outputs) if isinstance(t, torch.Tensor) and t.requires_grad]
            if not ends:
                raise ValueError("graft_fx.capture: no output of the model depends on anything that requires a gradient")
            wanted = [t for t in [*root.parameters(), *pytree.tree_leaves((args, kwargs))]
                      if isinstance(t, torch.Tensor) and t.requires_grad]
            torch.autograd.grad(ends, wanted, allow_unused=True)
    torch._dynamo.reset()
    if problems:
        raise problems[0]
    if not graphs:
        raise RuntimeError("torch.compile captured no graph of this model")
    graphs = [made | {"guards": notes["guards"] or [], "break": notes["break"], "name": name} for made, notes, name in graphs]
    named = model if hasattr(model, "__name__") else type(model)
    writer.write(path, named.__name__.replace("<lambda>", "function"), graphs)


@contextlib.contextmanager
def separate_layers():
    """nn.TransformerEncoder and nn.MultiheadAttention as the operators that they consist of, as torch.export has them: without
    gradients they are one operator a layer, which torch.compile cannot capture."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def backend(rules=None, recipe=None, *, graft=None, library=None, libraries=(), verify=True, strict=False, training=False,
            memory="100%", recompute=(), decompose=None, fuse=True, graphs=True, budget=20):
    """A backend for torch.compile that lets Graft rewrite each captured graph by the rule file `rules`, or by the recipes
    that come with Graft, and runs the result.

        model = torch.compile(model, backend=graft_fx.backend("rules.py", recipe="Encoder"))
        with torch.no_grad(): model(x)

    Graft verifies each result on the inputs of the first call (`verify`), and this module compares it with the graph it came from
    once more. The model's weights are shared, not copied; weights that a rule merged are made again when the model's change. Where
    a graph cannot be rewritten, it runs as it was and a warning says why; `strict=True` raises instead. `.reports` of the result
    lists what was done. `graft` is the program and `library` its operators: the default is $GRAFT, then the build that this file
    lies in, then the PATH. `libraries` are those of your own operators, shared libraries or Python modules, for that program; import
    your modules here as ever.

    A graph that needs gradients is left alone, unless `training=True`: then the step is parted into forward and backward pass within
    `memory` of what eager keeps between them, `recompute` names modules whose values are computed again, and `decompose` is that of
    capture(). With `fuse`, each half gets the kernels that Graft generates for it, where they are right and faster: `budget` is how many
    seconds to look for them on a CPU, as for the recipes without rules.
    With `graphs`, each half is kept as a CUDA graph on a GPU.
    """
    return Backend(str(rules) if rules is not None else None, recipe, graft, library, verify, strict, libraries, training=training,
                   memory=memory, recompute=recompute, decompose=decompose, fuse=fuse, graphs=graphs, budget=budget)


def call_of(model, args, kwargs, given, inputs):
    """How `model` is called, as PyTorch's pytrees have it: `given` has the names of the inputs that its tensors became, by id, and
    `inputs` those of the graph, which gets one for each tensor that it does not use. None where a plain list of inputs says more."""
    leaves, spec = pytree.tree_flatten((args, kwargs))
    tensors = [id(t) for t in leaves if isinstance(t, torch.Tensor)]
    used = {i["wish"] for i in inputs}
    if len(set(tensors)) < len(tensors) or used - {given.get(t) for t in tensors}:
        return None  # a tensor given twice is one input; a size that varies is an input that stands in no argument
    try:
        text = pytree.treespec_dumps(spec)
        bound = inspect.signature(getattr(model, "forward", model)).bind(*args, **kwargs)
    except (NotImplementedError, TypeError, ValueError):
        return None
    found, wanted = [], []
    for i, leaf in enumerate(leaves):
        if not isinstance(leaf, torch.Tensor):
            found.append(encode(leaf))
            continue
        name = given.get(id(leaf))
        if name not in used:
            name = f"unused_{i}"
            inputs.append({"name": name, "op": "placeholder", "value": value_type(leaf), "wish": name})
        wanted.append(name)
        found.append({"node": next(i["name"] for i in inputs if i["wish"] == name)})
    inputs.sort(key=lambda i: wanted.index(i["wish"]))
    names = []
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            names += [f"{name}_{i}" for i in range(len(value))]
        elif name not in kwargs and kind is not inspect.Parameter.VAR_KEYWORD:
            names.append(name)
    return {"arguments": text, "names": names + list(kwargs), "leaves": found}


def split_inputs(inputs):
    """As `graft.optimize` and files of inputs have them."""
    if isinstance(inputs, dict):
        return (), dict(inputs)
    if isinstance(inputs, (tuple, list)) and len(inputs) == 2 and isinstance(inputs[0], tuple) and isinstance(inputs[1], dict):
        return inputs[0], dict(inputs[1])
    return ((inputs,) if isinstance(inputs, torch.Tensor) else tuple(inputs)), {}
