"""The functions of `import graft`. Each writes its model to a temporary file, runs the program once, and reads what it made."""

import os
import pathlib
import shutil
import tempfile
import warnings
import weakref
from typing import Any, Iterable

import torch

from . import running
from .exporting import Call, Inputs, device_of, write_inputs, write_model
from .running import Error, run

__all__ = ["Comparison", "Error", "Matches", "Optimized", "Report", "capture", "compare", "load", "match", "optimize", "show"]


class Report(dict):  # type: ignore[type-arg]
    """What was done, as docs/json describes it: the document of `graft optimize`, or that of a model of `graft apply`."""

    @property
    def result(self) -> "dict[str, Any]":
        """Steps, verification and timing: the same keys with and without rules of your own."""
        return self.get("result", self)

    @property
    def rewrites(self) -> "dict[str, int]":
        """How many places each rule rewrote."""
        return {s["name"]: s["rewrites"] for s in self.result.get("steps", []) if s["isRule"] and s["rewrites"]}

    @property
    def changed(self) -> bool:
        """Whether the model computes by other operators than before."""
        return not self.result.get("unchanged", False)

    @property
    def verified(self) -> "bool | None":
        """Whether numbers were compared and agree; None where nothing was compared."""
        return (self.result.get("verification") or {}).get("passed")

    @property
    def speed(self) -> "float | None":
        """How many times as fast as the original; None where nothing was timed."""
        return (self.result.get("timing") or {}).get("ratio")

    def __repr__(self) -> str:
        speed = f", {self.speed:.2f} times as fast" if self.speed else ""
        if not self.changed:
            return f"<graft.Report: unchanged{speed + ' in CUDA graphs' if speed else ''}>"
        verified = {True: "verified", False: "not verified", None: "nothing compared"}[self.verified]
        return f"<graft.Report: {sum(self.rewrites.values())} rewrites, {verified}{speed}>"


class Optimized(torch.nn.Module):
    """A model that Graft rewrote. It is called as the original is, and gives its results in the same containers."""

    def __init__(self, path: str, call: "Call | None", report: Report, device: "str | None"):
        super().__init__()
        self.report = report
        self._call, self._path = call, path
        self.module = load(path, map_location=device)
        self.eval()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if self._call is None:
            return self.module(*args, **kwargs)
        return self._call.nested(self.module(*self._call.flat(args, kwargs)))

    def save(self, path: "str | os.PathLike[str]") -> None:
        """Writes the model as TorchScript (`.pt`), which takes the tensors of a call by position, or as an archive of torch.export
        (`.pt2`), which is called as the original is."""
        path = os.fspath(path)
        if path.endswith(".pt2"):
            run(["convert", self._path, "-o", path])
            return
        if not path.endswith(".pt"):
            raise Error(f"{path}: the ending says the format; give .pt or .pt2", 2)
        part = f"{path}.{os.getpid()}.part"
        try:
            shutil.copyfile(self._path, part)
            os.replace(part, path)
        finally:
            pathlib.Path(part).unlink(missing_ok=True)

    def __getstate__(self) -> Any:
        raise TypeError("an optimized model is saved by its method save, and read by graft.load")

    def extra_repr(self) -> str:
        return repr(self.report)


def optimize(model: Any, inputs: "Inputs | None" = None, rules: "str | os.PathLike[str] | None" = None, device: "str | None" = None, *,
             recipe: "str | None" = None, dtype: "str | None" = None, dynamic_shapes: Any = None, seconds: float = 3, budget: float = 60,
             libraries: "Iterable[str | os.PathLike[str]]" = (), progress: "bool | None" = None) -> Optimized:
    """A faster model, verified to compute the same.

    `model`: a module, a function, a TorchScript module, a program of torch.export, or the path of a file of any of them.
    `inputs`: what it is called with: a tensor, a tuple of arguments, a dict of arguments by name, or `(args, kwargs)`.
    `rules`: a rule file; without one, Graft tries the recipes that come with it and keeps what is faster (`budget` seconds).
    `device`: where it shall run; by default where it is. `dtype`: cast weights and inputs first, e.g. "float16".
    `dynamic_shapes`: sizes that may vary, as torch.export.export takes them. `seconds`: how long to time the result.

    Where nothing makes the model faster, the result is the model as it was: `.report.changed` is False. Raises Error with what the
    program said, and what torch.export raises for a module that it cannot export.
    """
    if recipe is not None and rules is None:
        raise TypeError("recipe names a recipe of a rule file: give rules, too")
    device = device or device_of(model, inputs)
    here = pathlib.Path(tempfile.mkdtemp(prefix="graft-"))
    try:
        made = _optimized(model, inputs, rules, device, recipe, dtype, dynamic_shapes, seconds, budget, libraries, progress, here)
    except BaseException:
        shutil.rmtree(here, ignore_errors=True)
        raise
    weakref.finalize(made, shutil.rmtree, here, ignore_errors=True)  # `save` copies the file
    return made


