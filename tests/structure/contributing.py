#!/usr/bin/env python3
"""Fails when a page of docs/contributing names other files than its example really has.

    contributing.py ROOT          checks the pages against ROOT
    contributing.py --self-check  plants wrong pages and sees that each is found

Each page of PAGES tells which files an addition touches, in a fixed form:

    Example: `swiglu`, found by the words `[sS]wiglu`. It needs 5 files.

    | file | what to write | needed |
    |---|---|---|
    | `kernels/ops/swiglu.cpp` | the operator | always |

`needed` is `always`, `optional` or `uses it` (tests and samples that happen to use the example). The words are a regular expression.
The test demands that each file exists and holds the words, that no other source of the repository holds them, and that as many
files are needed as the page says.
"""

import pathlib
import re
import sys
import tempfile

PAGES = ("rule", "pass", "operator", "format", "panel", "command")
FOLDERS = ("app", "cmake", "core", "docs/json", "docs/reference", "kernels", "matcher", "resources", "samples", "tests", "views")
SUFFIXES = {".case", ".cases", ".cmake", ".cpp", ".cu", ".cuh", ".graft", ".h", ".in", ".json", ".md", ".py", ".qrc", ".txt", ".xml"}
EXAMPLE = re.compile(r"^Example: `([^`]+)`, found by\s+the\s+words\s+`([^`]+)`\.\s+It\s+needs\s+(\d+)\s+files?\.", re.MULTILINE)
ROW = re.compile(r"^\| `([^`]+)` \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
HEADER = "| file | what to write | needed |\n|---|---|---|\n"
NEEDED = ("always", "optional", "uses it")


def sources(root):
    """Path and text of each source. Transcripts and corpora of fuzzing are recorded, not written."""
    found = {}
    for folder in FOLDERS:
        for path in (root / folder).rglob("*"):
            name = path.relative_to(root).as_posix()
            recorded = "/corpus/" in name or "/transcripts/" in name or name == "tests/structure/contributing.py"
            if path.suffix in SUFFIXES and not recorded and path.is_file():
                found[name] = path.read_text(errors="replace")
    return found


def complaints(page, text, known):
    example = EXAMPLE.search(text)
    if not example:
        yield f"{page}: no line `Example: …, found by the words …. It needs N files.`"
        return
    name, words, count = example.groups()
    if text.count(HEADER) != 1:
        yield f"{page}: not one table with the header {HEADER.splitlines()[0]}"
        return
    table = text.split(HEADER)[1].split("\n\n")[0]
    rows = ROW.findall(table)
    if len(rows) != len(table.strip().splitlines()):
        yield f"{page}: a row of the table is none: | `file` | what | needed |"
    needed = [n for _, _, n in rows]
    if set(needed) - set(NEEDED):
        yield f"{page}: the last column says one of {', '.join(NEEDED)}"
    if needed.count("always") != int(count):
        yield f"{page}: {needed.count('always')} files are needed always, the page says {count}"
    files = [file for file, _, _ in rows]
    for file in sorted({file for file in files if files.count(file) > 1}):
        yield f"{page}: `{file}` stands there twice"
    for file in files:
        if file not in known:
            yield f"{page}: there is no `{file}`"
        elif not re.search(words, known[file]):
            yield f"{page}: `{file}` has nothing of {name}"
    for file, content in sorted(known.items()):
        if file not in files and re.search(words, content):
            yield f"{page}: `{file}` has something of {name}, and the page does not name it"


def scan(root):
    known, found = sources(root), []
    for page in PAGES:
        path = root / f"docs/contributing/{page}.md"
        found += complaints(f"{page}.md", path.read_text(), known) if path.exists() else [f"{page}.md: there is no such page"]
    return found


def self_check():
    page = (
        "# Adding\n\nExample: `swiglu`, found by the words `[sS]wiglu`. It needs 1 file.\n\n"
        + HEADER
        + "| `kernels/a.cpp` | the operator | always |\n| `tests/a.py` | its test | optional |\n\nSteps.\n"
    )
    known = {"kernels/a.cpp": "x swiglu", "tests/a.py": "Swiglu", "core/b.cpp": "nothing"}
    assert list(complaints("p", page, known)) == []
    for old, new in [
        ("It needs 1 file.", "It needs 2 files."),
        ("Example: ", "An example: "),
        ("| file | what", "| path | what"),
        ("| optional |", "| perhaps |"),
        ("| `tests/a.py` | its test | optional |", "| tests/a.py | its test | optional |"),
        ("`tests/a.py`", "`tests/no.py`"),
        ("`tests/a.py` | its test | optional |\n", "`tests/a.py` | its test | optional |\n| `core/b.cpp` | nothing | optional |\n"),
        ("| `tests/a.py` | its test | optional |\n", ""),
        ("| `tests/a.py` |", "| `kernels/a.cpp` |"),
    ]:
        assert old in page and list(complaints("p", page.replace(old, new, 1), known)), f"not found: {new}"
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "docs/contributing").mkdir(parents=True)
        assert len(scan(root)) == len(PAGES)
    print("10 wrong pages planted, each found")


def main():
    if sys.argv[1:] == ["--self-check"]:
        return self_check()
    found = scan(pathlib.Path(sys.argv[1]))
    print("\n".join(found + [f"{len(PAGES)} pages, {len(found)} complaints"]))
    sys.exit(bool(found))


main()
