"""The backend for torch.compile: each captured graph goes to `graft apply`, and what comes back runs in its place."""

import json
import os
import subprocess
import sys
import tempfile
import warnings
import weakref

import torch
from torch._dynamo.callback import callback_handler

from . import updates, writes
from .autocast import HALVES, without_autocast
from .compiled import break_text, fake_of, weights_of
from .file import FileWriter
from .graphs import LOG, SYMBOLS, graph_data, value_type
from .program import environment, find_library, find_program
from .training import AT_RUN_TIME, Trainer, Unfit, has_half, needs_gradients


def watch_skips(backend):
    """Has the backend told of each frame that torch.compile cannot capture: it is never given a graph of these."""
    if any(getattr(f, "backend", None) is not None and f.backend() is backend for f in callback_handler.end_callbacks):
        return

    def ended(_):
        error, backend = sys.exc_info()[1], ended.backend()
        if backend is not None and isinstance(error, torch._dynamo.exc.Unsupported) and compiler_of(sys._getframe()) is backend:
            backend.skip(error)

    ended.backend = weakref.ref(backend)
    callback_handler.register_end_callback(ended)


def compiler_of(frame):
    """The backend of the innermost compilation that `frame` runs in."""
    while frame is not None and not (frame.f_code.co_name == "_compile" and "compiler_fn" in frame.f_locals):
        frame = frame.f_back
    found = frame.f_locals["compiler_fn"] if frame is not None else None
    while found is not None and not isinstance(found, Backend):  # torch.compile wraps what it was given
        found = next((getattr(found, name) for name in ("_torchdynamo_orig_backend", "compiler_fn") if hasattr(found, name)), None)
    return found


