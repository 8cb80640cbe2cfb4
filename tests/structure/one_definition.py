#!/usr/bin/env python3
"""Fails when two headers define a type of the same name in the same namespace, or when the sources of a library that is compiled a
dozen at a time (GRAFT_UNITY) use one name in their anonymous namespaces for different things.

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
# In an anonymous namespace: a type, another name, a constant, or a function, whose parameters are part of what it is.
HIDDEN = re.compile(
    r"^(?:struct|class|enum class|enum|union) (?P<type>\w+)(?: final)?(?: : [^;]*)?\s*\{"
    r"|^using (?P<alias>\w+) = (?P<meaning>.*);"
    r"|^(?:static )?(?:constexpr|const) [^()=]*?\b(?P<constant>\w+)(?:\[\w*\])?\s*(?:=|\{|$)"
    r"|^(?!namespace|return| )[\w:<>,&*\[\] ]+ [*&]?(?P<function>\w+)(?P<parameters>\([^{;]*\)) \{"
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


def hidden(text):
    """(name, meaning) of what a source's anonymous namespaces hold; parameters count by their types alone."""
    inside = False
    for line in text.splitlines():
        if line.startswith("namespace"):
            inside = line.startswith("namespace {")
        elif line.startswith("}  // namespace"):
            inside = False
        elif inside and (found := HIDDEN.match(line)):
            if found["alias"]:
                yield found["alias"], "using " + found["meaning"]
            elif found["function"]:
                types = [re.sub(r"( = .*)?$", "", p).rsplit(" ", 1)[0] for p in found["parameters"][1:-1].split(", ")]
                yield f"{found['function']}({', '.join(types)})", None
            else:
                yield found["type"] or found["constant"], None


def library(path):
    """The library whose sources are compiled together with this one, or the source itself where none are."""
    parts = path.split("/")
    if parts[0] == "kernels":
        return path
    if parts[0] in ("core", "app") or parts[1] in ("lang", "layout", "drawing", "picture"):
        return "/".join(parts[:2])
    return parts[0]


def hidden_clashes(sources):
    """(name, paths) for each name that several sources of a library use for different things. An alias may be repeated."""
    places = collections.defaultdict(dict)
    for path, text in sources.items():
        for name, meaning in hidden(text):
            places[library(path), name][path] = meaning or path
    return [(name, list(paths)) for (_, name), paths in sorted(places.items()) if len(set(paths.values())) > 1]


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
        kind = "namespace graft {\nnamespace {\nusing Kind = Type::Kind;\nint f(const A& a, int b) {\n}\n}  // namespace\n}\n"
        other = kind.replace("Type::", "Syntax::").replace("a, int b", "x, long y")
        same = kind.replace("Kind", "Sort").replace("& a, int b", "& x, int y")
        hides = hidden_clashes({"core/ir/a.cpp": kind, "core/ir/b.cpp": other}) == [("Kind", ["core/ir/a.cpp", "core/ir/b.cpp"])]
        hides &= hidden_clashes({"matcher/a.cpp": kind, "matcher/passes/b.cpp": same}) == [
            ("f(const A&, int)", ["matcher/a.cpp", "matcher/passes/b.cpp"])]
        hides &= not hidden_clashes({"core/ir/a.cpp": kind, "core/text/b.cpp": other, "matcher/lang/c.cpp": kind})
        print(f"hidden clashes are {'found' if hides else 'MISSED'}")
        sys.exit(not (found and right and hides))
    root = pathlib.Path(sys.argv[1])
    headers = {p.relative_to(root).as_posix(): p.read_text() for f in FOLDERS for p in sorted((root / f).rglob("*.h"))}
    wrong = clashes(headers)
    for name, paths in wrong:
        print(f"{name} is defined in {' and in '.join(paths)}: rename one", file=sys.stderr)
    sources = {p.relative_to(root).as_posix(): p.read_text() for f in ("app", "core", "matcher", "views") for p in sorted((root / f).rglob("*.cpp"))}
    hides = hidden_clashes(sources)
    for name, paths in hides:
        print(f"{name} stands in the anonymous namespaces of {' and '.join(paths)}: rename one", file=sys.stderr)
    print(f"{len(headers)} headers, {len(wrong)} clashes; {len(sources)} sources, {len(hides)} clashes")
    sys.exit(bool(wrong or hides))


main()
