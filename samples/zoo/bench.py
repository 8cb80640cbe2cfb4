#!/usr/bin/env python3
"""Times models that `graft optimize` exported beside torch.compile of the user's own module.

    samples/zoo/bench.py build --device cuda --dtype float16 -o results bert swin unet
    samples/zoo/bench.py build --device cpu --dtype float32 --mode default --threads 1 -j 1 -o results bert timm:poolformer_s12
    samples/zoo/bench.py --list

A process for each model: PyTorch traces the model in fp32 on the CPU; `graft optimize` writes a file for the device and dtype; the
process loads that file with `.to(device)`, compiles the module itself with `torch.compile(mode=MODE)`, and calls the two in turns.
As many models as -j says prepare at once; then their times are taken one model after another while the others wait.

It prints one line a model as it comes, and writes results.json (after each model) and results.md to the folder of -o. `--resume` goes
on where a run was stopped. The ratio is torch.compile's time over the exported file's: above 1 the exported file is faster. Its range
is the 10th to the 90th percentile over the pairs.
On a CPU, frozen TorchScript of the traced model is called in turns with the two, and *frozen* is its time over the exported file's.
With --threads 1 all times there are the thread's own, so that other work on the machine counts little.
timm:NAME is a model of timm, where that is installed, with random weights.
*host* is the exported file's wall time over its time on the GPU, back to back; much above 1, the host is what limits it.
*error* is the exported file's largest difference from fp64 over torch.compile's. A model that fails keeps its message.
"""
import argparse
import concurrent.futures
import contextlib
import json
import math
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
os.environ["HF_HUB_OFFLINE"] = "1"


def built(name, batch):
    import torch
    import models
    torch.set_grad_enabled(False)
    torch.manual_seed(0)
    return models.builder(name)(batch)


def cast(tensors, device, dtype):
    return tuple(t.to(device=device, dtype=dtype if t.is_floating_point() else t.dtype) for t in tensors)


def first_tensor(value):
    import torch
    while not isinstance(value, torch.Tensor):
        value = next(iter(value.values())) if isinstance(value, dict) else value[0]
    return value


def compiled(module, inputs, mode):
    """`module` compiled and warm, or None and why PyTorch could not."""
    import torch
    run = torch.compile(module, mode=None if mode == "default" else mode)
    for _ in range(4):
        run(*inputs)
    return run


def file_name(name):
    return name.replace(":", "_")


