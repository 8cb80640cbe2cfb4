"""The compile methods of the scripted engine: a plan of kernels that follows a few words of steering, code of a line for each
node, edits that are right unless they say otherwise, and kernels in place."""

import json
import re

# What kernels are generated for; everything else runs by itself.
FUSED = {"div", "add", "softmax", "gelu", "layer_norm"}
BANDWIDTH = 10000.0


class Failure(Exception):
    pass


def base(node):
    return node["op"].split(".")[1]


def size(kind):
    n = 4
    for d in re.search(r"\[(.*)\]", kind).group(1).split(","):
        n *= int(d or 1)
    return n


def read(node):
    args = node["args"][0]["l"] if base(node) == "generated" else node["args"]
    return [a["v"] for a in args if isinstance(a, dict) and "v" in a]


def pairs(graph):
    """(producer, consumer, are they of one layer) of the nodes that kernels are generated for."""
    by_name = {n["name"]: n for n in graph["nodes"]}
    layer = lambda n: re.match(r"[\w]+\.layer\.\d+", graph["modules"][n["module"]]["path"]).group() if n["module"] is not None else ""
    for node in graph["nodes"]:
        for name in read(node):
            if name in by_name and base(node) in FUSED and base(by_name[name]) in FUSED:
                yield name, node["name"], layer(by_name[name]) == layer(node)


def entries(steering, key):
    return steering.get(key, [])


def groups_of(graph, steering):
    """The kernels as lists of nodes in order, the decisions, and the entries that cannot be had."""
    names = [n["name"] for n in graph["nodes"] if base(n) in FUSED]
    group = {n: n for n in names}

    def join(a, b):
        old = group[a]
        for n in names:
            if group[n] == old:
                group[n] = group[b]

    apart = [set(e) for e in entries(steering, "apart")]
    forbidden = lambda a, b: next((i for i, e in enumerate(apart) if {a, b} <= e), None)
    asked = [set(e) for e in entries(steering, "merge")] + [{m["node"], m["to"]} for m in entries(steering, "move")]
    decisions, unapplied = [], []
    for a, b, same in pairs(graph):
        is_asked = any({a, b} <= e for e in asked)
        why = next((f"they are to stay apart (apart[{i}])" for i in [forbidden(a, b)] if i is not None), "")
        legal = not why
        merged = legal and (is_asked or (same and steering.get("automatic", True)))
        if legal and not merged:
            why = "it would not be faster"
        if merged:
            join(a, b)
        decisions.append({"producer": a, "consumer": b, "value": a, "isLegal": legal, "isMerged": merged, "areSiblings": False,
                          "apartMicroseconds": 5.5, "togetherMicroseconds": 2.75, **({"why": why} if why else {}), **({"isAsked": True} if is_asked and merged else {})})
    known = {n["name"] for n in graph["nodes"]}
    for i, entry in enumerate(entries(steering, "merge")):
        missing = [n for n in entry if n not in group]
        if missing:
            why = "kernels with matrix products are generated for GPUs alone" if missing[0] in known else "no node has that name"
            unapplied.append({"entry": f"merge[{i}]", "why": f"%{missing[0]} cannot be part of a kernel: {why}"})
    kernels = {}
    for n in names:
        kernels.setdefault(group[n], []).append(n)
    return [k for k in kernels.values() if len(k) > 1], decisions, unapplied


def inside(graph, nodes):
    made = {n["name"]: n for n in graph["nodes"] if n["name"] in nodes}
    inputs = list(dict.fromkeys(v for n in made.values() for v in read(n) if v not in made))
    return made, inputs


def describe(graph, nodes, names):
    made, inputs = inside(graph, nodes)
    name = "_".join(base(made[n]) for n in nodes)
    names[name] = names.get(name, -1) + 1
    written, total = size(made[nodes[-1]]["outputs"][0]["type"]), 0
    total = written * (1 + len(inputs))
    path = lambda n: graph["modules"][n["module"]]["path"] if n["module"] is not None else ""
    return {"name": name if names[name] == 0 else f"{name}_{names[name]}", "nodes": nodes, "computing": nodes, "inputs": inputs,
            "outputs": [nodes[-1]], "modules": list(dict.fromkeys(path(made[n]) for n in nodes)), "isInFile": False,
            "bytes": total, "bytesWritten": written, "bytesApart": total + 2 * written * (len(nodes) - 1),
            "microseconds": 2.75, "savedMicroseconds": 2.75 * (len(nodes) - 1), "text": f"generated 1\ngraph {name} {{\n}}\n"}


