"""The importer of torch.export archives against the installed PyTorch's schema: each member of each of its unions, and each of its
enumerations' values, stands in a program here that Graft reads as it should, or refuses by name. A new member fails the test."""

import copy
import dataclasses
import io
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import warnings
import zipfile

import torch
import torch.nn.functional as F
from torch._export.serde import schema
from torch._export.serde.serialize import _dict_to_dataclass
from torch.export.experimental import _export_forward_backward

warnings.simplefilter("ignore")
BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
GRAFT = BUILD / "bin/graft"

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
import warm  # noqa: E402

warm.up(BUILD)

library = torch.library.Library("schema_test", "DEF")
for signature, compute in (("lists(SymInt[] n, float[] f, bool[] b, Tensor x) -> Tensor", lambda n, f, b, x: x * 1),
                           ("write(Tensor(a!) x) -> ()", lambda x: x.mul_(2) and None)):
    library.define(signature)
    library.impl(signature.split("(")[0], compute, "CompositeExplicitAutograd")
    library.impl(signature.split("(")[0], compute if "lists" in signature else lambda x: None, "Meta")


class Kinds(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)
        self.register_buffer("seen", torch.zeros(4))
        self.scale = torch.ones(4)  # neither parameter nor buffer: a constant

    def forward(self, x, image, rows, times: int, more: float, flag: bool, word: str, nothing):
        n = x.shape[0]
        y = F.gelu(torch.cat([x.clamp(None, 2.0), self.fc(x) + self.scale]), approximate="tanh").view(n, 8).softmax(-1)
        larger = F.interpolate(image, scale_factor=(2.0, 2.0)).contiguous(memory_format=torch.channels_last)
        made = torch.zeros(n, 3, device="cpu", layout=torch.strided, dtype=torch.float64)
        branch = torch.cond(n > 4, lambda a: a + 1, lambda a: a - 1, (x,))
        numbers = y * n + n * 0.5 + times + more
        return numbers, larger, made, (x * 1j).abs(), x[:, rows], branch, torch.any(x, dim=0, keepdim=True), n * 2, (n**0.5) * x


class Lists(torch.nn.Module):
    def forward(self, x):
        n = x.shape[0]
        return torch.ops.schema_test.lists([n, 2], [1.5, 2.0], [True, False], x)


class Writes(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(4))
        self.register_buffer("count", torch.zeros(4))

    def forward(self, x):
        with torch.no_grad():
            self.weight.add_(1)
        self.count.add_(1)
        x.mul_(2)
        y = x + self.weight * self.count
        torch.ops.schema_test.write(y)
        return y


class Loss(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 1)

    def forward(self, x):
        return self.fc(x).sum()


class Prints(torch.nn.Module):
    def forward(self, x):
        torch.ops.aten._print("said")
        return x + 1


def archive_of(program):
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    with zipfile.ZipFile(buffer) as z:
        return {info.filename: z.read(info) for info in z.infolist()}


def json_of(archive):
    return json.loads(next(data for name, data in archive.items() if name.endswith("models/model.json")))


def exported():
    """Programs that PyTorch itself writes, as archives: record -> bytes."""
    torch.manual_seed(0)
    x, dynamic = torch.randn(6, 4), {0: torch.export.Dim.DYNAMIC}
    inputs = (x, torch.randn(1, 3, 4, 4), torch.tensor([0, 2]), 3, 2.5, True, "mean", None)
    kinds = torch.export.export(Kinds(), inputs, dynamic_shapes=(dynamic, *[None] * 7))
    joint = _export_forward_backward(torch.export.export(Loss(), (x,)), joint_loss_index=0)
    return {"kinds": archive_of(kinds),
            "lists": archive_of(torch.export.export(Lists(), (x,), dynamic_shapes=(dynamic,))),
            "writes": archive_of(torch.export.export(Writes(), (x,)).run_decompositions()),
            "joint": archive_of(joint),
            "tokens": archive_of(torch.export.export(Prints(), (x,)).run_decompositions())}, (kinds, inputs)


