#!/usr/bin/env python3
"""Fails when a page points to what does not exist, or when its prose is too wide.

    links.py ROOT          checks README.md, docs/ and samples/ of ROOT
    links.py --self-check  plants wrong pages and sees that each is found

Needs nothing but Python. It checks that

- the target of each relative link exists, and its #anchor is a heading of that page;
- each path in backticks that begins with a folder of the repository exists (`core/ir/graph.h`, `kernels/ops`, `tests/gpu/*.py`);
- each page of docs/ can be reached by links from README.md;
- prose wraps at 100 columns. Tables, code and what cannot be broken (one long word) may be wider.
"""

import pathlib
import re
import sys
import tempfile

WIDTH = 100
FOLDERS = ("app", "cmake", "core", "docs", "kernels", "matcher", "resources", "samples", "tests", "views")
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)|^\[[^\]]+\]: (\S+)$", re.MULTILINE)
CODE = re.compile(r"`([^`]+)`")
PATH = re.compile(r"(?:%s)(?:/[\w.*+-]+)+/?" % "|".join(FOLDERS))
ITEM = re.compile(r"\s*(?:[-*]|\d+\.) ")


def slug(heading):
    """The anchor of a heading, as GitHub makes it."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.strip().strip("#").strip()).replace("`", "")
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


def prose(text):
    """(line number, line) of what is neither fenced nor indented code."""
    fenced = in_list = False
    before = ""
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
            continue
        if fenced:
            continue
        if ITEM.match(line):
            in_list = True
        elif line.strip() and not line.startswith(" "):
            in_list = False
        indented_code = line.startswith("    ") and not in_list and (not before.strip() or before.startswith("    "))
        before = line
        if not indented_code:
            yield number, line


def anchors(text):
    return {slug(line) for _, line in prose(text) if line.startswith("#")}


def exists(root, path):
    return any(root.glob(path.rstrip("/"))) if "*" in path else (root / path).exists()


def complaints(root, page, links):
    """Messages about one page. The pages that it links to are added to `links`."""
    text = (root / page).read_text()
    lines = list(prose(text))
    joined = "\n".join(line for _, line in lines)
    for match in LINK.finditer(CODE.sub(lambda m: m[0].replace("(", " "), joined)):
        target = match[1] or match[2]
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        path = (root / page).parent / file if file else root / page
        if not path.exists():
            yield f"{page}: there is no {target}"
            continue
        if path.suffix == ".md" or path.is_dir():
            path = path / "README.md" if path.is_dir() else path
            if path.exists():
                links.add(path.resolve())
        if anchor and anchor not in anchors(path.read_text()):
            yield f"{page}: {target}: no heading of that page"
    for number, line in lines:
        for span in CODE.findall(line):
            if PATH.fullmatch(span) and not exists(root, span):
                yield f"{page}:{number}: there is no `{span}`"
        wide = len(line) > WIDTH and not line.lstrip().startswith("|")
        if wide and len(ITEM.sub("", line, count=1).split()) > 1 and not re.match(r"!\[.*\)$|\[[^\]]+\]: ", line):
            yield f"{page}:{number}: {len(line)} columns; prose wraps at {WIDTH}"


def scan(root):
    root = root.resolve()
    pages = [root / "README.md", *(root / "docs").rglob("*.md"), *(root / "samples").rglob("*.md")]
    pages = sorted(p.relative_to(root).as_posix() for p in pages)
    found, linked = [], {}
    for page in pages:
        linked[(root / page).resolve()] = links = set()
        found += complaints(root, page, links)
    reached, todo = set(), [(root / "README.md").resolve()]
    while todo:
        page = todo.pop()
        if page not in reached:
            reached.add(page)
            todo += linked.get(page, ())
    found += [f"{p}: no page leads here from README.md" for p in pages if p.startswith("docs/") and (root / p).resolve() not in reached]
    return pages, found


def self_check():
    good = {
        "README.md": "# A\n\n[page](docs/a.md#two-words), [folder](docs), `core/x.h`, `core/*.h`, `build/y`.\n\n    " + "code " * 30 + "\n",
        "docs/README.md": "# Index\n\n[a](a.md), [up](../README.md#a), [out](https://example.org/x)\n",
        "docs/a.md": "# A\n\n## `Two` words\n\n- an item\n\n      code in an item\n\n| " + "wide " * 30 + "|\n\n```sh\n" + "code " * 30 + "\n```\n",
        "samples/s/README.md": "# Sample\n",
        "core/x.h": "",
    }
    wrong = {
        "README.md": ["[x](docs/no.md)", "[x](docs/a.md#three)", "`core/no.h`", "`core/no*.h`", "word " * 21],
        "docs/a.md": ["[x][y]\n\n[y]: no.md", "![p](no.png)", "- " + "word " * 20],
    }

    def check(files):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return scan(pathlib.Path(folder))[1]

    assert check(good) == [], check(good)
    for page, additions in wrong.items():
        for addition in additions:
            found = check(good | {page: good[page] + "\n" + addition + "\n"})
            assert len(found) == 1, f"{addition}: {found}"
    assert len(check(good | {"docs/lost.md": "# Lost\n"})) == 1
    print(f"{sum(map(len, wrong.values())) + 1} wrong pages planted, each found")


def main():
    if sys.argv[1:] == ["--self-check"]:
        return self_check()
    pages, found = scan(pathlib.Path(sys.argv[1]))
    print("\n".join(found + [f"{len(pages)} pages, {len(found)} complaints"]))
    sys.exit(bool(found))


main()