def plan(graph, steering, revision, measure=False, gpu=False, tries=False):
    groups, decisions, unapplied = groups_of(graph, steering)
    names, kernels, fused = {}, [], {n for g in groups for n in g}
    for node in graph["nodes"]:
        if base(node) == "generated":
            kernels.append({"name": node["name"] + "_program", "nodes": node["args"][1]["s"].split(), "modules": [""], "inputs": read(node), "outputs": [node["name"]],
                            "isInFile": True, "call": node["name"], "bytes": 8192, "bytesWritten": 4096, "text": "generated 1\n"})
    kernels += [describe(graph, g, names) for g in groups]
    for kernel in kernels:
        entry = next((e for e in entries(steering, "kernels") if e["nodes"] == kernel["nodes"]), None)
        if entry:
            if "schedule" in entry:
                kernel["schedule"] = "".join(f"{k} {v}\n" for k, v in entry["schedule"].items())
            else:
                kernel["edited"] = "source" if "source" in entry else "loops"
    calls = [{"node": n["name"], "operator": n["op"], "module": graph["modules"][n["module"]]["path"] if n["module"] is not None else "",
              "origin": "library" if base(n) in ("linear", "matmul") else "aten", "bytesRead": 8192, "bytesWritten": 4096}
             for n in graph["nodes"] if n["name"] not in fused and base(n) not in ("transpose", "generated")]
    out = {"as": "groups", "isForGpu": gpu, **({"capability": 90} if gpu else {}), "kernels": kernels, "calls": calls, "decisions": decisions, "unapplied": unapplied,
           "notFused": [{"node": c["node"], "operator": c["operator"], "why": "kernels with matrix products are generated for GPUs alone" if c["origin"] == "library"
                         else "it has no neighbour that it may be fused with"} for c in calls],
           "plan": json.dumps({"fusion": 1, **steering}, indent=2) + "\n", "revision": revision}
    if measure:
        for k in kernels:
            k["kernelUs"] = 3.5
            if not k["isInFile"]:
                k["operatorsUs"] = 4.5 * len(k["nodes"])
                k["operations"] = 512.0
            k["leastUs"] = k["bytes"] / BANDWIDTH
            if tries and not k["isInFile"]:
                k["tried"] = [{"schedule": "lanes i1\nregisters 2\n", "us": 2.5}, {"schedule": "lanes inner\n", "us": 5.0}]
            if "edited" in k or "schedule" in k:
                k["generatedUs"] = 4.0
        for c in calls:
            c["operatorsUs"] = 20.0
            if c["origin"] == "library":
                c.update(operations=600000.0, leastUs=12.0)  # more than its bytes take
        us = {c["node"]: c["operatorsUs"] for c in calls} | {n: k["kernelUs"] for k in kernels if not k["isInFile"] for n in k["nodes"]}
        for d in decisions:
            d["measuredUs"] = us[d["producer"]] if d["isMerged"] else us[d["producer"]] + us[d["consumer"]]
        out["modelUs"] = {"operators": 1000.0, "kernels": 800.0, "bytesPerMicrosecond": BANDWIDTH, "operationsPerMicrosecond": {"f32": 50000.0}}
    return out


def parse(text):
    try:
        steering = json.loads(text)
    except ValueError as e:
        raise Failure(f"the plan: {e}")
    steering.pop("fusion", None)
    return steering


def steer(steering, params):
    """The steering as the request wants it."""
    out = json.loads(json.dumps(steering))
    if "text" in params:
        out = parse(params["text"])
    if "file" in params:
        try:
            out = parse(open(params["file"]).read())
        except OSError as e:
            raise Failure(str(e))
    if "remove" in params:
        key, number = re.match(r"(\w+)\[(\d+)\]$", params["remove"]).groups()
        del out[key][int(number)]
        if not out[key]:
            del out[key]
    for key, more in params.get("add", {}).items():
        out[key] = out.get(key, []) + more
    return out


def kernel_of(graph, steering, wanted, revision):
    kernels = plan(graph, steering, revision)["kernels"]
    for i, k in enumerate(kernels):
        if wanted in (k["name"], str(i)):
            return k
    raise Failure(f"there is no kernel {wanted}")


def code(graph, steering, params, revision):
    """A line for each node, which spans name."""
    kernel, form = kernel_of(graph, steering, params["kernel"], revision), params["as"]
    if form == "sass":
        del kernel["text"]
        kernel["problem"] = "SASS is read by nvdisasm or cuobjdump, and neither is installed"
        return {"as": form, "kernel": kernel, "revision": revision}
    head = {"loops": "loops 1\nnest i0 < 16\n", "cpp": "template <class T>\nT maximum(T a, T b);\n\nint run(float* y) {\n", "cuda": "__global__ void kernel_0() {\n", "ptx": ".visible .entry kernel_0()\n{\n"}[form]
    text, spans = head, []
    for n in kernel["nodes"]:
        text += f"  {n}[i0] = "
        spans.append({"node": n, "begin": len(text), "end": len(text) + len(f"make_{n}(x[i0])")})
        text += f"make_{n}(x[i0])\n" if form == "loops" else f"make_{n}(x[i0]);\n"
    text += "" if form == "loops" else "}\n"
    entry = next((e for e in entries(steering, "kernels") if e["nodes"] == kernel["nodes"]), {})
    own = entry.get("loops" if form == "loops" else "source")
    kernel["text"] = own or text
    if not own:
        kernel["spans"] = spans
    return {"as": form, "kernel": kernel, "revision": revision}


