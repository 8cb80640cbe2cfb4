#!/usr/bin/env python3
"""Makes a release of a build in a folder and tries it, as `./dev release` does:

    release.py OUT [--build FOLDER] [--sign KEY]

OUT gets the wheel, that of the window where it was built, the Debian package, the bill of materials, and SHA256SUMS with a checksum of each. --sign signs that list with this
key of gpg's. Then each is tried: the checksums and the signature, the wheel in a fresh virtual environment (tests/package), the package
unpacked in a folder of its own. CHANGELOG.md must begin with the version.
"""

import argparse
import hashlib
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import make_wheel
import sbom


class Failed(Exception):
    """What is wrong with the release."""


def say(text):
    print(f"release: {text}", file=sys.stderr, flush=True)


def run(*words, **more):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, **more)
    if done.returncode != 0:
        raise Failed(f"{' '.join(map(str, words[:4]))} ended with {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout


def check_version(build):
    """One version: CMake's, which the program prints and the wheel has, is the first of the changelog."""
    version = sbom.version(build)
    newest = re.search(r"(?m)^## (\S+)", (ROOT / "CHANGELOG.md").read_text())[1]
    if newest != version:
        raise Failed(f"CHANGELOG.md begins with {newest}, and the version is {version}")
    if (said := run(build / "bin/graft", "--version").strip()) != f"graft {version}":
        raise Failed(f"the program says {said}, and the version is {version}")
    return version


def make_package(out, build):
    with tempfile.TemporaryDirectory(prefix="graft-deb-") as folder:
        run("cpack", "--config", build / "CPackConfig.cmake", "-B", folder)
        made = next(pathlib.Path(folder).glob("*.deb"))
        target = out / made.name
        target.write_bytes(made.read_bytes())
    return target


def write_checksums(out, files, key):
    lines = [f"{hashlib.sha256(f.read_bytes()).hexdigest()}  {f.name}\n" for f in sorted(files)]
    (out / "SHA256SUMS").write_text("".join(lines))
    if key:
        run("gpg", "--batch", "--yes", "--local-user", key, "--armor", "--detach-sign", out / "SHA256SUMS")


def try_checksums(out, key):
    run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=out)
    if key:
        run("gpg", "--batch", "--verify", out / "SHA256SUMS.asc", out / "SHA256SUMS")


def try_package(package, version):
    """Unpacked beside the system: the program starts with PyTorch's LibTorch, and finds its rules."""
    with tempfile.TemporaryDirectory(prefix="graft-deb-") as folder:
        run("dpkg", "-x", package, folder)
        torch = pathlib.Path(importlib.util.find_spec("torch").origin).parent / "lib"
        variables = {"PATH": "/usr/bin:/bin", "HOME": folder, "GRAFT_TORCH": str(torch)}
        program = pathlib.Path(folder) / "usr/bin/graft"
        if run(program, "--version", env=variables).strip() != f"graft {version}":
            raise Failed(f"{package.name}: another version")
        for rules in (pathlib.Path(folder) / "usr/share/graft/rules").glob("*.py"):
            run(program, "check", rules, env=variables)
        if not (pathlib.Path(folder) / "usr/share/man/man1/graft-apply.1").exists():
            raise Failed(f"{package.name}: no manual pages")


def try_wheels(files, build):
    wheels = {"GRAFT_WHEEL": str(files[0])}
    if files[1].suffix == ".whl":
        wheels["GRAFT_GUI_WHEEL"] = str(files[1])
    run(sys.executable, ROOT / "tests/package/wheel_test.py", build, env=os.environ | wheels)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--build", default=ROOT / "build", type=pathlib.Path)
    parser.add_argument("--sign", metavar="KEY")
    parser.add_argument("--only-made", action="store_true", help="do not try the wheel: its own test does")
    o = parser.parse_args()
    out, build = o.out.resolve(), o.build.resolve()
    out.mkdir(parents=True, exist_ok=True)
    try:
        version = check_version(build)
        for name in ("links", "contributing"):  # the pages that go into the package
            run(sys.executable, ROOT / f"tests/structure/{name}.py", ROOT)
        say("the wheel")
        files = [make_wheel.make(out, build)]
        if (build / "bin/graft-gui").exists():
            say("the wheel of the window")
            files.append(make_wheel.make(out, build, gui=True))
        say("the Debian package")
        package = make_package(out, build)
        files.append(package)
        files.append(out / f"graft-{version}.cdx.json")
        files[-1].write_text(sbom.json.dumps(sbom.document(build), indent=1) + "\n")
        write_checksums(out, files, o.sign)
        say("trying them")
        try_checksums(out, o.sign)
        try_package(package, version)
        if not o.only_made:
            try_wheels(files, build)
    except (Failed, subprocess.CalledProcessError) as e:
        sys.exit(f"release: {e}")
    say(f"{version} lies in {out}")


if __name__ == "__main__":
    main()
