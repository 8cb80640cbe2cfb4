#!/usr/bin/env python3
"""Makes the wheel from a build that exists, as `./dev wheel` does:

    make_wheel.py OUT [--build FOLDER] [--gui]

scikit-build-core packs the installed tree (pyproject.toml), and auditwheel adds the libraries that are neither PyTorch's nor CUDA's, and
tags the wheel with the glibc that it needs. --gui makes the wheel of the window instead, with Qt and the licences of all that it brings.
Prints the path of the wheel.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import sbom

# PyTorch brings these along, or the driver does.
FOREIGN = ("libtorch*", "libc10*", "libcu*", "libnv*")
# Parts of the desktop: the driver's, or such as must be one and the same in a process, whoever loads them.
DESKTOP = ("libGL*", "libEGL*", "libOpenGL*", "libX11*", "libxcb.so*", "libwayland-*", "libfontconfig*", "libfreetype*", "libdbus-1*",
           "libsystemd*", "libglib-2.0*")
TEXTS = pathlib.Path("/usr/share/common-licenses")

SOURCES = """The programs in this wheel are Graft's (Apache-2.0). They link QScintilla, which is under the GPL version 3, so the wheel as a
whole is under the GPL version 3. These Debian packages are the origin of the libraries in graft_gui.libs and of the plugins; the file
of each name beside this one has its licence. `apt-get source PACKAGE=VERSION` and https://snapshot.debian.org give their sources.

"""


def run(*words):
    tools = os.environ | {"PATH": os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")])}
    subprocess.run([sys.executable, "-m", *map(str, words)], check=True, env=tools, stdout=sys.stderr)


def pack(project, folder, excluded, **defines):
    """The wheel of a project of scikit-build-core, with the libraries that it needs."""
    run("pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", f"{folder}/plain",
        f"--config-settings=build-dir={folder}/work",
        *(f"--config-settings=cmake.define.{name}={value}" for name, value in defines.items()), project)
    plain = next(pathlib.Path(folder, "plain").glob("*.whl"))
    run("auditwheel", "repair", *(word for name in excluded for word in ("--exclude", name)), "--wheel-dir", f"{folder}/repaired", plain)
    return next(pathlib.Path(folder, "repaired").glob("*.whl"))


def packages_in(wheel_folder):
    """The Debian packages, with their versions, of what auditwheel added, by its own bill of materials."""
    found = {}
    for bill in wheel_folder.glob("*.dist-info/sboms/auditwheel.cdx.json"):
        for part in json.loads(bill.read_text()).get("components", ()):
            if part.get("purl", "").startswith("pkg:deb/"):
                found[part["name"]] = part["version"]
    return found


def add_licences(made, target, plugins):
    """The licence of each package that something in the wheel comes from, and where its source is."""
    from auditwheel.wheeltools import InWheelCtx

    with InWheelCtx(made, target) as context:
        inside = pathlib.Path(context.path)
        packages = packages_in(inside)
        for plugin in plugins.rglob("*.so"):
            name, version = sbom.package_of(plugin)
            packages.setdefault(name, version)
        folder = next(inside.glob("*.dist-info")) / "licenses" / "packages"
        folder.mkdir(parents=True)
        for name in sorted(packages):
            copyright_of = pathlib.Path("/usr/share/doc") / name / "copyright"
            if not copyright_of.exists():
                sys.exit(f"make_wheel: the package {name} states no licence in {copyright_of}")
            shutil.copyfile(copyright_of.resolve(), folder / name)
        (folder / "SOURCES").write_text(SOURCES + "".join(f"{name} {version}\n" for name, version in sorted(packages.items())))


def make(out, build, gui=False):
    with tempfile.TemporaryDirectory(prefix="graft-wheel-") as folder:
        if gui:
            project = pathlib.Path(folder, "project")
            shutil.copytree(ROOT / "resources/package/gui_wheel", project, ignore=shutil.ignore_patterns("__pycache__"))
            (project / "VERSION").write_text(sbom.version(build))
            (project / "LICENSES").mkdir()
            shutil.copyfile(ROOT / "LICENSE", project / "LICENSES/Apache-2.0")
            for name in ("GPL-3", "LGPL-3"):
                shutil.copyfile(TEXTS / name, project / "LICENSES" / name)
            plugins = sbom.qt_plugins(build)
            repaired = pack(project, folder, DESKTOP, GRAFT_BUILD=build, GRAFT_QT_PLUGINS=plugins)
            made = pathlib.Path(folder, repaired.name)
            add_licences(repaired, made, plugins)
        else:
            made = pack(ROOT, folder, FOREIGN, GRAFT_BUILD=build, GRAFT_IS_BUILT="ON")
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
    parser.add_argument("--gui", action="store_true")
    arguments = parser.parse_args()
    try:
        print(make(arguments.out, arguments.build.resolve(), arguments.gui))
    except subprocess.CalledProcessError as e:
        sys.exit(f"make_wheel: {' '.join(e.cmd[:4])} failed; see above")


if __name__ == "__main__":
    main()
