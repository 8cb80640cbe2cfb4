"""`torch.compile(model, backend="graft")`: PyTorch finds it by the entry point of the wheel."""

from typing import Any, Mapping

from graft_fx.rewriting import Backend


def backend(graph: Any, example_inputs: Any, *, options: "Mapping[str, Any] | None" = None, **_: Any) -> Any:
    """Rewrites one captured graph by the recipes that come with Graft. `options` of torch.compile: rules, recipe, strict, verify and
    libraries, as graft_fx.backend takes them; budget, the seconds that trying may take (20)."""
    return _backend_of(dict(options or {}))(graph, example_inputs)


_made: "list[tuple[dict[str, Any], Backend]]" = []


def _backend_of(options: "dict[str, Any]") -> Backend:
    # One for each set of options: it tells of frames that torch.compile skips, and it collects reports.
    for known, made in _made:
        if known == options:
            return made
    unknown = set(options) - {"rules", "recipe", "strict", "verify", "libraries", "budget"}
    if unknown:
        raise ValueError(f"torch.compile(backend=\"graft\"): there is no option {', '.join(sorted(unknown))}")
    rules = options.get("rules")
    made = Backend(None if rules is None else str(rules), options.get("recipe"), None, None, options.get("verify", True),
                   options.get("strict", False), options.get("libraries", ()), budget=options.get("budget", 20))
    _made.append((options, made))
    return made


def reports() -> "list[dict[str, Any]]":
    """What was done with each graph that torch.compile gave to the backend "graft"."""
    return [report for _, made in _made for report in made.reports]
