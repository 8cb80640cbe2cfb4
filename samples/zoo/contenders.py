#!/usr/bin/env python3
"""What one process of samples/zoo/bench.py does: it holds one contender of one model ready, and calls it when told.

    contenders.py '{"contender": "compile:default", "model": "bert", "batch": 1, "device": "cpu", "dtype": "float32", "threads": 1, ...}'

It answers in lines of JSON on stdout. The first says how the contender was made ready: `load` seconds, the seconds of the first `calls`,
and the largest `difference` from fp64 beside the largest output. Each line on stdin then asks for something: a number asks for that many
calls, and the answer is their median in `ms`, on a GPU also ms a call where nobody waits between them, `queued`; "count" asks for
`kernels` and `bytes` of one call.

The contender "prepare" calls nothing: it traces the model, and writes what the others read.
"""
import contextlib
import json
import os
import pathlib
import statistics
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
SECONDS_TO_WARM = 20  # calls before the first measured one take at most about this long


class Refused(Exception):
    """A contender that cannot take part, and why."""


def built(options):
    import torch
    sys.path.insert(0, str(HERE))
    import models
    torch.manual_seed(0)
    return models.builder(options["model"])(options["batch"])


def cast(tensors, device, dtype):
    return tuple(t.to(device=device, dtype=dtype if t.is_floating_point() else t.dtype) for t in tensors)


def tensors_of(value):
    import torch
    from torch.utils import _pytree
    return [t for t in _pytree.tree_leaves(value) if isinstance(t, torch.Tensor)]


def prepare(options):
    """Writes model.pt, in.pt and reference.pt, in the order in which others need them. Answers what it wrote."""
    import torch
    folder = pathlib.Path(options["folder"])
    module, inputs = built(options)
    torch.save(inputs, folder / "in.pt")
    found = {"parameters": sum(p.numel() for p in module.parameters())}
    try:
        began = time.perf_counter()
        torch.jit.trace(module, inputs, check_trace=False).save(folder / "model.pt")
        found["trace"] = time.perf_counter() - began
    except Exception as error:
        found["notTraced"] = first_line(error)
    try:
        outputs = tensors_of(module.double()(*cast(inputs, "cpu", torch.double)))
        torch.save([t for t in outputs if t.is_floating_point()], folder / "reference.pt")
    except Exception as error:
        found["noReference"] = first_line(error)
    return found


def first_line(error):
    text = str(error).strip()
    return (text.splitlines()[0] if text else repr(error))[:300]


def eager(options, inputs):
    import torch
    module, _ = built(options)
    return module.to(options["device"], getattr(torch, options["dtype"]))


def frozen(options, inputs):
    import torch
    model = torch.jit.load(pathlib.Path(options["folder"]) / "model.pt", map_location=options["device"])
    return torch.jit.freeze(model.eval().to(getattr(torch, options["dtype"])))


def compiled(options, inputs):
    import torch
    mode = options["contender"].partition(":")[2]
    torch._logging.set_logs(inductor_metrics=True)  # without this Inductor does not count bytes
    return torch.compile(eager(options, inputs), mode=None if mode == "default" else mode)


def graft(options, inputs):
    import torch
    torch.ops.load_library(pathlib.Path(options["build"]) / "lib/libgraft_ops.so")
    return torch.jit.load(pathlib.Path(options["folder"]) / "fast.pt").to(options["device"])


class Session:
    """A model in ONNX Runtime, on the CPU, called like a module."""

    def __init__(self, path, threads, profile=None):
        import onnxruntime
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads, settings.inter_op_num_threads = threads, 1
        if profile:
            settings.enable_profiling, settings.profile_file_prefix = True, str(profile)
        self.path, self.threads = path, threads
        self.session = onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
        self.names = [i.name for i in self.session.get_inputs()]

    def __call__(self, *inputs):
        return self.session.run(None, dict(zip(self.names, (t.numpy() for t in inputs))))

    def count(self, inputs):
        """Kernels and bytes of one call, by the runtime's own profile."""
        other = Session(self.path, self.threads, self.path.parent / "profile")
        other(*inputs)
        path = pathlib.Path(other.session.end_profiling())
        ran = [e["args"] for e in json.loads(path.read_text()) if e.get("cat") == "Node" and e["name"].endswith("_kernel_time")]
        path.unlink()
        return {"kernels": len(ran), "bytes": sum(int(a.get(key) or 0) for a in ran for key in ("activation_size", "parameter_size", "output_size"))}


