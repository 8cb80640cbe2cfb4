#!/usr/bin/env python3
"""Whether a model's own source line matches it: each line of lines.txt as a model of one line, in every format that PyTorch
writes, against a rule whose pattern is that very line.

    lines.py BUILD                        all lines: minutes
    lines.py BUILD --sample 60 --expect   those marked `always` and every so many-th of the others; fails where another line
                                          fails than those marked in lines.txt
    lines.py BUILD --only 'F.pad'         lines that contain this
    lines.py BUILD --docs                 all lines; writes the tables of docs/reference/own-lines.md
    lines.py BUILD --keep FOLDER          the models are made in FOLDER, and not made again where they are there already

`line => other` is also rewritten to the other line, which has to be verified.

A format that PyTorch itself refuses to write a line in is not counted.
"""

import argparse
import ast
import importlib.util
import logging
import os
import pathlib
import re
import sys
import tempfile
import warnings
import zlib

os.environ.setdefault("OMP_NUM_THREADS", "1")
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs/reference/own-lines.md"
sys.path[:0] = [str(ROOT / "tests/support"), str(ROOT / "resources/python")]

import torch  # noqa: E402

import graft_fx  # noqa: E402
from engine_client import Engine  # noqa: E402

FORMATS = {"traced": "{}.traced.pt", "scripted": "{}.scripted.pt", "pt2": "{}.pt2", "fx": "{}.fx"}
DTYPES = {"f32": torch.float32, "f16": torch.float16, "i64": torch.int64, "bool": torch.bool}
IMPORTS = "import math\nimport torch\nimport torch.nn.functional as F\nfrom torch import nn\n"


class Line:
    """One line of lines.txt: its text, the inputs and weights that it names, its submodules, and the formats known not to match."""

    def __init__(self, text, given):
        text, _, notes = text.partition("  # ")
        text, _, self.replacement = (part.strip() for part in text.partition("=>"))
        self.text = text.strip()
        self.name = f"Line_{zlib.crc32(f'{given} {self.text}'.encode()):08x}"  # the same in each run, for --keep
        self.always = notes.startswith("always")
        self.known = {}  # the reason, by format
        for note in notes.split("; "):
            if note.startswith("no "):
                formats, reason = note.removeprefix("no ").split(": ", 1)
                self.known |= {form: reason.strip() for form in (FORMATS if formats == "any" else formats.split(", "))}
        tree = ast.parse(self.text)
        # Renamed before modules are named, which have the names m0, m1, ...
        used = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
        self.given = {name: spec for name, spec in given.items() if name in used}
        self.modules = []
        tree = ast.fix_missing_locations(self.ModuleCalls(self).visit(tree))
        self.statements = [ast.unparse(s) for s in tree.body[:-1]]
        self.result = ast.unparse(tree.body[-1].value)

    class ModuleCalls(ast.NodeTransformer):
        """nn.Linear(3, 4)(x) becomes self.m0(x)."""

        def __init__(self, line):
            self.line = line

        def visit_Call(self, call):
            self.generic_visit(call)
            made = call.func
            if isinstance(made, ast.Call) and ast.unparse(made.func).startswith("nn.") and "functional" not in ast.unparse(made.func):
                self.line.modules.append(ast.unparse(made))
                call.func = ast.parse(f"self.m{len(self.line.modules) - 1}", mode="eval").body
            return call

    @property
    def weights(self):
        return [name for name, spec in self.given.items() if spec.startswith("weight ")]

    @property
    def inputs(self):
        return [name for name in self.given if name not in self.weights]

    def body(self, indent, weights):
        lines = [*(f"{w} = self.{w}" for w in weights), *self.statements, f"return {self.result}"]
        return "".join(f"{' ' * indent}{line}\n" for line in lines)

    def init(self, indent, weights):
        lines = ["super().__init__()", *(f"self.m{i} = {m}" for i, m in enumerate(self.modules)),
                 *(f"self.{w} = nn.Parameter(value({self.given[w].removeprefix('weight ')!r}))" for w in weights)]
        return f"{' ' * (indent - 4)}def __init__(self):\n" + "".join(f"{' ' * indent}{line}\n" for line in lines)

    def model(self):
        return (f"class {self.name}(nn.Module):\n{self.init(8, self.weights)}\n"
                f"    def forward(self, {', '.join(self.inputs)}):\n{self.body(8, self.weights)}\n")

    def rule(self):
        """The rule file's text: the line as the model's author would write it down."""
        parameters = ", ".join([*self.inputs, *(f"{w}: Weight" for w in self.weights)])
        text = f"from graft import *\n{IMPORTS}\n\nclass Own(Rule):\n"
        if not self.modules:
            text += f"    def pattern({parameters}):\n{self.body(8, [])}"
            if self.replacement:
                text += f"\n    def replacement({parameters}):\n        return {self.replacement}\n"
            return text
        return (text + f"    class pattern(nn.Module):\n{self.init(12, [])}\n"
                f"        def forward(self, {parameters}):\n{self.body(12, [])}")

    def values(self):
        return tuple(value(self.given[name]) for name in self.inputs)


