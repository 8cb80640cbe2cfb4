#!/usr/bin/env python3
"""Writes resources/python/graft/kernels.pyi from the schemas of Graft's operators:

    write_stubs.py PROGRAM            prints it
    write_stubs.py PROGRAM --write    writes it
"""

import json
import pathlib
import re
import subprocess
import sys
import textwrap

STUB = pathlib.Path(__file__).resolve().parents[1] / "python/graft/kernels.pyi"
# A pattern's values stand for tensors, numbers and lists alike; what a schema says of literals is checked.
TYPES = {"Tensor": "Any", "float": "float", "int": "int", "bool": "bool", "str": "str", "Scalar": "float", "SymInt": "int"}


def python_type(schema):
    optional, schema = schema.endswith("?"), schema.removesuffix("?")
    schema = re.sub(r"\(\w+!?\)", "", schema)
    if schema.endswith("]"):
        found = "Any" if schema.startswith("Tensor") else f"Sequence[{python_type(schema[:schema.index('[')])}]"
    else:
        found = TYPES.get(schema, "Any")
    return f"{found} | None" if optional and found != "Any" else found


def parameter(text):
    if text == "*":
        return text
    kind, _, name = text.partition(" ")
    name, equals, default = name.partition("=")
    # Rules bind sizes and numbers of the model: these are values, too.
    return f"{name}: {python_type(kind)}{' = ...' if equals else ''}"


def function(operator):
    name, rest = operator["schema"].split("(", 1)
    arguments, results = rest.rsplit(" -> ", 1)
    parts = [p.strip() for p in re.split(r",\s*(?![^\[]*\])", arguments.removesuffix(")")) if p.strip()]
    lines = textwrap.wrap(" ".join(operator["doc"].split()), 110)
    doc = "\n    ".join(lines)
    return f'def {name}({", ".join(map(parameter, parts))}) -> Any:\n    """{doc}"""\n'


def stub(program):
    operators = json.loads(subprocess.run([program, "kernels", "--json"], capture_output=True, text=True, check=True).stdout)["operators"]
    head = ('"""Graft\'s operators as replacements call them. resources/package/write_stubs.py makes this file from their schemas."""\n\n'
            "from typing import Any, Sequence\n\n")
    return head + "".join(f"\n{function(o)}" for o in sorted(operators, key=lambda o: o["name"]))


def main():
    text = stub(sys.argv[1])
    if "--write" in sys.argv:
        STUB.write_text(text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
