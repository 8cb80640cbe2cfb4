"""Training behind torch.compile: rules rewrite the captured graph, autograd differentiates the result, and `graft partition` decides
what the forward half saves for the backward half.

The rewritten graph takes the model's parameters as inputs, so they stay the user's own: gradients reach them, whatever a rule
merged, and `state_dict` does not change.
"""

import contextlib
import json
import operator
import os
import re
import subprocess
import tempfile
import warnings

import torch
import torch.fx
import torch.fx.traceback
import torch.utils._pytree as pytree
from torch._dynamo.utils import counters
from torch._subclasses.fake_tensor import FakeTensor

from . import absent, checkpoints, dropouts, masks, norms, own_gradients
from .autocast import HALVES, without_autocast
from .compiled import decompositions_of, fake_of, mutations_of, training_signature, weights_of
from .file import FileWriter, load_exported
from .graphs import SYMBOLS, graph_data
from .halves import Half
from .nodes import is_in_place
from .recorded import Recordings, recorder_for, why_not


class Unfit(Exception):
    """Why a graph is not rewritten, or not trained in Graft's way."""


AT_RUN_TIME = "_at_runtime"  # core/ir/subgraph.h: runTimeSuffix


def has_half(nodes):
    """Whether a node of the graph computes in half precision, as all do under torch.autocast."""
    names = {str(d)[6:] for d in HALVES}
    values = [v for n in nodes for v in (n["value"] if isinstance(n["value"], list) else [n["value"]])]
    return any(isinstance(v, dict) and v["dtype"] in names for v in values)


def needs_gradients(example_inputs):
    return torch.is_grad_enabled() and any(isinstance(v, torch.Tensor) and v.requires_grad for v in example_inputs)


def draws(node):
    """Whether an ATen node of a saved graph draws random numbers: PyTorch tags such operators, and a rate of 0 draws none."""
    parts = str(node.get("target")).split(".")
    if len(parts) != 3 or parts[0] in ("operator", "builtins", "math", "torch"):
        return False
    op = getattr(getattr(getattr(torch.ops, parts[0]), parts[1], None), parts[2], None)
    if op is None or torch.Tag.nondeterministic_seeded not in op.tags:
        return False
    given = dict(zip((a.name for a in op._schema.arguments), node["args"])) | dict(node["kwargs"])
    return not (given.get("train") is False or given.get("p", given.get("dropout_p")) == 0 or ("dropout_p" not in given and any(
        a.name == "dropout_p" for a in op._schema.arguments)))


def is_write(node):
    return is_in_place(node) or getattr(node.target, "__name__", node.target) in ("setitem", "iadd", "isub", "imul", "itruediv")


def place_of(node):
    """"model.py:12 (x.add_(1))": the user's line behind a node."""
    lines = [line.strip() for line in (node.meta.get("stack_trace") or "").strip().splitlines()]
    at = [i for i, line in enumerate(lines) if line.startswith("File ")]
    found = re.match(r'File "([^"]+)", line (\d+)', lines[at[-1]]) if at else None
    code = lines[at[-1] + 1] if at and at[-1] + 1 < len(lines) else ""
    return f"{found[1]}:{found[2]}" + (f" ({code})" if code else "") if found else node.name