def exported(options, inputs):
    """By PyTorch's newer exporter, or by the older one where that fails."""
    import torch
    try:
        import onnxruntime  # noqa: F401
    except ImportError:
        raise Refused("-") from None
    path, why = pathlib.Path(options["folder"]) / "model.onnx", []
    for newer in (True, False):
        module, inputs = built(options)
        began = time.perf_counter()
        try:
            torch.onnx.export(module, inputs, str(path), dynamo=newer)
            seconds = time.perf_counter() - began
            session = Session(path, options["threads"])
            session.seconds = {"export": seconds, "load": time.perf_counter() - began - seconds}
            return session
        except Exception as error:
            why.append(first_line(error))
    raise Refused(f"not exported: {why[0]}")


CONTENDERS = {"eager": eager, "frozen": frozen, "compile": compiled, "onnx": exported, "graft": graft}


def waiter(device):
    import torch
    return torch.cuda.synchronize if device.startswith("cuda") else lambda: None


def timer(device):
    """A function that runs `call` once and returns milliseconds: between GPU events, of the wall clock on a CPU, or of the thread where
    there is one. On a GPU it may run it several times without a wait, for milliseconds of each: the GPU's own time, or the host's where
    that is longer."""
    import torch
    if not device.startswith("cuda"):
        clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter

        def on_cpu(call):
            began = clock()
            call()
            return (clock() - began) * 1e3
        return on_cpu
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

    def on_gpu(call, calls=1):
        torch.cuda.synchronize()
        begin.record()
        for _ in range(calls):
            call()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / calls
    return on_gpu


def warm(call, device):
    """Seconds of the first calls, until two in a row take about as long, and what the last one gave."""
    wait, seconds, began = waiter(device), [], time.perf_counter()
    while True:
        before = time.perf_counter()
        out = call()
        wait()
        seconds.append(time.perf_counter() - before)
        settled = len(seconds) >= 4 and max(seconds[-2:]) < 1.3 * min(seconds)
        if settled or len(seconds) >= 12 or (len(seconds) >= 2 and time.perf_counter() - began > SECONDS_TO_WARM):
            return seconds, out


def difference(out, path):
    """The largest difference from fp64, over the largest value, of all outputs; None where there is nothing to compare with."""
    import numpy
    import torch
    if not path.exists():
        return None
    expected = torch.load(path, weights_only=True)
    given = [torch.from_numpy(o) for o in out] if isinstance(out, list) and out and isinstance(out[0], numpy.ndarray) else tensors_of(out)
    given = [t.detach().double().cpu() for t in given if t.is_floating_point()]
    if [t.shape for t in given] != [t.shape for t in expected]:
        raise Refused("outputs of other shapes than the model's")
    return max((g - e).abs().max().item() / max(e.abs().max().item(), 1e-30) for g, e in zip(given, expected))


# These read as much of a table as they write, not the whole of it.
GATHERS = ("embedding", "index", "gather", "take")


