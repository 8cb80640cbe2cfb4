"""Where the program `graft` and its operators are, and what environment it gets."""

import importlib.util
import os
import pathlib
import shutil
import sys

HERE = pathlib.Path(__file__).resolve().parents[1]


def find_program(named: "str | None" = None) -> str:
    """The program: `named`, $GRAFT, that of the wheel or of the build which this file lies in, or the one in the PATH."""
    places = [HERE / "graft/prefix/bin/graft", HERE.parents[1] / "build/bin/graft"]
    found = (named or os.environ.get("GRAFT") or next((str(p) for p in places if p.exists()), None) or shutil.which("graft"))
    if not found:
        raise FileNotFoundError("there is no program graft in the PATH; install Graft or build it, or say where it is by the "
                                "environment variable GRAFT")
    return found


def find_library(program: str, named: "str | None" = None) -> str:
    """The operators that belong to the program: `named`, $GRAFT_OPS, or those that were built or installed with it."""
    prefix = pathlib.Path(program).resolve().parents[1]
    places = [prefix / "lib/libgraft_ops.so", prefix / "lib/graft/libgraft_ops.so"]  # of a build, of what is installed
    return named or os.environ.get("GRAFT_OPS") or str(next((p for p in places if p.exists()), places[0]))


def environment(library: str) -> "dict[str, str]":
    """The variables for the program: these operators, and this Python with its PyTorch."""
    out = os.environ | {"GRAFT_OPS": library}
    out.setdefault("GRAFT_PYTHON", sys.executable)
    torch = importlib.util.find_spec("torch")
    if torch is not None and torch.origin is not None:
        out.setdefault("GRAFT_TORCH", str(pathlib.Path(torch.origin).parent / "lib"))
    return out
