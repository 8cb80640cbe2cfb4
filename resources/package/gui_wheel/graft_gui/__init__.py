"""Starts the window of an installed wheel. It needs neither PyTorch nor the wheel `graft`: its engine may run elsewhere."""

import os
import pathlib
import sys
from typing import NoReturn

_PREFIX = pathlib.Path(__file__).resolve().parent / "prefix"


def _become(name: str) -> NoReturn:
    # The window starts `graft engine`, which is beside this script where both wheels are installed.
    script = pathlib.Path(sys.argv[0])
    if script.is_file():
        os.environ["PATH"] = os.pathsep.join([str(script.absolute().parent), os.environ.get("PATH", os.defpath)])
    program = str(_PREFIX / "bin" / name)
    os.execv(program, [program, *sys.argv[1:]])


def main() -> None:
    _become("graft-gui")


def raster() -> None:
    _become("graft-raster")
