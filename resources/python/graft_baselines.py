"""Runs a model file in one of PyTorch's own modes and times it on demand: the other side of `graft bench --against`.

    graft_baselines.py MODE MODEL INPUTS DEVICE DTYPE THREADS LIBRARY SETTINGS

MODE is one of MODES. INPUTS is what torch.save wrote (a tuple of tensors). DTYPE is "" or the dtype that floating weights and inputs
are cast to. THREADS is 0 for PyTorch's own choice. LIBRARY lists libraries of operators, with colons between: shared libraries, and Python
modules. SETTINGS is a JSON object, empty but for the modes that train: a run of these is a step of training with AdamW, `autocast` its
dtype, and "train-graft" takes `graft`, `library`, `package` (where graft_fx lies), `rules`, `recipe` and `memory`.

It loads the model, warms up, and writes one JSON line to stdout: {"description", "readySeconds", ...}. Then it answers each line of
stdin with a line. A number N runs the model N times: {"ms": [...], "wallMs": [...]}. `memory` asks for {"bytes"}: the most GPU memory
that PyTorch held; of a step of training, the most that it took beside what was there before it, on the CPU too. What fails is answered by {"error"}. On a GPU `ms` is between events around the call, after waiting for everything
before; on the CPU it is wall time.
"""
import json
import os
import sys
import time
import warnings

MODES = {
    "eager": "operator by operator",
    "jit": "TorchScript, frozen",
    "compile": "torch.compile",
    "compile-max-autotune": "torch.compile, max-autotune",
    "exported": "the rewritten model, exported, in Python",
    "train-eager": "operator by operator",
    "train-compile": "torch.compile",
    "train-compile-max-autotune": "torch.compile, max-autotune",
    "train-graft": "graft_fx.backend(training=True)",
}


def taking_tensors(program, module):
    """The module, called with its input tensors one by one, whatever lists, dicts, keywords and constants the program has them in."""
    import torch
    from torch.utils import _pytree
    spec, leaves = program.call_spec.in_spec, program.graph_signature.user_inputs
    args, kwargs = _pytree.tree_unflatten(list(range(spec.num_leaves)), spec)
    if list(args) == list(range(spec.num_leaves)) and not kwargs and all(isinstance(leaf, str) for leaf in leaves):
        return module

    class Flat(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.module = module

        def forward(self, *tensors):
            given = iter(tensors)
            args, kwargs = _pytree.tree_unflatten([next(given) if isinstance(leaf, str) else leaf for leaf in leaves], spec)
            return self.module(*args, **kwargs)

    return Flat()


def load(mode, path, inputs, device, dtype):
    """The model as something to call, and in words what it is."""
    import torch
    from torch.export.passes import move_to_device_pass

    def as_asked(module):
        return module.to(device=device, dtype=dtype) if dtype else module.to(device)

    try:
        script, program = torch.jit.load(path, map_location=device), None
    except RuntimeError as error:
        script, why = None, error
        try:
            program = move_to_device_pass(torch.export.load(path), device)
        except Exception:
            raise ValueError(f"PyTorch reads TorchScript and torch.export files, not this one: {str(why).splitlines()[0]}") from None
    if script is not None:
        script = as_asked(script.train() if mode == "train" else script.eval())
    if mode == "train" and script is None:
        return taking_tensors(program, as_asked(program.module())), MODES["eager"]
    if mode == "exported":
        return (taking_tensors(program, as_asked(program.module())) if script is None else script), MODES[mode]
    if mode == "jit":
        if script is None:
            script = torch.jit.trace(taking_tensors(program, as_asked(program.module())), inputs, check_trace=False)
        return torch.jit.freeze(script.eval()), MODES[mode]
    if mode == "eager" and script is not None:
        def run(*args):
            with torch.jit.optimized_execution(False):
                return script(*args)
        return run, "TorchScript, operator by operator"
    if script is not None:
        # torch.compile leaves TorchScript alone. PyTorch's own converter turns it into the form that torch.export makes.
        from torch._export.converter import TS2EPConverter
        program = TS2EPConverter(script, inputs).convert()
    module = taking_tensors(program, program.module())
    module = as_asked(module) if script is None else module
    if mode == "train":
        return module, MODES["eager"]
    if mode == "eager":
        return module, MODES[mode]
    effort = "max-autotune" if mode == "compile-max-autotune" else "reduce-overhead" if device.type == "cuda" else "default"
    if mode == "compile-max-autotune" and device.type == "cpu":
        effort = "max-autotune-no-cudagraphs"
    return torch.compile(module, mode=effort), f"torch.compile, {effort}{', of the converted TorchScript' if script is not None else ''}"


class Training:
    """Steps of training: the model's loss, its gradients, AdamW."""

    def __init__(self, mode, path, inputs, device, dtype, settings):
        import torch

        torch.set_grad_enabled(True)
        torch.manual_seed(0)
        module, _ = load("train", path, inputs, device, dtype)
        self.parameters = [p for p in module.parameters() if p.requires_grad and p.is_floating_point()]
        if not self.parameters:
            raise ValueError("no parameter of the model asks for a gradient")
        self.optimizer = torch.optim.AdamW(self.parameters, 1e-4, foreach=True)
        self.inputs, self.autocast, self.device = inputs, settings.get("autocast"), device
        self.losses, self.what = [], MODES[mode]
        effort = {"train-compile": "default", "train-compile-max-autotune": "max-autotune-no-cudagraphs"}.get(mode)
        if device.type == "cuda" and effort:
            effort = {"default": "reduce-overhead"}.get(effort, "max-autotune")
        if effort:
            module, self.what = torch.compile(module, mode=effort), f"torch.compile, {effort}"
        elif mode == "train-graft":
            sys.path.append(settings["package"])
            import graft_fx
            self.backend = graft_fx.backend(settings.get("rules") or None, settings.get("recipe") or None, training=True,
                                            graft=settings["graft"], library=settings["library"], memory=settings.get("memory", "100%"))
            module = torch.compile(module, backend=self.backend)
        self.model = module

    def said(self):
        """What graft_fx did, in words."""
        reports = getattr(getattr(self, "backend", None), "reports", [])
        words = []
        for r in reports:
            for half in ("forward", "backward"):
                if r.get(half, {}).get("isKept"):
                    words.append(f"{r[half]['groups']} kernels in the {half} half")
            words += [r["reason"]] if r.get("reason") else []
        return "; ".join(words)

    def __call__(self, *_):
        import contextlib

        import torch

        self.optimizer.zero_grad(set_to_none=True)
        torch.manual_seed(len(self.losses))
        around = torch.autocast(self.device.type, getattr(torch, self.autocast)) if self.autocast else contextlib.nullcontext()
        with around:
            out = self.model(*self.inputs)
            leaves = [t for t in torch.utils._pytree.tree_leaves(out) if isinstance(t, torch.Tensor) and t.requires_grad]
            loss = sum(t.float() if t.dim() == 0 else t.float().pow(2).mean() for t in leaves)
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.detach())

    def peak(self):
        """The most bytes that a step takes beside what is there before it."""
        import torch

        if self.device.type == "cuda":
            self.optimizer.zero_grad(set_to_none=True)
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            kept = graph_bytes()
            self()
            torch.cuda.synchronize()
            # CUDA graphs work in memory that they keep: all of it counts, whether the allocator calls it used or not.
            return max(torch.cuda.max_memory_allocated() - before, 0) + kept
        self.optimizer.zero_grad(set_to_none=True)
        return bytes_of(self)[0]


