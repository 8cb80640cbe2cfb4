#!/usr/bin/env python3
"""A scripted engine for tests of the window: speaks the engine's protocol without PyTorch. fake_engine_test.py holds its answers
to the recorded ones of the real engine.

It opens any existing file as a small encoder. Rules are understood by their operators alone: a class named NAME in the text is a
rule; its pattern is what `# match: op, op, …` in its body names, in order. Text with "syntax error" in it does not parse.
Environment: FAKE_ENGINE_CRASH=METHOD ends it at the first call of that method (a file named by FAKE_ENGINE_MARK keeps it from
doing so again), FAKE_ENGINE_NONSENSE=METHOD writes garbage, FAKE_ENGINE_PART=lost|broken spoils a part of a graph, FAKE_ENGINE_HANG=METHOD never answers and ignores being cancelled,
FAKE_ENGINE_DIFFERS=N lets outputs of runs differ whose first input's first size is N.
"""

import collections
import copy
import difflib
import hashlib
import json
import os
import re
import resource
import sys
import threading
import time

import fake_compile


def tensor(*shape, dtype="f32"):
    return f"{dtype}[{','.join(map(str, shape))}]"


class Builder:
    def __init__(self):
        self.graph = {"name": "FakeEncoder", "inputs": [], "weights": [], "modules": [], "nodes": [], "returns": []}
        self.names = {}

    def module(self, parent, path, kind):
        self.graph["modules"].append({"id": len(self.graph["modules"]), "parent": parent, "path": path, "type": kind, "constructor": {}})
        return len(self.graph["modules"]) - 1

    def weight(self, path, *shape):
        name = path.replace(".", "_")
        self.graph["weights"].append({"name": name, "path": path, "type": tensor(*shape), "buffer": False, "constant": False})
        return {"v": name}

    def call(self, op, parameters, args, kind, module):
        base = op.split(".")[1]
        n = self.names[base] = self.names.get(base, -1) + 1
        name = base if n == 0 else f"{base}_{n}"
        self.graph["nodes"].append({"name": name, "op": op, "module": module, "args": args, "parameters": parameters,
                                    "outputs": [{"name": name, "type": kind}],
                                    "source": {"file": "model.py", "line": 10 + n, "code": f"{name} = {base}(...)"}})
        return {"v": name}


def encoder(layers):
    b = Builder()
    b.graph["inputs"] = [{"name": "x", "type": tensor(1, 16, 64)}, {"name": "mask", "type": tensor(1, 1, 1, 16)}]
    x, mask = {"v": "x"}, {"v": "mask"}
    wide, heads = tensor(1, 16, 64), tensor(1, 4, 16, 16)
    top = b.module(None, "encoder", "nets.Encoder")
    for i in range(layers):
        layer = b.module(top, f"encoder.layer.{i}", "nets.Layer")
        attention = b.module(layer, f"encoder.layer.{i}.attention", "nets.Attention")

        def linear(v, name, module, parent):
            path = f"encoder.layer.{i}.{name}"
            m = b.module(parent, path, "torch.nn.modules.linear.Linear")
            return b.call("aten.linear.default", ["input", "weight", "bias"], [v, b.weight(path + ".weight", 64, 64), b.weight(path + ".bias", 64)], wide, m)

        q, k, v = (linear(x, f"attention.{n}", attention, attention) for n in ("query", "key", "value"))
        k = b.call("aten.transpose.int", ["self", "dim0", "dim1"], [k, -1, -2], tensor(1, 64, 16), attention)
        s = b.call("aten.matmul.default", ["self", "other"], [q, k], heads, attention)
        s = b.call("aten.div.Tensor", ["self", "other"], [s, 4.0], heads, attention)
        s = b.call("aten.add.Tensor", ["self", "other", "alpha"], [s, mask, 1], heads, attention)
        s = b.call("aten.softmax.int", ["self", "dim", "dtype"], [s, -1, None], heads, attention)
        s = b.call("aten.matmul.default", ["self", "other"], [s, v], wide, attention)
        x = b.call("aten.add.Tensor", ["self", "other", "alpha"], [s, x, 1], wide, layer)
        y = linear(x, "dense", layer, layer)
        y = b.call("aten.gelu.default", ["self", "approximate"], [y, {"s": "none"}], wide, layer)
        x = b.call("aten.layer_norm.default", ["input", "normalized_shape", "weight", "bias", "eps"],
                   [y, {"l": [64]}, b.weight(f"encoder.layer.{i}.norm.weight", 64), b.weight(f"encoder.layer.{i}.norm.bias", 64), 1e-5], wide, layer)
    b.graph["returns"] = [x]
    return b.graph


