"""Whether a tensor has been written since. PyTorch counts writes as `_version`, but not those of fused optimizers: steps are counted here."""

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

_steps = {}  # by address of the memory: steps of optimizers that had a parameter there
_hooks = []


def _memory(tensor):
    """Where it lies, with all that it shares the memory with; None for what lies nowhere, as sparse tensors do."""
    try:
        return tensor.untyped_storage().data_ptr()
    except (NotImplementedError, RuntimeError):
        return None


def _stepped(optimizer, args, kwargs):
    if torch.compiler.is_compiling():  # what torch.compile makes of a step counts its writes, and traces no bookkeeping
        return
    for place in {_memory(p) for group in optimizer.param_groups for p in group["params"]}:
        _steps[place] = _steps.get(place, 0) + 1


def watch():
    """Counts the steps of all optimizers from here on."""
    if not _hooks:
        _hooks.append(register_optimizer_step_post_hook(_stepped))


def count(tensor: torch.Tensor):
    """Another value after each write and each step. What a CUDA graph or a library of one's own writes is not counted."""
    return 0 if tensor.is_inference() else tensor._version, _steps.get(_memory(tensor), 0)
