"""An optimizer's step behind torch.compile: what it does to all parameters alike becomes one generated kernel for all of them.

    step = torch.compile(optimizer.step, backend=graft_fx.backend("rules.py", training=True))

Such a graph gives nothing and writes to its inputs. AOTAutograd makes it one of new values, with copies into the inputs behind them, and
foreach operators come apart. What hangs together then is one parameter's update, and those that compute the same are one class. The
classes' kernels write where the parameters and the optimizer's states lie (graft::generated_parts).
"""

import collections
import concurrent.futures
import dataclasses
import json
import os
import tempfile
import threading
import time
import weakref

import torch
import torch.fx
import torch.utils._pytree as pytree
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import _disable_current_modes

from . import foreach, groups
from .file import FileWriter, load_exported
from .graphs import graph_data
from .groups import ELSEWHERE, difference
from .nodes import is_in_place, lie_alike

aten = torch.ops.aten
RULES = """from graft import Recipe, eliminate_dead, fuse


class Fused(Recipe):
    steps = [fuse(plan="fusion.json", max_nodes=100000), eliminate_dead]
"""
PLANNED = 1 << 16  # elements of the tensors that a class's program is found with


class Refused(Exception):
    """Why the step runs as it was."""


def is_update(gm):
    """Whether a graph gives nothing and writes in place: as an optimizer's step does."""
    if any(leaf is not None for leaf in pytree.tree_leaves(gm.graph.output_node().args)):
        return False
    return any(n.op in ("call_method", "call_function") and is_in_place(n) for n in gm.graph.nodes)


def is_of_optimizer(gm):
    """Whether the graph calls what optimizers alone do: one function for a list of tensors."""
    return any(getattr(n.target, "__name__", "").startswith(("_foreach_", "_fused_")) for n in gm.graph.nodes)


def is_number(node):
    return node.meta["val"].dim() == 0


@dataclasses.dataclass
class Component:
    """What hangs together: nodes in their order; what it reads from outside; those of its nodes that others read, or inputs become."""
    nodes: list
    inputs: list
    results: list
    key: tuple


@dataclasses.dataclass
class Class:
    """Components that compute the same. `takes` and `gives`: which of a component's inputs and results the program has, in its order."""
    components: list
    program: str = ""
    takes: list = dataclasses.field(default_factory=list)
    gives: list = dataclasses.field(default_factory=list)


def is_constant(node):
    return node.op == "call_function" and not node.all_input_nodes


def components_of(graph):
    """The components of all nodes but copies into inputs. Numbers (tensors without dimensions) do not tie tensors together: a rate is
    every parameter's."""
    for n in [n for n in graph.nodes if is_constant(n)]:
        for user in list(n.users)[1:]:
            with graph.inserting_after(n):
                own = graph.node_copy(n)
            user.replace_input_with(n, own)
    nodes = [n for n in graph.nodes if n.op == "call_function" and n.target is not aten.copy_.default]
    for n in nodes:
        if not isinstance(n.meta.get("val"), torch.Tensor) or not isinstance(n.target, torch._ops.OpOverload):
            raise Refused(f"{n.target} is no operator on one tensor")
    of = {n: n for n in nodes}

    def root(n):
        while of[n] is not n:
            of[n] = of[of[n]]
            n = of[n]
        return n

    for n in nodes:
        for a in n.all_input_nodes:
            if a in of and (is_number(a) == is_number(n) or is_constant(a)):
                of[root(a)] = root(n)
    found = collections.OrderedDict()
    for n in nodes:
        found.setdefault(root(n), []).append(n)
    return [component(list(ns)) for ns in found.values()]


