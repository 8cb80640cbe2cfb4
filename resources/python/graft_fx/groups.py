"""Generated kernels in a half on a GPU: `graft apply` finds the groups, and each is compared with the ATen operators that it is made of and
timed beside them, both in CUDA graphs, on the values of the first call. Those that differ or are slower run as ATen operators."""

import concurrent.futures
import re
import subprocess

import torch
import torch.fx

from .autocast import HALVES
from .nodes import lie_alike
from .program import environment
from .recorded import kind

RULES = """from graft import Recipe, eliminate_dead, fuse


class Fused(Recipe):
    steps = [fuse(same_layout=True), eliminate_dead]
"""
# Of the largest value of a result: what rounding may make of a group of operators.
TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-4, torch.float16: 1e-2, torch.bfloat16: 4e-2}
FLIPPED = 1e-3  # the share of a mask or of places that rounding may change


def fused(backend, folder, rules=RULES):
    """Has `graft apply` fuse the graph of half.fx in that folder, as `rules` say. False where nothing can be fused, else half.pt2 is there:
    the graph with groups in it."""
    with open(f"{folder}/fused.py", "w", encoding="utf-8") as f:
        f.write(rules)
    command = [backend.graft, "apply", f"{folder}/half.fx", "--rules", f"{folder}/fused.py", "--recipe", "Fused", "-o", f"{folder}/half.pt2",
               "--as-declared", "--no-verify", "--no-timing", "--json"]
    run = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, env=environment(backend.library))
    if run.returncode not in (0, 7):
        raise RuntimeError(f"graft apply: {run.stderr.strip() or f'exit code {run.returncode}'}")
    return run.returncode == 0


# A device that Graft has no kernels for: there the operator runs as the ATen operators that its program names.
ELSEWHERE = torch._C.DispatchKeySet(torch._C.DispatchKey.PrivateUse1)


def as_aten(inputs, program, sizes=()):
    """The group's operators one by one."""
    return torch.ops.graft.generated.default.redispatch(ELSEWHERE, inputs, program, sizes)


def name_of(program):
    """The name in a group's text."""
    found = re.search(r"^graph (\S+)", program, re.M)
    return found[1] if found else ""


def calls(graph):
    return [n for n in graph.nodes if n.target is torch.ops.graft.generated.default]


def key_of(node, inputs):
    return node.args[1], tuple(kind(t) for t in inputs), tuple(v if isinstance(v, int) else None for v in (node.args[2] if len(node.args) > 2 else ()))


class Judge(torch.fx.Interpreter):
    """Runs a half once and decides for each kind of group."""

    REPEATS, ROUNDS = 5, 7

    def __init__(self, module, device):
        super().__init__(module, garbage_collect_values=True)
        self.device, self.verdicts, self.of = device, {}, {}

    def run_node(self, n):
        if n.target is not torch.ops.graft.generated.default:
            return super().run_node(n)
        args, _ = self.fetch_args_kwargs_from_env(n)
        key = key_of(n, args[0])
        if key not in self.verdicts:
            self.verdicts[key] = self.verdict(args)
        self.of[n] = self.verdicts[key]
        return (torch.ops.graft.generated.default if self.of[n]["isKept"] else as_aten)(*args)

    def verdict(self, args):
        try:
            expected, got = as_aten(*args), torch.ops.graft.generated.default(*args)
        except RuntimeError as e:
            return {"isKept": False, "why": str(e).splitlines()[0]}
        coarse = any(t.dtype in HALVES for t in (*args[0], *expected))
        why = next(filter(None, (difference(a, b, coarse) for a, b in zip(expected, got))), None)
        del expected, got
        if why is not None:
            return {"isKept": False, "why": why}
        try:
            plain, own = (self.microseconds(op, args) for op in (as_aten, torch.ops.graft.generated.default))
        except RuntimeError as e:
            return {"isKept": False, "why": f"it cannot be recorded: {str(e).splitlines()[0]}"}
        return {"isKept": own <= plain, "plainUs": plain, "us": own}

    def microseconds(self, op, args):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            for _ in range(self.REPEATS):
                op(*args)
        times = []
        for _ in range(self.ROUNDS):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) * 1e3 / self.REPEATS)
        return sorted(times)[len(times) // 2]


def difference(a, b, coarse):
    """How `b` differs from `a`, or None. `coarse`: half precision is involved."""
    if a.dtype != b.dtype or not lie_alike(a, b):
        return f"{b.dtype} {list(b.shape)} with strides {list(b.stride())} instead of {a.dtype} {list(a.shape)} with strides {list(a.stride())}"
    if not a.numel():
        return None
    if not a.is_floating_point():
        flipped = float((a != b).float().mean())
        return f"{flipped:.2g} of its elements differ" if flipped > FLIPPED else None
    if not torch.equal(a.isfinite(), b.isfinite()):
        return "NaN or infinity in other places"
    scale, apart = a.nan_to_num(posinf=0, neginf=0).abs().max(), (a.double() - b.double()).nan_to_num(posinf=0, neginf=0).abs().max()
    tolerance = max(TOLERANCE[d] for d in ((a.dtype, torch.bfloat16) if coarse else (a.dtype,)))
    return f"off by {float(apart):.3g} (largest value {float(scale):.3g})" if apart > tolerance * scale else None


def compile_all(graph, device, workers=8):
    """Has the kernels made side by side. Numbers are random, since products take less power and time on zeros; places are 0."""
    jobs = {}
    for n in calls(graph):
        values = [a.meta["val"] for a in n.args[0]]
        if all(isinstance(d, int) for v in values for d in (*v.shape, *v.stride())):
            jobs.setdefault(key_of(n, values), (n, values))

    def make(job):
        node, values = job
        with torch.no_grad():
            inputs = [torch.empty_strided(v.shape, v.stride(), dtype=v.dtype, device=device) for v in values]
            for t in inputs:
                t.normal_() if t.is_floating_point() else t.zero_()
            torch.ops.graft.generated.default(inputs, *node.args[1:])

    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        for future in [pool.submit(make, job) for job in jobs.values()]:
            future.exception()  # what fails here fails again where somebody hears of it
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def choose(module, arguments, device):
    """Leaves in the graph the groups that are right and faster. Returns what the report says of them: `kernels` has each kind of group, the
    longest first, with its calls, and the microseconds of one as a kernel and as ATen operators."""
    compile_all(module.graph, device)
    judge = Judge(module, device)
    judge.run(*arguments, enable_io_processing=False)
    for n, verdict in judge.of.items():
        if not verdict["isKept"]:
            n.target = as_aten
    module.recompile()
    calls_of, different = list(judge.of.values()), [v for v in judge.verdicts.values() if "why" in v]
    timed = [{"name": name_of(key[0]), "calls": sum(v is verdict for v in calls_of), **verdict}
             for key, verdict in judge.verdicts.items() if "us" in verdict]
    timed.sort(key=lambda k: -k["calls"] * min(k["us"], k["plainUs"]))
    kept = sum(v["isKept"] for v in calls_of)
    return {"kernels": timed, "groups": kept, "slower": sum(not v["isKept"] and "why" not in v for v in calls_of),
            "different": [v["why"] for v in different], "isKept": kept > 0,
            "plainMs": sum(v.get("plainUs", 0) for v in calls_of) / 1e3, "milliseconds": sum(v.get("us", 0) for v in calls_of) / 1e3}
