#!/usr/bin/env python3
"""Fails when two headers define a type of the same name in the same namespace.

    one_definition.py ROOT         scans ROOT's headers
    one_definition.py --self-check plants a clash and sees that it is found

The linker merges the inline functions of such types without a word, and a program that links both destroys one as the other.
Needs nothing but Python; reads the layout that clang-format gives (namespaces and types start in the first column).
"""

import collections
import pathlib
import re
import sys

LINE = re.compile(
    r"^(?:namespace (?P<opened>[\w:]*)\s*\{|\}\s*//\s*(?P<closed>namespace\b).*"
    r"|(?:struct|class|enum class|enum|union) (?:\w+\([^)]*\) )?(?P<type>\w+)(?: final)?(?: : [^;]*)?\s*\{)"
)
FOLDERS = ("app", "core", "kernels", "matcher", "views")


def definitions(text):
    """The full names of the types that a header defines."""
    open_namespaces = []
    for line in text.splitlines():
        found = LINE.match(line)
        if not found:
            continue
        if found["opened"] is not None:
            open_namespaces.append(found["opened"])
        elif found["closed"]:
            if open_namespaces:
                open_namespaces.pop()
        elif "" not in open_namespaces:  # an anonymous namespace keeps its types to itself
            yield "::".join([*open_namespaces, found["type"]])


def clashes(headers):
    """(name, paths) for each type that several of `headers`, a mapping of path to text, define."""
    places = collections.defaultdict(list)
    for path, text in headers.items():
        for name in set(definitions(text)):
            places[name].append(path)
    return [(name, paths) for name, paths in sorted(places.items()) if len(paths) > 1]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if sys.argv[1] == "--self-check":
        plan = "namespace graft {\n\nstruct Plan {\n  int a;\n};\n\n}  // namespace graft\n"
        nested = "namespace graft {\nnamespace other {\nclass Plan final : public Base {\n}  // namespace other\n}  // namespace graft\n"
        anonymous = "namespace graft {\nnamespace {\nstruct Plan {\n};\n}  // namespace\n}  // namespace graft\n"
        right = not clashes({"a.h": plan, "b.h": nested, "c.h": anonymous})
        found = clashes({"a.h": plan, "b.h": plan}) == [("graft::Plan", ["a.h", "b.h"])]
        print(f"a planted clash is {'found' if found else 'MISSED'}, other namespaces are {'left alone' if right else 'BLAMED'}")
        sys.exit(not (found and right))
    root = pathlib.Path(sys.argv[1])
    headers = {p.relative_to(root).as_posix(): p.read_text() for f in FOLDERS for p in sorted((root / f).rglob("*.h"))}
    wrong = clashes(headers)
    for name, paths in wrong:
        print(f"{name} is defined in {' and in '.join(paths)}: rename one", file=sys.stderr)
    print(f"{len(headers)} headers, {len(wrong)} clashes")
    sys.exit(bool(wrong))


main()