def graph_bytes():
    """Bytes of GPU memory that CUDA graphs keep to themselves."""
    import torch

    return sum(s["total_size"] for s in torch.cuda.memory_snapshot() if tuple(s.get("segment_pool_id", (0, 0))) != (0, 0))


def bytes_of(work):
    """Bytes that PyTorch's CPU allocator handed out during the work, beside what was there before it: the most, and those at the end."""
    import torch

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as run:
        kept = work()
    now = most = 0
    for event in sorted((e for e in run.profiler.kineto_results.events() if e.name() == "[memory]"), key=lambda e: e.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    del kept
    return most, now


def load_operators(path):
    import importlib.util
    import pathlib

    import torch
    if not path.endswith(".py"):
        return torch.ops.load_library(path)
    sys.path.insert(0, str(pathlib.Path(path).parent))
    spec = importlib.util.spec_from_file_location(pathlib.Path(path).stem, path)
    module = sys.modules[pathlib.Path(path).stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


def main():
    mode, path, inputs_path, device, dtype, threads, library, settings = sys.argv[1:]
    settings, trains = json.loads(settings), mode.startswith("train-")
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print must not mix with the answers

    def answer(**what):
        answers.write(json.dumps(what) + "\n")

    warnings.filterwarnings("ignore")
    try:
        import torch
        begin = time.perf_counter()
        torch.set_grad_enabled(False)
        if int(threads):
            torch.set_num_threads(int(threads))
        for operators in filter(None, library.split(os.pathsep)):
            load_operators(operators)
        device = torch.device(device)
        if device.type == "cuda":
            if not torch.cuda.is_available():
                raise ValueError("this Python's torch sees no GPU")
            device = torch.device("cuda", device.index or 0)
        dtype = getattr(torch, dtype) if dtype else None
        inputs = torch.load(inputs_path, weights_only=True, map_location=device)
        inputs = inputs if isinstance(inputs, tuple) else tuple(inputs.values()) if isinstance(inputs, dict) else (inputs,)
        if trains:
            model = Training(mode, path, inputs, device, dtype, settings)
            what = model.what
        else:
            model, what = load(mode, path, inputs, device, dtype)
        loaded = time.perf_counter()
        cuda = device.type == "cuda"
        if cuda:
            torch.cuda.set_device(device)
            begin_event, end_event = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

        def run():
            if cuda:
                torch.cuda.synchronize()
            t = time.perf_counter()
            if cuda:
                begin_event.record()
            model(*inputs)
            if cuda:
                end_event.record()
                end_event.synchronize()
            wall = (time.perf_counter() - t) * 1e3
            return (begin_event.elapsed_time(end_event) if cuda else wall), wall

        for _ in range(4):  # profiling, compiling and capturing happen in the first runs
            run()
        if trains:
            what = "; ".join(filter(None, (what, model.said())))
        answer(losses=[float(t) for t in model.losses] if trains else [], description=what, torch=torch.__version__, loadSeconds=loaded - begin, readySeconds=time.perf_counter() - loaded)
    except BaseException as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        answer(error=f"{type(error).__name__}: {lines[0]}")
        raise SystemExit(1)
    for line in sys.stdin:
        if line.strip() == "memory" and trains:
            answer(bytes=model.peak())
            continue
        if line.strip() == "memory":
            answer(bytes=torch.cuda.max_memory_reserved() if cuda else 0)
            continue
        times = [run() for _ in range(int(line))]
        answer(ms=[t[0] for t in times], wallMs=[t[1] for t in times])


if __name__ == "__main__":
    main()
