"""`graft report` and `graft code` show what users of torch.fx know, and the code, run in Python, computes the same."""

import math
import operator
import sys
import warnings

import torch

from support import SAMPLES, SOURCE, TestCase, main

sys.path[:0] = [str(SOURCE / "resources/python"), str(SOURCE / "samples/models")]
import build
import graft_fx
import modules

warnings.simplefilter("ignore")
FOLDER = SAMPLES / "models"

MY_MODULE = """\
opcode         name    target                   args        kwargs
-------------  ------  -----------------------  ----------  ------------------------
placeholder    x       x                        ()          {}
get_attr       param   param                    ()          {}
call_function  add     <built-in function add>  (x, param)  {}
call_module    linear  linear                   (add,)      {}
call_method    clamp   clamp                    (linear,)   {'min': 0.0, 'max': 1.0}
output         output  output                   (clamp,)    {}
----------
Used modules
----------
name    target_type
------  ------------------------------------------------
linear  Linear(in_features=4, out_features=5, bias=True)
"""
MY_MODULE_CODE = """\
def forward(self, x):
    param = self.param
    add = x + param;  x = param = None
    linear = self.linear(add);  add = None
    clamp = linear.clamp(min = 0.0, max = 1.0);  linear = None
    return clamp
"""
FEED_FORWARD = """\
opcode       name     target    args        kwargs
-----------  -------  --------  ----------  --------
placeholder  x        x         ()          {}
call_module  fc1      fc1       (x,)        {}
call_module  tanh     tanh      (fc1,)      {}
call_module  fc2      fc2       (tanh,)     {}
call_module  sigmoid  sigmoid   (fc2,)      {}
output       output   output    (sigmoid,)  {}
----------
Used modules
----------
name     target_type
-------  -------------------------------------------------
fc1      Linear(in_features=5, out_features=10, bias=True)
tanh     Tanh()
fc2      Linear(in_features=10, out_features=1, bias=True)
sigmoid  Sigmoid()
"""
FEED_FORWARD_CODE = """\
def forward(self, x):
    fc1 = self.fc1(x);  x = None
    tanh = self.tanh(fc1);  fc1 = None
    fc2 = self.fc2(tanh);  tanh = None
    sigmoid = self.sigmoid(fc2);  fc2 = None
    return sigmoid
"""
IN_PLACE_CODE = """\
def forward(self, x):
    linear = self.linear(x)
    mul = linear * 3
    relu = self.relu(linear);  linear = None
    add_ = relu.add_(mul);  relu = mul = None
    silu = torch.nn.functional.silu(add_, inplace = True);  add_ = None
    last = self.last(silu);  silu = None
    sub = last - x;  last = x = None
    return sub
"""


def plain(text):
    return [line.rstrip() for line in text.rstrip().splitlines()]


def executed(code, model, inputs):
    names = {"torch": torch, "math": math, "operator": operator}
    exec(code, names)
    with torch.no_grad():
        return names["forward"](model, *inputs)