def value(spec):
    """A tensor of "f32[2,3]"; the same for the same text."""
    dtype, sizes = re.fullmatch(r"(\w+)\[(.*)\]", spec).groups()
    shape = [int(s) for s in sizes.split(",") if s]
    generator = torch.Generator().manual_seed(sum(spec.encode()))
    if dtype in ("i64", "bool"):
        return torch.randint(0, 2, shape, generator=generator).to(DTYPES[dtype])
    return torch.randn(shape, generator=generator).to(DTYPES[dtype])


def read_lines():
    lines, given = [], {}
    for text in (HERE / "lines.txt").read_text().splitlines():
        if not text.strip() or text.startswith("#"):
            continue
        if text.startswith(" "):
            lines.append(Line(text, given))
        else:
            given = dict(part.strip().split(": ") for part in text.split(";"))
    return lines


def write(line, model, form, path):
    values = line.values()
    if form == "traced":
        torch.jit.trace(model, values, check_trace=False).save(path)
    elif form == "scripted":
        torch.jit.script(model).save(path)
    elif form == "pt2":
        torch.export.save(torch.export.export(model, values), path)
    else:
        # symbolic_trace runs a line without values. Where that fails, or runs part of the line itself and keeps a constant,
        # torch.compile captures it.
        try:
            traced = torch.fx.symbolic_trace(model)
            assert not any(str(n.target).startswith("_tensor_constant") for n in traced.graph.nodes if n.op == "get_attr")
            graft_fx.save(traced, path, values)
        except Exception:
            graft_fx.capture(model, values, path)


