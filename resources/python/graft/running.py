"""Runs the program `graft` for the Python API: its document, its progress, its errors as exceptions."""

import json
import logging
import os
import pathlib
import signal
import subprocess
import sys
from typing import Any, Callable, Iterable

from graft_fx.program import environment, find_library, find_program

LOG = logging.getLogger("graft")
UNCHANGED = 7  # the exit code where there is nothing to rewrite


class Error(RuntimeError):
    """What the program said, and the exit code that it said it with: docs/reference/command-line.md lists them."""

    def __init__(self, message: str, exit_code: int):
        super().__init__(message)
        self.exit_code = exit_code


def operators() -> str:
    """The library of Graft's operators."""
    return find_library(find_program())


def run(words: "Iterable[str | os.PathLike[str]]", progress: "bool | None" = None, accept: "tuple[int, ...]" = (0,)) -> "dict[str, Any]":
    """The document that the program prints for these words. Ctrl-C stops it, and it cleans up.

    `progress`: whether to show how far the work is; None shows it in a terminal and in a notebook.
    """
    program = find_program()
    bar = Bar() if progress or (progress is None and Bar.is_watched()) else None
    variables = environment(find_library(program)) | ({"GRAFT_PROGRESS": "json"} if bar else {})
    # In a group of its own: Ctrl-C in a terminal would reach it a second time, and the second one ends it at once.
    process = subprocess.Popen([program, *(os.fspath(word) for word in words), "--json"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, env=variables, start_new_session=True)
    try:
        said, output = _listen(process, bar.show if bar else None)
    except KeyboardInterrupt:
        process.send_signal(signal.SIGINT)
        process.communicate()
        raise
    finally:
        if bar:
            bar.close()
        for pipe in (process.stdout, process.stderr):
            if pipe:
                pipe.close()
    if process.returncode not in accept:
        raise Error(_complaint(said) or f"graft ended with {process.returncode}", process.returncode)
    for line in said:
        LOG.info("%s", line)
    return json.loads(output)


def _listen(process: "subprocess.Popen[str]", show: "Callable[[str, int, int], None] | None") -> "tuple[list[str], str]":
    """Both outputs to their ends: the lines that are no progress, and the document."""
    import threading

    assert process.stdout is not None and process.stderr is not None
    output: "list[str]" = []
    reader = threading.Thread(target=lambda: output.append(process.stdout.read()), daemon=True)  # type: ignore[union-attr]
    reader.start()
    said = []
    for line in process.stderr:
        if line.startswith('{"done":') and '"progress":' in line:
            if show:
                step = json.loads(line)
                show(step["progress"], step["done"], step["total"])
        else:
            said.append(line.rstrip("\n"))
    process.wait()
    reader.join()
    return said, output[0]


def _complaint(said: "list[str]") -> str:
    """From the program's last `graft: ` on."""
    begin = next((i for i in range(len(said) - 1, -1, -1) if said[i].startswith("graft: ")), 0)
    return "\n".join(said[begin:]).removeprefix("graft: ").strip()


class Bar:
    """One line in a terminal, or one output of a notebook's cell, that says how far the work is."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._notebook = self._in_notebook()

    @staticmethod
    def _in_notebook() -> bool:
        shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
        return getattr(shell, "kernel", None) is not None  # in a terminal, IPython has none

    @classmethod
    def is_watched(cls) -> bool:
        return cls._in_notebook() or bool(getattr(sys.stderr, "isatty", lambda: False)())

    def show(self, what: str, done: int, total: int) -> None:
        if self._notebook:
            from html import escape

            from IPython.display import HTML, display  # type: ignore[import-not-found]

            value = f' value="{done}" max="{total}"' if total else ""
            picture = HTML(f"<progress{value}></progress> {escape(what)}")
            if self._handle is None:
                self._handle = display(picture, display_id=True)
            else:
                self._handle.update(picture)
            return
        percent = f" {100 * min(done, total) / total:.0f} %" if total else ""
        try:
            width = os.get_terminal_size(sys.stderr.fileno()).columns - 1
        except (OSError, ValueError):
            width = 79
        sys.stderr.write("\r\033[K" + what[: max(8, width - len(percent))] + percent)
        sys.stderr.flush()

    def close(self) -> None:
        if self._notebook:
            if self._handle is not None:
                from IPython.display import HTML

                self._handle.update(HTML(""))
        else:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()


def window() -> "str | None":
    """The program graft-gui, where there is one."""
    import shutil

    # Beside the program in a build, beside Python where the wheel of the window is installed.
    for folder in (pathlib.Path(find_program()).resolve().parent, pathlib.Path(sys.executable).parent):
        if (folder / "graft-gui").exists():
            return str(folder / "graft-gui")
    return shutil.which("graft-gui")