def changed(archive, change):
    """The archive with its program changed by `change(graph, signature)`."""
    program = json_of(archive)
    change(program["graph_module"]["graph"], program["graph_module"]["signature"])
    return {name: json.dumps(program).encode() if name.endswith("models/model.json") else data for name, data in archive.items()}


def like(graph, old, new, dtype=None):
    """A tensor named `new` that looks as `old` does."""
    graph["tensor_values"][new] = copy.deepcopy(graph["tensor_values"][old])
    if dtype is not None:
        graph["tensor_values"][new]["dtype"] = dtype


def node(graph, target, name, arguments):
    """A node before the graph's end that gives a tensor like `x`, from named arguments."""
    like(graph, "x", name)
    graph["nodes"].append({"target": target, "name": name, "metadata": {}, "is_hop_single_tensor_return": None,
                           "inputs": [{"name": key, "arg": value, "kind": 2} for key, value in arguments.items()],
                           "outputs": [{"as_tensor": {"name": name}}]})


# What PyTorch's exporter writes for operators of other libraries or not at all, in one call of an operator that is not here.
MADE = {
    "as_strings": ["a", "b"],
    "as_int_lists": [[1, 2], [3]],
    "as_nested_tensors": [[{"name": "x"}, {"name": "x"}], [{"name": "x"}]],
    "as_optional_tensor": {"as_tensor": {"name": "x"}},
    "as_sym_bool": {"as_bool": True},
    "as_sym_bools": [{"as_bool": False}, {"as_name": "yes"}],
    "as_sym_float": {"as_float": 0.25},
    "as_sym_floats": [{"as_float": 1.25}, {"as_name": "half"}],
    "as_sym_int": {"as_int": 11},
    "as_string_to_argument": {"key": {"as_int": 7}},
    "as_custom_obj": {"name": "handle", "class_fqn": "a.B"},
}


def made(graph, signature):
    graph["sym_float_values"]["half"] = {"as_float": 0.5}
    graph["sym_bool_values"]["yes"] = {"as_bool": True}
    graph["nodes"].append({"target": "torch.sym_float", "name": "half", "metadata": {}, "is_hop_single_tensor_return": None,
                           "inputs": [{"name": "", "arg": {"as_int": 3}, "kind": 1}],
                           "outputs": [{"as_sym_float": {"as_name": "half"}}]})
    graph["nodes"].append({"target": "_operator.gt", "name": "yes", "metadata": {}, "is_hop_single_tensor_return": None,
                           "inputs": [{"name": "", "arg": {"as_sym_float": {"as_name": "half"}}, "kind": 1},
                                      {"name": "", "arg": {"as_int": 1}, "kind": 1}],
                           "outputs": [{"as_sym_bool": {"as_name": "yes"}}]})
    graph["sym_bool_values"]["hinted"] = {"as_expr": {"expr_str": "Symbol('s0') > 4", "hint": {"as_bool": True}}}
    node(graph, "torch.ops.not_here.all.default", "made", {kind[3:]: {kind: value} for kind, value in MADE.items()})
    graph["outputs"] = [{"as_tensor": {"name": "made"}}]


def gradient_of_input(graph, signature):
    for spec in signature["output_specs"]:
        if "gradient_to_parameter" in spec:
            spec["gradient_to_user_input"] = {"arg": spec.pop("gradient_to_parameter")["arg"], "user_input_name": "x"}


def script_object(graph, signature):
    graph["inputs"].insert(0, {"as_custom_obj": {"name": "handle", "class_fqn": "a.B"}})
    signature["input_specs"].insert(0, {"custom_obj": {"arg": {"name": "handle", "class_fqn": "a.B"}, "custom_obj_name": "h"}})