class Backend:
    VARIANTS = 32  # sets of weights that one graph is used with, such as a block that a model has many times

    def __init__(self, rules, recipe, graft, library, verify, strict, libraries=(), budget=20, training=False, memory="100%", recompute=(),
                 decompose=None, fuse=True, graphs=True):
        # Without rules: the recipes that come with Graft, tried for `budget` seconds a graph.
        self.budget = budget
        self.training, self.memory, self.recompute, self.decompose = training, memory, list(recompute), decompose
        self.graphs = graphs  # each half is kept as a CUDA graph where a kind of call comes again
        self.fuse = fuse  # each half of a training step gets generated kernels where they are faster
        self.libraries = [os.path.abspath(path) for path in libraries]
        self.rules, self.recipe, self.verify, self.strict = rules, recipe, verify, strict
        self.graft = find_program(graft)
        if self.rules is not None and not os.path.exists(self.rules):
            raise FileNotFoundError(f"graft_fx.backend: there is no rule file {self.rules}")
        self.library = find_library(self.graft, library)
        self.reports, self.skipped = [], []
        self.__name__ = "graft"
        watch_skips(self)

    def skip(self, error):
        """Tells of a frame that torch.compile runs in plain Python."""
        stack = getattr(error, "real_stack", None)
        where = f" ({stack[-1].filename}:{stack[-1].lineno}, in {stack[-1].name})" if stack else ""
        reason = f"{str(error).strip().splitlines()[0]}{where}"
        self.skipped.append(reason)
        warnings.warn(f"graft_fx: torch.compile runs a function in plain Python and gives Graft no graph of it: {reason}", stacklevel=2)

    def __call__(self, gm, example_inputs):
        report = {"graph": len(self.reports), "rewritten": False}
        self.reports.append(report)
        watch_skips(self)
        why = getattr(gm, "compile_subgraph_reason", None)
        if why is not None and why.graph_break:
            report["break"] = break_text(why)
        try:
            if self.training and needs_gradients(example_inputs):
                return Trainer(self, gm, example_inputs, report).trained()
            if updates.is_update(gm) and not needs_gradients(example_inputs):
                return self._updated(gm, example_inputs, report)
            return self._rewrite(gm, example_inputs, report)
        except torch._dynamo.exc.RestartAnalysis:
            raise  # torch.compile begins anew
        except Exception as e:
            if self.strict:
                raise
            report["reason"] = str(e) if isinstance(e, Unfit) else f"{type(e).__name__}: {e}"
            warnings.warn(f"graft_fx: graph {report['graph']} runs as it was: {report['reason']}", stacklevel=2)
            return gm.forward

    def _updated(self, gm, example_inputs, report):
        """An optimizer's step."""
        if not self.fuse:
            raise Unfit("it is an optimizer's step, which generated kernels alone make faster (fuse=False)")

        def say(reason):
            warnings.warn(f"graft_fx: graph {report['graph']}: {reason}", stacklevel=2)

        try:
            return updates.Update(self, gm, report, say).compiled(example_inputs)
        except updates.Refused as e:
            if updates.is_of_optimizer(gm) or gm.graph.find_nodes(op="get_attr"):
                raise Unfit(str(e)) from e
            try:
                return self._rewrite(gm, example_inputs, report)  # a function that fills a tensor
            except Unfit as other:
                raise Unfit(f"{e}; {other}") from e

    def _rewrite(self, gm, example_inputs, report):
        if torch.is_grad_enabled() and any(isinstance(v, torch.Tensor) and v.requires_grad for v in example_inputs):
            raise Unfit("gradients may be asked for, and rewritten graphs have none; call the model under torch.no_grad(), "
                        "or train it with backend(..., training=True)")
        placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
        known = weights_of(placeholders, example_inputs, {})
        if self.training:  # weights change from step to step, and a recorded step tells nobody: nothing is calculated from them beforehand
            known = {n: (t, path + AT_RUN_TIME) for n, (t, path) in known.items()}
        writes.watch()
        values = [fake_of(n, v) for n, v in zip(placeholders, example_inputs)]
        writer = FileWriter()
        graph = graph_data(gm, values, known, gm, writer, lower=True)
        weights = [i for i, n in enumerate(placeholders) if n.name in known]
        given = [i for i, n in enumerate(placeholders) if n.name not in known]
        paths = {known[placeholders[i].name][1]: i for i in weights}
        outputs = len(next(iter(reversed(gm.graph.nodes))).args[0])

        def make(arguments):
            """The rewritten graph for these arguments' weights, and which of those were merged into others."""
            now = {id(known[placeholders[i].name][0]): arguments[i] for i in weights}
            fresh = FileWriter()
            fresh.tensors = [now.get(id(t), t) for t in writer.tensors]
            with tempfile.TemporaryDirectory(prefix="graft-") as folder:
                fresh.write(f"{folder}/graph.fx", "Captured", [graph])
                document = self._apply(folder, [arguments[i] for i in given], weights=fresh.tensors)
                report["graft"] = document
                rules = [step for step in document["steps"] if step["isRule"]]
                if self.rules is None and document["unchanged"] and "output" not in document:
                    raise Unfit(f"nothing makes it faster: {document['whyUnchanged']}")
                if self.rules is not None and not any(rule["rewrites"] for rule in rules):
                    wrong = [rule["name"] for rule in rules if rule["rolledBack"]]
                    raise Unfit(f"{', '.join(wrong)} computes something else and was taken back" if wrong else "no rule matches in it")
                loaded = self._load(f"{folder}/out.pt", arguments, given)
            exact = document["verification"]["passed"] is not False
            self._check(gm, loaded, arguments, given, outputs, exact, coarse=has_half(graph["aten"]))
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
                    tuple([writes.count(t) for t in tensors]) if versions else ())

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
                        raise Unfit(f"it is used with more than {self.VARIANTS} sets of weights")
                    made = variant(arguments)
                except Exception as e:
                    if self.strict:
                        raise
                    refused[0] = str(e)
                    warnings.warn(f"graft_fx: graph {report['graph']} runs as it was with other weights: {e}", stacklevel=2)
                    return gm.forward(*arguments)
            with without_autocast():  # the casts stand in the graph
                result = made(*[arguments[i] for i in given])
            return tuple(result) if outputs != 1 else (result,)

        # A symbol's hint: asking for its value would fix it.
        variant([v.node.hint if isinstance(v, SYMBOLS) else v for v in example_inputs])
        document = report["graft"]
        report["rewritten"] = True
        LOG.info("graph %d: %d nodes became %d: %s", report["graph"], document["nodesBefore"], document["nodesAfter"],
                 ", ".join(f"{s['name']} {s['rewrites']}" for s in document["steps"] if s["isRule"] and s["rewrites"]))
        return run

    def _apply(self, folder, inputs, weights=(), output="out.pt", training=False):
        torch.save(tuple(v.detach() if isinstance(v, torch.Tensor) else v for v in inputs), f"{folder}/inputs.pt")
        name = "optimize" if self.rules is None else "apply"
        command = [self.graft, name, f"{folder}/graph.fx", "--inputs", f"{folder}/inputs.pt", "-o", f"{folder}/{output}", "--json"]
        if self.rules is None:
            command += ["--budget", str(self.budget), "--seconds", "1"]
        else:
            command += ["--rules", self.rules, "--no-timing"]
            command += ["--recipe", self.recipe] if self.recipe else []
            command += [] if self.verify else ["--no-verify"]
            command += ["--training"] if training else []
        for path in self.libraries:
            command += ["--library", path]
        devices = set() if training else {v.device for v in [*inputs, *weights] if isinstance(v, torch.Tensor)}
        if len(devices) == 1 and (device := devices.pop()).type == "cuda":  # what is kept depends on where it is fast
            command += ["--device", str(device)]
        run = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                             env=environment(self.library))
        if run.returncode not in (0, 7):  # 7: nothing was rewritten, and the report says why
            said = run.stderr.strip().replace(f"{folder}/graph.fx", "the graph") or f"exit code {run.returncode}"
            raise Unfit(f"graft {name}: {said}")
        document = json.loads(run.stdout)
        for own in document.get("libraries", []):
            self._load_own(own["path"], own["operators"])
        if self.rules is None:
            return document["result"] | {"whyUnchanged": document.get("whyUnchanged")}
        return document["models"][0]

    @staticmethod
    def _load_own(path, operators):
        """A library of operators that the rewritten graph may call. What was imported here already stays as it is."""
        known = set(torch._C._dispatch_get_all_op_names())
        names = [o.replace(".", "::", 1).removesuffix(".default") for o in operators]
        if all(name in known for name in names):
            return
        if path.endswith(".py"):
            raise Unfit(f"import {os.path.basename(path)[:-3]} first: the rewritten graph calls its operators")
        torch.ops.load_library(path)

    def _load(self, path, arguments, given):
        torch.ops.load_library(self.library)
        devices = {v.device for v in arguments if isinstance(v, torch.Tensor)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of TorchScript, which is what graft apply writes
            return torch.jit.load(path, map_location=devices.pop() if len(devices) == 1 else None)

    def _check(self, gm, loaded, arguments, given, outputs, exact, coarse):
        """Both once on copies of the arguments: the same outputs in the same order. `coarse`: they compute in half precision."""
        copies = [[v.detach().clone() if isinstance(v, torch.Tensor) else v for v in arguments] for _ in range(2)]
        gpus = {v.device.index for v in arguments if isinstance(v, torch.Tensor) and v.device.type == "cuda"}
        own = [*loaded.parameters(), *loaded.buffers()]
        before = [t.clone() if t.is_inference() else t._version for t in own]
        with torch.no_grad(), torch.random.fork_rng(devices=sorted(gpus)):
            with without_autocast():
                got = loaded(*[copies[1][i] for i in given])
            # These are copies, which nobody would see written; and the graph as it was would write the model's own.
            if any(not torch.equal(t.nan_to_num(), was.nan_to_num()) if t.is_inference() else t._version != was for t, was in zip(own, before)):
                raise Unfit("it writes to parameters or buffers of the model")
            expected = gm.forward(*copies[0])
        got = tuple(got) if outputs != 1 else (got,)
        if len(got) != len(expected):
            raise Unfit(f"the rewritten graph gives {len(got)} outputs instead of {len(expected)}")
        for i, (a, b) in enumerate(zip(expected, got)):
            if not isinstance(a, torch.Tensor):
                if a != b:
                    raise Unfit(f"output {i} is {b} instead of {a}")
                continue
            if not isinstance(b, torch.Tensor) or a.shape != b.shape or a.dtype != b.dtype:
                raise Unfit(f"output {i} is {value_type(b)} instead of {value_type(a)}")
            if not exact or not a.numel():
                continue
            # Graft has compared more closely; this is for outputs that changed places.
            scale, apart = a.abs().double().nan_to_num().max(), (a.double() - b.double()).abs().nan_to_num(posinf=0).max()
            tolerance = 0 if not a.is_floating_point() else 5e-2 if coarse or a.dtype in HALVES else 1e-3
            if apart > tolerance * max(scale, 1e-6):
                raise Unfit(f"output {i} differs from the graph's by {apart:.3g} (largest value {scale:.3g})")