def counted(call):
    """Operators that PyTorch's dispatcher runs in one call but for views and empty tensors, and the bytes that they read and write. A
    fused operator is one."""
    from torch.utils._python_dispatch import TorchDispatchMode

    def size(t):
        count = 1
        for length, stride in zip(t.shape, t.stride()):
            count *= length if stride else min(length, 1)
        return count * t.element_size()

    class Count(TorchDispatchMode):
        kernels = bytes = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            schema = func._schema
            views = schema.returns and all(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns)
            if views or "empty" in schema.name or schema.name == "aten::_local_scalar_dense":
                return out
            written, text = sum(map(size, tensors_of(out))), schema.name + "".join(a for a in args if isinstance(a, str))
            read = [size(t) for t in tensors_of((args, kwargs))]
            Count.kernels += 1
            Count.bytes += written + sum(min(r, written) if any(word in text for word in GATHERS) else r for r in read)
            return out

    with Count():
        call()
    return {"kernels": Count.kernels, "bytes": Count.bytes}


def on_gpu(call):
    """The kernels of one call, by the profiler: how many, and for each name its launches and microseconds, the longest first."""
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as seen:
        call()
        waiter("cuda")()
    ran = {}
    for event in seen.events():
        if event.device_type == DeviceType.CUDA:
            known = ran.setdefault(event.name[:160], [0, 0.0])
            known[0] += 1
            known[1] += event.time_range.elapsed_us()
    ran = sorted(([name, count, round(us, 2)] for name, (count, us) in ran.items()), key=lambda one: -one[2])
    return {"kernels": sum(count for name, count, _ in ran if not name.startswith("Mem")), "bytes": None, "ran": ran}


def by_inductor():
    """What Inductor scheduled for all graphs that it compiled in this process; None where its cache had them."""
    from torch._inductor import metrics
    ran = [node for node, _ in metrics.nodes_num_elem if type(node).__name__ != "NopKernelSchedulerNode"]
    return {"kernels": len(ran), "bytes": metrics.num_bytes_accessed} if ran else {"kernels": None, "bytes": None}


def count(options, ready, inputs):
    kind, call = options["contender"].partition(":")[0], lambda: ready(*inputs)
    if kind == "onnx":
        return ready.count(inputs)
    if options["device"].startswith("cuda"):
        return on_gpu(call) | ({"bytes": by_inductor()["bytes"]} if kind == "compile" else {})
    return by_inductor() if kind == "compile" else counted(call)


def contend(options, say):
    import torch
    kind, dtype = options["contender"].partition(":")[0], getattr(torch, options["dtype"])
    inputs = cast(torch.load(pathlib.Path(options["folder"]) / "in.pt", weights_only=True), "cpu" if kind == "onnx" else options["device"], dtype)
    began = time.perf_counter()
    ready = CONTENDERS[kind](options, inputs)
    waiter(options["device"])()
    load = 0 if kind in ("eager", "compile") else time.perf_counter() - began  # these take the module that a user has already
    calls, out = warm(lambda: ready(*inputs), options["device"])
    found = {"load": load, "calls": calls, "difference": difference(out, pathlib.Path(options["folder"]) / "reference.pt")} | getattr(ready, "seconds", {})
    if kind == "graft" and options["device"].startswith("cuda"):
        runner = getattr(ready, "graft_runner", None)
        found["status"] = runner.status().strip() if runner is not None else "no capture was asked for"
    say(found)
    once = timer(options["device"])
    for line in sys.stdin:
        if line.strip() == "count":
            say(count(options, ready, inputs))
        else:
            call, calls = lambda: ready(*inputs), int(line)
            said = {"ms": statistics.median(once(call) for _ in range(calls))}
            say(said | ({"queued": once(call, calls)} if options["device"].startswith("cuda") else {}))


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print goes to the log

    def say(found):
        print(json.dumps(found), file=answers, flush=True)

    options = json.loads(sys.argv[1])
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch
    torch.set_grad_enabled(False)
    if options["threads"]:
        torch.set_num_threads(options["threads"])
    try:
        if options["contender"] == "prepare":
            say(prepare(options))
        else:
            with contextlib.suppress(KeyboardInterrupt):
                contend(options, say)
    except Refused as refusal:
        say({"why": str(refusal)})
    except Exception as error:
        import traceback
        traceback.print_exc()
        say({"why": first_line(error)})


if __name__ == "__main__":
    main()
