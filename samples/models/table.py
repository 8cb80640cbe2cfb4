#!/usr/bin/env python3
"""Makes the table of docs/reference/models.md: what Graft does with each sample model, through each format that PyTorch can write.

    table.py [--build build] [--keep] [-o docs/reference/models.md]

For each model and format: how many nodes are read, whether the executor's outputs are PyTorch's (bitwise, or the largest
difference), whether the model written out as TorchScript and read again is the same graph, as canonical text, and how often each
shipped rule of the model's family matches.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
FORMATS = {"torchscript": "{}.pt", "pt2": "{}.pt2", "decomposed": "decomposed/{}.pt2", "fx": "{}.fx"}
FAMILIES = {"decoders": ("gpt2", "llama", "t5", "qwen2", "gpt2_sdpa", "llama_sdpa"), "conv": ("resnet", "mobilenet", "efficientnet", "conv_bn_relu")}

class Failed(Exception):
    pass


def graft(program, *arguments):
    run = subprocess.run([str(program), *map(str, arguments)], capture_output=True, text=True, timeout=300)
    if run.returncode:
        raise Failed(((run.stderr.strip() or run.stdout.strip()).splitlines() or [f"exit code {run.returncode}"])[0])
    return run.stdout


def nodes(program, path, inputs, expected):
    return str(json.loads(graft(program, "info", path, "--json"))["nodes"])


def rules(program, path, inputs, expected):
    family = next((f for f, names in FAMILIES.items() if path.stem in names), "transformer")
    report = json.loads(graft(program, "match", path, "--rules", ROOT / f"resources/rules/{family}.py", "--inputs", inputs, "--json"))["models"][0]
    return ", ".join(f"{r['name']} {r['matches']}" for r in report["rules"] if r["matches"]) or "–"


def equal(program, path, inputs, expected):
    report = json.loads(graft(program, "run", path, "--inputs", inputs, "--expect", expected, "--json"))
    worst = max(output["maxAbs"] for output in report["differences"])
    return "bitwise" if worst == 0 else f"≤ {worst:.1e}"


def again(program, path, inputs, expected):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder, "out.pt")
        graft(program, "convert", path, "-o", out)
        return "yes" if graft(program, "text", out) == graft(program, "text", path) else "differs"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--keep", action="store_true", help="take the exported models as they are in BUILD/samples/models")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=ROOT / "docs/reference/models.md")
    arguments = parser.parse_args()
    program, folder = arguments.build / "bin/graft", arguments.build / "samples/models"
    build = ROOT / "samples/models/build.py"
    listed = subprocess.run([sys.executable, build, "--list"], capture_output=True, text=True, check=True).stdout
    models = [line.split(maxsplit=1) for line in listed.splitlines()]
    if not arguments.keep:
        subprocess.run([sys.executable, build, "all", *(f"--format={form}" for form in FORMATS), "-o", folder], stdout=subprocess.DEVNULL)

    failures = []
    lines = ["# Sample models", "",
             "`./dev models` makes this page. For each model and format, it does this:", "",
             "1. `samples/models/build.py` builds the model with seeded random weights, and PyTorch exports it.",
             "   *Decomposed* is torch.export after `run_decompositions`.",
             "2. Graft reads the file (*nodes*), and its executor runs the model on the CPU. *Outputs* compares",
             "   with PyTorch's own.",
             "3. *Again* says whether writing the model as TorchScript and reading that gives the same graph.",
             "4. *Rules* says how often each shipped rule for its family finds something.", "",
             "Decomposed programs have no dropout, so a rule such as LinearAdd may find more there. What it finds",
             "in the exported model it finds there too.", ""]
    lines += ["| model | format | nodes | outputs | again | rules |", "|---|---|---|---|---|---|"]
    for name, what in models:
        for form, suffix in FORMATS.items():
            path = folder / suffix.format(name)
            if not path.exists():
                continue
            cells = []
            for look in (nodes, equal, again, rules):
                try:
                    cells.append(look(program, path, folder / f"{name}_inputs.pt", folder / f"{name}_expected.pt"))
                except Failed as failure:
                    cells.append("no")
                    failures.append(f"- {name}, {form}: {failure}")
            lines.append(f"| {what} | {form} | {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    if failures:
        lines += ["", "What fails, in the program's words:", "", *failures]
    arguments.output.write_text("\n".join(lines) + "\n")
    print(f"{arguments.output}: {len(failures)} failures")


if __name__ == "__main__":
    main()