# (union, member) -> the program that has it, and what Graft's canonical text of it says there.
READ = {
    "Argument": {
        "as_none": ("kinds", r"aten\.clamp\.default\(%x, min=None"),
        "as_tensor": ("kinds", r"aten\.linear\.default\(%x, %fc_weight, %fc_bias\)"),
        "as_tensors": ("kinds", r"aten\.cat\.default\(\[%clamp, %add\], dim=0\)"),
        "as_int": ("kinds", r"aten\.softmax\.int\(%view, dim=-1"),
        "as_ints": ("joint", r"aten\.expand\.default\(.*\[6, 1\]"),
        "as_float": ("kinds", r"max=2\.0\)"),
        "as_floats": ("kinds", r"scale_factors=\[2\.0, 2\.0\]"),
        "as_string": ("kinds", r'approximate="tanh"'),
        "as_strings": ("made", r'strings=\["a", "b"\]'),
        "as_sym_int": ("kinds", r"aten\.mul\.Tensor\(%softmax, %sym_size_int"),
        "as_sym_ints": ("kinds", r"size=\[%sym_size_int\w*, 8\]"),
        "as_scalar_type": ("kinds", r"dtype=torch\.float64"),
        "as_memory_format": ("kinds", r"memory_format=<torch\.channels_last>"),
        "as_layout": ("kinds", r"layout=<torch\.strided>"),
        "as_device": ("kinds", r'device=device\("cpu"\)'),
        "as_bool": ("kinds", r"keepdim=True"),
        "as_bools": ("lists", r"\[True, False\]"),
        "as_sym_bool": ("kinds", r"prim\.If\(%gt\)"),
        "as_sym_bools": ("made", r"sym_bools=\[False, %yes\]"),
        "as_graph": ("kinds", r"aten\.sub\.Tensor\(%x, other=1"),
        "as_optional_tensors": ("kinds", r"aten\.index\.Tensor\(%\w+, indices=\[None, %rows\]\)"),
        "as_custom_obj": ("made", r'custom_obj="handle"'),
        "as_operator": ("writes", r'"schema_test\.write\.default"|"torch\.ops\.schema_test\.write\.default"'),
        "as_sym_float": ("kinds", r"aten\.mul\.Tensor\(%x, %pow_1\)"),
        "as_sym_floats": ("made", r"sym_floats=\[1\.25, %half\]"),
        "as_optional_tensor": ("made", r"optional_tensor=%x"),
        "as_complex": ("kinds", r"other=complex\(0\.0, 1\.0\)"),
        "as_nested_tensors": ("made", r"nested_tensors=\[\[%x, %x\], \[%x\]\]"),
        "as_int_lists": ("made", r"int_lists=\[\[1, 2\], \[3\]\]"),
        "as_string_to_argument": ("made", r'string_to_argument=\{"key": 7\}'),
    },
    "SymIntArgument": {"as_name": ("kinds", r"size=\[%sym_size_int\w*, 8\]"), "as_int": ("made", r"sym_int=11")},
    "SymFloatArgument": {"as_name": ("made", r"1\.25, %half\]"), "as_float": ("made", r"sym_float=0\.25")},
    "SymBoolArgument": {"as_name": ("kinds", r"prim\.If\(%gt\)"), "as_bool": ("made", r"sym_bool=True")},
    "OptionalTensorArgument": {"as_tensor": ("kinds", r"\[None, %rows\]"), "as_none": ("kinds", r"\[None, %rows\]")},
    "SymInt": {"as_expr": ("kinds", r"f32\[2\*s\d+,4\]"), "as_int": ("kinds", r"f32\[1,3,8,8\]")},
    # What a program says of its own numbers beside the nodes that compute them: Graft reads the nodes.
    "SymFloat": {"as_expr": ("kinds", r"aten\.pow\.float\(%\w+, b=0\.5\)"), "as_float": ("made", r"%half = aten\.Float\.\w+\(3\)")},
    "SymBool": {"as_expr": ("kinds", r"%gt = aten\.gt\.int\(%sym_size_int\w*, b=4\)"), "as_bool": ("made", r"%yes = aten\.gt\.float\(%half")},
    "SymExprHint": {"as_int": ("kinds", r"symbol s\d+ \[2, inf\]"), "as_float": ("kinds", r"aten\.pow\.float"),
                    "as_bool": ("made", r"not_here\.all\.default")},
    "ConstantValue": {
        "as_none": ("kinds", "input %x"),
        "as_int": ("kinds", r"other=3"),
        "as_float": ("kinds", r"other=2\.5"),
        "as_string": ("kinds", "input %x"),
        "as_bool": ("kinds", "input %x"),
    },
    "InputSpec": {
        "user_input": ("kinds", r"input %x : f32\[s\d+,4\]"),
        "parameter": ("kinds", r'weight %fc_weight "fc\.weight"'),
        "buffer": ("writes", r'buffer %count "count"'),
        "tensor_constant": ("kinds", r'constant %\w+ "scale"'),
        "constant_input": ("kinds", r"other=3"),
    },
    "OutputSpec": {
        "user_output": ("kinds", r"return \(%"),
        "loss_output": ("joint", r"return \(%sum"),
        "buffer_mutation": ("writes", r"aten\.copy_\.default\(%count, %|aten\.add_\.Tensor\(%count"),
        "gradient_to_parameter": ("joint", r"return \(%sum\w*, %\w+, %\w+\)"),
        "gradient_to_user_input": ("gradient", r"return \(%sum\w*, %\w+, %\w+\)"),
        "user_input_mutation": ("writes", r"aten\.copy_\.default\(%x, %|aten\.mul_\.Tensor\(%x"),
        "parameter_mutation": ("writes", r"aten\.copy_\.default\(%weight, %|aten\.add_\.Tensor\(%weight"),
    },
}
# Effects' order and script objects: no program of tensors has them.
REFUSED = {"InputSpec": {"token": "tokens", "custom_obj": "script_object"}, "OutputSpec": {"token": "tokens"}}