def _optimized(model: Any, inputs: "Inputs | None", rules: "str | os.PathLike[str] | None", device: "str | None", recipe: "str | None",
               dtype: "str | None", dynamic_shapes: Any, seconds: float, budget: float, libraries: "Iterable[str | os.PathLike[str]]",
               progress: "bool | None", here: pathlib.Path) -> Optimized:
    path, call = write_model(model, inputs, here, dynamic_shapes)
    out = str(here / "fast.pt")
    words = ["optimize" if rules is None else "apply", path, "-o", out, "--allow-unchanged", "--seconds", str(seconds)]
    words += ["--rules", os.fspath(rules)] if rules is not None else ["--budget", str(budget)]
    words += write_inputs(inputs, call, here) + _options(recipe=recipe, device=device, dtype=dtype) + _libraries(libraries)
    document = run(words, progress)
    for name in ("model.pt", "model.pt2", "inputs.pt"):
        (here / name).unlink(missing_ok=True)
    return Optimized(out, call, Report(document if rules is None else document["models"][0]), device)


def load(path: "str | os.PathLike[str]", map_location: Any = None) -> Any:
    """The model in a file that Graft wrote, ready to be called: TorchScript, or a program of torch.export as a module."""
    path = os.fspath(path)
    if not os.path.exists(path):
        raise FileNotFoundError(f"there is no file {path}")
    if path.endswith(".pt2"):
        module = torch.export.load(path).module()
        return module if map_location is None else module.to(map_location)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of TorchScript, which is what Graft writes
        return torch.jit.load(path, map_location=map_location)


class Matches(dict):  # type: ignore[type-arg]
    """Where rules match, as docs/json/match.schema.json describes it."""

    @property
    def counts(self) -> "dict[str, int]":
        """How often each rule matches; without rules of your own, how often each rule of the first recipe that fits rewrites."""
        if self.get("rules"):
            return {r["name"]: r["matches"] for r in self["rules"]}
        recipes = self.get("recipes", [])
        return {r["name"]: r["rewrites"] for r in recipes[0]["rules"]} if recipes else {}

    @property
    def recipes(self) -> "list[str]":
        """Which of Graft's recipes fit, the best first."""
        return [r["recipe"] for r in self.get("recipes", [])]

    def __repr__(self) -> str:
        return f"<graft.Matches: {', '.join(f'{name} {n}' for name, n in self.counts.items()) or 'none'}>"


def match(model: Any, inputs: "Inputs | None" = None, rules: "str | os.PathLike[str] | None" = None, *, rule: "str | None" = None,
          dynamic_shapes: Any = None, libraries: "Iterable[str | os.PathLike[str]]" = (), progress: "bool | None" = None) -> Matches:
    """Where the rules of a file match in the model, or which of Graft's own recipes fit. It changes nothing."""
    with _files(model, inputs, dynamic_shapes) as (path, words):
        words = ["match", path, *words, *_options(rules=os.fspath(rules) if rules is not None else None, rule=rule)]
        return Matches(run(words + _libraries(libraries), progress)["models"][0])


class Comparison(dict):  # type: ignore[type-arg]
    """Two models' outputs and times, as docs/json/compare.schema.json describes them."""

    @property
    def same(self) -> bool:
        """Whether all outputs agree within the tolerances of their dtypes, and there were numbers to compare."""
        return all(o["passed"] for o in self["outputs"]) and not self.get("nothingCompared", False)

    @property
    def speed(self) -> "float | None":
        """How many times as fast as the first model the second one is."""
        return (self.get("timing") or {}).get("ratio")

    def __repr__(self) -> str:
        worst = max((o.get("maxAbs") or 0 for o in self["outputs"]), default=0)
        return f"<graft.Comparison: {'same' if self.same else 'different'}, max abs {worst:.3g}>"


