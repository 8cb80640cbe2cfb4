"""Machine code of loops beside torch.compile's C++ and ONNX Runtime, in turns, on this machine.

    python tests/bench/cpu_code_bench.py BUILD [--threads N] [--only WORD,WORD] [--level 0|1|2] [--no-inductor] [--no-ort]

Each row is checked against eager PyTorch in f64 first. Every call makes a new output, as models do; ONNX Runtime takes
its own from its arena. With one thread the figures are the thread's own time, and the least of all rounds, which says
most on a busy machine; with more they are medians of the wall time. The library is built with -DGRAFT_BENCHMARKS=ON.
ONNX Runtime is left out where Python does not find `onnxruntime` and `onnx`.
"""
import argparse
import ctypes
import importlib.util
import math
import statistics
import tempfile
import time

import torch
import torch.nn.functional as F


class Driver:
    def __init__(self, build):
        self.lib = ctypes.CDLL(f"{build}/bin/bench/libcpu_code_driver.so")
        self.lib.bench_make.restype = ctypes.c_void_p
        self.jit = f"{build}/lib/libgraft_ops_llvm.so".encode()

    def make(self, text, level, tensors):
        error = ctypes.create_string_buffer(4096)
        strides = [s for t in tensors for s in t.stride()]
        array = (ctypes.c_int64 * len(strides))(*strides)
        made = self.lib.bench_make(text.encode(), self.jit, level, array, error, 4096)
        if not made:
            raise RuntimeError(error.value.decode())
        made = ctypes.c_void_p(made)
        costs = (ctypes.c_double * 4)()
        self.lib.bench_cost(made, costs)
        return made, list(costs)

    def runner(self, made, tensors):
        pointers = (ctypes.c_void_p * len(tensors))(*[t.data_ptr() for t in tensors])
        sizes = (ctypes.c_int64 * 1)()
        return lambda: self.lib.bench_run(made, pointers, len(tensors), sizes)

    def allocating_runner(self, made, inputs, output):
        """As a compiled function runs: with a new tensor for what comes out."""
        pointers = (ctypes.c_void_p * (len(inputs) + 1))(*[t.data_ptr() for t in inputs])
        sizes = (ctypes.c_int64 * 1)()

        def run():
            result = torch.empty_like(output)
            pointers[len(inputs)] = result.data_ptr()
            self.lib.bench_run(made, pointers, len(pointers), sizes)
            return result
        return run