def make(lines, folder, forms):
    """Writes the models into the folder; what PyTorch refuses to write leaves an empty file."""
    source = folder / "models.py"
    text = IMPORTS + "from lines import value\n\n\n" + "\n".join(line.model() for line in lines)
    source.write_text(text)
    spec = importlib.util.spec_from_file_location("models", source)
    sys.modules["lines"] = sys.modules[__name__]
    module = sys.modules["models"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for line in lines:
        inputs = folder / f"{line.name}.inputs.pt"
        missing = [form for form in forms if not (folder / FORMATS[form].format(line.name)).exists()]
        if not missing:
            continue
        torch.manual_seed(0)
        model = getattr(module, line.name)().eval()
        torch.save(list(line.values()), inputs)
        with torch.no_grad():
            model(*line.values())  # a line that PyTorch does not run is a mistake of lines.txt
            for form in missing:
                path = folder / FORMATS[form].format(line.name)
                try:
                    write(line, model, form, str(path))
                except Exception as e:
                    path.write_bytes(b"")
                    path.with_suffix(path.suffix + ".refused").write_text(f"{type(e).__name__}: {e}")


def is_verified(verdicts):
    """Of the engine's counts: every rewrite was."""
    return verdicts["verified"] > 0 and not verdicts["rolledBack"] and not verdicts["unverified"]


def check(engine, line, path, inputs):
    """None where the line is found, otherwise why not."""
    opened = engine.ask("model/open", path=str(path), inputs=str(inputs), graph="none")
    if "error" in opened:
        return "opening: " + opened["error"]["message"]
    document = opened["result"]["document"]
    matched = engine.ask("rules/match", document=document, text=line.rule(), file="rule.py")
    why = None
    if "error" in matched:
        why = "rule: " + matched["error"]["message"]
    elif not any(rule["matches"] for rule in matched["result"]["rules"]):
        said = engine.ask("rules/explain", document=document, text=line.rule(), file="rule.py", rule="Own")
        misses = said["result"]["nearMisses"] if "result" in said else [said["error"]]
        why = misses[0]["message"] if misses else "nothing in the graph is like it"
    elif line.replacement:
        applied = engine.ask("rules/apply", document=document, text=line.rule(), file="rule.py", rule="Own")
        if "error" in applied:
            why = "applying: " + applied["error"]["message"]
        elif not applied["result"]["records"] or applied["result"]["rolledBack"]:
            why = f"applying: nothing is rewritten: {applied['result']['refused']} {applied['result']['rolledBack']}"
        elif not is_verified(applied["result"]["verdicts"]):
            why = f"applying: {applied['result']['verdicts']}"
    engine.ask("model/close", document=document)
    return why


def failing_table(lines):
    """What does not match: the reasons that lines.txt gives, with the lines of each and the first of them."""
    reasons = {}
    for line in lines:
        for form, reason in line.known.items():
            reasons.setdefault(reason, {}).setdefault(line.text, []).append(form)
    rows = ["| Why | Lines | Formats | For example |", "|---|---|---|---|"]
    for reason, of in sorted(reasons.items(), key=lambda item: -len(item[1])):
        forms = {form for formats in of.values() for form in formats}
        example = next(iter(of)).replace("|", "\\|")
        rows.append(f"| {reason} | {len(of)} | {', '.join(f for f in FORMATS if f in forms)} | `{example}` |")
    return "\n".join(rows)


def counts_table(lines, found):
    rows = ["| Format | Lines that PyTorch writes | Match | |", "|---|---|---|---|"]
    for form in FORMATS:
        of = [why for (_, written), why in found.items() if written == form]
        good = sum(why is None for why in of)
        rows.append(f"| {form} | {len(of)} | {good} | {100 * good / len(of):.1f} % |")
    good = sum(all(found.get((line, form)) is None for form in FORMATS) for line in lines)
    rows.append(f"| every format | {len(lines)} | {good} | {100 * good / len(lines):.1f} % |")
    return "\n".join(rows)


def between(text, name, content=None):
    """What the page says between the marks of that name; with `content`, the page that says this instead."""
    begin, end = f"<!-- {name} -->\n\n", f"\n\n<!-- end of {name} -->"
    before, rest = text.split(begin)
    now, after = rest.split(end)
    return now if content is None else before + begin + content + end + after


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--sample", type=int, help="about so many lines, spread over the list")
    parser.add_argument("--only", help="lines that contain this text")
    parser.add_argument("--format", choices=FORMATS, action="append")
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--expect", action="store_true", help="fail where other lines fail than those marked")
    parser.add_argument("--docs", action="store_true", help="write the tables of docs/reference/own-lines.md")
    arguments = parser.parse_args()
    every = lines = read_lines()
    if arguments.only:
        lines = [line for line in lines if arguments.only in line.text]
    if arguments.sample:
        step = max(1, len(lines) // arguments.sample)
        lines = [line for i, line in enumerate(lines) if line.always or i % step == 0]
    forms = arguments.format or list(FORMATS)

    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        make(lines, folder, forms)
        engine = Engine([arguments.build / "bin/graft", "engine"])
        found = {}
        for line in lines:
            for form in forms:
                path = folder / FORMATS[form].format(line.name)
                if path.stat().st_size:
                    found[line, form] = check(engine, line, path, folder / f"{line.name}.inputs.pt")
        engine.kill()

    failures = {key: why for key, why in found.items() if why is not None}
    grouped = {}
    for (line, form), why in failures.items():
        grouped.setdefault((line.text, why.strip()), []).append(form)
    for (text, why), which in grouped.items():
        print(f"{text}\n    {'every format' if len(which) == len(forms) else ', '.join(which)}: {why.splitlines()[0]}")
    print(f"\n{'format':9} lines  matched")
    for form in forms:
        all_of = [key for key in found if key[1] == form]
        good = sum(key not in failures for key in all_of)
        print(f"{form:9} {len(all_of):5}  {good:5}  {100 * good / max(1, len(all_of)):.1f} %")
    whole = [line for line in lines if not any((line, form) in failures for form in forms)]
    print(f"{len(whole)} of {len(lines)} lines match in every format: {100 * len(whole) / max(1, len(lines)):.1f} %")
    if arguments.docs:
        text = between(PAGE.read_text(), "counts", counts_table(lines, found))
        PAGE.write_text(between(text, "failing", failing_table(lines)))
    if not arguments.expect:
        return 0
    unexpected = [(line.text, form) for line, form in failures if form not in line.known]
    mended = [(line.text, form) for line, form in found if form in line.known and (line, form) not in failures]
    for text, form in unexpected:
        print(f"this line does not match in {form}: {text}")
    for text, form in mended:
        print(f"this line matches in {form} now; take its mark away: {text}")
    stale = between(PAGE.read_text(), "failing") != failing_table(every)
    if stale:
        print(f"{PAGE.relative_to(ROOT)} has other reasons than lines.txt: ./dev sweep lines --docs writes it")
    return 1 if unexpected or mended or stale else 0


if __name__ == "__main__":
    sys.exit(main())
