"""Starts the program `graft` of an installed wheel. It imports nothing but the standard library: importing torch takes seconds."""

import importlib.util
import os
import pathlib
import sys


def main() -> None:
    """Becomes the program, with this Python and its PyTorch."""
    prefix = pathlib.Path(__file__).resolve().parent / "graft" / "prefix"
    program = prefix / "bin" / "graft"
    torch = importlib.util.find_spec("torch")
    if "GRAFT_TORCH" not in os.environ and torch is not None and torch.origin is not None:
        os.environ["GRAFT_TORCH"] = str(pathlib.Path(torch.origin).parent / "lib")
    os.environ.setdefault("GRAFT_PYTHON", sys.executable)
    # The wheel of the window puts graft-gui and graft-raster beside this script, which need not be in the PATH itself.
    script = pathlib.Path(sys.argv[0])
    if script.is_file():
        os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), str(script.absolute().parent)])
    os.execv(program, [str(program), *sys.argv[1:]])