def without_duplicates(module):
    """Computes once what the graph computes twice. Autocast casts an activation for each operator that reads it, so a layer's query, key
    and value each have a copy, all of which the backward half would keep. Nothing is merged in a graph with an operator that draws random
    numbers and is not PyTorch's own."""
    from torch._functorch.compile_utils import fx_graph_cse, rand_ops

    for n in module.graph.nodes:
        op = n.target
        if isinstance(op, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in op.tags and op.overloadpacket not in rand_ops:
            return
    module.graph = fx_graph_cse(module.graph)


class Joint:
    """A joint graph on its way to `graft partition`. Nodes go by numbers there, so that no name can mean two of them."""

    def __init__(self, module, num_fwd_outputs, static):
        self.module, self.outputs = module, num_fwd_outputs
        self.placeholders = module.graph.find_nodes(op="placeholder")
        self.primals = [n for n in self.placeholders if n.name.startswith("primals")]
        self.static = {self.primals[i] for i in static if i < len(self.primals)}
        self.numbered = [n for n in module.graph.nodes if n.op == "call_function"]
        self.number = {n: i for i, n in enumerate(self.numbered)}

    def written(self, path):
        """Writes the graph, with its inputs in the order that it has them."""
        values, graph = {}, torch.fx.Graph()
        for n in self.module.graph.nodes:
            copied = graph.node_copy(n, lambda old: values[old])
            values[n] = copied
            if n in self.number:
                copied._rename(f"n{self.number[n]}x")
        # What it returns is flat, and so are its inputs.
        last = next(iter(reversed(graph.nodes)))
        last.args = (tuple(pytree.tree_leaves(last.args[0], is_leaf=lambda x: x is None)),)
        flat = torch.fx.GraphModule(self.module, graph)
        names = [n.name for n in self.primals]
        signature = training_signature(self.module, self.outputs, names, [i for i, n in enumerate(self.primals) if n in self.static])
        writer = FileWriter()
        with without_autocast():  # its casts stand in the graph
            data = graph_data(flat, [fake_of(n, None) for n in self.placeholders], {}, flat, writer, signature=signature)
        writer.write(path, "Captured", [data | {"name": "joint"}])

    def node(self, name):
        """The node behind a value of the graph in Graft."""
        found = re.fullmatch(r"n(\d+)x(?:_(\d+))?", name)
        if not found:
            return next((n for n in self.placeholders if n.name == name), None)
        made = self.numbered[int(found[1])]
        elements = [u for u in made.users if u.target is operator.getitem]
        if elements and not isinstance(made.meta.get("val"), torch.Tensor):
            return next((u for u in elements if u.args[1] == int(found[2] or 0)), None)
        return None if found[2] else made

    def names_in(self, report):
        """The report with FX's names in place of numbers."""
        def named(text):
            def name(found):
                node = self.node(found[0])
                return node.name if node is not None else self.numbered[int(found[1])].name
            return re.sub(r"\bn(\d+)x(?:_\d+)?\b", name, text)
        return pytree.tree_map(lambda leaf: named(leaf) if isinstance(leaf, str) else leaf, report)

    def pins(self):
        """What torch.utils.checkpoint asks for."""
        policy = torch.utils.checkpoint.CheckpointPolicy
        again = (policy.MUST_RECOMPUTE, policy.PREFER_RECOMPUTE)
        out = []
        for n, i in self.number.items():
            asked = n.meta.get("recompute")
            if getattr(n.target, "is_view", False) or n.target is operator.getitem:
                continue  # views are never saved, and Graft has no node for some
            if asked in again:
                out += ["--recompute", f"n{i}x"]
            elif asked is policy.MUST_SAVE and isinstance(n.meta.get("val"), torch.Tensor):
                out += ["--save", f"n{i}x"]
        return out

    def halves(self, saved):
        """The two graphs: `saved` are the names of what the forward half keeps beside parameters."""
        from torch._functorch.partitioners import _extract_fwd_bwd_modules, reordering_to_mimic_autograd_engine

        nodes = []
        for name in saved:
            node = self.node(name)
            if node is None:
                raise Unfit(f"the cut goes through {name}, which is no value of the joint graph of PyTorch")
            nodes.append(node)
        overwritten = {self.primals[i] for i in mutations_of(self.module, self.outputs).values() if i is not None}
        nodes = [self.copied(n) if n in overwritten else n for n in nodes]
        nodes = [n for n in self.static if n not in overwritten and n not in nodes] + nodes  # there anyway; unused ones go again
        sizes = [n for n in self.placeholders if isinstance(n.meta.get("val"), SYMBOLS)]
        numbers = sizes + [n for n in nodes if isinstance(n.meta.get("val"), SYMBOLS) and n not in sizes]
        forward, backward = _extract_fwd_bwd_modules(self.module, [n for n in nodes if n not in numbers], numbers,
                                                     num_fwd_outputs=self.outputs)
        return forward, reordering_to_mimic_autograd_engine(backward)

    def copied(self, node):
        """A copy that the backward half reads instead: the forward pass ends by overwriting the input."""
        graph = self.module.graph
        with graph.inserting_after(self.placeholders[-1]):
            copy = graph.call_function(torch.ops.aten.clone.default, (node,))
        copy.meta = dict(node.meta)
        node.replace_all_uses_with(copy, delete_user_cb=lambda user: user is not copy and user.op != "output")
        self.module.recompile()
        return copy


class Trainer:
    """One captured graph that is trained: `run` takes the place of its forward."""

    def __init__(self, backend, gm, example_inputs, report):
        self.backend, self.gm, self.report = backend, gm, report
        self.placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
        self.example_inputs = example_inputs
        self.weights = weights_of(self.placeholders, example_inputs, {})
        self.said = set()

    def say(self, reason):
        """Once for each graph and reason."""
        if reason not in self.said:
            self.said.add(reason)
            warnings.warn(f"graft_fx: graph {self.report['graph']}: {reason}", stacklevel=2)

    def trained(self):
        """The compiled graph."""
        try:
            return self.compiled()
        except torch._dynamo.exc.RestartAnalysis:
            raise  # torch.compile begins anew
        except RuntimeError as e:
            raise Unfit(self.explained(e)) from e
        finally:
            self.example_inputs = None  # they may be what an earlier graph has given out, and large

    def explained(self, error):
        """An error of PyTorch's autograd, with the place and what to do."""
        said = str(error).strip().splitlines()[0]
        if "inplace operation" in said:
            writes = [place_of(n) for n in self.gm.graph.nodes if n.op in ("call_method", "call_function") and is_write(n)]
            return (f"{said.split(' Hint:')[0]} The graph writes in place at {', '.join(writes[:3]) or 'places unknown'}: compute a new "
                    "tensor there (x = x + 1, not x.add_(1)), or write to a copy")
        named = [n for n in self.gm.graph.nodes if n.op == "call_function" and str(n.target).removesuffix(".default") in said]
        return said + (f" It stands at {place_of(named[0])}" if named else "")

    def compiled(self):
        gm = self.gm
        try:
            if self.backend.rules is not None:
                gm = self.rewritten()
                self.report["rewritten"] = True
        except Exception as e:
            if self.backend.strict:
                raise
            self.report["reason"] = str(e) if isinstance(e, Unfit) else f"{type(e).__name__}: {e}"
            self.say(f"it is trained as it was: {self.report['reason']}")
        run = self.differentiated(gm)
        return run if gm is self.gm or not self.backend.verify else self.compared_first(run)

    def compared_first(self, run):
        """`run`, compared with the graph itself in its first call: not while torch.compile is at work, which allows no backward pass."""
        chosen = []

        def first(*arguments):
            if any(isinstance(v, FakeTensor) for v in arguments):
                return run(*arguments)  # torch.compile is at work still
            if not chosen:
                chosen.append(run)
                try:
                    self.compare(run, arguments)
                except Exception as e:
                    if self.backend.strict:
                        raise
                    self.report |= {"rewritten": False, "reason": self.explained(e)}
                    self.say(f"it runs as it was: {self.explained(e)}")
                    chosen[0] = self.gm.forward
            return chosen[0](*arguments)

        return first

    def rewritten(self):
        """What `graft apply` makes of the graph: a graph of ATen's and Graft's operators that takes what this one takes."""
        gm = checkpoints.opened(self.gm)
        for n in gm.graph.nodes:
            if isinstance(n.target, torch._ops.HigherOrderOperator):
                raise Unfit(f"it holds a region of {n.target.name()}, into which no rule looks")
        writer = FileWriter()
        values = [fake_of(n, v) for n, v in zip(self.placeholders, self.example_inputs)]
        # Rules see weights. Under these names Graft calculates nothing from them beforehand: what merges them stays in the graph.
        known = {n: (t, path + AT_RUN_TIME) for n, (t, path) in self.weights.items()}
        graph = graph_data(gm, values, known, gm, writer, lower=True)
        self.random, self.coarse = any(draws(n) for n in graph["aten"]), has_half(graph["aten"])
        place = {known[n.name][1]: i for i, n in enumerate(self.placeholders) if n.name in known}
        given = [v.node.hint if isinstance(v, SYMBOLS) else v for v in self.example_inputs]
        plain = [i for i, n in enumerate(self.placeholders)
                 if n.name not in known and given[i] is not None and not isinstance(given[i], bool)]
        with tempfile.TemporaryDirectory(prefix="graft-") as folder:
            writer.write(f"{folder}/graph.fx", "Captured", [graph])
            document = self.backend._apply(folder, [given[i] for i in plain], output="out.pt2", training=True)
            self.report["graft"] = document
            rules = [step for step in document["steps"] if step["isRule"]]
            if not any(rule["rewrites"] for rule in rules):
                wrong = [rule["name"] for rule in rules if rule["rolledBack"]]
                raise Unfit(f"{', '.join(wrong)} computes something else and was taken back" if wrong else "no rule matches in it")
            program = load_exported(f"{folder}/out.pt2", self.backend.library)
        inner = program.graph_module
        for n in [n for n in inner.graph.nodes if n.target is torch.ops.aten._assert_tensor_metadata.default]:
            inner.graph.erase_node(n)
        inner.recompile()
        sources, rest = [], iter(plain)  # of each input: a tensor of the program's own, or the number of an argument
        for spec in program.graph_signature.input_specs:
            if spec.target is None:
                sources.append(next(rest))
            elif spec.target in place:
                sources.append(place[spec.target])
            elif spec.target in program.constants:
                sources.append(program.constants[spec.target])
            else:
                raise Unfit(f"a rule gives it a weight of its own, {spec.target}, which no optimizer knows; make it a parameter of the model")

        again = checkpoints.tag(inner.graph)
        with without_autocast():
            self.report["ownGradients"] = own_gradients.settle(inner, [given[s] if isinstance(s, int) else s for s in sources], self.wrong)

        class Rewritten(torch.nn.Module):
            def forward(self, *arguments):
                with torch.fx.traceback.preserve_node_meta() if again else contextlib.nullcontext():
                    result = torch.fx.Interpreter(inner).run(*[arguments[s] if isinstance(s, int) else s for s in sources],
                                                             enable_io_processing=False)
                return tuple(result) if isinstance(result, (tuple, list)) else (result,)

        made = Rewritten()
        made.code = inner.code
        return made

    def wrong(self, rule, why):
        """A rule's own `backward` is not what autograd computes."""
        said = f"`backward` of the rule {rule} is not used, and autograd differentiates its replacement: {why}"
        if self.backend.strict:
            raise Unfit(said)
        self.say(said)

    def differentiated(self, gm):
        from torch._functorch.aot_autograd import aot_module_simplified

        self.recordings, self.may_be_absent = self.recorded(), False

        def half(name):
            return lambda graph, _: self.half(name, graph)

        casts = gm is not self.gm  # the rewritten graph has autocast's casts as nodes
        counters["aot_autograd"]["total"] += 1  # DDPOptimizer asks whether a part of its graph was differentiated
        with without_autocast() if casts else contextlib.nullcontext():
            compiled = aot_module_simplified(gm, list(self.example_inputs), fw_compiler=half("forward"), bw_compiler=half("backward"), partition_fn=self.parted,
                                             decompositions=decompositions_of(self.backend.decompose))

        def run(*arguments):
            with without_autocast() if casts else contextlib.nullcontext():
                results = compiled(*arguments)
            if self.may_be_absent:
                absent.passed_on_as_none(results, arguments)
            return results

        return run

    def recorded(self):
        """What keeps the halves as CUDA graphs, or None."""
        kinds = {v.device.type for v in self.example_inputs if isinstance(v, torch.Tensor)}
        recorder = recorder_for(next(iter(kinds))) if self.backend.graphs and len(kinds) == 1 else None
        return None if recorder is None else Recordings(recorder, kinds.pop(), self.say, self.report)

    def half(self, name, graph):
        context = torch._guards.TracingContext.try_get()
        if context is not None and context.fw_metadata is not None:
            context.fw_metadata.bw_donated_idxs = []  # no half keeps its arguments' memory, so a graph may be retained
        if name == "backward":
            return absent.ByTangents(graph, lambda graph, around: self.run_by(name, graph, around))
        return self.run_by(name, graph)

    def run_by(self, name, graph, around=lambda half: half):
        made = around(Half(self.backend, graph, name, self.report, self.say))
        return made if self.recordings is None else self.recordings.half(name, made, graph)

    def parted(self, module, joint_inputs, *, num_fwd_outputs, **options):
        from torch._functorch.partitioners import default_partition

        module.graph.eliminate_dead_code()
        without_duplicates(module)
        self.may_be_absent = absent.has_known_sizes(module.graph)
        if self.backend.fuse:
            masks.from_norms(module)
            dropouts.in_two_steps(module, self.backend.library)
            if self.backend.memory != "100%":
                norms.apart(module)
        module.recompile()
        static = [i for i, n in enumerate(self.placeholders) if n.name in self.weights]
        if self.recordings is not None:
            self.recordings.outputs = num_fwd_outputs
            self.recordings.mutations = mutations_of(module, num_fwd_outputs)
            self.recordings.fixed = frozenset(static)
        try:
            joint = Joint(module, num_fwd_outputs, static)
            with tempfile.TemporaryDirectory(prefix="graft-") as folder:
                joint.written(f"{folder}/joint.fx")
                report = self.partition(f"{folder}/joint.fx", joint)
            halves = joint.halves([s["name"] for s in report["saved"]])
            norms.together(halves[0])
            self.report["partition"] = joint.names_in(report)
            return halves
        except Exception as e:
            if self.backend.strict:
                raise
            self.report["partition"] = None
            self.say(f"PyTorch parts it, and saves all that the backward pass reads: {e}")
            halves = default_partition(module, joint_inputs, num_fwd_outputs=num_fwd_outputs, **options)
            norms.together(halves[0])
            return halves

    def partition(self, path, joint):
        command = [self.backend.graft, "partition", path, "--no-verify", "--json", "--quiet", *joint.pins()]
        for name in self.backend.recompute:
            command += ["--recompute", name]
        memory = ["--memory", str(self.backend.memory)]
        environment = os.environ | {"GRAFT_OPS": self.backend.library}
        for attempt in (memory, []):
            run = subprocess.run(command + attempt, capture_output=True, text=True, stdin=subprocess.DEVNULL, env=environment)
            if run.returncode == 0:
                return json.loads(run.stdout)
            said = run.stderr.strip().removeprefix("graft: ")
            if self.backend.strict or attempt == [] or "cannot be met" not in said:
                raise Unfit(said)
            self.say(f"{said} It is parted as for 100 %.")
        raise AssertionError

    def compare(self, run, given):
        """Results and gradients of the first call beside the graph's own, on copies and from one seed. Where both draw random numbers
        they need not draw the same ones: then nothing follows from a difference."""
        def results(function, wide=False):
            torch.manual_seed(0)
            copies = [v.detach().clone().requires_grad_(v.requires_grad) if isinstance(v, torch.Tensor) else v for v in given]
            if wide:
                copies = [v.detach().double().requires_grad_(v.requires_grad) if isinstance(v, torch.Tensor) and v.is_floating_point() else v
                          for v in copies]
            out = [t for t in function(*copies) if isinstance(t, torch.Tensor)]
            ends = [i for i, t in enumerate(out) if t.requires_grad]
            torch.manual_seed(0)
            tangents = [torch.randn_like(out[i], dtype=dtypes[i] if wide else None).to(out[i].dtype) for i in ends]
            dtypes[:] = [t.dtype for t in out]
            wanted = [v for v in copies if isinstance(v, torch.Tensor) and v.requires_grad]
            return [t.detach() for t in out], torch.autograd.grad([out[i] for i in ends], wanted, tangents, allow_unused=True)

        dtypes, exact = [], []

        def is_noise(row, a, b):
            """Whether both are equally far from what the graph gives in fp64: of a sum that cancels, only rounding is left."""
            if not exact:
                try:
                    with without_autocast():
                        out, gradients = results(self.gm.forward, wide=True)
                    exact.append([*out, *gradients])
                except Exception:  # it insists on its dtypes
                    exact.append(None)
            right = exact[0][row] if exact[0] is not None else None
            if right is None or right.shape != a.shape:
                return False
            off = [float((t.double() - right).abs().nan_to_num(posinf=0).max()) for t in (a, b)]
            return off[1] <= 8 * off[0]

        devices = sorted({v.device.index for v in given if isinstance(v, torch.Tensor) and v.device.type == "cuda"})
        with torch.random.fork_rng(devices=devices):
            (expected, wanted), (got, found) = results(self.gm.forward), results(run)
        names = [self.weights[n.name][1] if n.name in self.weights else n.name for n, v in zip(self.placeholders, given)
                 if isinstance(v, torch.Tensor) and v.requires_grad]
        rows = [(f"output {i}", a, b) for i, (a, b) in enumerate(zip(expected, got))]
        rows += [(f"the gradient of {name}", a, b) for name, a, b in zip(names, wanted, found)]
        broken = [name for name, a, _ in rows if a is not None and a.is_floating_point() and not a.isfinite().all()]
        if broken:
            self.say(f"{broken[0]} holds NaN or infinity in the first step, in the model as it was too; "
                     "torch.autograd.set_detect_anomaly(True) tells where it begins")
        largest = 0.0
        for row, (name, a, b) in enumerate(rows):
            if a is None and b is None:
                continue
            a, b = (torch.zeros_like(b) if a is None else a), (torch.zeros_like(a) if b is None else b)
            if a.shape != b.shape or a.dtype != b.dtype:
                raise Unfit(f"{name} has another shape or dtype in the rewritten graph")
            if not a.numel() or not a.is_floating_point():
                continue
            scale = float(a.abs().double().nan_to_num().max())
            apart = float((a.double() - b.double()).abs().nan_to_num(posinf=0).max())
            tolerance = 5e-2 if self.coarse else {torch.float64: 1e-10, torch.float32: 1e-3}.get(a.dtype, 5e-2)
            if apart > tolerance * max(scale, 1e-6):
                with torch.random.fork_rng(devices=devices):
                    if not self.random and is_noise(row, a, b):
                        continue
                if self.random:
                    self.report["gradients"] = "not compared: the graph and its rewritten form draw other random numbers"
                    return
                raise Unfit(f"{name} differs from the graph's own by {apart:.3g} (largest value {scale:.3g})")
            largest = max(largest, apart / max(scale, 1e-300))
        self.report["gradients"] = {"compared": len(found), "largestRelative": largest}
