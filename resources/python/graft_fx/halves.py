"""The two halves of a training step as they run: as PyTorch has them, or with kernels that are generated for them. On a CPU `graft optimize`
looks for these and times them; on a GPU each group is judged here, where its values are (groups.py)."""

import json
import subprocess
import tempfile
import time

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.graph import _BoxedCodeGen
from torch.utils._python_dispatch import _disable_current_modes

from . import groups
from .autocast import without_autocast
from .compiled import fake_of
from .file import FileWriter, load_exported
from .graphs import SYMBOLS, graph_data
from .nodes import copied
from .padding import pad_products
from .program import environment
from .together import Outside


def boxed(module):
    """The graph as a function of a list. It takes its arguments from the list, so that each is freed once nobody needs it."""
    module.graph.set_codegen(_BoxedCodeGen())
    module.recompile()

    def run(arguments):
        return module.forward(arguments)

    run._boxed_call = True
    return run


def layout(value):
    """dtype, shape, and the strides that count, of a tensor; the type of anything else."""
    if not isinstance(value, torch.Tensor):
        return type(value)
    strides = [s for s, n in zip(value.stride(), value.shape) if n > 1] if value.numel() else []
    return value.dtype, tuple(value.shape), tuple(strides)


class Half:
    """One half of a training step. The first call, which has the values, looks for faster kernels."""

    SECONDS = 0.4  # that both ways are timed for
    JUDGED = ("cuda",)  # the devices where groups are judged one by one
    _boxed_call = True

    def __init__(self, backend, module, name, report, say):
        self.backend, self.name, self.report, self.say = backend, name, report, say
        self.module, self.plain, self.run = module, boxed(module), None

    def __call__(self, arguments):
        if self.run is not None:
            return self.run(arguments)
        if any(isinstance(v, FakeTensor) for v in arguments):
            return self.plain(arguments)
        self.run = self.plain
        # AOTAutograd watches the first call by a mode, which gives operators numbers where they want tensors.
        with _disable_current_modes():
            devices = {v.device for v in arguments if isinstance(v, torch.Tensor)}
            if len(devices) == 1 and self.may_fuse(next(iter(devices)).type):
                self.run = self.chosen(list(arguments), devices.pop())
            return self.run(arguments)

    def may_fuse(self, device):
        return device in ("cpu", "cuda") and self.backend.fuse

    def chosen(self, arguments, device):
        """What runs from the first call on. It draws no random numbers that the model would miss."""
        try:
            with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
                return self.faster(arguments, device) or self.plain
        except Exception as e:
            if self.backend.strict:
                raise
            self.say(f"its {self.name} half gets no generated kernels: {str(e) or type(e).__name__}")
            return self.plain

    def faster(self, arguments, device):
        """The half with generated kernels; None where these do not make it faster."""
        writer = FileWriter()
        with without_autocast(), torch.no_grad():
            outside, module, whole = None, self.module, arguments
            if device.type in self.JUDGED:
                outside = Outside(self.padded(device.type), device.type)
                module, arguments = outside.module, outside.arguments(arguments)
            placeholders = module.graph.find_nodes(op="placeholder")
            data = graph_data(module, [fake_of(n, v) for n, v in zip(placeholders, arguments)], {}, module, writer, lower=True)
            plain = [i for i, v in enumerate(arguments) if isinstance(v, (torch.Tensor, int, float, *SYMBOLS)) and not isinstance(v, bool)]
            with tempfile.TemporaryDirectory(prefix="graft-") as folder:
                writer.write(f"{folder}/half.fx", "Captured", [data])
                if device.type in self.JUDGED:
                    program = load_exported(f"{folder}/half.pt2", self.backend.library) if groups.fused(self.backend, folder) else None
                    return self.judged(program, plain, arguments, device, outside, whole)
                torch.save(tuple(arguments[i].detach() if isinstance(arguments[i], torch.Tensor) else arguments[i] for i in plain),
                           f"{folder}/inputs.pt")
                made = self.optimized(folder)
                if made is None:
                    return None
                program = load_exported(f"{folder}/half.pt2", self.backend.library)
            run = self.called(*self.taken(program, plain))
            self.compare(run, arguments)
            times = self.timed(run, arguments)
        self.report[self.name] = {"groups": made, "plainMs": times[0], "milliseconds": times[1], "isKept": times[1] <= times[0]}
        return run if times[1] <= times[0] else None

    def padded(self, device):
        """The half with products of sizes that suit the device; the half itself where all do."""
        module = copied(self.module)
        return module if pad_products(module, device) else self.module

    def judged(self, program, plain, arguments, device, outside, whole):
        """The half with those groups that are right and faster on this GPU. `arguments`: those of the graph inside, `whole`: the half's."""
        if program is None:
            self.report[self.name] = {"groups": 0, "isKept": False, "why": "nothing can be fused"}
            return outside.around(boxed(outside.cast_results(outside.module))) if outside.is_used() else None
        inner, sources = self.taken(program, plain)
        self.report[self.name] = groups.choose(inner, [arguments[s] if isinstance(s, int) else s for s in sources], device)
        if not self.report[self.name]["isKept"] and not outside.is_used():
            return None
        run = outside.around(self.called(outside.cast_results(inner), sources))
        self.compare(run, whole)
        return run

    def optimized(self, folder):
        """How many kernels `graft optimize` keeps."""
        command = [self.backend.graft, "optimize", f"{folder}/half.fx", "--inputs", f"{folder}/inputs.pt", "-o", f"{folder}/half.pt2",
                   "--budget", str(self.backend.budget), "--no-timing", "--json"]
        run = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, env=environment(self.backend.library))
        if run.returncode not in (0, 7):
            raise RuntimeError(f"graft optimize: {run.stderr.strip() or f'exit code {run.returncode}'}")
        document = json.loads(run.stdout)
        if run.returncode == 7 or document["result"]["unchanged"]:
            self.report[self.name] = {"groups": 0, "isKept": False, "why": document.get("whyUnchanged", "")}
            return None
        return sum(g["kept"] for g in document["groups"])

    @staticmethod
    def taken(program, plain):
        """The program's graph and what each of its inputs is: a tensor, or an argument of the half by number. `plain`: those that it
        takes."""
        inner = program.graph_module
        for n in [n for n in inner.graph.nodes if n.target is torch.ops.aten._assert_tensor_metadata.default]:
            inner.graph.erase_node(n)
        sources, rest = [], iter(plain)
        for spec in program.graph_signature.input_specs:
            sources.append(next(rest) if spec.target is None else {**program.constants, **program.state_dict}[spec.target])
        return inner, sources

    @staticmethod
    def called(inner, sources):
        """The graph as a function of the half's arguments."""
        run = boxed(inner)

        def half(arguments):
            given = [arguments[s] if isinstance(s, int) else s for s in sources]
            arguments.clear()
            return run(given)

        half._boxed_call = True
        return half

    def compare(self, run, arguments):
        """Graft has compared the numbers; this is for the order of results and how they lie in memory, which views of them rely on."""
        expected = [layout(t) for t in self.plain(list(arguments))]  # one after the other: they may be large
        got = [layout(t) for t in run(list(arguments))]
        if len(expected) != len(got):
            raise ValueError(f"it gives {len(got)} results instead of {len(expected)}")
        for i, (a, b) in enumerate(zip(expected, got)):
            if a != b:
                raise ValueError(f"its result {i} is {b} with generated kernels, and {a} without")

    def timed(self, run, arguments):
        """Milliseconds of both, in turns: of this thread where it works alone."""
        clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
        samples, until = ([], []), time.perf_counter() + self.SECONDS
        while len(samples[0]) < 5 or (time.perf_counter() < until and len(samples[0]) < 200):
            for which, function in zip(samples, (self.plain, run)):
                given = list(arguments)
                begin = clock()
                function(given)
                which.append((clock() - begin) * 1e3)
        return [sorted(which)[len(which) // 2] for which in samples]
