"""The sample with an operator of one's own: the commands of its README, as they are printed, from a folder like the repository's.

    own_operator_test.py BUILD_FOLDER
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import torch

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
SOURCE = pathlib.Path(__file__).resolve().parents[2]
SAMPLE = SOURCE / "samples/own_operator"


GPU_KERNEL = """
import sys, torch
torch.ops.load_library(sys.argv[1])
torch.manual_seed(0)
for dtype, close in ((torch.float32, 1e-4), (torch.float16, 4e-3), (torch.bfloat16, 3e-2)):
    for shape, groups in (((2, 64, 33, 17), 8), ((2, 8, 1, 2), 8), ((3, 12, 5, 7), 3), ((2, 6, 40), 2), ((1, 512, 64, 64), 32), ((0, 8, 4, 4), 4)):
        x = (torch.randn(shape, device="cuda") * 3 + 5).to(dtype)
        w, b = (torch.randn(shape[1], device="cuda").to(dtype) for _ in range(2))
        for y in (x, x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x, x.transpose(0, -1).contiguous().transpose(0, -1)):
            got = torch.ops.own.group_norm_silu(y, groups, w, b, 1e-5)
            if y.is_contiguous() or y.dim() == 4 and y.is_contiguous(memory_format=torch.channels_last):
                want = torch.nn.functional.silu(torch.nn.functional.group_norm(y.double(), groups, w.double(), b.double(), 1e-5))
                torch.testing.assert_close(got.double(), want, rtol=close, atol=close)
            else:  # PyTorch's operators compute it. They round a group's mean to the dtype, so a small variance comes out wrong in float16.
                want = torch.nn.functional.silu(torch.nn.functional.group_norm(y, groups, w, b, 1e-5))
                torch.testing.assert_close(got, want, rtol=0, atol=0)
print("ok")
"""
GPU_MODEL = """
import pathlib, sys, torch
torch.set_grad_enabled(False)
torch.ops.load_library(sys.argv[1])
folder = pathlib.Path(sys.argv[2])
inputs = torch.load(folder / "unet_inputs.pt")
want = torch.jit.load(folder / "unet.pt")(*inputs)
model = torch.jit.load(folder / "fast.pt").to("cuda")
for _ in range(4):
    got = model(*(x.to("cuda", torch.float16 if x.is_floating_point() else x.dtype) for x in inputs))
torch.testing.assert_close(got.float().cpu(), want, rtol=2e-2, atol=2e-2)
"""


def commands(text):
    """The indented lines, those that end in a backslash joined."""
    lines = "\n".join(line for line in text.splitlines() if line.startswith("    "))
    return [" ".join(c.split()) for c in re.sub(r"\\\n", " ", lines).splitlines()]


class Readme(unittest.TestCase):
    @unittest.skipUnless(os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++"), "there is no C++ compiler")
    def test_the_commands_work_as_printed(self):
        with tempfile.TemporaryDirectory() as holder:
            folder = pathlib.Path(holder)
            shutil.copytree(SAMPLE, folder / "samples/own_operator", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
            (folder / "build").mkdir()
            for name in ("bin", "lib"):
                (folder / "build" / name).symlink_to(BUILD / name)
            said = {}
            for command in commands((SAMPLE / "README.md").read_text()):
                words = command.split()
                program = [sys.executable] if words[0] == ".venv/bin/python" else [words[0]]
                run = subprocess.run(program + words[1:], cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                                     env=os.environ | {"GRAFT_PYTHON": sys.executable})
                self.assertEqual(run.returncode, 0, f"{command}\n{run.stdout}{run.stderr}")
                said[command] = run.stdout + run.stderr
            self.assertEqual(len(said), 7)
            apply, = [text for command, text in said.items() if " apply " in command]
            self.assertRegex(apply, r"GroupNormSilu +17 +17 of 17 ")
            self.assertNotIn("not verified", apply)
            info, = [text for command, text in said.items() if " info " in command]
            self.assertIn("lacks own.group_norm_silu.default", info)
            self.assertIn("libown_ops.so", info)
            difference, = [text for command, text in said.items() if "run.py" in command]
            self.assertLess(float(difference.split(":")[1]), 1e-4)

    @unittest.skipUnless(torch.cuda.is_available(), "no GPU")
    def test_the_kernel_and_a_model_with_it_on_a_gpu(self):
        with tempfile.TemporaryDirectory() as holder:
            folder = pathlib.Path(holder) / "samples/own_operator"
            shutil.copytree(SAMPLE, folder, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
            build = subprocess.run([sys.executable, folder / "build.py"], capture_output=True, text=True)
            self.assertEqual(build.returncode, 0, build.stderr)
            if "and CUDA" not in build.stdout:
                self.skipTest("no nvcc")
            self.assertEqual(self.python(GPU_KERNEL, folder / "libown_ops.so"), "ok\n")
            model = pathlib.Path(holder) / "model"
            self.python(folder / "unet.py", "-o", model)
            run = subprocess.run([BUILD / "bin/graft", "apply", model / "unet.pt", "--rules", folder / "rules.py", "--inputs", model / "unet_inputs.pt",
                                  "--device", "cuda", "--dtype", "float16", "-o", model / "fast.pt"], capture_output=True, text=True)
            self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
            self.assertRegex(run.stdout, r"GroupNormSilu +17 +17 of 17 ")
            self.assertNotIn("not verified", run.stdout)
            self.python(GPU_MODEL, folder / "libown_ops.so", model)

    def python(self, what, *arguments):
        """What a script, or lines of Python, print."""
        program = [what] if isinstance(what, pathlib.Path) else ["-c", what]
        run = subprocess.run([sys.executable, *program, *arguments], capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        return run.stdout

    def test_the_operator_in_python_says_what_it_computes(self):
        sys.path.insert(0, str(SAMPLE))
        import own_ops  # noqa: F401
        x, w, b = torch.randn(2, 8, 5, 5), torch.randn(8), torch.randn(8)
        expected = torch.nn.functional.silu(torch.nn.functional.group_norm(x, 4, w, b, 1e-5))
        torch.testing.assert_close(torch.ops.own.group_norm_silu(x, 4, w, b, 1e-5), expected)
        torch.library.opcheck(torch.ops.own.group_norm_silu.default, (x, 4, w, b, 1e-5), test_utils=("test_schema", "test_faketensor"))


unittest.main(verbosity=2)
