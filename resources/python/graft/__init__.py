"""Graft: find patterns in PyTorch models, and make the models faster.

    import graft
    fast = graft.optimize(model, inputs)     # by the recipes that come with Graft; verified, and not slower
    fast.save("fast.pt")
    model = graft.load("fast.pt")            # or torch.jit.load, once graft is imported

docs/guide/python.md explains each function. Rule files import the names of the rule language from here:

    from graft import Recipe, Rule, Weight, kernels

Graft reads rule files and never runs them.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import kernels as kernels
    from .api import Comparison, Error, Matches, Optimized, Report, capture, compare, load, match, optimize, show
    from .compiling import backend

    class _Value(Any):
        """Any value of a graph; said of operators, too, for `value * 2.0` is no float."""

        def __add__(self, other: Any) -> Any: ...
        def __sub__(self, other: Any) -> Any: ...
        def __mul__(self, other: Any) -> Any: ...
        def __matmul__(self, other: Any) -> Any: ...
        def __truediv__(self, other: Any) -> Any: ...
        def __floordiv__(self, other: Any) -> Any: ...
        def __mod__(self, other: Any) -> Any: ...
        def __pow__(self, other: Any) -> Any: ...
        def __radd__(self, other: Any) -> Any: ...
        def __rsub__(self, other: Any) -> Any: ...
        def __rmul__(self, other: Any) -> Any: ...
        def __rmatmul__(self, other: Any) -> Any: ...
        def __rtruediv__(self, other: Any) -> Any: ...
        def __rpow__(self, other: Any) -> Any: ...
        def __neg__(self) -> Any: ...
        def __getitem__(self, item: Any) -> Any: ...

    # A rule's functions have no `self`: their first parameter stands for a value like the others.
    class Rule(_Value):
        """A pattern, its replacement, and the condition under which the rule applies. See docs/guide/writing-rules.md."""

        scope: str
        exact: bool
        changes_numbers: bool
        tolerance: "float | dict[str, float] | None"

    class Recipe(Any):
        """Steps in order, and how often each rule is expected to apply."""

        steps: "list[Any]"
        expect: "dict[Any, int]"

    class Weight(_Value):
        """A parameter that binds only values known before the model runs."""

    class Constant(_Value):
        """A parameter that binds any literal."""

else:

    class Rule:
        """A pattern, its replacement, and the condition under which the rule applies. See docs/guide/writing-rules.md."""

        scope = ""
        exact = False
        changes_numbers = False
        tolerance = None

    class Recipe:
        """Steps in order, and how often each rule is expected to apply."""

        steps: list = []
        expect: dict = {}

    class Weight:
        """A parameter that binds only values known before the model runs."""

    class Constant:
        """A parameter that binds any literal."""


_API = ("Comparison", "Error", "Matches", "Optimized", "Report", "capture", "compare", "load", "match", "optimize", "show")

def __getattr__(name: str) -> Any:
    # When one of them is first used. What an optimized file needs is there at once: see below.
    import importlib

    if name in _API:
        return getattr(importlib.import_module(".api", __name__), name)
    if name == "kernels":
        return importlib.import_module(".kernels", __name__)
    if name == "backend":
        return importlib.import_module(".compiling", __name__).backend
    raise AttributeError(f"module {__name__} has no attribute {name}")


def _load_operators() -> None:
    """Files that Graft wrote load from now on: they call its operators."""
    import os

    import torch

    from graft_fx.program import find_library, find_program

    try:
        path = find_library(find_program())
    except FileNotFoundError:
        return  # the names of rule files are all that there is; what needs the program says so
    if os.path.exists(path):
        torch.ops.load_library(path)


_load_operators()


# The names of the rule language.

# Any: a pattern's parameters stand for tensors, numbers and lists alike.
Tensor = Any
_: Any = None


def _pattern_only(*args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError("rules are read by graft and never executed")


# At the top level of a rule file: a library of your own operators.
library = _pattern_only
# What patterns, replacements and conditions call.
call_module = call_function = any_of = optional = runtime = users = _pattern_only
# The passes, as `steps` of a recipe.
channels_last = complex_as_real = conv1d_as_conv2d = decompose = eliminate_common = eliminate_dead = fold_constants = fuse = unfuse = _pattern_only
find_attention = find_linear = find_products = functionalize = half = normalize = partition = remove_dropout = share_masks = simplify_masks = split_bias = swap_module = _pattern_only
