"""Runs the operators that a Python module defines (torch.library), for a program that holds no Python.

    graft_operators.py MODULE.py

It imports the module and writes a line of JSON to stdout: {"operators": [{"name", "overload", "schema", "random"}]}, or {"error"}. Then it
answers requests until stdin ends. A request is a line of JSON and the bytes of its tensors, one after the other:

    {"op": "my::fused", "overload": "", "args": [...], "tensors": [...], "written": [0]}

A tensor is {"dtype", "sizes", "strides", "device", "bytes"}; one on the device meta has no bytes. In `args`, {"tensor": 0} stands for the
first; {"list": [...]}, {"dtype": "float32"}, {"device": "cpu"}, {"layout": "strided"}, {"memoryFormat": "contiguous_format"},
{"float": "inf"} and {"complex": [re, im]} for what JSON has no form for. `written` lists the tensors that the operator writes to. The
answer has the same form: {"outputs": [...], "tensors": [...], "written": [...]}, or {"error"}.
"""
import importlib.util
import json
import math
import os
import pathlib
import sys

# Namespaces of PyTorch's own operators, some of which are defined when a part of it is first imported.
OWN = {"aten", "prim", "prims", "rngprims", "debugprims", "quantized", "quantized_decomposed", "inductor", "inductor_prims", "higher_order",
       "_c10d_functional", "_c10d_functional_autograd", "_dtensor", "c10d", "c10d_functional", "_quantized", "_test", "fsdp", "symm_mem",
       "streams", "profiler", "sparse", "mkldnn", "mkldnn_prepacked", "mkl", "onednn", "xnnpack", "torch_attn", "export", "bundled", "cuda"}


def load(path):
    """Imports the file as the module of its name, and returns the operators that came with it."""
    import torch
    before = set(torch._C._dispatch_get_all_op_names())
    path = pathlib.Path(path)
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    found = []
    for full in sorted(set(torch._C._dispatch_get_all_op_names()) - before):
        name, _, overload = full.partition(".")
        if name.split("::")[0] in OWN:
            continue
        op = operator(name, overload)
        found.append({"name": name, "overload": overload, "schema": str(op._schema), "random": torch.Tag.nondeterministic_seeded in op.tags})
    return found


def operator(name, overload):
    import torch
    space, _, base = name.partition("::")
    return getattr(getattr(getattr(torch.ops, space), base), overload or "default")


class Request:
    def __init__(self, header, stream):
        import torch
        self.torch, self.header = torch, header
        self.tensors = [self.read(t, stream) for t in header["tensors"]]

    def read(self, t, stream):
        torch = self.torch
        dtype, sizes, strides = getattr(torch, t["dtype"]), t["sizes"], t["strides"]
        if t["device"] == "meta":
            return torch.empty_strided(sizes, strides, dtype=dtype, device="meta")
        data = bytearray()
        while len(data) < t["bytes"]:
            part = stream.read(t["bytes"] - len(data))
            if not part:
                raise EOFError
            data += part
        if not data:
            return torch.empty_strided(sizes, strides, dtype=dtype, device=t["device"])
        return torch.frombuffer(data, dtype=dtype).as_strided(sizes, strides).to(t["device"])

    def value(self, v):
        torch = self.torch
        if not isinstance(v, dict):
            return v
        (kind, what), = v.items()
        if kind == "tensor":
            return self.tensors[what]
        if kind == "list":
            return [self.value(i) for i in what]
        if kind == "float":
            return float(what)
        if kind == "complex":
            return complex(*what)
        if kind == "device":
            return torch.device(what)
        return getattr(torch, what)  # dtype, layout, memoryFormat

    def run(self):
        op = operator(self.header["op"], self.header["overload"])
        args = [self.value(v) for v in self.header["args"]]
        parameters = op._schema.arguments
        positional = [a for a, p in zip(args, parameters) if not p.kwarg_only]
        keywords = {p.name: a for a, p in zip(args, parameters) if p.kwarg_only}
        with self.torch.no_grad():
            out = op(*positional, **keywords)
        returns = len(op._schema.returns)
        outputs = [] if returns == 0 else [out] if returns == 1 else list(out)
        answer = Answer(self.torch)
        header = {"outputs": [answer.value(o) for o in outputs],
                  "written": [answer.value(self.tensors[i])["tensor"] for i in self.header["written"]]}
        return header | {"tensors": answer.tensors}, answer.data


class Answer:
    def __init__(self, torch):
        self.torch, self.tensors, self.data = torch, [], []

    def value(self, v):
        torch = self.torch
        if isinstance(v, torch.Tensor):
            return self.tensor(v.detach().resolve_conj().resolve_neg())
        if isinstance(v, (list, tuple)):
            return {"list": [self.value(i) for i in v]}
        if isinstance(v, float) and not math.isfinite(v):
            return {"float": str(v)}
        if isinstance(v, complex):
            return {"complex": [v.real, v.imag]}
        if v is None or isinstance(v, (bool, int, float, str)):
            return v
        raise TypeError(f"an output is {type(v).__name__}, which cannot leave the Python process")

    def tensor(self, t):
        data = b""
        if t.device.type != "meta":
            t = t.cpu()
            if t.numel():
                # All memory from its first element to its last, so that the strides stay what they are.
                extent = 1 + sum((n - 1) * s for n, s in zip(t.shape, t.stride()))
                flat = t.as_strided((extent,), (1,)).contiguous()
                flat = self.torch.view_as_real(flat).reshape(-1) if flat.is_complex() else flat
                data = flat.view(self.torch.uint8).numpy().tobytes()
        self.tensors.append({"dtype": str(t.dtype)[6:], "sizes": list(t.shape), "strides": list(t.stride()),
                             "device": "meta" if t.device.type == "meta" else "cpu", "bytes": len(data)})
        self.data.append(data)
        return {"tensor": len(self.tensors) - 1}


def message(error):
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}" if lines[0] else type(error).__name__


def main():
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the module prints must not mix with the answers

    def answer(header, data=()):
        answers.write(json.dumps(header).encode() + b"\n")
        for part in data:
            answers.write(part)
        answers.flush()

    try:
        answer({"operators": load(sys.argv[1])})
    except BaseException as error:
        answer({"error": message(error)})
        raise SystemExit(1)
    stream = sys.stdin.buffer
    while line := stream.readline():
        try:
            request = Request(json.loads(line), stream)
        except EOFError:
            return
        try:
            header, data = request.run()
        except Exception as error:
            header, data = {"error": message(error)}, ()
        answer(header, data)


if __name__ == "__main__":
    main()