def component(nodes):
    inside = set(nodes)
    inputs = list(dict.fromkeys(a for n in nodes for a in n.all_input_nodes if a not in inside))
    results = [n for n in nodes if any(u not in inside for u in n.users)]
    shape = nodes[-1].meta["val"]
    for n in (*nodes, *inputs):
        value = n.meta["val"]
        if not isinstance(value, torch.Tensor):
            raise Refused(f"{n.name} is a {type(value).__name__}")
        if not lie_alike(value, shape) and not ((n not in inside or is_constant(n)) and value.dim() == 0):
            raise Refused(f"{nodes[0].name} and {n.name} have other sizes or strides")
    if not aten.is_non_overlapping_and_dense(shape):
        raise Refused(f"{nodes[0].name} is not dense")
    place = {n: f"i{k}" for k, n in enumerate(inputs)} | {n: f"n{k}" for k, n in enumerate(nodes)}

    def said(argument):
        return str(torch.fx.map_arg(argument, lambda n: place[n]))

    key = (is_number(nodes[-1]), tuple((str(i.meta["val"].dtype), i.meta["val"].dim() > 0) for i in inputs),
           tuple((n.target, said(n.args), said(tuple(sorted(n.kwargs.items()))), str(n.meta["val"].dtype)) for n in nodes),
           tuple(place[r] for r in results), str(shape.device))
    return Component(nodes, inputs, results, key)


def flat_graph(component):
    """The component as a graph of its own, whose tensors have one dimension."""
    graph, new = torch.fx.Graph(), {}
    with FakeTensorMode(), torch.no_grad():
        for k, i in enumerate(component.inputs):
            value = i.meta["val"]
            new[i] = graph.placeholder(f"x{k}")
            whole = value.dim() > 0 or is_number(component.nodes[-1])
            new[i].meta["val"] = torch.empty((PLANNED,) if whole else (), dtype=value.dtype, device=value.device)
        for n in component.nodes:
            new[n] = graph.node_copy(n, lambda old: new[old])
            args, kwargs = torch.fx.map_arg((new[n].args, new[n].kwargs), lambda a: a.meta["val"])
            new[n].meta = {"val": n.target(*args, **kwargs)}
    graph.output(tuple(new[r] for r in component.results))
    return torch.fx.GraphModule({}, graph)


def fill_programs(backend, classes):
    """What the classes' programs are, take and give. Raises Refused."""
    with tempfile.TemporaryDirectory(prefix="graft-") as root:
        folders = [f"{root}/{k}" for k in range(len(classes))]
        for folder, c in zip(folders, classes):
            os.mkdir(folder)
            module, writer = flat_graph(c.components[0]), FileWriter()
            values = [p.meta["val"] for p in module.graph.find_nodes(op="placeholder")]
            data = graph_data(module, values, {}, module, writer, lower=True)
            writer.write(f"{folder}/half.fx", "Captured", [data])
            # Graft names nodes as FX does, or as ATen's graph where one becomes several. It passes over names that are none.
            whole = sorted({n["name"] for form in ("fx", "aten") for n in data[form] if n["op"] == "call_function"})
            with open(f"{folder}/fusion.json", "w", encoding="utf-8") as f:
                json.dump({"fusion": 1, "automatic": False, "merge": [whole]}, f)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            are_fused = list(pool.map(lambda folder: groups.fused(backend, folder, RULES), folders))
        for c, is_fused in zip(classes, are_fused):
            if not is_fused:
                raise Refused(f"no kernel is generated for {c.components[0].nodes[0].target}")
        for folder, c in zip(folders, classes):
            fill_program(c, load_exported(f"{folder}/half.pt2", backend.library))


def fill_program(found, exported):
    graph = exported.graph_module.graph
    calls = [n for n in graph.nodes if n.target is torch.ops.graft.generated.default]
    others = [n for n in graph.nodes if n.op == "call_function" and n not in calls and getattr(n.target, "__name__", "") != "getitem"
              and n.target is not aten._assert_tensor_metadata.default]
    if len(calls) != 1 or others:
        raise Refused(f"it is not one kernel: {(others or calls)[0].target} stays apart" if others or calls else "it is no kernel")
    given = graph.find_nodes(op="placeholder")
    found.program = calls[0].args[1]
    found.takes = [given.index(a) for a in calls[0].args[0]]
    results = pytree.tree_leaves(graph.output_node().args)
    places = {r.args[1]: i for i, r in enumerate(results) if r.op == "call_function" and r.args[0] is calls[0]}
    made = max((n.args[1] for n in calls[0].users), default=-1) + 1
    if len(places) != len(results) or sorted(places) != list(range(made)) or len(given) != len(found.components[0].inputs):
        raise Refused("its kernel gives something else than it does")
    found.gives = [places[k] for k in range(made)]


