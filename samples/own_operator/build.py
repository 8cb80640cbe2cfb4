"""Builds libown_ops.so from group_norm_silu.cpp: a shared library against this Python's PyTorch, which needs no Python to run.

It lies beside this file then, where rules.py looks for it.
"""
import os
import pathlib
import platform
import shutil
import subprocess
import sys

import torch
from torch.utils.cpp_extension import include_paths, library_paths

HERE = pathlib.Path(__file__).resolve().parent


def main():
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
    if not compiler:
        sys.exit("there is no C++ compiler: install g++, or set CXX")
    output = HERE / "libown_ops.so"
    vectors = ["-march=native", "-lmvec"] if platform.machine() == "x86_64" else []
    subprocess.run([compiler, "-O3", "-std=c++17", "-shared", "-fPIC", "-fopenmp-simd", "-fno-math-errno",
                    f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}", *[f"-I{path}" for path in include_paths()],
                    str(HERE / "group_norm_silu.cpp"), "-o", str(output), *[f"-L{path}" for path in library_paths()], "-ltorch_cpu",
                    "-lc10", *vectors], check=True)
    print("built", output)


if __name__ == "__main__":
    main()
