"""Graft's operators, as replacements call them: `kernels.attention(q, k, v, mask)`. kernels.pyi lists them with their types."""

from typing import Any


def __getattr__(name: str) -> Any:
    raise AttributeError(f"kernels.{name} is written in rules, which graft reads and never executes; torch.ops.graft.{name} runs it")
