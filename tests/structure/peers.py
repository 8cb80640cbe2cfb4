#!/usr/bin/env python3
"""Fails when docs/internals/peers.md claims what no test shows.

    peers.py ROOT          checks ROOT/docs/internals/peers.md against ROOT/tests
    peers.py --self-check  plants wrong rows and sees that each is found

A row that says `same` or `better` names cases: "`file`: case" of tests/matcher/cases, or "`tests/resources/rules/X.cases`: rule NAME"; one
that is `better` or `not applicable` says why. A case that was written for another suite shows nothing of this one. Each test of a suite stands in it once, and the counts are right.
"""

import pathlib
import re
import sys

ROW = re.compile(r"^\| `([^`]+)` \| ([^|]+) \| (.*) \|$")
VERDICTS = ("same", "better", "not applicable")
# Whose cases a suite's rows may name, besides those that are about no peer: files that begin so.
OWN = {
    "PyTorch": ("peers_fx", "peers_jit", "peers_inductor"),
    "Slapo": ("peers_slapo",),
    "onnxscript": ("peers_onnx",),
    "XLA": ("peers_xla",),
    "TVM": ("peers_tvm",),
}


def shown_by(root):
    """What rows may name: (file, case) for each case that exists."""
    known = set()
    for path in (root / "tests/matcher/cases").glob("*.case"):
        known |= {(path.stem, line[5:].strip()) for line in path.read_text().splitlines() if line.startswith("case ")}
    for path in (root / "tests/resources/rules").glob("*.cases"):
        name = str(path.relative_to(root))
        known |= {(name, line.strip()) for line in path.read_text().splitlines() if line.startswith("rule ")}
    return known


def complaints(text, known):
    found, counts, suite, names, stated = [], dict.fromkeys(VERDICTS, 0), "", [], None
    for line in text.splitlines() + ["## "]:
        if line.startswith("## "):
            if stated is not None and stated != len(names):
                found.append(f"{suite}: {len(names)} rows, the text says {stated}")
            found += [f"{suite}: `{n}` stands there twice" for n in sorted({n for n in names if names.count(n) > 1})]
            suite, names, stated = line[3:], [], None
        elif suite and re.match(r"^\d+ tests of ", line):
            stated = int(line.split()[0])
        elif line.startswith("| `"):
            row = ROW.match(line)
            if not row or row[2] not in VERDICTS:
                found.append(f"{suite}: not a row: {line}")
                continue
            test, verdict, rest = row.groups()
            names.append(test)
            counts[verdict] += 1
            cases, _, why = rest.rpartition(" – ") if verdict == "better" else (rest, "", rest)
            if verdict != "same" and len(why.split()) < 4:
                found.append(f"{suite}: `{test}` does not say why")
            if verdict == "not applicable":
                continue
            for reference in cases.split("; `"):
                file, _, case = reference.strip("`").partition("`: ")
                if (file, case.strip()) not in known:
                    found.append(f"{suite}: `{test}` names a case that is not there: {file}: {case}")
                if file.startswith("peers_") and not file.startswith(OWN.get(suite.split(":")[0], "peers_")):
                    found.append(f"{suite}: `{test}` names a case of another suite: {file}: {case}")
    total = re.search(r"Of (\d+) tests (\d+) are the same here, (\d+) better, (\d+) not applicable", text)
    if not total or [int(n) for n in total.groups()] != [sum(counts.values()), *counts.values()]:
        found.append(f"the sums are {sum(counts.values())}, {counts}")
    return found


def self_check():
    good = (
        "Of 2 tests 1 are the same here, 0 better, 1 not applicable.\n\n## Suite\n\n2 tests of `x`.\n\n"
        "| `a` | same | `file`: one; `file`: two |\n| `b` | not applicable | there is no such thing |\n"
    )
    known = {("file", "one"), ("file", "two")}
    assert complaints(good, known) == [], complaints(good, known)
    for old, new in [
        ("`file`: two", "`file`: three"),
        ("2 tests of", "3 tests of"),
        ("`b`", "`a`"),
        ("there is no such thing", "no"),
        ("| same |", "| similar |"),
        ("Of 2 tests 1", "Of 2 tests 2"),
    ]:
        assert complaints(good.replace(old, new, 1), known), f"not found: {new}"
    foreign = good.replace("## Suite", "## TVM: tests").replace("`file`: two", "`peers_xla`: two")
    assert any("another suite" in c for c in complaints(foreign, known | {("peers_xla", "two")}))
    assert not complaints(foreign.replace("peers_xla", "peers_tvm"), known | {("peers_tvm", "two")})


def main():
    if sys.argv[1] == "--self-check":
        self_check()
        return 0
    root = pathlib.Path(sys.argv[1])
    found = complaints((root / "docs/internals/peers.md").read_text(), shown_by(root))
    print("\n".join(found))
    return 1 if found else 0


sys.exit(main())