def in_order(classes):
    """The classes, each behind those that it reads from. Raises Refused where two read from each other."""
    of = {n: i for i, c in enumerate(classes) for part in c.components for n in part.nodes}
    needs = [{of[i] for part in c.components for i in part.inputs if i in of} for c in classes]
    if any(i in n for i, n in enumerate(needs)):
        raise Refused("updates read from each other")
    out, waiting = [], list(range(len(classes)))
    while waiting:
        ready = next((i for i in waiting if not needs[i] & set(waiting)), None)
        if ready is None:
            raise Refused("updates read from each other")
        waiting.remove(ready)
        out.append(classes[ready])
    return out


class Step:
    """The functional graph as calls of the classes' kernels. `run(arguments)`: a list, which it empties."""

    _boxed_call = True

    def __init__(self, backend, module):
        graph = module.graph
        if any(leaf is not None for leaf in pytree.tree_leaves(graph.output_node().args)):
            raise Refused("it gives something")
        self.is_verified, self.written = False, []
        self.place = {p: k for k, p in enumerate(graph.find_nodes(op="placeholder"))}
        self.into = {}
        for n in graph.nodes:
            if n.target is aten.copy_.default:
                if n.args[0] not in self.place or n.args[0] in self.into or any(u.op != "output" for u in n.users):
                    raise Refused(f"{n.name} writes to something else than an input")
                self.into[n.args[0]] = n.args[1]
        if not self.into:
            raise Refused("it writes to none of its inputs")
        classes = collections.OrderedDict()
        for c in components_of(graph):
            classes.setdefault(c.key, Class([])).components.append(c)
        self.classes = in_order(list(classes.values()))
        fill_programs(backend, self.classes)
        self.plan()

    def plan(self):
        """Where each result goes: into the input that it becomes, where nobody else reads that; else into memory of its own."""
        targets = collections.defaultdict(list)
        for p, value in self.into.items():
            targets[value].append(p)
        self.home, self.behind = {}, []
        for c in self.classes:
            for part in c.components:
                inside = set(part.nodes)
                for r in part.results:
                    fits = [p for p in targets[r] if all(u in inside or u.target is aten.copy_.default for u in p.users)
                            and p.meta["val"].dtype == r.meta["val"].dtype and p.meta["val"].device == r.meta["val"].device
                            and lie_alike(p.meta["val"], r.meta["val"])]
                    if fits:
                        self.home[r] = fits[0]
                    self.behind += [(p, r) for p in targets[r] if not fits or p is not fits[0]]
        self.behind += [(p, value) for p, value in self.into.items() if value in self.place]

        # For each class, where its tensors are: numbers of arguments, then of results without a home.
        own, number = [], dict(self.place)
        for c in self.classes:
            for part in c.components:
                for r in part.results:
                    if r in self.home:
                        number[r] = self.place[self.home[r]]
                    else:
                        number[r] = len(self.place) + len(own)
                        own.append(r.meta["val"])
        self.own = own
        kinds = {}
        for k, like in enumerate(own):
            if like.dim() == 0:
                kinds.setdefault((like.dtype, like.device), []).append(k)
        self.numbers = list(kinds.items())
        self.calls = [(c, [number[part.inputs[k]] for part in c.components for k in c.takes],
                       [number[part.results[k]] for part in c.components for k in c.gives]) for c in self.classes]
        self.copies = [(self.place[p], number[value]) for p, value in self.behind]

    def tensors(self, arguments):
        """The arguments, and memory for results that become no input. Numbers lie side by side."""
        own = [None if like.dim() == 0 else torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=like.device)
               for like in self.own]
        for (dtype, device), places in self.numbers:
            for k, t in zip(places, torch.empty(len(places), dtype=dtype, device=device).unbind()):
                own[k] = t
        return arguments + own

    def verify(self, arguments):
        """Each component beside the ATen operators that it consists of, on copies. Raises Refused."""
        tensors = self.tensors(list(arguments))
        for c, inputs, results in self.calls:
            for k, part in enumerate(c.components):
                given = [tensors[i] for i in inputs[k * len(c.takes):(k + 1) * len(c.takes)]]
                into = [tensors[i] for i in results[k * len(c.gives):(k + 1) * len(c.gives)]]
                copies = {id(t): t.clone() for t in (*given, *into)}
                given, got = [copies[id(t)] for t in given], [copies[id(t)] for t in into]
                expected = [e.clone() for e in torch.ops.graft.generated.default.redispatch(ELSEWHERE, given, c.program, ())]
                torch.ops.graft.generated_parts(given, got, c.program)
                for value, result, place, at in zip(expected, got, into, c.gives):
                    if why := difference(value, result, False):
                        raise Refused(f"{part.results[at].name}: {why}")
                    if part.results[at] not in self.home:
                        place.copy_(value)  # the next classes read it

    def __call__(self, arguments):
        if not self.is_verified:
            try:
                with _disable_current_modes():  # AOTAutograd watches the first call by one, which gives operators numbers for tensors
                    self.verify(arguments)
            except RuntimeError as e:  # no memory for copies, too; nothing has been written yet
                raise Refused(f"it cannot be compared: {str(e).splitlines()[0] if str(e) else type(e).__name__}") from e
            self.is_verified = True
            self.written = [weakref.ref(arguments[self.place[p]]) for p in self.into]
        tensors = self.tensors(arguments)
        for c, inputs, results in self.calls:
            torch.ops.graft.generated_parts([tensors[i] for i in inputs], [tensors[i] for i in results], c.program)
        for into, value in self.copies:
            tensors[into].copy_(tensors[value])
        arguments.clear()
        return []


