"""PyTorch's foreach operators as what they do to each tensor of their lists, for AOTAutograd's tables of decompositions."""

import torch

aten = torch.ops.aten
PREFIX = "aten::_foreach_"
ELEMENTS = {"minimum": "clamp_max", "maximum": "clamp_min", "max": "amax"}  # others have the name of their element's operator
PRODUCTS = {"addcmul": aten.mul, "addcdiv": aten.div}  # of which a number of times are added
LISTS = ("Tensor[]", "Scalar[]", "List[Tensor]", "List[number]")


def is_list(argument):
    return str(argument.type) in LISTS


def apart(overload):
    """The function that does what `overload` does, tensor by tensor."""
    schema = overload._schema
    name = schema.name.removeprefix(PREFIX)
    packet = getattr(aten, ELEMENTS.get(name, name), None)

    def element(*given, **by_name):
        if name == "norm":
            return aten.linalg_vector_norm(given[0], given[1] if len(given) > 1 else 2, dtype=given[2] if len(given) > 2 else None)
        if name == "zero":
            return torch.zeros_like(given[0])
        if name == "copy":
            return given[1].to(given[0].dtype, copy=True)
        if name == "max":
            return given[0].amax()
        if name in PRODUCTS and len(given) > 3:
            if isinstance(given[3], torch.Tensor):
                return given[0] + given[3] * PRODUCTS[name](given[1], given[2])
            return packet(*given[:3], value=given[3])
        return packet(*given, **by_name)

    def each(*args, **kwargs):
        values = dict(zip((a.name for a in schema.arguments), args)) | kwargs
        declared = [a for a in schema.arguments if a.name in values]
        count = next(len(values[a.name]) for a in declared if is_list(a))
        apart = {a.name for a in declared if is_list(a)}
        if isinstance(values.get("scalars"), torch.Tensor):  # a number for each
            values["scalars"], apart = values["scalars"].unbind(), apart | {"scalars"}
        results = []
        for k in range(count):
            one = {a.name: values[a.name][k] if a.name in apart else values[a.name] for a in declared}
            alpha = {"alpha": one.pop("alpha")} if "alpha" in one else {}
            results.append(element(*one.values(), **alpha))
        return results

    return each if packet is not None else None


def decompositions():
    """All foreach operators that give new tensors, by overload."""
    table = {}
    for full in torch._C._dispatch_get_all_op_names():
        if not full.startswith(PREFIX):
            continue
        name, _, overload = full.removeprefix("aten::").partition(".")
        if name.endswith("_") or overload.endswith("out"):
            continue
        op = getattr(getattr(aten, name), overload or "default")
        function = apart(op)
        if function is not None:
            table[op] = function
    return table