def joint(layers):
    """The encoder with a backward pass: behind it, a node for each of its nodes, from the last to the first."""
    graph = encoder(layers)
    graph["inputs"].append({"name": "tangents_1", "type": tensor(1, 16, 64)})
    last = {"v": "tangents_1"}
    for node in reversed(list(graph["nodes"])):
        name = node["name"] + "_grad"
        graph["nodes"].append({**node, "name": name, "op": node["op"].rsplit(".", 1)[0] + "_backward.default", "args": [last, {"v": node["name"]}],
                               "parameters": ["grad", "self"], "outputs": [{"name": name, "type": node["outputs"][0]["type"]}]})
        last = {"v": name}
    graph["returns"].append(last)
    return graph


def captured_graphs(path):
    """Names of a capture's graphs, or of those in a folder; a file with "broken" in its name broke twice."""
    if os.path.isdir(path):
        return [f"{f[:-3]}/{name}" for f in sorted(os.listdir(path)) if f.endswith(".fx") for name in captured_graphs(f)]
    if not path.endswith(".fx"):
        return []
    return ["forward", "forward.1", "forward.2"] if "broken" in path else ["forward", "joint", "backward"]


def cut(graph, params):
    """Products are dear, what comes of the input must be saved, and softmax is computed again where the budget asks for it."""
    backward = [n for n in graph["nodes"] if n["name"].endswith("_grad")]
    forward = [n for n in graph["nodes"] if n not in backward]
    scope = lambda n: graph["modules"][n["module"]]["path"]
    size = 4096
    candidates = [n for n in forward if base(n) in ("linear", "softmax", "gelu")]
    again = {n["name"] for n in candidates if any(n["name"] == r or (scope(n) + ".").startswith(r + ".") for r in params.get("recompute", []))}
    default = (len(candidates) + 1) * size
    allowed = params.get("memory", 1) * default
    for node in sorted(candidates, key=lambda n: base(n) == "linear"):
        if (len(candidates) - len(again) + 1) * size > allowed and node["name"] not in params.get("save", []):
            again.add(node["name"])
    kept = [n for n in candidates if n["name"] not in again]
    if (len(kept) + 1) * size > allowed:
        raise Failure(f"a memory budget of {100 * params['memory']:.4g} % cannot be met: ask for at least --memory 10%")
    saved = [{"name": "x", "type": tensor(1, 16, 64), "bytes": size, "producer": None, "module": "", "consumers": ["linear_grad"], "us": 0.0, "reason": "it is an input", "kind": "must"}]
    for n in kept:
        asked = n["name"] in params.get("save", [])
        saved.append({"name": n["name"], "type": n["outputs"][0]["type"], "bytes": size, "producer": n["op"], "module": scope(n), "consumers": [n["name"] + "_grad"], "us": 10.5,
                      "reason": "it was asked for" if asked else "it is expensive", "kind": "asked" if asked else "dear"})
    recomputed = [{"name": n["name"], "operator": n["op"], "module": scope(n), "bytes": size, "us": 10.5, "reason": "the memory budget asks for it"} for n in candidates if n["name"] in again]
    saved_bytes = size * len(saved)
    live = {"forward": [{"name": n["name"], "bytes": size * (i + 1)} for i, n in enumerate(forward)],
            "backward": [{"name": n["name"], "bytes": saved_bytes + size} for n in backward]}
    peak = {side: max(n["bytes"] for n in nodes) for side, nodes in live.items()}
    points = [{"memory": m, "savedBytes": int(m * default), "recomputedUs": 100 * (1 - m), "simulatedPeak": peak} for m in (1.0, 0.75, 0.5)]
    half = lambda nodes: {"output": None, "nodes": len(nodes), "inputs": ["x"], "returns": [{"kind": "output", "of": None}]}
    return {"model": "step.fx", "method": "joint", "memory": params.get("memory", 1), "forward": half(forward), "backward": half(backward), "why": None,
            "verification": {"passed": None, "differences": None},
            "saved": saved, "recomputed": recomputed, "savedBytes": saved_bytes, "defaultBytes": default, "nothingBytes": default, "leastBytes": default // 10,
            "recomputedUs": 10.5 * len(recomputed), "simulatedPeak": peak, "live": live, "curve": points if params.get("curve") else [], "notes": [],
            "wishes": {"partition": 1, "memory": params.get("memory", 1), "save": params.get("save", []), "recompute": params.get("recompute", [])}}


def compact(graph):
    """The form in which the engine sends models: parameters and sources stand once, before the nodes."""
    operators, sources, nodes = {}, [], []
    for node in graph["nodes"]:
        operators[node["op"]] = node["parameters"]
        source = {k: node["source"][k] for k in ("file", "line")}
        if source not in sources:
            sources.append(source)
        rest = {k: v for k, v in node.items() if k != "parameters"}
        nodes.append({**rest, "source": sources.index(source)})
    first = {"name": graph["name"], "symbols": {}, "operators": operators, "sources": sources}
    return {**first, **{k: graph[k] for k in ("modules", "inputs", "weights")}, "nodes": nodes, "returns": graph["returns"]}