def prepare(options, name):
    """Writes NAME.pt, NAME_in.pt and NAME_fast.pt. Returns what is called in turns, all warm (the exported file loaded, the module
    compiled, on a CPU the model frozen), the inputs, and what was found on the way: seconds of each step, errors beside fp64, and what
    the exported file says of its captures."""
    import torch
    folder, on_gpu, dtype = pathlib.Path(options.output), options.device.startswith("cuda"), getattr(torch, options.dtype)
    clock, seconds = [time.perf_counter()], {}

    def lap(step):
        clock.append(time.perf_counter())
        seconds[step] = clock[-1] - clock[-2]

    module, inputs = built(name, options.batch)
    torch.jit.trace(module, inputs, check_trace=False).save(folder / f"{file_name(name)}.pt")
    torch.save(inputs, folder / f"{file_name(name)}_in.pt")
    lap("trace")
    command = [options.build / "bin/graft", "optimize", folder / f"{file_name(name)}.pt", "--inputs", folder / f"{file_name(name)}_in.pt", "-o", folder / f"{file_name(name)}_fast.pt",
               "--device", options.device, "--dtype", options.dtype, "--budget", options.budget, "--allow-unchanged", "--json"]
    with open(folder / f"{file_name(name)}.json", "w") as out, open(folder / f"{file_name(name)}.log", "w") as log:
        run = subprocess.run([str(c) for c in command], stdout=out, stderr=log, timeout=options.timeout)
    if run.returncode:
        said = (folder / f"{file_name(name)}.log").read_text().strip().splitlines()
        raise RuntimeError(f"graft optimize: exit code {run.returncode}: {said[-1] if said else ''}")
    lap("optimize")
    torch.ops.load_library(next((options.build / "lib").glob("libgraft_ops.so")))
    fast, moved, first = torch.jit.load(folder / f"{file_name(name)}_fast.pt").to(options.device), cast(inputs, options.device, dtype), []
    for _ in range(4):
        fast(*moved)
        if on_gpu:
            torch.cuda.synchronize()
        lap("call")
        first.append(seconds.pop("call"))
    reference = first_tensor(module.double()(*cast(inputs, "cpu", torch.double)))
    lap("reference")
    module, _ = built(name, options.batch)
    theirs = compiled(module.to(options.device, dtype), moved, options.mode)
    lap("compile")
    scale = reference.abs().max().item()
    errors = [(first_tensor(run(*moved)).double().cpu() - reference).abs().max().item() / scale for run in (fast, theirs)]
    runner = getattr(fast, "graft_runner", None)
    calls = {"": fast, "compile": theirs}
    if not on_gpu:
        calls["frozen"] = torch.jit.freeze(torch.jit.load(folder / f"{file_name(name)}.pt").eval().to(dtype))
        for _ in range(3):
            calls["frozen"](*moved)
    return calls, moved, {"seconds": seconds, "firstCallsSeconds": first, "error": errors[0], "compileError": errors[1],
                                 "status": runner.status().strip() if runner is not None else "no capture was asked for"}


def timer(device):
    """A function that runs `call` once and returns milliseconds: between GPU events, of the wall clock on a CPU, or of the thread where
    there is one."""
    import torch
    if not device.startswith("cuda"):
        clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter

        def on_cpu(call):
            began = clock()
            call()
            return (clock() - began) * 1e3
        return on_cpu
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

    def on_gpu(call):
        torch.cuda.synchronize()
        begin.record()
        call()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end)
    return on_gpu


def back_to_back(call, device, times=50):
    """Milliseconds of the wall clock for each of `times` calls without a wait between them."""
    import torch
    wait = torch.cuda.synchronize if device.startswith("cuda") else lambda: None
    wait()
    began = time.perf_counter()
    for _ in range(times):
        call()
    wait()
    return (time.perf_counter() - began) / times * 1e3


def measure(options, calls, inputs):
    """The times of all, called in turns."""
    once, rounds, until = timer(options.device), [], time.perf_counter() + options.seconds
    while len(rounds) < 20 or time.perf_counter() < until:
        rounds.append({name: once(lambda: call(*inputs)) for name, call in calls.items()})
    ours, found = statistics.median(r[""] for r in rounds), {"pairs": len(rounds)}
    for name in calls:
        if name:
            ratios = sorted(r[name] / r[""] for r in rounds)
            tenths = statistics.quantiles(ratios, n=10)
            prefix = "" if name == "compile" else name
            keys = ("ratio", "ratioP10", "ratioP90") if not prefix else (f"{prefix}Ratio", f"{prefix}RatioP10", f"{prefix}RatioP90")
            found |= {f"{name}Ms": statistics.median(r[name] for r in rounds)} | dict(zip(keys, (statistics.median(ratios), tenths[0], tenths[-1])))
    return found | {"ms": ours, "host": back_to_back(lambda: calls[""](*inputs), options.device) / ours}


def one_model(options, name):
    """What a model's own process does: it prepares, says so in a line, and measures when it is told that the machine is idle."""
    if options.threads:
        import torch
        torch.set_num_threads(options.threads)
    *ready, found = prepare(options, name)
    print(json.dumps(found), flush=True)
    if sys.stdin.readline():
        print(json.dumps(measure(options, *ready)), flush=True)