class Update:
    """A captured step: `run` takes the place of its graph."""

    SECONDS = 0.2  # that both ways are timed for

    def __init__(self, backend, gm, report, say):
        self.backend, self.gm, self.report, self.say = backend, gm, report, say
        self.step, self.run, self.deciding = None, None, threading.Lock()

    def compiled(self, example_inputs):
        """Raises Refused."""
        from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func

        why = []

        def compiler(module, _):
            try:
                self.step = Step(self.backend, module)
                return self.step
            except Refused as e:
                why.append(e)
                return make_boxed_func(module.forward)

        made = aot_module_simplified(self.gm, list(example_inputs), fw_compiler=compiler, decompositions=foreach.decompositions(),
                                     keep_inference_input_mutations=True)
        if why:
            raise why[0]
        self.report |= {"rewritten": True, "update": {"kernels": len(self.step.classes),
                                                      "parts": sum(len(c.components) for c in self.step.classes)}}
        return self.first(made)

    def first(self, made):
        def run(*arguments):
            if self.run is not None:
                return self.run(*arguments)
            if any(isinstance(v, FakeTensor) for v in arguments):
                return self.gm.forward(*arguments)
            with self.deciding:
                if self.run is None:
                    return self.decide(made, arguments)
            return self.run(*arguments)

        return run

    def decide(self, made, arguments):
        """The first step: compared, and both ways timed."""
        try:
            result = made(*arguments)
        except Refused as e:
            if self.backend.strict:
                raise
            self.report |= {"rewritten": False, "reason": str(e)}
            self.say(f"it runs as it was: {e}")
            self.run = self.gm.forward
            return self.run(*arguments)
        if self.is_faster(made, arguments):
            self.run = made
        else:
            self.report |= {"rewritten": False, "reason": "its kernels are slower than the step as it was"}
            self.run = self.gm.forward
        return result

    def is_faster(self, made, arguments):
        """Times both on the values that there are, which are put back. Processes that train together have to do the same, and so take the
        kernels untimed."""
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            return True
        written = [t for t in (r() for r in self.step.written) if t is not None]
        try:
            kept = [t.clone() for t in written]
        except torch.OutOfMemoryError:
            return True  # a kernel reads and writes everything once
        try:
            times = [self.milliseconds(function, arguments, written[0].device) for function in (self.gm.forward, made)]
        except torch.OutOfMemoryError:
            return True
        finally:
            for t, value in zip(written, kept):
                t.copy_(value)
        self.report["update"] |= {"plainMs": times[0], "milliseconds": times[1], "isKept": times[1] <= times[0]}
        return times[1] <= times[0]

    def milliseconds(self, function, arguments, device):
        def wait():
            if device.type == "cuda":
                torch.cuda.synchronize(device)

        times, until = [], time.perf_counter() + self.SECONDS
        while len(times) < 3 or (time.perf_counter() < until and len(times) < 30):
            wait()
            begin = time.perf_counter()
            function(*arguments)
            wait()
            times.append((time.perf_counter() - begin) * 1e3)
        return sorted(times)[len(times) // 2]