def usage(graph, steering, revision):
    """The first kernel spills, the second one cannot be compiled."""
    rows = []
    for i, k in enumerate(plan(graph, steering, revision)["kernels"]):
        launch = {"function": "kernel_0", "schedule": "threads of 8", "blocks": 64, "threads": 256, "sharedBytes": 2048 if i == 0 else 0,
                  "registers": 168 if i == 0 else 32, "stackBytes": 0, "spillBytes": 16 if i == 0 else 0,
                  "occupancy": {"share": 0.125 if i == 0 else 1.0, "blocks": 1 if i == 0 else 8, "limit": "registers" if i == 0 else "threads"}}
        rows.append({"name": k["name"], "problem": "NVRTC refuses generated code"} if i == 1 else {"name": k["name"], "launches": [launch]})
    return {"kernels": rows, "capability": 90, "revision": revision}


def timeline(graph):
    """The host runs one node after the other, and a second thread helps with products."""
    host, helper, at = [{"what": "inputs", "startUs": 0.0, "us": 2.0}], [], 2.0
    for n in graph["nodes"]:
        us = 20.0 if base(n) in ("linear", "matmul") else 4.0
        host.append({"what": base(n), "node": n["name"], "startUs": at, "us": us})
        if us > 4:
            helper.append({"what": base(n), "node": n["name"], "startUs": at, "us": us / 2})
        at += us
    lanes = [("host", "host", host), ("thread", "thread 2", helper)]
    busy = lambda spans: sum(s["us"] for s in spans)
    return {"us": at, "how": "the run of median length of 5", "lanes": [
        {"kind": kind, "name": name, "busyUs": busy(spans), "idleUs": at - busy(spans), "spans": spans} for kind, name, spans in lanes]}


def edit(graph, steering, params, revision):
    """Text with "syntax error" is refused where that stands, text with "wrong" computes something else."""
    kernel = kernel_of(graph, steering, params["kernel"], revision)
    part = next(p for p in ("loops", "source", "schedule") if p in params)
    text, back, refused = str(params[part]), [], []
    for number, line in enumerate(text.split("\n"), 1):
        if "syntax error" in line:
            refused = [f"the plan's kernels[0]: {number}:{line.find('syntax error') + 1}: expected an expression"]
    if "wrong" in text:
        last = kernel["nodes"][-1]
        back = [{"node": last, "nodes": kernel["nodes"], "scope": "", "verification": {
            "verdict": "failed", "inputSets": 1, "inputs": "the model's own values", "inputShapes": ["x f32[1,16,64]"], "output": last, "element": "[0,3,1]",
            "expected": "1.5", "actual": "1.25", "maxAbs": 0.25, "why": f"the hand-edited kernel (kernels[0]): on the model's own values, `{last}` differs"}}]
    right = not back and not refused
    if right:
        kept = [e for e in entries(steering, "kernels") if e["nodes"] != kernel["nodes"]]
        steering["kernels"] = kept + [{"nodes": kernel["nodes"], part: params[part]}]
    return {"isRight": right, "refused": refused, "rolledBack": back,
            "verdicts": {"verified": 0 if back else 1, "measured": 0, "unverified": 0, "rolledBack": len(back)},
            "kernels": plan(graph, steering, revision, params.get("measure", False))}


def apply(graph, steering, verify):
    """The graph with a node for each kernel, and the records."""
    records = []
    for number, nodes in enumerate(groups_of(graph, steering)[0]):
        made, inputs = inside(graph, nodes)
        last, name = made[nodes[-1]], "generated" if number == 0 else f"generated_{number}"
        at = graph["nodes"].index(last)
        call = {**last, "name": name, "op": "graft.generated.default", "parameters": ["inputs", "program", "sizes"],
                "args": [{"l": [{"v": v} for v in inputs]}, {"s": " ".join(nodes)}, {"l": []}], "outputs": [{**last["outputs"][0], "name": name}]}
        rest = graph["nodes"][:at] + [call] + graph["nodes"][at + 1:]
        graph = {**graph, "nodes": [n for n in rest if n["name"] not in nodes]}
        graph = json.loads(json.dumps(graph).replace(json.dumps({"v": last["name"]}), json.dumps({"v": name})))
        records.append({"rule": "fuse", "scope": "", "removed": nodes, "added": [name], "inputs": [], "outputs": [[last["name"], name]], "newWeights": [],
                        "changesNumbers": False, **({"verification": {"verdict": "verified", "inputSets": 9}} if verify else {})})
    return graph, records
