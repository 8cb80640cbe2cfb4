"""Models and inputs as files that the program reads, and how the file's results become the model's again."""

import os
import pathlib
from typing import Any, Callable, Mapping, NamedTuple, Sequence, Union

import torch
import torch.utils._pytree as pytree

Inputs = Union[torch.Tensor, Sequence[Any], Mapping[str, Any]]


class Call(NamedTuple):
    """How a model is called: its arguments nested as they were given, of which the file takes some of the leaves."""

    arguments: Any  # the TreeSpec of (args, kwargs)
    taken: "list[int]"  # the leaves that are inputs of the file, in its order
    result: Any  # the TreeSpec of what it returns
    constants: "dict[int, Any]"  # leaves of the result that are no output of the file

    def flat(self, args: "tuple[Any, ...]", kwargs: "dict[str, Any]") -> "list[Any]":
        leaves, spec = pytree.tree_flatten((args, dict(kwargs)))
        if spec != self.arguments:
            # Keyword arguments come in any order, and those that were positional may be given by name only if the model did so.
            ordered = {name: kwargs[name] for name in self.arguments.child(1).context if name in kwargs}
            leaves, spec = pytree.tree_flatten((args, ordered))
            if spec != self.arguments or len(ordered) != len(kwargs):
                expected, given = (" ".join(str(s).split()) for s in (self.arguments, spec))
                raise TypeError(f"the model was optimized for arguments nested as {expected}; these are nested as {given}")
        return [leaves[i] for i in self.taken]

    def nested(self, outputs: Any) -> Any:
        # TorchScript has tuples, lists and dicts, and knows no classes: what counts is the order of the leaves.
        leaves = pytree.tree_leaves(outputs)
        if len(leaves) != self.result.num_leaves:
            rest = iter(leaves)
            leaves = [self.constants[i] if i in self.constants else next(rest) for i in range(self.result.num_leaves)]
        return pytree.tree_unflatten(leaves, self.result)


def split(inputs: "Inputs | None") -> "tuple[tuple[Any, ...], dict[str, Any]]":
    """A tensor is the only argument, a tuple or list the positional ones, a dict those by name; `(args, kwargs)` is both."""
    if inputs is None:
        return (), {}
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    if isinstance(inputs, torch.Tensor):
        return (inputs,), {}
    if len(inputs) == 2 and isinstance(inputs[0], tuple) and isinstance(inputs[1], dict):
        return inputs[0], dict(inputs[1])
    return tuple(inputs), {}


def write_model(model: Any, inputs: "Inputs | None", folder: pathlib.Path, dynamic_shapes: Any = None) -> "tuple[str, Call | None]":
    """The model as a file in the folder, or the file that it is; and how it is called, where the file's results are flat."""
    if isinstance(model, (str, os.PathLike)):
        return os.fspath(model), None
    if isinstance(model, torch.jit.ScriptModule):
        model.save(str(folder / "model.pt"))
        return str(folder / "model.pt"), None
    if isinstance(model, torch.export.ExportedProgram):
        program = model
    else:
        if inputs is None:
            raise TypeError("give the inputs that the model is called with: graft.optimize(model, inputs)")
        program = _exported(model, *split(inputs), dynamic_shapes)
    path = folder / "model.pt2"
    torch.export.save(program, path)
    return str(path), _call(program)


def _exported(model: "Callable[..., Any]", args: "tuple[Any, ...]", kwargs: "dict[str, Any]", dynamic_shapes: Any) -> Any:
    if not isinstance(model, torch.nn.Module):

        class Function(torch.nn.Module):
            def forward(self, *args: Any, **kwargs: Any) -> Any:
                return model(*args, **kwargs)

        module: torch.nn.Module = Function()
    else:
        module = model
    trained = [m for m in module.modules() if m.training]
    try:
        for m in trained:  # what is optimized is what serves: no dropout, fixed statistics
            m.training = False
        with torch.no_grad():
            return torch.export.export(module, args, kwargs, dynamic_shapes=dynamic_shapes, strict=False)
    finally:
        for m in trained:
            m.training = True


def _call(program: Any) -> Call:
    from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind

    inputs = [s.arg for s in program.graph_signature.input_specs if s.kind is InputKind.USER_INPUT]
    outputs = [s.arg for s in program.graph_signature.output_specs if s.kind is OutputKind.USER_OUTPUT]
    return Call(program.call_spec.in_spec, [i for i, a in enumerate(inputs) if not isinstance(a, ConstantArgument)],
                program.call_spec.out_spec, {i: a.value for i, a in enumerate(outputs) if isinstance(a, ConstantArgument)})


def write_inputs(inputs: "Inputs | None", call: "Call | None", folder: pathlib.Path) -> "list[str]":
    """The words that give the program these inputs."""
    if inputs is None:
        return []
    args, kwargs = split(inputs)
    plain: Any = tuple(call.flat(args, kwargs)) if call else (args, kwargs) if kwargs and args else kwargs or args
    plain = pytree.tree_map(lambda v: v.detach().cpu() if isinstance(v, torch.Tensor) else v, plain)
    path = folder / "inputs.pt"
    torch.save(plain, path)
    return ["--inputs", str(path)]


def device_of(model: Any, inputs: "Inputs | None") -> "str | None":
    """The GPU that the model or its inputs are on."""
    tensors: "list[torch.Tensor]" = [v for v in pytree.tree_leaves(split(inputs)) if isinstance(v, torch.Tensor)]
    if isinstance(model, torch.nn.Module):
        tensors = [*model.parameters(), *model.buffers(), *tensors]
    return next((str(t.device) for t in tensors if t.device.type == "cuda"), None)