def dtype_name(t):
    return {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16", torch.int64: "i64", torch.bool: "bool"}[t.dtype]


def program(inputs, outputs, nests):
    lines = ["loops 1"]
    for kind, tensors in (("input", inputs), ("output", outputs)):
        for name, t in tensors.items():
            lines.append(f"{kind} {name}: {dtype_name(t)}[{', '.join(map(str, t.shape))}]")
    return "\n".join(lines) + "\n" + nests


CASES = {}


def case(name):
    def add(function):
        CASES[name] = function
        return function
    return add


def chain_text(x, n):
    """Thirty operations on x."""
    lines, value = [], x
    for k in range(5):
        lines.append(f"  let a{k} = {value} * 1.01 + 0.1")
        lines.append(f"  let b{k} = maximum(a{k}, -3.0)")
        lines.append(f"  let c{k} = b{k} - a{k} * b{k} * 0.05")
        value = f"absolute(c{k})"
    return lines, value


def chain(x):
    for _ in range(5):
        a = x * 1.01 + 0.1
        b = torch.clamp(a, min=-3.0)
        x = torch.abs(b - a * b * 0.05)
    return x


def chain_case(n):
    x = torch.randn(n)
    y = torch.empty(n)
    lines, value = chain_text("x[i]", n)
    text = program({"x": x}, {"y": y}, f"nest i < {n}\n" + "\n".join(lines) + f"\n  y[i] = {value}\n")
    return chain, [x], y, text


CASES["chain30_1M"] = lambda: chain_case(1 << 20)
CASES["chain30_16M"] = lambda: chain_case(1 << 24)


@case("gelu_bias")
def gelu_bias(dtype=torch.float32):
    x, b = torch.randn(512, 3072, dtype=dtype), torch.randn(3072, dtype=dtype)
    y = torch.empty_like(x)
    read = (lambda s: f"f32({s})") if dtype != torch.float32 else (lambda s: s)
    write = (lambda s: f"{dtype_name(y)}({s})") if dtype != torch.float32 else (lambda s: s)
    text = program({"x": x, "b": b}, {"y": y}, f"""nest i < 512, j < 3072
  let v = {read('x[i, j]')} + {read('b[j]')}
  y[i, j] = {write('v * 0.5 * (erf(v * 0.70710678) + 1.0)')}
""")
    return (lambda x, b: F.gelu(x + b)), [x, b], y, text


CASES["gelu_bias_bf16"] = lambda: gelu_bias(torch.bfloat16)


def softmax_case(n, c):
    x = torch.randn(n, c)
    y = torch.empty_like(x)
    text = program({"x": x}, {"y": y}, f"""nest i < {n}
  local m: f32[]
  local e: f32[{c}]
  local s: f32[]
  m[] = maximum(r < {c}: x[i, r])
  e[j] = exp(x[i, j] - m[]) for j < {c}
  s[] = sum(q < {c}: e[q])
  y[i, k] = e[k] * (1.0 / s[]) for k < {c}
""")
    return (lambda x: torch.softmax(x, -1)), [x], y, text


CASES["softmax_4096x1024"] = lambda: softmax_case(4096, 1024)
CASES["softmax_64x32000"] = lambda: softmax_case(64, 32000)


@case("softmax_dim1")
def softmax_dim1():
    n, c, h = 16, 64, 1024
    x = torch.randn(n, c, h)
    y = torch.empty_like(x)
    text = program({"x": x}, {"y": y}, f"""nest i < {n}, h < {h}
  local m: f32[]
  local e: f32[{c}]
  local s: f32[]
  m[] = maximum(r < {c}: x[i, r, h])
  e[j] = exp(x[i, j, h] - m[]) for j < {c}
  s[] = sum(q < {c}: e[q])
  y[i, k, h] = e[k] * (1.0 / s[]) for k < {c}
""")
    return (lambda x: torch.softmax(x, 1)), [x], y, text


@case("layer_norm")
def layer_norm(dtype=torch.float32):
    n, c = 4096, 768
    x, w, b = torch.randn(n, c, dtype=dtype), torch.randn(c, dtype=dtype), torch.randn(c, dtype=dtype)
    y = torch.empty_like(x)
    low = dtype != torch.float32
    read = (lambda s: f"f32({s})") if low else (lambda s: s)
    write = (lambda s: f"{dtype_name(y)}({s})") if low else (lambda s: s)
    text = program({"x": x, "w": w, "b": b}, {"y": y}, f"""nest i < {n}
  local m: f32[]
  local v: f32[]
  m[] = sum(r < {c}: {read('x[i, r]')}) / {float(c)}
  v[] = sum(q < {c}: ({read('x[i, q]')} - m[]) * ({read('x[i, q]')} - m[])) / {float(c)}
  y[i, k] = {write(f"({read('x[i, k]')} - m[]) * (1.0 / sqrt(v[] + 1e-05)) * {read('w[k]')} + {read('b[k]')}")} for k < {c}
""")
    return (lambda x, w, b: F.layer_norm(x, (c,), w, b)), [x, w, b], y, text


CASES["layer_norm_bf16"] = lambda: layer_norm(torch.bfloat16)


@case("rms_norm")
def rms_norm():
    n, c = 4096, 768
    x, w = torch.randn(n, c), torch.randn(c)
    y = torch.empty_like(x)
    text = program({"x": x, "w": w}, {"y": y}, f"""nest i < {n}
  local v: f32[]
  v[] = sum(q < {c}: x[i, q] * x[i, q]) / {float(c)}
  y[i, k] = x[i, k] * (1.0 / sqrt(v[] + 1e-05)) * w[k] for k < {c}
""")
    return (lambda x, w: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * w), [x, w], y, text


@case("group_norm_silu")
def group_norm_silu():
    n, c, hw, g = 2, 320, 1024, 32
    k = c // g
    x, w, b = torch.randn(n, c, 32, 32), torch.randn(c), torch.randn(c)
    y = torch.empty_like(x)
    text = program({"x": x, "w": w, "b": b}, {"y": y}, f"""nest i < {n}, g < {g}
  local m: f32[]
  local v: f32[]
  m[] = sum(a < {k}, b0 < 32, c0 < 32: x[i, g * {k} + a, b0, c0]) / {float(k * hw)}
  v[] = sum(d < {k}, e < 32, f < 32: (x[i, g * {k} + d, e, f] - m[]) * (x[i, g * {k} + d, e, f] - m[])) / {float(k * hw)}
  local t: f32[{k}, 32, 32]
  t[p, q, r] = (x[i, g * {k} + p, q, r] - m[]) * (1.0 / sqrt(v[] + 1e-05)) * w[g * {k} + p] + b[g * {k} + p] for p < {k}, q < 32, r < 32
  y[i, g * {k} + p, q, r] = t[p, q, r] * sigmoid(t[p, q, r]) for p < {k}, q < 32, r < 32
""")
    return (lambda x, w, b: F.silu(F.group_norm(x, g, w, b))), [x, w, b], y, text


@case("transpose_add")
def transpose_add():
    a, b = torch.randn(1024, 1024), torch.randn(1024, 1024)
    y = torch.empty(1024, 1024)
    text = program({"a": a, "b": b}, {"y": y}, "nest i < 1024, j < 1024\n  y[i, j] = a[j, i] + b[i, j]\n")
    return (lambda a, b: a.t() + b), [a, b], y, text


@case("mean_dim1")
def mean_dim1():
    x = torch.randn(64, 256, 56)
    y = torch.empty(64, 56)
    text = program({"x": x}, {"y": y}, "nest i < 64, j < 56\n  y[i, j] = sum(r < 256: x[i, r, j]) / 256.0\n")
    return (lambda x: x.mean(1)), [x], y, text


@case("cat_silu")
def cat_silu():
    a, b = torch.randn(512, 320), torch.randn(512, 640)
    y = torch.empty(512, 960)
    text = program({"a": a, "b": b}, {"y": y}, """nest i < 512, j < 960
  let v = select(j < 320, a[i, j], b[i, j - 320])
  y[i, j] = v * sigmoid(v)
""")
    return (lambda a, b: F.silu(torch.cat([a, b], 1))), [a, b], y, text


@case("heads")
def heads():
    x = torch.randn(4, 128, 768)
    y = torch.empty(4, 12, 128, 64)
    text = program({"x": x}, {"y": y}, "nest b < 4, h < 12, s < 128, d < 64\n  y[b, h, s, d] = x[b, s, h * 64 + d] * 0.125\n")
    return (lambda x: (x.view(4, 128, 12, 64).transpose(1, 2) * 0.125).contiguous()), [x], y, text


@case("unheads")
def unheads():
    x = torch.randn(4, 12, 128, 64)
    y = torch.empty(4, 128, 768)
    text = program({"x": x}, {"y": y}, "nest b < 4, s < 128, e < 768\n  y[b, s, e] = x[b, e // 64, s, e % 64] * 0.125\n")
    return (lambda x: (x.transpose(1, 2) * 0.125).reshape(4, 128, 768)), [x], y, text


class Module(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def onnx_runner(function, inputs, output, threads):
    """The function by ONNX Runtime; None where it has no kernel for the dtype or cannot export it."""
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    names = [f"x{i}" for i in range(len(inputs))]
    try:
        with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
            torch.onnx.export(Module(function), tuple(inputs), file.name, input_names=names, output_names=["y"],
                              opset_version=20, dynamo=False)
            session = onnxruntime.InferenceSession(file.name, options, providers=["CPUExecutionProvider"])
        binding = session.io_binding()
        for name, tensor in zip(names, inputs):
            binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(tensor.numpy()))

        def run():
            binding.bind_output("y", "cpu")
            session.run_with_iobinding(binding)
        run()
        got = torch.from_numpy(binding.get_outputs()[0].numpy())
    except Exception as error:  # what is not supported has many types
        return None, str(error).splitlines()[0][:100]
    assert torch.allclose(got, output, atol=1e-4, rtol=1e-4)
    return run, ""


def seconds(function, budget, clock):
    start = clock()
    function()
    once = max(clock() - start, 1e-6)
    repeat = max(1, int(budget / once))
    start = clock()
    for _ in range(repeat):
        function()
    return (clock() - start) / repeat


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--level", type=int, default=-1)
    parser.add_argument("--no-inductor", action="store_true")
    parser.add_argument("--no-ort", action="store_true")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    driver = Driver(options.build)
    contenders = [] if options.no_inductor else ["inductor"]
    if not options.no_ort:
        if all(importlib.util.find_spec(name) for name in ("onnxruntime", "onnx")):
            contenders.append("ort")
        else:
            print("onnxruntime and onnx are not installed: that contender is left out")
    clock = time.thread_time if options.threads == 1 else time.perf_counter
    settle = min if options.threads == 1 else statistics.median
    print(f"{'case':20} {'emit ms':>8} {'jit ms':>7} {'KB':>6} {'error':>8} {'graft us':>10}" +
          "".join(f" {name + ' us':>12} {'ratio':>6}" for name in contenders))
    ratios = {name: [] for name in contenders}
    for name, make in CASES.items():
        if not any(word in name for word in options.only.split(",")):
            continue
        function, inputs, output, text = make()
        tensors = [*inputs, output]
        made, costs = driver.make(text, options.level, tensors)
        output.fill_(float("nan"))
        assert driver.runner(made, tensors)() == 0
        exact = function(*[t.double() for t in inputs])
        error = ((output.double() - exact).abs() / (exact.abs() + 1)).max().item()
        limit = 1e-5 if output.dtype == torch.float32 else 1e-2
        mark = "" if error < limit else "  WRONG"
        runs = {"graft": driver.allocating_runner(made, inputs, output)}
        if "inductor" in contenders:
            runs["inductor"] = lambda compiled=torch.compile(function): compiled(*inputs)
        if "ort" in contenders:
            runs["ort"], why = onnx_runner(function, inputs, output, options.threads)
            if not runs["ort"]:
                mark += f"  ({why})"
                del runs["ort"]
        times = {who: [] for who in runs}
        with torch.no_grad():
            for run in runs.values():
                run()
            for _ in range(options.rounds):
                for who, run in runs.items():
                    times[who].append(seconds(run, 0.03, clock))
        best = {who: settle(t) for who, t in times.items()}
        line = f"{name:20} {costs[0] * 1e3:8.2f} {costs[1] * 1e3:7.1f} {costs[2] / 1e3:6.1f} {error:8.1e}"
        line += f" {best['graft'] * 1e6:10.1f}"
        for who in contenders:
            if who not in best:
                line += f" {'-':>12} {'-':>6}"
                continue
            ratios[who].append(best[who] / best["graft"])
            line += f" {best[who] * 1e6:12.1f} {ratios[who][-1]:6.2f}"
        print(line + mark, flush=True)
    for who, of in ratios.items():
        if of:
            print(f"{who} over graft: geometric mean {math.exp(statistics.mean(map(math.log, of))):.2f}, least {min(of):.2f}")


if __name__ == "__main__":
    main()
