#!/usr/bin/env python3
"""Writes a software bill of materials (CycloneDX 1.5, JSON) of what a build links into Graft's programs and libraries:

    sbom.py BUILD OUT.json

What is found is what CMake found: the package of each library, by dpkg, with its version and the licences that the package states.
auditwheel writes another one for the shared libraries that it adds to a wheel. PyTorch and CUDA are not part of Graft.
"""

import json
import pathlib
import re
import subprocess
import sys

# What is linked or compiled in: a variable of CMake's cache that holds a file or folder of the package.
PARTS = {"CLI11_DIR": "CLI11", "fmt_DIR": "fmt", "nlohmann_json_DIR": "nlohmann-json", "GRAFT_RE2": "RE2", "GRAFT_ZLIB": "zlib",
         "GRAFT_GVC": "Graphviz", "GRAFT_LLVM_CONFIG": "LLVM", "Qt6_DIR": "Qt", "GRAFT_QSCINTILLA": "QScintilla"}


def cache(build):
    text = (pathlib.Path(build) / "CMakeCache.txt").read_text()
    return dict(re.findall(r"(?m)^(\w+):\w+=(.*)$", text))


def version(build):
    return re.search(r"(?m)^CMAKE_PROJECT_VERSION:\w+=(.*)$", (pathlib.Path(build) / "CMakeCache.txt").read_text())[1]


def qt_plugins(build):
    """The folder of the plugins of the Qt that the window links: Debian's place, or that of Qt's installer."""
    qt = pathlib.Path(cache(build)["Qt6_DIR"])
    return next(f.resolve() for f in (qt / "../../qt6/plugins", qt / "../../../plugins") if (f / "platforms").is_dir())


def package_of(path):
    """The Debian package that a file belongs to, and its version."""
    for candidate in (pathlib.Path(path).resolve(), pathlib.Path(path)):
        found = subprocess.run(["dpkg", "-S", candidate], capture_output=True, text=True).stdout
        if found:
            name = found.split(":")[0].split(",")[0]
            said = subprocess.run(["dpkg-query", "-W", "-f=${Version}", name], capture_output=True, text=True).stdout
            return name, said
    return None, None


def licences(package):
    """As the package's machine-readable copyright file names them."""
    path = pathlib.Path("/usr/share/doc") / package / "copyright"
    text = path.read_text(errors="replace") if path.exists() else ""
    return sorted({name.strip() for name in re.findall(r"(?m)^License:[ \t]*(\S[^\n]*)$", text)})


def component(name, path):
    package, number = package_of(path)
    if package is None:
        return {"type": "library", "name": name, "version": "unknown", "properties": [{"name": "graft:path", "value": str(path)}]}
    out = {"type": "library", "name": name, "version": number, "purl": f"pkg:deb/debian/{package}@{number.replace('+', '%2B')}"}
    if found := licences(package):
        out["licenses"] = [{"license": {"name": one}} for one in found]
    return out


def document(build):
    known = cache(build)
    parts = [component(name, known[variable]) for variable, name in PARTS.items()
             if known.get(variable) and not known[variable].endswith("NOTFOUND") and pathlib.Path(known[variable]).exists()]
    return {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
            "metadata": {"component": {"type": "application", "name": "graft", "version": version(build),
                                       "licenses": [{"license": {"id": "Apache-2.0"}}]}},
            "components": parts}


if __name__ == "__main__":
    pathlib.Path(sys.argv[2]).write_text(json.dumps(document(sys.argv[1]), indent=1) + "\n")