def rules_of(text):
    out = []
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        found = re.match(r"class (\w+)\(Rule\)", line)
        if not found:
            continue
        body = "\n".join(lines[number:])
        body = body[:body.find("\nclass ")] if "\nclass " in body else body
        wanted = re.search(r"# match: (.*)", body)
        ops = [o.strip() for o in wanted.group(1).split(",")] if wanted else []
        nodes, spots = [], {}
        for i, op in enumerate(ops):
            args = [{"v": "x"}] if i == 0 else [{"v": f"{ops[i - 1]}_p{i - 1}"}]
            name = f"{op}_p{i}"
            source = {"file": "rules.py", "line": number, "column": 1, "endColumn": 2, "code": line}
            for k, l in enumerate(lines[number:], number + 1):
                column = l.find(op + "(")
                if column >= 0:
                    spots[name] = {"line": k, "column": column + 1, "endColumn": column + 1 + len(op)}
                    source.update(spots[name], code=l)
                    break
            nodes.append({"name": name, "op": f"aten.{op}.default", "module": None, "args": args, "outputs": [{"name": name, "type": "tensor"}],
                          "parameters": ["self"], "source": source})
        pattern = {"name": found.group(1), "inputs": [{"name": "x", "type": "tensor"}], "weights": [], "modules": [], "symbols": {}, "nodes": nodes,
                   "returns": [{"v": nodes[-1]["name"]}] if nodes else []}
        out.append({"name": found.group(1), "description": "", "line": number, "parameters": [], "pattern": pattern, "patternLines": spots,
                    "finds": "replacement" not in body, "ops": ops,
                    "near": "dim=1)" in body})
    return out


def fingerprint(rule):
    """Of what a window may hold of a rule, with lines counted from the rule's."""
    pattern, lines = copy.deepcopy(rule["pattern"]), copy.deepcopy(rule["patternLines"])
    for place in [n["source"] for n in pattern["nodes"]] + list(lines.values()):
        place["line"] -= rule["line"]
    return hashlib.sha1(json.dumps([rule["parameters"], pattern, lines]).encode()).hexdigest()[:16]


def base(node):
    return node["op"].split(".")[1]


def matches_of(graph, ops):
    found, used = [], set()
    for start in graph["nodes"]:
        if not ops or base(start) != ops[0]:
            continue
        chain = [start]
        for op in ops[1:]:
            following = next((n for n in graph["nodes"] if {"v": chain[-1]["name"]} in n["args"] and base(n) == op), None)
            if following is None:
                break
            chain.append(following)
        names = [n["name"] for n in chain]
        if len(chain) == len(ops) and not used & set(names):
            used |= set(names)
            module = start["module"]
            found.append({"scope": graph["modules"][module]["path"] if module is not None else "", "nodes": names,
                          "map": {f"{op}_p{i}": n for i, (op, n) in enumerate(zip(ops, names))}})
    return found


class Failure(Exception):
    pass


