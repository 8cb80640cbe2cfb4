#!/usr/bin/env python3
"""clang-tidy, with the flags that the build uses, on some of the sources.

    lint.py BUILD                     on the sources that are free of LibTorch
    lint.py BUILD --changed [BASE]    on sources that changed since BASE (default: since main's last common commit), LibTorch or not
    lint.py BUILD --all               on every source; with LibTorch's headers each takes up to a minute
    lint.py BUILD --only views        on the sources below one folder that are free of LibTorch
    lint.py BUILD --seconds 240       starts no source after so long; those that changed last come first (CI runs this)

Prints each finding and ends with 1 where there is one, with 77 (skipped) where clang-tidy is missing. .clang-tidy lists the checks.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time

SOURCES = ("app", "core", "kernels", "matcher", "views")
# Folders whose sources see LibTorch's headers.
WITH_LIBTORCH = ("app/engine", "app/workbench", "core/torch", "core/formats", "kernels", "matcher/lang")
# Options of g++ that clang does not know.
UNKNOWN = re.compile(r"-Wno-(array-bounds|stringop-overflow|maybe-uninitialized)$|-fno-math-errno|-fuse-ld=.*|-fmacro-prefix-map=.*")


def git(root, *arguments):
    found = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True)
    return found.stdout.splitlines() if found.returncode == 0 else []


def commands(build):
    """The compiler's arguments by source, as paths. Of sources that are compiled together (GRAFT_UNITY) each has those of all."""
    out = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        words = shlex.split(entry["command"]) if "command" in entry else entry["arguments"]
        path = pathlib.Path(entry["file"])
        arguments, skip = [], False
        for word in words[1:]:
            if skip:
                skip = False
            elif word in ("-o", "-c", "-MF", "-MT", "-include"):  # -include: a precompiled header of g++'s
                skip = word != "-c"
            elif word != str(path) and not word.startswith("-M") and not word.endswith("/c++") and not UNKNOWN.match(word):
                arguments.append(word)
        arguments = [a for a in arguments if not a.endswith(("ccache", "/g++", "/c++"))]
        members = [path]
        if "/Unity/" in path.as_posix() and path.exists():
            members = [pathlib.Path(m) for m in re.findall(r'#include "([^"]+)"', path.read_text())]
        for member in members:
            out.setdefault(member.resolve(), arguments)
    return out


def chosen(root, options):
    if options.changed is not None:
        base = options.changed or (git(root, "merge-base", "HEAD", "origin/main") or git(root, "merge-base", "HEAD", "main") or ["HEAD"])[0]
        names = set(git(root, "diff", "--name-only", "--diff-filter=d", base, "--", "*.cpp")) | set(git(root, "ls-files", "-o", "--exclude-standard", "*.cpp"))
    else:
        names = set(git(root, "ls-files", "*.cpp")) or {p.relative_to(root).as_posix() for f in SOURCES for p in (root / f).rglob("*.cpp")}
    names = {n for n in names if n.startswith(tuple(f"{f}/" for f in SOURCES))}
    if options.only:
        names = {n for n in names if n.startswith(options.only.rstrip("/") + "/")}
    if not options.all and options.changed is None:
        names = {n for n in names if not n.startswith(tuple(f"{f}/" for f in WITH_LIBTORCH))}
    return sorted(names)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--changed", nargs="?", const="", metavar="BASE")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", metavar="FOLDER")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    tidy = shutil.which("clang-tidy")
    if not tidy:
        print("clang-tidy is not installed: nothing was checked")
        return 77
    root = pathlib.Path(__file__).resolve().parents[2]
    flags = commands(options.build)
    names = chosen(root, options)
    unbuilt = [n for n in names if (root / n).resolve() not in flags]
    names = [n for n in names if n not in unbuilt]
    if options.seconds != float("inf"):
        changed = {}
        for path in git(root, "log", "-n", "300", "--format=", "--name-only"):
            changed.setdefault(path, len(changed))
        names.sort(key=lambda n: changed.get(n, len(changed)))
    started = time.monotonic()

    def check(name):
        if time.monotonic() - started > options.seconds:
            return name, None, ""
        arguments = flags[(root / name).resolve()]
        run = subprocess.run([tidy, "--quiet", "--warnings-as-errors=*", str(root / name), "--", *arguments], capture_output=True, text=True, cwd=options.build)
        return name, run.returncode, run.stdout + "".join(l + "\n" for l in run.stderr.splitlines() if "warnings generated" not in l and "warning generated" not in l and "treated as error" not in l)

    failed = left = 0
    with concurrent.futures.ThreadPoolExecutor(max(1, options.jobs)) as pool:
        for name, code, text in pool.map(check, names):
            left += code is None
            if code:
                failed += 1
                print(f"{name}:\n{text}", flush=True)
    # What this build leaves out, a window without Qt for one, has no flags.
    note = f", {len(unbuilt)} not part of this build" if unbuilt else ""
    note += f"; {left} are left for ./dev lint --all" if left else ""
    print(f"{len(names) - left} sources, {failed} with findings{note}")
    return 1 if failed or not names else 0


if __name__ == "__main__":
    sys.exit(main())