def unions():
    """Every union of the schema: name -> members."""
    all_of = {name: c for name, c in vars(schema).items() if isinstance(c, type) and issubclass(c, schema._Union) and c is not schema._Union}
    return {name: {field.name for field in dataclasses.fields(c)} for name, c in all_of.items()}


def held(value, found):
    """(union, member) of everything in a program that PyTorch's own reader has read."""
    if isinstance(value, schema._Union):
        found.add((type(value).__name__, value.type))
        held(value.value, found)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            held(getattr(value, field.name), found)
    elif isinstance(value, dict):
        for item in value.values():
            held(item, found)
    elif isinstance(value, (list, tuple)):
        for item in value:
            held(item, found)
    return found


class Schema(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory(prefix="graft-schema-")
        cls.folder = pathlib.Path(cls.holder.name)
        cls.programs, cls.kinds = exported()
        base = cls.programs["lists"]
        cls.programs |= {"made": changed(base, made), "gradient": changed(cls.programs["joint"], gradient_of_input),
                         "script_object": changed(base, script_object)}
        cls.texts = {}

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    def file(self, name, archive):
        path = self.folder / f"{name}.pt2"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as z:
            for record, data in archive.items():
                z.writestr(record, data)
        return path

    def graft(self, *arguments):
        return subprocess.run([GRAFT, *map(str, arguments)], capture_output=True, text=True, timeout=120)

    def text(self, name, archive=None):
        if name not in self.texts:
            run = self.graft("text", self.file(name, archive or self.programs[name]))
            self.assertEqual(run.returncode, 0, f"{name}: {run.stderr}")
            self.texts[name] = run.stdout
        return self.texts[name]

    def refused(self, name, archive):
        run = self.graft("text", self.file(name, archive))
        self.assertEqual(run.returncode, 3, f"{name}: {run.stdout}{run.stderr}")
        return run.stderr

    def test_the_version_is_the_one_that_is_read(self):
        self.assertEqual(schema.SCHEMA_VERSION[0], 8)

    def test_every_member_of_every_union_is_tried(self):
        for union, members in unions().items():
            self.assertEqual(members, set(READ.get(union, {})) | set(REFUSED.get(union, {})), union)

    def test_every_member_is_read(self):
        within = {name: held(_dict_to_dataclass(schema.ExportedProgram, json_of(a)), set()) for name, a in self.programs.items()}
        for union, members in READ.items():
            for member, (program, says) in members.items():
                with self.subTest(union=union, member=member, program=program):
                    self.assertIn((union, member), within[program], "the program that is to show it does not have it")
                    self.assertRegex(self.text(program), says)
        for union, members in REFUSED.items():
            for member, program in members.items():
                with self.subTest(union=union, member=member, program=program):
                    self.assertIn((union, member), within[program])
                    kind = "input" if union == "InputSpec" else "output"
                    # Of a program's tokens the first is an input.
                    self.assertRegex(self.refused(program, self.programs[program]), rf"an (input|{kind}) of kind {member}")

    def test_a_member_of_tomorrow_is_refused_by_name(self):
        def riddle(graph, signature):
            node(graph, "torch.ops.aten.relu.default", "made", {"self": {"as_riddle": 1}})

        def unknown_input(graph, signature):
            signature["input_specs"][0] = {"riddle": {"arg": {"name": "x"}}}

        def unknown_output(graph, signature):
            signature["output_specs"][0] = {"riddle": {"arg": {"name": "x"}}}

        for change, says in ((riddle, "argument of kind as_riddle"), (unknown_input, "input of kind riddle"),
                             (unknown_output, "output of kind riddle")):
            self.assertIn(says, self.refused(change.__name__, changed(self.programs["lists"], change)))

    def test_what_it_reads_computes_what_pytorch_computes(self):
        program, inputs = self.kinds
        torch.save([v for v in inputs if isinstance(v, torch.Tensor)], self.folder / "in.pt")
        torch.save(list(program.module()(*copy.deepcopy(inputs))), self.folder / "out.pt")
        path = self.file("kinds", self.programs["kinds"])
        run = self.graft("run", path, "--inputs", self.folder / "in.pt", "--expect", self.folder / "out.pt")
        self.assertEqual(run.returncode, 0, run.stderr + run.stdout)

    def test_every_value_of_every_enumeration(self):
        # FNUZ float8 exists on other vendors' devices alone.
        dtypes = {c for c in schema.ScalarType if c.name != "UNKNOWN" and not c.name.endswith("FNUZ")}
        layouts = {c for c in schema.Layout if c.value}
        formats = {c for c in schema.MemoryFormat if c.value}

        def all_values(graph, signature):
            for c in sorted(dtypes):
                # To float32, which x is, there is nothing to do.
                source = "t6" if c == schema.ScalarType.FLOAT else "x"
                node(graph, "torch.ops.aten._to_copy.default", f"t{c.value}", {"self": {"as_tensor": {"name": source}}, "dtype": {"as_scalar_type": c.value}})
                graph["tensor_values"][f"t{c.value}"]["dtype"] = c.value
            for c in layouts:
                node(graph, "torch.ops.aten.zeros_like.default", f"l{c.value}", {"self": {"as_tensor": {"name": "x"}}, "layout": {"as_layout": c.value}})
            for c in formats:
                node(graph, "torch.ops.aten.clone.default", f"f{c.value}", {"self": {"as_tensor": {"name": "x"}}, "memory_format": {"as_memory_format": c.value}})
            graph["outputs"] = [{"as_tensors": [{"name": n["name"]} for n in graph["nodes"]]}]

        text = self.text("values", changed(self.programs["lists"], all_values))
        from torch._export.serde.serialize import _SERIALIZE_TO_TORCH_DTYPE, _SERIALIZE_TO_TORCH_LAYOUT, _SERIALIZE_TO_TORCH_MEMORY_FORMAT
        for c in dtypes:
            self.assertRegex(text, rf"%t{c.value} = .*dtype={re.escape(str(_SERIALIZE_TO_TORCH_DTYPE[c]))}\b")
        for c in layouts:
            self.assertRegex(text, rf"%l{c.value} = .*layout=<{re.escape(str(_SERIALIZE_TO_TORCH_LAYOUT[c]))}>")
        for c in formats:
            self.assertRegex(text, rf"%f{c.value} = .*memory_format=<{re.escape(str(_SERIALIZE_TO_TORCH_MEMORY_FORMAT[c]))}>")

        def foreign(graph, signature):
            graph["tensor_values"]["x"]["dtype"] = schema.ScalarType.FLOAT8E4M3FNUZ.value

        self.assertIn("dtype 31", self.refused("foreign", changed(self.programs["lists"], foreign)))


unittest.main()