class Engine:
    def __init__(self):
        self.documents, self.cancelled, self.lock = {}, set(), threading.Lock()

    def send(self, message, spoil=None):
        text = json.dumps(message)
        body = (spoil(text) if spoil else text).encode()
        with self.lock:
            sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            sys.stdout.buffer.flush()

    def misbehave(self, method):
        mark = os.environ.get("FAKE_ENGINE_MARK")
        for kind in ("CRASH", "NONSENSE", "HANG"):
            if os.environ.get("FAKE_ENGINE_" + kind) != method or (mark and os.path.exists(mark)):
                continue
            if mark:
                open(mark, "w").close()
            if kind == "CRASH":
                os.abort()
            if kind == "NONSENSE":
                sys.stdout.buffer.write(b"Segfault? no, poetry.\r\n\r\n" * 400)
                sys.stdout.buffer.flush()
            time.sleep(60)

    def document(self, params):
        return self.documents[params["document"]]

    def check(self, text, held):
        for number, line in enumerate(text.split("\n"), 1):
            if "syntax error" in line:
                return {"ok": False, "rules": [], "recipes": [],
                        "error": {"message": "expected an expression" + ", and nothing else will do" * (12 if "long syntax" in line else 0), "line": number, "column": line.find("syntax error") + 1,
                                  "endColumn": line.find("syntax error") + 13}}
        rules = []
        for rule in rules_of(text):
            shown = {k: v for k, v in rule.items() if k not in ("ops", "near")}
            if "FAKE_ENGINE_PLAIN" not in os.environ:  # as before there were fingerprints
                shown["fingerprint"] = fingerprint(shown)
            if shown.get("fingerprint") in held:
                shown = {k: v for k, v in shown.items() if k not in ("parameters", "pattern", "patternLines")}
            rules.append(shown)
        return {"ok": True, "rules": rules, "recipes": [{"name": "All", "description": "", "steps": [r["name"] for r in rules_of(text)]}]}

    def rule(self, params):
        for r in rules_of(params["text"]):
            if r["name"] == params["rule"]:
                return r
        raise Failure(f"there is no rule {params['rule']}")

    def apply(self, graph, rule, only, verify):
        graph, records = copy.deepcopy(graph), []
        for i, match in enumerate(matches_of(graph, rule["ops"])):
            if only is not None and i not in only:
                continue
            first = next(n for n in graph["nodes"] if n["name"] == match["nodes"][0])
            last = next(n for n in graph["nodes"] if n["name"] == match["nodes"][-1])
            name = f"fused_{len([n for n in graph['nodes'] if n['op'].startswith('graft.')])}"
            fused = {"name": name, "op": f"graft.{rule['name'].lower()}.default", "module": first["module"], "args": first["args"], "parameters": first["parameters"],
                     "source": last["source"], "outputs": [{"name": name, "type": last["outputs"][0]["type"]}]}
            at = graph["nodes"].index(last)
            graph["nodes"].insert(at + 1, fused)
            graph["nodes"] = [n for n in graph["nodes"] if n["name"] not in match["nodes"]]
            text = json.dumps(graph).replace(json.dumps({"v": last["name"]}), json.dumps({"v": name}))
            graph = json.loads(text)
            records.append({"rule": rule["name"], "scope": match["scope"], "removed": match["nodes"], "added": [name], "inputs": [],
                            "outputs": [[last["name"], name]], "newWeights": [], "changesNumbers": False,
                            **({"verification": {"verdict": "verified", "inputSets": 3}} if verify else {})})
        return graph, records

    def optimize(self, d, graph, params, ident):
        """Encoder is the one recipe: it fits where there is attention, and rewrites the first one in a step of its own. A plan is it
        once more."""
        rule = {"name": "Attention", "ops": ["matmul", "div", "add", "softmax", "matmul"]}
        verify, inside, done, new, records = params.get("verify", True), [], [], graph, []
        for name, only in (("FirstAttention", [0]), ("normalize", []), ("Attention", None))[:params.get("upTo")]:
            new, some = self.apply(new, rule, only, verify)
            done.append({"name": name, "isRule": name != "normalize", "rewrites": len(some), "ms": 1.5, "refused": [], "rolledBack": [], "records": some})
            inside.append(new)
            records += some
        steps = 10 if "plan" not in params else 0
        for i in range(steps):
            if ident in self.cancelled:
                raise Failure("cancelled")
            self.send({"jsonrpc": "2.0", "method": "$/progress", "params": {"id": ident, "what": "trying Encoder", "done": i, "total": steps}})
            time.sleep(float(os.environ.get("FAKE_ENGINE_STEP", "0.005")))
        result = {"model": "/home/me/model.pt", "method": "forward", "format": "torchscript", "nodesBefore": len(graph["nodes"]), "nodesAfter": len(new["nodes"]),
                  "recipe": "Encoder", "steps": [], "unchanged": not records, "verification": {}}
        report = {"recipes": [], "rules": [], "groups": [], "seconds": 4.5, "stages": [], "outOfTime": False, "result": result}
        if not records:
            return {"report": {**report, "whyUnchanged": "none of the recipes that come with Graft fits it", "advice": ["Its time goes into linear: 80 %."]}, "revision": d["revision"]}
        beside = {"ratio": 0.8, "ratioLow": 0.78, "ratioHigh": 0.83, "speed": "slower"}
        report["rules"] = [{"recipe": "Encoder", "rule": "Attention", "rewrites": len(records), "without": beside, "kept": True, "why": ""}]
        result["timing"] = {"ratio": 1.25, "ratioLow": 1.21, "ratioHigh": 1.28, "speed": "faster", "against": "original (frozen TorchScript)"}
        self.add_step(d, graph, new, inside)
        return {"graph": self.graph_field(new, params, ident), "records": records, "refused": [], "rolledBack": [], "steps": done, "ms": 4500.0,
                "verdicts": {"verified": len(records), "measured": 0, "unverified": 0, "rolledBack": 0}, "label": "Encoder",
                "plan": {"recipes": [{"file": "transformer.py", "recipe": "Encoder", "without": []}], "operators": []},
                "nodesBefore": len(graph["nodes"]), "nodesAfter": len(new["nodes"]), "revision": d["revision"], **({} if "plan" in params else {"report": report})}

    def add_step(self, d, before, after, inside):
        d["snapshots"] = d["snapshots"][:d["position"]] + [before, after]
        d["position"] += 1
        d["inside"][d["position"]] = inside
        d["shown"] = after
        d["revision"] += 1

    def graph_field(self, graph, params, ident):
        """Whole, in parts of a few nodes that are sent at once, or none, as the request wants it."""
        wanted, graph = params.get("graph", "whole"), compact(graph)
        if wanted != "parts":
            return graph if wanted == "whole" else None
        nodes, few = graph["nodes"], 9
        parts = [{k: v for k, v in graph.items() if k not in ("nodes", "returns")}]
        parts += [{"nodes": nodes[i:i + few]} for i in range(0, len(nodes), few)] + [{"returns": graph["returns"]}]
        lost = os.environ.get("FAKE_ENGINE_PART")  # "lost": one never comes, "broken": one is no JSON
        for i, part in enumerate(parts):
            if lost != "lost" or i != 2:
                message = {"jsonrpc": "2.0", "method": "$/graph", "params": {"id": ident, "part": i, "graph": part}}
                self.send(message, (lambda text: text.replace('"nodes": [', '"nodes": [{[', 1)) if lost == "broken" else None)
        return {"parts": len(parts)}

    def call(self, method, params, ident):
        self.misbehave(method)
        if method == "initialize":
            return {"version": 1, "devices": [{"name": "cpu", "description": "2 threads"}, {"name": "cuda:0", "description": "NVIDIA H200"}]}
        if method == "test/misbehave":
            kind = params["kind"]
            if kind == "abort":
                os.abort()
            if kind == "nonsense":
                sys.stdout.buffer.write(b"Segfault? no, poetry.\r\n\r\n" * 400)
                sys.stdout.buffer.flush()
            if kind == "memory":
                resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20))
                try:
                    kept = [bytes(64 << 20) for _ in range(100)]
                except MemoryError:
                    os.abort()  # as a program in C++ ends whose allocation fails
            if kind == "no json":
                sys.stdout.buffer.write(b"Content-Length: 5\r\n\r\nhello")
                sys.stdout.buffer.flush()
            time.sleep(3600)
        if method == "model/open":
            if not os.path.exists(params["path"]):
                raise Failure(f"{params['path']}: no such file")
            for i in range(int(os.environ.get("FAKE_ENGINE_SLOW", "0")) * 10):
                if ident in self.cancelled:
                    raise Failure("cancelled")
                self.send({"jsonrpc": "2.0", "method": "$/progress", "params": {"id": ident, "what": "reading", "done": i, "total": 100}})
                time.sleep(0.1)
            kind = "torch.export" if params["path"].endswith(".pt2") else "torchscript"
            graphs = captured_graphs(params["path"])
            name = params.get("method", graphs[0] if graphs else "forward")  # of a set, too, the first
            if graphs and name not in graphs:
                raise Failure(f"{params['path']} has no graph {name}")
            kind = "fx" if graphs else kind
            graph = joint(2) if name.endswith("joint") else encoder(2 if "other" in params["path"] else 1 + graphs.index(name) if graphs else 4)
            self.documents[len(self.documents) + 1] = {"path": params["path"], "method": name, "snapshots": [graph], "position": 0, "revision": 0, "inside": {}, "shown": graph}
            return {"document": len(self.documents), "format": kind, "method": name, "graphs": graphs, "isJoint": name.endswith("joint"), "nodes": len(graph["nodes"]), "revision": 0, "graph": self.graph_field(graph, params, ident)}
        if method == "rules/check":
            padding = "." * (int(os.environ.get("FAKE_ENGINE_PADDING", "0")) << 20)  # a long answer takes long to parse
            return {**self.check(params["text"], params.get("held", [])), **({"padding": padding} if padding else {})}
        if method == "node/weight":
            return {"type": tensor(64, 64), "min": -0.21, "max": 0.2, "mean": 0.001, "std": 0.05, "zeros": 0, "nonFinite": 0, "first": [0.1, 0.2],
                    "histogram": {"edges": [-0.21 + 0.0128 * i for i in range(33)], "counts": [int(1000 * 2.718 ** (-((i - 16) / 6) ** 2)) for i in range(32)]}}
        if method == "model/close":
            return {}
        if method == "rules/words":
            return {"words": ["F.gelu(input, approximate)", "kernels.attention(q, k, v, mask)", "torch.matmul(input, other)"]}
        d = self.document(params)
        graph = d["shown"]
        if method == "captured/graphs":
            rows = [{"name": name, "nodes": 13 * (i + 1), "guards": 3, "break": None} for i, name in enumerate(captured_graphs(d["path"]))]
            if "broken" in d["path"]:
                for row, line in zip(rows, (22, 24)):
                    row["break"] = {"reason": "the branch depends on the values of a tensor", "explanation": "", "hint": "Use torch.where", "file": "/home/me/net.py", "line": line, "code": "if y.sum() > 0:"}
            return {"graphs": rows, "guards": [{"text": "CONSTANT_MATCH L['scale']: L['scale'] == 3", "about": "arguments", "brokenBy": "scale other than 3"},
                                               {"text": "GRAD_MODE", "about": "surroundings", "brokenBy": "torch.no_grad() around the call"}]}
        if method == "training/cut":
            if d["method"] != "joint":
                raise Failure("this graph is no joint graph")
            if "file" in params:
                with open(params["file"]) as f:
                    params = json.load(f)
            result = cut(d["snapshots"][0], params)
            if "write" in params:
                with open(params["write"], "w") as f:
                    json.dump(result["wishes"], f)
            return result
        if method == "model/sideBySide":
            rows = []
            for i, m in enumerate(params["models"]):
                of = self.documents[m["document"]] if "document" in m else d
                shown = of["inside"][m["step"]][m["subStep"] - 1] if "subStep" in m else of["snapshots"][m.get("step", 0)]
                if str(m.get("name")).startswith("broken"):
                    rows.append({"model": m["name"], "nodes": len(shown["nodes"]), "kernels": 0, "obstacle": "it takes other inputs"})
                    continue
                ms = 3.0 / (i + 1)
                rows.append({"model": m.get("name", "model"), "nodes": len(shown["nodes"]), "kernels": len([n for n in shown["nodes"] if base(n) != "transpose"]),
                             "outputs": [], "passed": i != 2, "maxAbs": 0.5 if i == 2 else 4e-7, "ratio": float(i + 1),
                             "timing": {"medianMs": ms, "p10Ms": ms * 0.9, "p90Ms": ms * 1.1, "samplesMs": [ms] * 9}})
            return {"models": rows, "protocol": "cpu, 2 threads; 9 rounds", "inputs": [tensor(1, 16, 64)], "why": None}
        if method in ("node/describe", "node/source"):
            node = next((n for n in graph["nodes"] if n["name"] == params["node"]), None)
            if node is None:
                raise Failure(f"there is no node {params['node']}")
            if method == "node/describe":
                return {"operator": node["op"], "schema": node["op"].replace(".", "::", 1) + "(Tensor self) -> Tensor",
                        "doc": f"What {base(node)} does.", "effects": ["writes to self"] if base(node).endswith("_") else []}
            if "source" not in node:
                raise Failure(f"the model does not say where {node['name']} comes from")
            line = node["source"]["line"]
            return {"file": "/home/me/model.py", "line": line, "first": line - 2, "from": "file",
                    "lines": [f"# line {i}" for i in range(line - 2, line)] + [node["source"]["code"], "# after"]}
        if method == "model/diff":
            other = self.documents[params["other"]] if "other" in params else None
            before = other["snapshots"][other["position"]] if other else d["snapshots"][0]
            text = lambda g: [f"  %{n['name']} = {n['op']}()" for n in g["nodes"]]
            lines = []
            for l in list(difflib.unified_diff(text(before), text(graph), n=3, lineterm=""))[2:]:
                lines.append({"kind": l[0], "old": 0, "new": 0, "text": l if l[0] == "@" else l[1:]})
            return {"lines": lines, "revision": d["revision"]}
        if method == "rules/match":
            if "syntax error" in params["text"]:
                raise Failure("expected an expression")
            return {"revision": d["revision"], "ms": 0.4, "rules": [{"name": r["name"], "matches": len(at), "at": at, "budgetExceeded": False} for r in rules_of(params["text"]) for at in [[] if r["near"] else matches_of(graph, r["ops"])]]}
        if method == "rules/explain":
            rule = self.rule(params)
            softmaxes = [n for n in graph["nodes"] if base(n) == "softmax"]
            places = softmaxes if "# everywhere" in params["text"] else softmaxes[:1]
            misses = []
            spot = len(params["text"].encode().split(b"dim=1", 1)[0]) + 4 if "dim=1" in params["text"] else -1
            if rule["ops"]:
                misses = [{"matched": len(rule["ops"]) - 1, "total": len(rule["ops"]), "at": soft["name"], "patternNode": f"{rule['ops'][-1]}_p{len(rule['ops']) - 1}",
                           "reason": "literal", "parameter": "dim", "expected": "1", "actual": "-1", "message": "dim is -1, but the rule wants 1",
                           "suggestion": "Write dim=-1.", "edits": [{"begin": spot, "end": spot + 1, "line": params["text"].encode()[:spot].count(b"\n") + 1, "before": "1", "after": "-1"}] if spot >= 0 else [],
                           "line": next((k for k, l in enumerate(params["text"].split("\n"), 1) if "dim=1" in l), rule["line"]),
                           "scope": f"encoder.layer.{i}.attention", "map": {}} for i, soft in enumerate(places)]
            return {"revision": d["revision"], "matches": 0, "nearMisses": misses}
        if method == "rules/apply":
            before, records, back = len(graph["nodes"]), [], []
            verify = params.get("verify", not params.get("preview"))
            new, steps, inside = graph, [], []
            for r in [self.rule(params)] if "rule" in params else rules_of(params["text"])[:params.get("upTo")]:
                only = params.get("only")
                if verify and r["name"].startswith("Wrong"):  # its first rewrite computes something else
                    first = (only or [0])[0]
                    only = [i for i in (only if only is not None else range(len(matches_of(graph, r["ops"])))) if i != first]
                    node = matches_of(graph, r["ops"])[first]["nodes"][-1]
                    back.append({"node": node, "scope": "encoder.layer.0", "nodes": [node], "verification": {
                        "verdict": "failed", "inputSets": 3, "why": f"on random values, `{node}` differs", "inputShapes": ["x f32[2,4]"],
                        "inputs": "random values", "output": node, "element": "[0,0]", "expected": "1.5", "actual": "1.25", "maxAbs": 0.25}})
                new, some = self.apply(new, r, only, verify)
                records += some
                if "recipe" in params:
                    steps.append({"name": r["name"], "isRule": True, "rewrites": len(some), "ms": 1.5, "refused": [], "rolledBack": [], "records": some})
                    inside.append(new)
            verdicts = {"verified": len(records) if verify else 0, "measured": 0, "unverified": 0 if verify else len(records), "rolledBack": len(back)}
            if not verify:
                verdicts["why"] = "verification is switched off"
            if not params.get("preview"):
                self.add_step(d, graph, new, inside)
            return {"graph": self.graph_field(new, params, ident), "records": records, "refused": [], "rolledBack": back, "verdicts": verdicts, "steps": steps, "ms": 12.25,
                    "nodesBefore": before, "nodesAfter": len(new["nodes"]), "revision": d["revision"]}
        if method.startswith("compile/"):
            return self.compile(method, d, params, ident)
        if method == "model/optimize":
            return self.optimize(d, graph, params, ident)
        if method == "model/timeline":
            return {**fake_compile.timeline(graph), "revision": d["revision"]}
        if method == "model/captured":
            # As its file has it: with a node that says nothing.
            last = d["snapshots"][0]["nodes"][-1]
            idle = {**last, "name": "detach", "op": "aten.detach.default", "parameters": ["self"], "args": [{"v": last["name"]}], "outputs": [{**last["outputs"][0], "name": "detach"}]}
            whole = {**d["snapshots"][0], "nodes": d["snapshots"][0]["nodes"] + [idle]}
            return {"graph": self.graph_field(whole, params, ident), "nodes": len(whole["nodes"])}
        if method == "model/undoTo":
            d["position"] = params["step"]
            d["shown"] = d["inside"][params["step"]][params["subStep"] - 1] if "subStep" in params else d["snapshots"][params["step"]]
            d["revision"] += 1
            return {"graph": self.graph_field(d["shown"], params, ident), "revision": d["revision"], "position": d["position"], "nodes": len(d["shown"]["nodes"])}
        if method == "model/export":
            try:
                with open(params["path"], "w") as f:
                    f.write("exported %d nodes" % len(graph["nodes"]))
            except OSError as e:
                raise Failure(str(e))
            return {"path": params["path"]}
        if method == "model/run":
            steps = 20
            for i in range(steps):
                if ident in self.cancelled:
                    raise Failure("cancelled")
                self.send({"jsonrpc": "2.0", "method": "$/progress", "params": {"id": ident, "what": "timing", "done": i, "total": steps}})
                time.sleep(float(os.environ.get("FAKE_ENGINE_STEP", "0.005")))
            def side(ms):
                samples = [ms * (1 + 0.02 * ((i * 37) % 11 - 4)) for i in range(60)]
                return {"medianMs": ms, "p10Ms": ms * 0.94, "p90Ms": ms * 1.1, "samplesMs": samples}
            times = lambda g: {n["name"]: 3.0 + (hash(base(n)) % 7) + (40 if base(n) in ("linear", "matmul") else 0) for n in g["nodes"]}
            calls = lambda g: dict(collections.Counter(n["op"] for n in g["nodes"]))
            before = self.documents[params["other"]]["snapshots"][0] if "other" in params else d["snapshots"][0]
            # The size of the first input's first dimension makes a run longer; a second run of a document is faster.
            inputs = params.get("inputs", [])
            size = int(re.search(r"\[(\d+)", inputs[0]).group(1)) if isinstance(inputs, list) and inputs else 1
            d["runs"] = d.get("runs", 0) + 1
            differs = str(size) == os.environ.get("FAKE_ENGINE_DIFFERS")
            difference = {"maxAbs": 4e-7, "maxRel": 2e-5, "rmse": 1e-7, "rmseRatio": 0.98, "cosine": 0.9999999, "passed": True, "why": ""}
            layers = [{**difference, "name": n["name"], "type": n["outputs"][0]["type"], "original": n["name"], "rewritten": n["name"]} for n in graph["nodes"]]
            for layer in layers[20:]:
                layer.update(rmse=3e-3, maxAbs=0.02, passed=False, why="max abs 0.02")
            fast = float(os.environ.get("FAKE_ENGINE_FAST", "1.12" if d["runs"] == 1 else "0.98"))
            ratio, spread = 3.14 / fast, float(os.environ.get("FAKE_ENGINE_SPREAD", "0.03"))
            return {"original": side(3.14 * size), "rewritten": side(fast * size), "ratio": ratio, "ratioLow": ratio * (1 - spread), "ratioHigh": ratio * (1 + spread),
                    "speed": "faster" if ratio * (1 - spread) > 1 else "slower" if ratio * (1 + spread) < 1 else "same", "baseline": params.get("baseline", "graft"), "passed": not differs, "why": "output 0 differs: max abs 0.5" if differs else "",
                    "device": params.get("device", "cpu"), "dtype": params.get("dtype", ""), "inputSets": 3, "revision": d["revision"],
                    "protocol": "cpu, float32, 60 pairs, interleaved", "inputs": [tensor(size, 16, 64)],
                    "outputs": [{**difference, **({"passed": False, "why": "max abs 0.5", "maxAbs": 0.5} if differs else {}), "name": "0", "type": tensor(1, 16, 64), "ulpHistogram": [5, 3, 1]}],
                    "layers": layers if params.get("layers", True) else [],
                    "calls": {"original": calls(before), "rewritten": calls(graph)},
                    "memory": {"original": {"weights": 200000, "intermediates": 50000}, "rewritten": {"weights": 200000, "intermediates": 20000}},
                    "nodeTimes": {"original": times(before), "rewritten": times(graph)}}
        raise Failure(f"there is no method {method}")

    def compile(self, method, d, params, ident):
        graph, steering = d["shown"], d.setdefault("steering", {})
        if params.get("measure"):
            for i in range(5):
                if ident in self.cancelled:
                    raise Failure("cancelled")
                self.send({"jsonrpc": "2.0", "method": "$/progress", "params": {"id": ident, "what": "timing", "done": i, "total": 5}})
                time.sleep(float(os.environ.get("FAKE_ENGINE_STEP", "0.005")))
        try:
            if method == "compile/code":
                return fake_compile.code(graph, steering, params, d["revision"])
            if method == "compile/edit":
                return fake_compile.edit(graph, steering, params, d["revision"])
            if method == "compile/apply":
                if "text" in params:
                    steering = d["steering"] = fake_compile.parse(params["text"])
                verify = params.get("verify", True)
                new, records = fake_compile.apply(graph, steering, verify)
                verdicts = {"verified": len(records) if verify else 0, "measured": 0, "unverified": 0 if verify else len(records), "rolledBack": 0}
                if not verify:
                    verdicts["why"] = "verification is switched off"
                d["snapshots"] = d["snapshots"][:d["position"]] + [graph, new]
                d["position"] += 1
                d["inside"][d["position"]] = [new]
                d["shown"] = new
                d["revision"] += 1
                steps = [{"name": "fuse", "isRule": True, "rewrites": len(records), "ms": 1.5, "refused": [], "rolledBack": [], "records": records}]
                return {"graph": self.graph_field(new, params, ident), "records": records, "refused": [], "rolledBack": [], "verdicts": verdicts, "steps": steps,
                        "ms": 12.25, "nodesBefore": len(graph["nodes"]), "nodesAfter": len(new["nodes"]), "revision": d["revision"]}
            if method == "compile/usage":
                return fake_compile.usage(graph, steering, d["revision"])
            steering = fake_compile.steer(steering, params)
            if params.get("measure") and params.get("gpu"):
                raise Failure("what is planned for a GPU is measured where the model lies on one")
            out = fake_compile.plan(graph, steering, d["revision"], params.get("measure", False), params.get("gpu", False), params.get("trySchedules", False))
            if method == "compile/steer":  # a plan that is looked at is not the document's
                d["steering"] = steering
            if "save" in params:
                with open(params["save"], "w") as f:
                    f.write(out["plan"])
            return out
        except (fake_compile.Failure, OSError) as e:
            raise Failure(str(e))

    def answer(self, message):
        try:
            self.send({"jsonrpc": "2.0", "id": message["id"], "result": self.call(message["method"], message.get("params", {}), message["id"])})
        except Failure as e:
            code = -32800 if str(e) == "cancelled" else 1
            self.send({"jsonrpc": "2.0", "id": message["id"], "error": {"code": code, "message": str(e)}})

    def serve(self):
        queue, ready = [], threading.Condition()

        def work():
            while True:
                with ready:
                    while not queue:
                        ready.wait()
                    message = queue.pop(0)
                self.answer(message)

        threading.Thread(target=work, daemon=True).start()
        while True:
            length = 0
            while True:
                line = sys.stdin.buffer.readline()
                if not line:
                    return
                if line == b"\r\n":
                    break
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            message = json.loads(sys.stdin.buffer.read(length))
            if message["method"] == "$/cancel":
                self.cancelled.add(message["params"]["id"])
            else:
                with ready:
                    queue.append(message)
                    ready.notify()


if __name__ == "__main__":
    Engine().serve()