def compare(a: Any, b: Any, inputs: "Inputs | None" = None, *, device: "str | None" = None, dtype: "str | None" = None, seconds: float = 3,
            libraries: "Iterable[str | os.PathLike[str]]" = (), progress: "bool | None" = None) -> Comparison:
    """Both models run side by side on the same inputs: do they compute the same, and how fast? Different numbers are no error."""
    with tempfile.TemporaryDirectory(prefix="graft-") as folder:
        files, call = [], None
        for name, model in (("a", a), ("b", b)):
            here = pathlib.Path(folder) / name
            here.mkdir()
            if isinstance(model, Optimized):
                files.append(model._path)
                call = call or model._call
                continue
            path, how = write_model(model, inputs, here)
            files.append(path)
            call = call or how
        words = ["compare", *files, "--seconds", str(seconds), *write_inputs(inputs, call, pathlib.Path(folder))]
        words += _options(device=device or device_of(a, inputs), dtype=dtype) + _libraries(libraries)
        return Comparison(run(words, progress, accept=(0, 5)))


def capture(model: Any, inputs: Inputs, path: "str | os.PathLike[str]", joint: bool = False, dynamic: "bool | None" = None) -> None:
    """Writes the graphs that torch.compile captures of the model to a file that every command of Graft takes: graft_fx.capture."""
    import graft_fx

    graft_fx.capture(model, inputs, os.fspath(path), joint=joint, dynamic=dynamic)


def show(model: Any, inputs: "Inputs | None" = None, *, depth: int = 1, theme: str = "light", dynamic_shapes: Any = None) -> Any:
    """The model as a picture. In a notebook, the cell shows it: drag it, and turn the wheel to come closer. Elsewhere the window opens
    (graft-gui), where it is installed."""
    if running.Bar._in_notebook():
        from .notebook import Picture

        with _files(model, inputs, dynamic_shapes) as (path, words):
            with tempfile.TemporaryDirectory(prefix="graft-") as folder:
                run(["draw", path, "-o", f"{folder}/model.svg", "--depth", str(depth), "--theme", theme, *words], False)
                return Picture(pathlib.Path(folder, "model.svg").read_text())
    program = running.window()
    if program is None:
        raise Error("the window is not installed; `graft gui` says how to get it. graft.show draws the model in a notebook", 3)
    import subprocess

    if isinstance(model, Optimized):
        model = model._path
    folder_name = tempfile.mkdtemp(prefix="graft-show-")  # the window reads from it while it is open
    path, call = write_model(model, inputs, pathlib.Path(folder_name), dynamic_shapes)
    words = write_inputs(inputs, call, pathlib.Path(folder_name))
    return subprocess.Popen([program, path, *words], start_new_session=True)


class _files:
    """The words that name a model and its inputs, while their files are there."""

    def __init__(self, model: Any, inputs: "Inputs | None", dynamic_shapes: Any):
        self.model, self.inputs, self.dynamic_shapes = model, inputs, dynamic_shapes

    def __enter__(self) -> "tuple[str, list[str]]":
        self.folder = tempfile.TemporaryDirectory(prefix="graft-")
        here = pathlib.Path(self.folder.name)
        try:
            if isinstance(self.model, Optimized):
                path, call = self.model._path, self.model._call
            else:
                path, call = write_model(self.model, self.inputs, here, self.dynamic_shapes)
            return path, write_inputs(self.inputs, call, here)
        except BaseException:
            self.folder.cleanup()
            raise

    def __exit__(self, *_: Any) -> None:
        self.folder.cleanup()


def _options(**given: "str | None") -> "list[str]":
    return [word for name, value in given.items() if value is not None for word in (f"--{name}", value)]


def _libraries(paths: "Iterable[str | os.PathLike[str]]") -> "list[str]":
    return [word for path in paths for word in ("--library", os.fspath(path))]
