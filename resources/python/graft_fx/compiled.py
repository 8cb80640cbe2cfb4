"""Graphs as torch.compile captures them: where their inputs come from, why a capture broke, what AOTAutograd makes of them."""

import contextlib
import re

import torch
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


def compile_jointly(gm, example_inputs, placeholders, known, note):
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
        note(name, graph, [fake_of(n, None) for n in nodes], ours, names)

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