class Child:
    """A model's own process. What it prints beside its answers, and its errors, go to NAME.txt."""

    def __init__(self, options, name):
        command = [sys.executable, __file__, options.build, "--device", options.device, "--dtype", options.dtype, "--batch", options.batch,
                   "--mode", options.mode, "--seconds", options.seconds, "--timeout", options.timeout,
                   "--budget", options.budget, "--threads", options.threads, "-o", options.output, "--one", name]
        threads = {"OMP_NUM_THREADS": str(options.threads)} if options.threads else {}
        if options.device.startswith("cuda"):  # several prepare at once, and what is timed runs on the GPU
            threads = dict.fromkeys(("OMP_NUM_THREADS", "TORCHINDUCTOR_COMPILE_THREADS"), str(max(1, (os.cpu_count() or 1) // options.jobs)))
        self.log, self.seconds = options.output / f"{file_name(name)}.txt", options.timeout
        with open(self.log, "w") as log:
            self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                                            env={**os.environ, **threads} if options.threads else {**threads, **os.environ}, start_new_session=True)

    def answer(self, step):
        """The next line of JSON, or {"error"} where the process ended or took too long."""
        late = threading.Timer(self.seconds, self.kill)
        late.start()
        try:
            for line in self.process.stdout:
                if line.startswith("{"):
                    return json.loads(line)
        finally:
            in_time = late.is_alive()
            late.cancel()
        if not in_time:
            return {"error": f"{step} did not end within {self.seconds:g} s"}
        code, said = self.process.wait(), self.log.read_text().strip().splitlines()
        return {"error": f"{step}: {said[-1] if said else f'exit code {code}'}"}

    def measured(self):
        try:
            self.process.stdin.write("go\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # answer() says why it ended
        return self.answer("measure")

    def kill(self):
        """With what it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def end(self):
        self.kill()
        self.process.communicate()


def machine(device):
    """What the times depend on besides the models."""
    import torch
    import torchvision
    import transformers
    found = {"torch": torch.__version__, "transformers": transformers.__version__, "torchvision": torchvision.__version__}
    if device.startswith("cuda"):
        found["gpu"] = torch.cuda.get_device_name()
        fields = "driver_version,clocks.sm,clocks.max.sm,clocks.mem,power.draw,temperature.gpu"
        said = subprocess.run(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"], capture_output=True, text=True)
        found |= dict(zip(fields.split(","), said.stdout.strip().splitlines()[0].split(", "))) if said.returncode == 0 else {}
    return found


def row(name, found):
    if "ms" not in found:
        return f"| {name} | {found['error']} | | | | | |"
    if "frozenMs" in found:
        return (f"| {name} | {found['ms']:.2f} | {found['compileMs']:.2f} | {found['ratio']:.2f} ({found['ratioP10']:.2f} to {found['ratioP90']:.2f}) | "
                f"{found['frozenMs']:.2f} | {found['frozenRatio']:.2f} ({found['frozenRatioP10']:.2f} to {found['frozenRatioP90']:.2f}) | "
                f"{found['firstCallsSeconds'][0]:.2f} | {found['seconds']['compile']:.1f} | {found['error'] / max(found['compileError'], 1e-30):.2f} |")
    return (f"| {name} | {found['ms']:.3f} | {found['compileMs']:.3f} | {found['ratio']:.2f} ({found['ratioP10']:.2f} to {found['ratioP90']:.2f}) | {found['host']:.2f} | "
            f"{found['error'] / max(found['compileError'], 1e-30):.2f} | {found['rewrites']} |")


def kept(path):
    """What `graft optimize --json` kept: the recipe, and how many rewrites."""
    try:
        report = json.loads(path.read_text())
        steps = (report["result"] or {}).get("steps", [])
        return {"recipe": " + ".join(r["recipe"] for r in report["recipes"] if r["kept"]), "rewrites": sum(s["rewrites"] for s in steps if s["isRule"])}
    except (OSError, ValueError, KeyError) as error:
        return {"recipe": f"? {error!r}", "rewrites": -1}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, nargs="?", default=HERE.parents[1] / "build", help="where Graft was built")
    parser.add_argument("models", nargs="*", metavar="MODEL", help="all of them by default")
    parser.add_argument("--list", action="store_true", help="print the models' names and exit")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", default="float16")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--mode", default="reduce-overhead", help="torch.compile's mode")
    parser.add_argument("--seconds", type=float, default=2, help="how long to time each pair")
    parser.add_argument("--timeout", type=float, default=180, help="seconds that one model may take in one stage")
    parser.add_argument("--budget", type=float, default=60, help="seconds of trials that `graft optimize` may take")
    parser.add_argument("-j", "--jobs", type=int, default=4, help="how many models are prepared at once")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=pathlib.Path("zoo"))
    parser.add_argument("--threads", type=int, default=0, help="of PyTorch on a CPU; 0: as many as it takes")
    parser.add_argument("--resume", action="store_true", help="keep the times that are in the folder of -o, and measure what is missing")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_intermixed_args()
    options.build = options.build.resolve()
    if options.one:
        one_model(options, options.models[0])
        return 0
    sys.path.insert(0, str(HERE))
    from models import MODELS
    if options.list:
        print(*MODELS, sep="\n")
        return 0
    if unknown := {name for name in options.models if not name.startswith("timm:")} - set(MODELS):
        parser.error(f"no model {', '.join(sorted(unknown))}; --list names them")
    names = options.models or list(MODELS)
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / "results.json"
    results = json.loads(path.read_text())["models"] if options.resume and path.exists() else {}
    head = ["| model | exported, ms | torch.compile, ms | ratio (p10 to p90) | host | error | rewrites |", "|---|---|---|---|---|---|---|"]
    if not options.device.startswith("cuda"):
        head = ["| model | exported, ms | torch.compile, ms | ratio (p10 to p90) | frozen, ms | frozen (p10 to p90) | first call, s | compile, s | error |",
                "|---|---|---|---|---|---|---|---|---|"]
    print(*head, sep="\n", flush=True)
    missing = [name for name in names if "ms" not in results.get(name, {})]
    while missing:
        group, missing = missing[:options.jobs], missing[options.jobs:]
        children = {name: Child(options, name) for name in group}
        with concurrent.futures.ThreadPoolExecutor(len(group)) as pool:
            try:
                results |= dict(zip(group, pool.map(lambda child: child.answer("prepare"), children.values())))
            except BaseException:  # Ctrl-C: what was measured is on disk
                for child in children.values():
                    child.kill()
                raise
        about = machine(options.device)
        for name, child in children.items():
            if "error" not in results[name] or "seconds" in results[name]:
                results[name] |= child.measured() | kept(options.output / f"{file_name(name)}.json") | {"machine": about}
            child.end()
            print(row(name, results[name]), flush=True)
            path.write_text(json.dumps({"device": options.device, "dtype": options.dtype, "batch": options.batch, "mode": options.mode,
                                        "models": results}, indent=1))
    results = {name: results[name] for name in names}
    lines = [row(*item) for item in results.items()]
    timed = [r["ratio"] for r in results.values() if "ratio" in r]
    if timed:
        lines.append(f"\n{len(timed)} of {len(names)} models ran; geometric mean of the ratios {math.exp(statistics.fmean(map(math.log, timed))):.2f}, worst {min(timed):.2f}")
        if frozen := [r["frozenRatio"] for r in results.values() if "frozenRatio" in r]:
            lines[-1] += f"; of frozen {math.exp(statistics.fmean(map(math.log, frozen))):.2f}, worst {min(frozen):.2f}"
        print(lines[-1])
    (options.output / "results.md").write_text("\n".join(head + lines) + "\n")
    return 0 if len(timed) == len(names) else 1


if __name__ == "__main__":
    sys.exit(main())
