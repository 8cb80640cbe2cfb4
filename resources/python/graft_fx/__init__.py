"""Takes torch.fx graphs out of Python for Graft, and puts rewritten ones back. Copy this folder beside your model or put
the one around it on PYTHONPATH; it needs torch alone.

    import graft_fx
    gm = torch.fx.symbolic_trace(model)
    graft_fx.save(gm, "model.fx", example_inputs)                       # a GraphModule
    graft_fx.capture(model, example_inputs, "model.fx")                 # whatever torch.compile makes of a model
    graft_fx.capture(model, example_inputs, "model.fx", joint=True)     # and of its training: AOTAutograd's graphs
    fast = torch.compile(model, backend=graft_fx.backend("rules.py"))   # runs what Graft makes of each graph

Then `graft info model.fx`. A file is an uncompressed zip: graft_fx.json holds, for each graph, the FX nodes as they were (all six
opcodes, targets, arguments, module types and constructor values) and the ATen operators they come down to for the example inputs;
weights/N are the tensors' bytes. No class of yours is pickled, so reading the file runs none of your code.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .capturing import backend, capture, save
    from .optimizing import compile_step, record_step

__all__ = ["backend", "capture", "compile_step", "record_step", "save"]


def __getattr__(name: str) -> Any:
    # When one of them is first used: they need PyTorch's compiler, which takes a second to import.
    if name not in __all__:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    from . import capturing, optimizing

    return getattr(optimizing if name.endswith("_step") else capturing, name)
