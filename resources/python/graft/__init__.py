"""The names that rule files import, so that editors and linters understand them. Graft reads rules and never runs them.

    from graft import Recipe, Rule, Weight, kernels
"""

from typing import Any

Tensor = Any


class Rule:
    """A pattern, its replacement, and the condition under which the rule applies. See docs/guide/writing-rules.md."""

    scope: str = ""
    exact: bool = False
    changes_numbers: bool = False
    tolerance: "float | dict[str, float] | None" = None


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


# At the top level of a rule file: a library of your own operators.
library = _pattern_only
# What patterns, replacements and conditions call.
call_module = call_function = any_of = optional = runtime = users = _pattern_only
# The passes, as `steps` of a recipe.
decompose = eliminate_common = eliminate_dead = fold_constants = fuse = _pattern_only
half = normalize = partition = remove_dropout = swap_module = _pattern_only
