"""What reading a large graph takes: time and memory of `graft info` on a chain of relu and add, in each format.

    python tests/bench/import_large.py build [--nodes 100000] [--peers]

A chain of four is exported by PyTorch; its program text is then repeated, because PyTorch's own exporters take minutes for so
many nodes. Prints the processor time, wall time and peak resident memory of the whole process, loading LibTorch included (what
`graft --version` takes), and fails above 2 s of processor time or 600 MB. --peers loads the same files in Python beside it.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import zipfile

import torch

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "resources/python"))
import graft_fx

SECONDS, MEGABYTES = 2.0, 600


class Chain(torch.nn.Module):
    def forward(self, x):
        return torch.relu(torch.relu(x) + x) + x


def repacked(small, large, edit):
    """The archive `small` with each record through edit(name, bytes)."""
    with zipfile.ZipFile(small) as source, zipfile.ZipFile(large, "w", zipfile.ZIP_STORED) as target:
        for record in source.infolist():
            if record.filename.endswith(".debug_pkl"):  # where in the user's Python each line of the program comes from
                continue
            name = record.filename.replace(f"{small.stem}/", f"{large.stem}/", 1)
            target.writestr(zipfile.ZipInfo(name), edit(record.filename, source.read(record)))


def torchscript(name, data, pairs):
    if not name.endswith("code/__torch__.py"):
        return data
    head = data.decode().split("-> Tensor:\n")[0] + "-> Tensor:\n"
    lines, last = [], "x"
    for i in range(pairs):
        lines.append(f"    a{i} = torch.relu({last})\n    b{i} = torch.add(a{i}, x)\n")
        last = f"b{i}"
    return (head + "".join(lines) + f"    return {last}\n").encode()


def named(text, i):
    """The second pair of the chain as the pair number i: it reads pair i - 1."""
    text = text.replace('"relu_1"', f'"relu_{i}"').replace('"add_1"', f'"add_{i}"')
    return text.replace('"add"', f'"add_{i - 1}"')


def repeat(items, pairs):
    """items: something of relu, add, relu_1 and add_1 in turn; the last two are repeated."""
    text = json.dumps(items[2:4])
    for i in range(2, pairs):
        items += json.loads(named(text, i))
    return items


def export(name, data, pairs):
    if not name.endswith("models/model.json"):
        return data
    doc = json.loads(data)
    last = f"add_{pairs - 1}"
    graph = doc["graph_module"]["graph"]
    repeat(graph["nodes"], pairs)
    for i in range(2, pairs):
        for op in ("relu", "add"):
            graph["tensor_values"][f"{op}_{i}"] = graph["tensor_values"]["x"]
    for place in (graph["outputs"][0]["as_tensor"], doc["graph_module"]["signature"]["output_specs"][0]["user_output"]["arg"]["as_tensor"]):
        place["name"] = last
    return json.dumps(doc).encode()


def fx(name, data, pairs):
    doc = json.loads(data)
    for part in ("aten", "fx"):
        nodes = doc["graphs"][0][part]
        front = [n for n in nodes if n["op"] == "placeholder"]
        output = nodes[-1]
        calls = repeat(nodes[len(front):-1], pairs)
        output["args"] = [{"node": f"add_{pairs - 1}"}]
        if output.get("same"):
            output["same"] = f"add_{pairs - 1}"
        doc["graphs"][0][part] = front + calls + [output]
    return json.dumps(doc).encode()


def write(folder, pairs):
    model, x = Chain(), torch.ones(4)
    small = {suffix: folder / f"small{suffix}" for suffix in (".pt", ".pt2", ".fx")}
    torch.jit.trace(model, x).save(str(small[".pt"]))
    torch.export.save(torch.export.export(model, (x,)), small[".pt2"])
    graft_fx.save(torch.fx.symbolic_trace(model), str(small[".fx"]), (x,))
    for suffix, edit in ((".pt", torchscript), (".pt2", export), (".fx", fx)):
        large = folder / f"large{suffix}"
        repacked(small[suffix], large, lambda name, data: edit(name, data, pairs))
        yield large


# Started from a small process: a child's peak begins with that of who started it.
LAUNCH = """
import json, resource, subprocess, sys, time
start = time.perf_counter()
run = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, text=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([run.stdout, used.ru_utime + used.ru_stime, time.perf_counter() - start, used.ru_maxrss / 1024]))
sys.exit(run.returncode)
"""


def measured(command):
    """Output, processor seconds, wall seconds and peak megabytes of a process of its own."""
    run = subprocess.run([sys.executable, "-S", "-c", LAUNCH, *map(str, command)], stdout=subprocess.PIPE, text=True)
    if run.returncode:
        sys.exit(f"{' '.join(map(str, command))}: exit code {run.returncode}")
    return json.loads(run.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--keep", type=pathlib.Path, help="write the files here and leave them")
    arguments = parser.parse_args()
    graft, failed = arguments.build / "bin/graft", False
    print("graft --version: {1:.2f} s of processor time, {3:.0f} MB".format(*measured([graft, "--version"])))
    with tempfile.TemporaryDirectory() as folder:
        for path in write(arguments.keep or pathlib.Path(folder), arguments.nodes // 2):
            out, cpu, wall, peak = measured([graft, "info", path, "--json"])
            nodes = json.loads(out)["nodes"]
            assert nodes >= arguments.nodes // 2 * 2, f"{nodes} nodes"
            print(f"{path.suffix:4} {path.stat().st_size / 1e6:6.1f} MB, {nodes} nodes: {cpu:.2f} s of processor time, "
                  f"{wall:.2f} s wall, {peak:.0f} MB", flush=True)
            failed |= cpu > SECONDS or peak > MEGABYTES
            load = {".pt": "torch.jit.load", ".pt2": "torch.export.load"}.get(path.suffix)
            if arguments.peers and load:
                _, cpu, wall, peak = measured([sys.executable, "-c", f"import torch; {load}({str(path)!r})"])
                print(f"     {load}: {cpu:.2f} s, {wall:.2f} s wall, {peak:.0f} MB, import torch included")
    return failed


if __name__ == "__main__":
    sys.exit(main())
