"""Names that rule files import, so that Python's own tools understand them. Nothing here is ever executed by graft.

    from graft import Recipe, Rule, Weight, kernels
"""

from typing import Any

Tensor = Any


class Rule:
    """A pattern, its replacement, and the condition under which it applies. See docs/guide/writing-rules.md."""

    scope: str = ""
    exact: bool = False
    changes_numbers: bool = False


class Recipe:
    """Steps in order, and how often each rule is expected to apply."""

    steps: list = []
    expect: dict = {}


class Weight:
    """A parameter that binds only values known before the model runs."""


class Constant:
    """A parameter that binds any literal."""


class _Names:
    def __getattr__(self, name):
        def call(*args, **kwargs):
            raise NotImplementedError(f"{name} is written in rules, which graft reads and never executes")

        return call


kernels = _Names()
_ = None


def _pattern_only(*args, **kwargs):
    raise NotImplementedError("rules are read by graft and never executed")


call_module = call_function = any_of = optional = users = fuse = _pattern_only
normalize = remove_dropout = fold_constants = eliminate_common = eliminate_dead = _pattern_only
decompose = half = swap_module = fuse_pointwise = partition = capture = _pattern_only
