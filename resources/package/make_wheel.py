#!/usr/bin/env python3
"""Makes the wheel from a build that exists, as `./dev wheel` does:

    make_wheel.py OUT [--build FOLDER]

scikit-build-core packs the installed tree (pyproject.toml), and auditwheel adds the libraries that are neither PyTorch's nor CUDA's, and
tags the wheel with the glibc that it needs. Prints the path of the wheel.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
# PyTorch brings these along, or the driver does.
FOREIGN = ("libtorch*", "libc10*", "libcu*", "libnv*")


def make(out, build):
    tools = os.environ | {"PATH": os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")])}
    with tempfile.TemporaryDirectory(prefix="graft-wheel-") as folder:
        run = lambda *words: subprocess.run([sys.executable, "-m", *map(str, words)], check=True, env=tools, stdout=sys.stderr)  # noqa: E731
        run("pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", f"{folder}/plain",
            f"--config-settings=build-dir={folder}/work", f"--config-settings=cmake.define.GRAFT_BUILD={build}",
            "--config-settings=cmake.define.GRAFT_IS_BUILT=ON", ROOT)
        plain = next(pathlib.Path(folder, "plain").glob("*.whl"))
        excluded = [word for name in FOREIGN for word in ("--exclude", name)]
        run("auditwheel", "repair", *excluded, "--wheel-dir", f"{folder}/repaired", plain)
        made = next(pathlib.Path(folder, "repaired").glob("*.whl"))
        pathlib.Path(out).mkdir(parents=True, exist_ok=True)
        target = pathlib.Path(out) / made.name
        part = target.with_suffix(".part")
        part.write_bytes(made.read_bytes())
        part.replace(target)
    return target


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--build", default=ROOT / "build", type=pathlib.Path)
    arguments = parser.parse_args()
    try:
        print(make(arguments.out, arguments.build.resolve()))
    except subprocess.CalledProcessError as e:
        sys.exit(f"make_wheel: {' '.join(e.cmd[:4])} failed; see above")


if __name__ == "__main__":
    main()
