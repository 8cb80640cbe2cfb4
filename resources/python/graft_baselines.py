"""Runs a model file in one of PyTorch's own modes and times it on demand: the other side of `graft bench --against`.

    graft_baselines.py MODE MODEL INPUTS DEVICE DTYPE THREADS LIBRARY

MODE is one of MODES. INPUTS is what torch.save wrote (a tuple of tensors). DTYPE is "" or the dtype that floating weights and inputs
are cast to. THREADS is 0 for PyTorch's own choice. LIBRARY lists libraries of operators, with colons between: shared libraries, and Python
modules.

It loads the model, warms up, and writes one JSON line to stdout: {"description", "readySeconds", ...}. Then it answers each line of
stdin with a line. A number N runs the model N times: {"ms": [...], "wallMs": [...]}. `memory` asks for {"bytes"}: the most GPU memory
that PyTorch held. What fails is answered by {"error"}. On a GPU `ms` is between events around the call, after waiting for everything
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
}


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
        script = as_asked(script.eval())
    if mode == "exported":
        return (as_asked(program.module()) if script is None else script), MODES[mode]
    if mode == "jit":
        if script is None:
            script = torch.jit.trace(as_asked(program.module()), inputs, check_trace=False)
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
    module = program.module()
    module = as_asked(module) if script is None else module
    if mode == "eager":
        return module, MODES[mode]
    effort = "max-autotune" if mode == "compile-max-autotune" else "reduce-overhead" if device.type == "cuda" else "default"
    if mode == "compile-max-autotune" and device.type == "cpu":
        effort = "max-autotune-no-cudagraphs"
    return torch.compile(module, mode=effort), f"torch.compile, {effort}{', of the converted TorchScript' if script is not None else ''}"


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
    mode, path, inputs_path, device, dtype, threads, library = sys.argv[1:]
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
        answer(description=what, torch=torch.__version__, loadSeconds=loaded - begin, readySeconds=time.perf_counter() - loaded)
    except BaseException as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        answer(error=f"{type(error).__name__}: {lines[0]}")
        raise SystemExit(1)
    for line in sys.stdin:
        if line.strip() == "memory":
            answer(bytes=torch.cuda.max_memory_reserved() if cuda else 0)
            continue
        times = [run() for _ in range(int(line))]
        answer(ms=[t[0] for t in times], wallMs=[t[1] for t in times])


if __name__ == "__main__":
    main()
