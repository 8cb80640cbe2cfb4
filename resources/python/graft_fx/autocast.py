"""torch.autocast as casts that stand in the graph.

Autocast casts the inputs of some operators while it runs, which no node of a captured graph says. Under ExplicitCasts each function runs
without autocast, on inputs that were cast as autocast would have cast them: the casts become nodes.
"""

import contextlib
import types

import torch
import torch.utils._pytree as pytree
from torch.fx.experimental import proxy_tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

HALVES = (torch.float16, torch.bfloat16)
CASTS = (torch.ops.aten._to_copy.default, torch.ops.aten.to.dtype)


def devices():
    """The kinds of device that autocast is on for."""
    return [d for d in ("cpu", "cuda") if torch.is_autocast_enabled(d)]


def dtypes():
    return [torch.get_autocast_dtype(d) for d in devices()]


@contextlib.contextmanager
def without_autocast():
    """No operator casts its inputs by itself. Unlike torch.autocast(enabled=False), it leaves no nodes in a graph that is traced."""
    on = devices()
    for device in on:
        torch.set_autocast_enabled(device, False)
    try:
        yield
    finally:
        for device in on:
            torch.set_autocast_enabled(device, True)


class Watch(TorchDispatchMode):
    """Notes the dtypes that tensors are cast to."""

    def __init__(self):
        super().__init__()
        self.casts, self.kept = {}, []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if func in CASTS and isinstance(result, torch.Tensor) and result.dtype != args[0].dtype:
            self.casts.setdefault(id(args[0]), result.dtype)
            self.kept.append(args[0])
        return result


class ExplicitCasts(TorchFunctionMode):
    def __torch_function__(self, func, kinds, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is torch.amp.autocast_mode._enter_autocast:
            device, dtype, enabled = args[:3]
            before = device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
            torch.set_autocast_enabled(device, enabled)
            torch.set_autocast_dtype(device, dtype or before[2])
            return before
        if func is torch.amp.autocast_mode._exit_autocast:
            device, enabled, dtype = args[0]
            torch.set_autocast_enabled(device, enabled)
            torch.set_autocast_dtype(device, dtype)
            return None
        tensors = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        if not devices() or isinstance(func, types.MethodWrapperType) or not any(t.is_floating_point() for t in tensors):
            return func(*args, **kwargs)
        watch = Watch()
        cached = torch.is_autocast_cache_enabled()
        torch.set_autocast_cache_enabled(False)
        try:
            with proxy_tensor.disable_proxy_modes_tracing(), watch:
                wanted = func(*args, **kwargs)
        finally:
            torch.set_autocast_cache_enabled(cached)
        casts = {id(t): watch.casts[id(t)] for t in tensors if id(t) in watch.casts}
        with without_autocast():
            args, kwargs = pytree.tree_map(
                lambda t: t.to(casts[id(t)]) if isinstance(t, torch.Tensor) and id(t) in casts else t, (args, kwargs))
            result = func(*args, **kwargs)
            found = [t.dtype for t in pytree.tree_leaves(result) if isinstance(t, torch.Tensor)]
            asked = [t.dtype for t in pytree.tree_leaves(wanted) if isinstance(t, torch.Tensor)]
            if found != asked and len(asked) == 1:  # softmax and sums give another dtype of what they are given
                result = func(*args, **kwargs | {"dtype": asked[0]})
        return result
