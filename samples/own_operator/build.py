"""Builds libown_ops.so from group_norm_silu.cpp: a shared library against this Python's PyTorch, which needs no Python to run.
Where PyTorch is one for CUDA and nvcc is installed, it holds the CUDA kernel of group_norm_silu.cu, too.

It lies beside this file then, where rules.py looks for it.
"""
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile

import torch
from torch.utils.cpp_extension import include_paths, library_paths

HERE = pathlib.Path(__file__).resolve().parent


def nvcc():
    """The path of CUDA's compiler, or None where it is not installed or this PyTorch is one for CPUs."""
    places = [os.path.join(os.environ.get("CUDA_HOME") or "/usr/local/cuda", "bin")]
    found = shutil.which("nvcc", path=os.pathsep.join(places)) or shutil.which("nvcc")
    return found if torch.version.cuda and found else None


def main():
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
    if not compiler:
        sys.exit("there is no C++ compiler: install g++, or set CXX")
    output = HERE / "libown_ops.so"
    vectors = ["-march=native", "-lmvec"] if platform.machine() == "x86_64" else []
    cuda, holder = nvcc(), tempfile.TemporaryDirectory()
    extra = []
    if cuda:
        root, kernel = pathlib.Path(cuda).resolve().parents[1], pathlib.Path(holder.name) / "kernel.o"
        # Machine code for this machine's GPU; without one, for those from Ampere on.
        target = ["-arch=native"] if torch.cuda.is_available() else ["-gencode=arch=compute_80,code=compute_80"]
        subprocess.run([cuda, "-O3", "-std=c++17", *target, "-Xcompiler=-fPIC", "-c", str(HERE / "group_norm_silu.cu"), "-o", str(kernel)], check=True)
        extra = ["-DOWN_CUDA", f"-I{root / 'include'}", str(kernel), f"-L{root / 'lib64'}", "-ltorch_cuda", "-lc10_cuda", "-lcudart_static",
                 "-lpthread", "-ldl", "-lrt"]
    subprocess.run([compiler, "-O3", "-std=c++17", "-shared", "-fPIC", "-fopenmp-simd", "-fno-math-errno",
                    f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}", *[f"-I{path}" for path in include_paths()],
                    str(HERE / "group_norm_silu.cpp"), "-o", str(output), *[f"-L{path}" for path in library_paths()], "-ltorch_cpu",
                    "-lc10", *vectors, *extra], check=True)
    holder.cleanup()
    print("built", output, "for CPUs and CUDA" if cuda else "for CPUs")


if __name__ == "__main__":
    main()
