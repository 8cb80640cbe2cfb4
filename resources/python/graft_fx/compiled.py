"""Graphs as torch.compile captures them: where their inputs come from, why a capture broke, what AOTAutograd makes of them."""

import contextlib
import dataclasses
import re

import torch
import torch.utils._pytree as pytree
from torch._subclasses.fake_tensor import FakeTensor

from .graphs import SYMBOLS, dotted


def fake_of(node, value):
    """What torch.compile put in place of an input, with the sizes that it takes for variable; else the value itself."""
    for key in ("val", "example_value"):
        v = node.meta.get(key)
        if isinstance(v, (FakeTensor, *SYMBOLS)):
            return v
    return value


def source_of(node):
    """Where torch.compile found an input: "L['self']._modules['fc']._parameters['weight']"."""
    source = getattr(node, "_dynamo_source", None) or getattr(node.meta.get("grapharg"), "source", None)
    name = getattr(source, "name", "")
    return name() if callable(name) else name or ""


def weights_of(placeholders, values, own, names=()):
    """(tensor, path) by placeholder, for those inputs of a captured graph that are the model's own tensors. `names`: what a plain
    function takes from around it."""
    out, taken = {}, {}
    for n, v in zip(placeholders, values):
        source = source_of(n)
        if not isinstance(v, torch.Tensor):
            continue
        name = re.match(r"[LG]\[['\"]([^'\"]*)['\"]\]", source)
        around = source.startswith("G[") or (name is not None and name[1] in {"self", *names})
        if id(v) not in own and not isinstance(v, torch.nn.Parameter) and not around and not re.search(r"_(parameters|buffers)\[", source):
            continue
        path = own.get(id(v)) or dotted(source, names) or n.name
        while taken.setdefault(path, id(v)) != id(v):
            path += "_"
        out[n.name] = (v, path)
    return out


def break_text(why):
    """"Unsupported: ... (model.py:12)"."""
    frame = why.user_stack[-1] if why.user_stack else None
    reason = re.sub(r"\n\s*\n.*", "", why.reason.strip(), flags=re.S)  # after the cause comes general advice
    return " ".join(reason.split()) + (f" ({frame.filename}:{frame.lineno}: {(frame.line or '').strip()})" if frame else "")


def guard_text(guard):
    """"TENSOR_MATCH L['x']", and what it says in Python where it does."""
    code = " and ".join(map(str, guard.code_list or []))
    return f"{guard.create_fn_name()} {guard.name}".strip() + (f": {code}" if code else "")


@contextlib.contextmanager
def untouched(model):
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


@dataclasses.dataclass
class Signature:
    """What a graph of a training step takes and returns: a kind for each result ("output", "mutation", "gradient", "saved") and the
    input or the value that it belongs to; the inputs that are tangents; those that live as long as the model."""
    returns: list
    tangents: list
    parameters: list


def mutations_of(joint, num_fwd_outputs):
    """Which results of a joint graph are what an input becomes, by number: the number of that input, or None where it has none."""
    described = pytree.tree_leaves(next(iter(reversed(joint.graph.nodes))).meta.get("desc"), is_leaf=lambda d: d is None)
    mutated = {i: getattr(d, "mutated_input", None) for i, d in enumerate(described[:num_fwd_outputs])}
    return {i: getattr(d, "idx", None) for i, d in mutated.items() if d is not None}


def training_signature(joint, num_fwd_outputs, names, static=()):
    """The joint graph's Signature. `names`: of its inputs, as people know them; `static`: which of these, by number, are parameters
    or buffers."""
    primals = [n.name for n in joint.graph.nodes if n.op == "placeholder" and n.name.startswith("primals")]
    tangents = [n.name for n in joint.graph.nodes if n.op == "placeholder" and n.name.startswith("tangents")]
    into = mutations_of(joint, num_fwd_outputs)
    returns = [("output", None) if into.get(i) is None else ("mutation", names[into[i]]) for i in range(num_fwd_outputs)]
    returns += [("gradient", name) for name in names[:len(primals)]]
    return Signature(returns, tangents, [primals[i] for i in static if i < len(primals)])


def decompositions_of(choice):
    """The table of decompositions that goes by that name: PyTorch's core ATen set, or what its compiler Inductor takes."""
    if choice is None or isinstance(choice, dict):
        return choice
    if choice == "core":
        return torch._decomp.core_aten_decompositions()
    if choice == "inductor":
        from torch._inductor import lowering as _  # its decompositions ask for it
        from torch._inductor.decomposition import select_decomp_table
        # These become what Inductor alone has kernels for: pooling in little memory, and sums into rows of an embedding.
        apart = (torch.ops.aten.max_pool2d_with_indices, torch.ops.aten.embedding_dense_backward)
        return {k: v for k, v in select_decomp_table().items() if getattr(k, "overloadpacket", k) not in apart}
    raise ValueError(f"graft_fx: there are no decompositions {choice!r}; choose 'core', 'inductor', None or a table of your own")


def compile_jointly(gm, example_inputs, placeholders, known, note, decompose=None):
    """Compiles through AOTAutograd, which traces forward and backward as one graph and then parts it."""
    from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func
    from torch._functorch.partitioners import default_partition

    whole = []

    def original(node):
        """The placeholder behind an input: AOTAutograd numbers them, primals_3 is the third."""
        number = re.fullmatch(r"primals_(\d+)", getattr(node, "name", ""))
        return placeholders[int(number[1]) - 1].name if number and int(number[1]) <= len(placeholders) else None

    def named(node):
        was = original(node)
        return known[was][1] if was in known else was or getattr(node, "name", None)

    def of(graph, name, signature=None):
        ours, names = {}, {}
        nodes = [n for n in graph.graph.nodes if n.op == "placeholder"]
        for n in nodes:
            was = original(n)
            if was is not None:
                names[n.name] = was
                if was in known:
                    ours[n.name] = known[was]
        note(name, graph, [fake_of(n, None) for n in nodes], ours, names, signature)

    def partition(joint, joint_inputs, *, num_fwd_outputs, **options):
        names = [known[p.name][1] if p.name in known else p.name for p in placeholders]
        whole.append((training_signature(joint, num_fwd_outputs, names), num_fwd_outputs))
        of(joint, "joint", whole[0][0])
        return default_partition(joint, joint_inputs, num_fwd_outputs=num_fwd_outputs, **options)

    def forward(graph, _):
        signature = None
        if whole:
            results = next(iter(reversed(graph.graph.nodes))).args[0]
            saved = [("saved", named(r)) for r in results[whole[0][1]:]]
            signature = Signature(whole[0][0].returns[:whole[0][1]] + saved, [], [])
        of(graph, "forward", signature)
        return make_boxed_func(graph.forward)

    def backward(graph, _):
        of(graph, "backward", Signature(whole[0][0].returns[whole[0][1]:], whole[0][0].tangents, []) if whole else None)
        return make_boxed_func(graph.forward)

    return aot_module_simplified(gm, example_inputs, fw_compiler=forward, bw_compiler=backward, partition_fn=partition,
                                 decompositions=decompositions_of(decompose))
