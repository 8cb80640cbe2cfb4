#!/usr/bin/env python3
"""Formats the C++ sources below ROOT with clang-format and the .clang-format at the root.

    format.py [--check] [ROOT]

--check changes nothing, names the files that differ, and exits 1 if there are any. The clang-format beside this Python (the
version of requirements.txt) is preferred: versions disagree with each other. Exits 77 where there is none.
"""

import concurrent.futures
import pathlib
import shutil
import subprocess
import sys

FOLDERS = ("app", "core", "kernels", "matcher", "samples", "tests", "views")
SUFFIXES = {".h", ".hpp", ".cpp", ".cu", ".cuh"}


def main():
    arguments = sys.argv[1:]
    check = "--check" in arguments
    roots = [a for a in arguments if not a.startswith("-")]
    if len(roots) > 1 or set(arguments) - set(roots) - {"--check"}:
        sys.exit(__doc__)
    root = pathlib.Path(roots[0] if roots else ".")
    beside = pathlib.Path(sys.executable).parent / "clang-format"
    tool = str(beside) if beside.exists() else shutil.which("clang-format")
    if not tool:
        print("clang-format is not installed", file=sys.stderr)
        sys.exit(77)
    files = sorted(p for f in FOLDERS for p in (root / f).rglob("*") if p.suffix in SUFFIXES)

    def differing(some):
        """Those of a batch that are not formatted. clang-format takes longer to start than to read a file."""
        run = subprocess.run([tool, "--style=file", "--dry-run", *map(str, some)], capture_output=True, text=True)
        if run.returncode:
            sys.exit(run.stderr)
        named = {line.split(":", 1)[0] for line in run.stderr.splitlines() if "[-Wclang-format-violations]" in line}
        return [path for path in some if str(path) in named]

    with concurrent.futures.ThreadPoolExecutor() as pool:
        differ = [path for some in pool.map(differing, [files[i : i + 50] for i in range(0, len(files), 50)]) for path in some]
    if differ and not check:
        subprocess.run([tool, "--style=file", "-i", *map(str, differ)], check=True)
    for path in differ:
        print(f"{path.relative_to(root)}: {'not formatted; run ./dev format' if check else 'formatted'}")
    print(f"{len(files)} files, {len(differ)} {'differ' if check else 'changed'}")
    sys.exit(bool(differ and check))


main()