class Report(TestCase):
    def saved(self, model, inputs):
        path = self.folder / "model.fx"
        graft_fx.save(torch.fx.symbolic_trace(model), path, inputs)
        return path

    def test_kernl_s_first_example_is_as_fx_shows_it(self):
        path = self.saved(modules.MyModule(), (torch.randn(3, 4),))
        self.assertEqual(plain(self.done("report", path).stdout), plain(MY_MODULE))
        self.assertEqual(plain(self.done("code", path).stdout), plain(MY_MODULE_CODE))

    def test_kernl_s_second_example_is_as_fx_shows_it(self):
        path = self.saved(modules.FeedForward(5, 10), (torch.randn(7, 5),))
        self.assertEqual(plain(self.done("report", path).stdout), plain(FEED_FORWARD))
        self.assertEqual(plain(self.done("code", path).stdout), plain(FEED_FORWARD_CODE))

    def test_code_is_fx_s_own_code(self):
        """For a straight model the text is that of GraphModule.code, comments and annotations apart."""
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).eval()
        traced = torch.fx.symbolic_trace(model)
        path = self.folder / "model.fx"
        graft_fx.save(traced, path, (torch.randn(2, 4),))
        own = traced.code.strip().replace("input : torch.Tensor", "input").replace("input_1 = input;  input = None\n    ", "")
        ours = self.done("code", path).stdout
        self.assertEqual(plain(ours)[1:], [line for line in plain(own)[1:] if "input_1 = input" not in line])

    def test_what_was_written_in_place_is_read_after_the_write(self):
        class InPlace(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.linear, self.relu, self.last = torch.nn.Linear(4, 4), torch.nn.ReLU(inplace=True), torch.nn.Linear(4, 4)

            def forward(self, x):
                y = self.linear(x)
                before = y * 3
                z = self.relu(y)
                z.add_(before)
                torch.nn.functional.silu(y, inplace=True)
                return self.last(y) - x

        torch.manual_seed(0)
        model, x = InPlace().eval(), torch.randn(3, 4)
        path = self.saved(model, (x,))
        code = self.done("code", path).stdout
        self.assertEqual(plain(code), plain(IN_PLACE_CODE))
        torch.testing.assert_close(executed(code, model, (x,)), model(x))
        rows = [line.split()[:3] for line in self.done("report", path).stdout.splitlines()]
        self.assertIn(["call_module", "relu", "relu"], rows)

    def test_bert_s_first_layer_has_fx_s_operators_in_fx_s_order(self):
        seen = []

        def backend(gm, example_inputs):
            seen.append([n for n in gm.graph.nodes if n.op in ("call_function", "call_method")])
            return gm.forward

        model, inputs = build.build("bert")
        torch._dynamo.reset()
        with torch.no_grad():
            torch.compile(model, backend=backend)(*inputs)
        # What of the capture is a number or takes a number apart is no node here; the rest is the same list.
        first = [n for n in seen[0] if any(path.endswith("layer.0") or "layer._modules['0']" in path or "layer[0]" in path
                                           for path, _ in n.meta.get("nn_module_stack", {}).values())]
        expected = [(n.op, n.name) for n in first]
        rows = [tuple(line.split()[:2]) for line in self.done("report", FOLDER / "bert.fx").stdout.splitlines()
                if line.startswith("call_")]
        names = {name for _, name in rows}
        wanted = [(op, name) for op, name in expected if name in names]
        self.assertGreaterEqual(len(wanted), 25)
        start = rows.index(wanted[0])
        self.assertEqual(rows[start:start + len(wanted)], wanted)
        code = self.done("code", FOLDER / "bert.fx").stdout
        layer = [line.split(" = ", 1)[1] for line in code.splitlines() if " = " in line]
        order = ["torch._C._nn.linear(", ".view(", ".transpose(1, 2)", "torch.matmul(", " * ", " + ", "softmax(", "dropout(",
                 "torch.matmul(", ".transpose(1, 2)", ".contiguous(", ".reshape(", "torch._C._nn.linear("]
        at = 0
        for piece in order:
            found = next((i for i in range(at, len(layer)) if piece in layer[i]), None)
            self.assertIsNotNone(found, f"no {piece} after line {at}:\n{code[:6000]}")
            at = found + 1


class Code(TestCase):
    """Every form of every sample model, as Python, with the model that it came from as `self`."""


def add(name):
    def test(self):
        expected = torch.load(FOLDER / f"{name}_expected.pt")
        for path in (FOLDER / f"{name}{suffix}" for suffix in (".pt", ".pt2", ".fx")):
            if (name, build.FORMATS[path.suffix]) in build.KNOWN:
                continue
            with self.subTest(path.name):
                model, inputs = build.build(name)
                torch.testing.assert_close(executed(self.done("code", path).stdout, model, inputs), expected)

    setattr(Code, f"test_{name}", test)


class NoCode(TestCase):
    def test_control_flow_is_no_straight_code(self):
        self.fails(3, "code", FOLDER / "control_flow.pt", says="control flow")


for name in build.MODELS:
    if name not in build.SCRIPTED:
        add(name)

main()
