"""resources/python/graft_fx from both ends: graphs out of torch.fx and torch.compile, and rewritten ones back into them."""

import copy
import json
import operator
import sys
import unittest
import warnings
import zipfile

import torch
import torch.nn.functional as F

from support import GRAFT, OPERATORS, RULES, SOURCE, TestCase, graft, main

sys.path.insert(0, str(SOURCE / "resources/python"))
import graft_fx


class Gate(torch.nn.Module):
    """A module of the user's own, which a tracer of theirs takes for a leaf."""

    def __init__(self, width, slope=0.5):
        super().__init__()
        self.width, self.slope = width, slope
        self.scale = torch.nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * self.scale, x * self.slope


@torch.fx.wrap
def halved(x, by=2):
    return x / by if len(x.shape) else x


class Gated(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.fc = Gate(8), torch.nn.Linear(8, 8)

    def forward(self, x):
        a, b = self.gate(self.fc(x))
        return halved(a + b, by=4)


class LeafTracer(torch.fx.Tracer):
    def is_leaf_module(self, m, name):
        return isinstance(m, Gate) or super().is_leaf_module(m, name)


class Mlp(torch.nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.fc1, self.fc2 = torch.nn.Linear(width, 2 * width), torch.nn.Linear(2 * width, width)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class Stacked(torch.nn.Module):
    def __init__(self, layers=3):
        super().__init__()
        self.layers = torch.nn.ModuleList([Mlp() for _ in range(layers)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class Broken(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Mlp(), Mlp()

    def forward(self, x):
        x = self.first(x)
        torch._dynamo.graph_break(msg="the break of this test")
        return self.second(x)


class Projections(torch.nn.Module):
    """Three products of one input, which QkvProjection merges: the rewritten graph has weights of its own."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (torch.nn.Linear(16, 16) for _ in range(3))

    def forward(self, x):
        q, k, v = (f(x).view(x.shape[0], x.shape[1], 4, 4).transpose(1, 2) for f in (self.q, self.k, self.v))
        return torch.softmax(q @ k.transpose(-1, -2) / 2.0, dim=-1) @ v


def document(path):
    with zipfile.ZipFile(path) as z:
        return json.loads(z.read("graft_fx.json"))


def traced(model):
    return torch.fx.GraphModule(model, LeafTracer().trace(model))


class FxTestCase(TestCase):
    def setUp(self):
        super().setUp()
        torch.manual_seed(0)
        torch._dynamo.reset()
        self.path = self.folder / "model.fx"

    def computes(self, path, inputs, expected, *options):
        torch.save(tuple(inputs), self.folder / "inputs.pt")
        torch.save(expected, self.folder / "expected.pt")
        self.done("run", path, "--inputs", self.folder / "inputs.pt", "--expect", self.folder / "expected.pt", *options)


GLOBAL, GLOBAL_NET = torch.ones(16), torch.nn.Linear(16, 16)


def of_globals(x):
    return GLOBAL_NET(x) + GLOBAL


class Save(FxTestCase):
    def test_custom_leaves_and_wrapped_functions_stay_one_node_each(self):
        model = Gated()
        graft_fx.save(traced(model), self.path, (torch.randn(2, 8),))
        report = self.done("report", self.path).stdout
        rows = {line.split()[1]: line.split() for line in report.splitlines() if line.startswith("call_")}
        self.assertEqual(rows["gate"][:4], ["call_module", "gate", "gate", "(fc,)"])
        self.assertEqual(rows["halved"][0], "call_function")
        self.assertIn("{'by': 4}", report)
        self.assertIn("Gate(width=8, slope=0.5)", report)
        self.fails(3, "run", self.path, "--input", "f32[2,8]:randn", says="Gate")

    def test_lowered_leaves_run(self):
        model, x = Gated(), torch.randn(2, 8)
        graft_fx.save(traced(model), self.path, (x,), lower=True)
        self.computes(self.path, (x,), model(x).detach())

    def test_a_leaf_that_needs_data_says_so(self):
        class Peeks(Gate):
            def forward(self, x):
                return x * float(x.sum()), x

        model = Gated()
        model.gate = Peeks(8)
        with self.assertRaisesRegex(ValueError, "Peeks cannot tell its outputs without data"):
            graft_fx.save(traced(model), self.path, (torch.randn(2, 8),))
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_six_opcodes_with_their_spelling(self):
        class Six(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.fc, self.table = torch.nn.Linear(4, 4), torch.nn.Parameter(torch.randn(4))

            def forward(self, x):
                return operator.add(self.fc(x), self.table).clamp(min=0.0)

        model, x = Six(), torch.randn(3, 4)
        graft_fx.save(torch.fx.symbolic_trace(model), self.path, x)
        self.assertEqual([n["op"] for n in document(self.path)["graphs"][0]["fx"]],
                         ["placeholder", "call_module", "get_attr", "call_function", "call_method", "output"])
        opcodes = {line.split()[0] for line in self.done("report", self.path).stdout.split("----------\nUsed")[0].splitlines()[2:]}
        self.assertEqual(opcodes, {"placeholder", "call_module", "get_attr", "call_function", "call_method", "output"})
        self.computes(self.path, (x,), model(x).detach())

    def test_sizes_stay_symbolic_even_where_they_are_equal(self):
        model = torch.fx.symbolic_trace(Mlp())
        x = torch.randn(16, 16, 16)  # all dimensions alike; the last is the layer's
        graft_fx.save(model, self.path, (x,))
        other = torch.randn(3, 5, 16)
        self.computes(self.path, (other,), model(other).detach())

    def test_numbers_lists_and_defaults_as_inputs(self):
        def f(x, n: int, mask=None, keep=True):
            y = x * n
            return y if mask is None else y + mask

        gm = torch.fx.symbolic_trace(f, concrete_args={"mask": None, "keep": True})
        x = torch.randn(2, 3)
        with self.assertRaisesRegex(ValueError, "example for the input 'n' is missing"):
            graft_fx.save(gm, self.path, (x,))
        with self.assertRaisesRegex(ValueError, "the graph has the inputs"):
            graft_fx.save(gm, self.path, {"x": x, "m": 3})

    def test_shared_weights_are_stored_once(self):
        class Tied(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner, self.outer = torch.nn.Embedding(10, 4), torch.nn.Linear(4, 10, bias=False)
                self.outer.weight = self.inner.weight

            def forward(self, ids):
                return self.outer(self.inner(ids))

        model, ids = Tied(), torch.tensor([[1, 2, 3]])
        graft_fx.save(torch.fx.symbolic_trace(model), self.path, (ids,))
        self.assertEqual(sum(name.startswith("weights/") for name in zipfile.ZipFile(self.path).namelist()), 1)
        self.assertEqual(self.json("info", self.path)["weights"]["count"], 1)
        self.computes(self.path, (ids,), model(ids).detach())

    def test_what_is_no_graph_module_is_refused(self):
        with self.assertRaisesRegex(TypeError, "use graft_fx.capture"):
            graft_fx.save(Mlp(), self.path, (torch.randn(1, 16),))


class Capture(FxTestCase):
    def test_a_broken_capture_has_each_graph_its_guards_and_the_reason(self):
        model, x = Broken().eval(), torch.randn(2, 16)
        graft_fx.capture(model, (x,), self.path)
        first, second = document(self.path)["graphs"]
        self.assertIn("the break of this test", first["break"])
        self.assertIn("fx_test.py:", first["break"])
        self.assertIsNone(second["break"])
        for graph in (first, second):
            self.assertTrue(any("TENSOR_MATCH" in g for g in graph["guards"]), graph["guards"])
        info = self.done("info", self.path).stdout
        self.assertIn("the break of this test", info)
        self.assertIn("other methods: forward.1", info)
        notes = self.json("info", self.path, "--method", "forward.1")["notes"]
        self.assertTrue(notes and all(n.startswith("guard: ") for n in notes))
        with torch.no_grad():
            between = model.first(x)
            self.computes(self.path, (x,), between)
            self.computes(self.path, (between,), model(x), "--method", "forward.1")
        self.fails(3, "info", self.path, "--method", "forward.2", says="it has forward, forward.1")

    def test_a_folder_of_captures_is_one_set(self):
        captures = self.folder / "captures"
        captures.mkdir()
        for name, width in (("small", 8), ("wide.v2", 16)):
            graft_fx.capture(Mlp(width).eval(), (torch.randn(2, width),), captures / f"{name}.fx")
        (captures / "notes.txt").write_text("no capture")
        small = self.json("info", captures, "--method", "small/forward")
        wide = self.json("info", captures, "--method", "wide.v2/forward")
        self.assertEqual(small["nodes"], wide["nodes"])
        self.assertIn("[2,8]", small["inputs"][0]["type"])
        self.assertIn("[2,16]", wide["inputs"][0]["type"])
        self.assertIn("linear", self.done("code", captures, "--method", "wide.v2/forward").stdout)
        for method, says in ((("--method", "forward"), "is a folder of captures: name one of its graphs, such as small/forward, wide.v2/forward"),
                             (("--method", "small/backward"), "small.fx"), (("--method", "none/forward"), "is a folder of captures")):
            run = graft("info", captures, *method)
            self.assertEqual(run.returncode, 3, run.stderr)
            self.assertIn(says, run.stderr)
        (self.folder / "empty").mkdir()
        run = graft("info", self.folder / "empty")
        self.assertEqual(run.returncode, 3)
        self.assertIn("is a directory, and no file in it ends in .fx", run.stderr)

    def test_breaks_in_functions_that_call_each_other(self):
        """A function whose callee breaks is a frame without a graph of its own at first: its guards belong to no other."""
        def inner(x):
            return -x if x > 0 else x - 1

        def middle(x):
            return x * inner(x - 1)

        class Nested(torch.nn.Module):
            def forward(self, x):
                return x * middle(2 * x)

        graft_fx.capture(Nested(), (torch.tensor([4]),), self.path)
        graphs = document(self.path)["graphs"]
        codes = [g["code"] for g in graphs]
        self.assertEqual(len(codes), 6, codes)  # the branch that was not taken is the seventh
        self.assertTrue(all(g["guards"] for g in graphs))
        self.assertIn("data-dependent", " ".join(g["break"] or "" for g in graphs).lower())
        self.computes(self.path, (torch.tensor([4]),), torch.tensor([8]))

    def test_code_calls_operators_as_fx_does(self):
        from torch.fx.experimental.proxy_tensor import make_fx

        traced = make_fx(lambda x, y: x + torch.sigmoid(y))(torch.randn(8), torch.randn(8))
        graft_fx.save(traced, self.path, (torch.randn(8), torch.randn(8)))
        self.assertIn("add = torch.ops.aten.add.Tensor(x_1, sigmoid)", traced.code)
        self.assertEqual(self.done("code", self.path).stdout.strip(), traced.code.strip())

    def test_weights_keep_their_paths(self):
        graft_fx.capture(Stacked(2).eval(), (torch.randn(2, 16),), self.path)
        paths = {n["path"] for n in document(self.path)["graphs"][0]["aten"] if n["op"] == "get_attr"}
        self.assertEqual(paths, {f"layers.{i}.{fc}.{w}" for i in (0, 1) for fc in ("fc1", "fc2") for w in ("weight", "bias")})

    def test_inputs_may_be_positional_and_by_name_at_once(self):
        def f(x, *, mask=None, scale=1.0):
            return x.masked_fill(mask, 0.0) * scale

        x = torch.randn(2, 4)
        inputs = ((x,), {"mask": x > 0, "scale": 2.0})
        graft_fx.capture(f, inputs, self.path)
        self.computes(self.path, inputs, f(x, **inputs[1]))

    def test_inputs_by_name_and_dynamic_sizes(self):
        class Named(torch.nn.Module):
            def forward(self, a, b):
                return (a - b).reshape(a.shape[0] * a.shape[1], -1)

        model = Named()
        graft_fx.capture(model, {"b": torch.randn(4, 6, 5), "a": torch.randn(4, 6, 5)}, self.path, dynamic=True)
        names = [n["name"] for n in self.json("info", self.path)["inputs"]]
        given = {"a": torch.randn(3, 2, 7), "b": torch.randn(3, 2, 7)}
        # torch.compile passes the sizes that it found variable beside the tensors.
        sizes = iter([3, 2, 7])
        values = [given["a"] if n.endswith("a_") else given["b"] if n.endswith("b_") else next(sizes) for n in names]
        self.computes(self.path, values, model(**given))

    def test_joint_forward_and_backward_compute_outputs_and_gradients(self):
        model, x = Mlp().train(), torch.randn(3, 16)
        model.register_buffer("calls", torch.zeros(()))
        graft_fx.capture(model, (x,), self.path, joint=True)
        self.assertEqual([g["name"] for g in document(self.path)["graphs"]], ["joint", "forward", "backward"])
        self.assertTrue(all(p.grad is None for p in model.parameters()))
        y = model(x)
        tangent = torch.randn_like(y)
        gradients = torch.autograd.grad(y, list(model.parameters()), tangent)
        inputs = {"l_x_": x, "tangents_1": tangent}
        names = [i["name"] for i in self.json("info", self.path, "--method", "joint")["inputs"]]
        torch.save(tuple(inputs[n] for n in names), self.folder / "inputs.pt")
        self.done("run", self.path, "--method", "joint", "--inputs", self.folder / "inputs.pt", "-o", self.folder / "out.pt")
        out = [t for t in torch.utils._pytree.tree_leaves(torch.load(self.folder / "out.pt")) if isinstance(t, torch.Tensor)]
        torch.testing.assert_close(out[0], y.detach())
        for g in gradients:
            self.assertTrue(any(g.shape == t.shape and torch.allclose(g, t, atol=1e-5) for t in out[1:]), g.shape)
        # Parameters are weights, as rules want them; the backward graph gets what the forward graph keeps for it.
        for name, count in (("joint", 4), ("forward", 4), ("backward", 0)):
            self.assertEqual(self.json("info", self.path, "--method", name)["weights"]["count"], count)

    def test_sums_of_gradients_belong_to_the_module_around_what_they_add(self):
        class Residual(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

            def forward(self, x):
                return x * torch.tanh(self.a(x)) + torch.sigmoid(self.b(x))

        graft_fx.capture(torch.nn.Sequential(Residual(), Residual()), (torch.randn(3, 4, requires_grad=True),), self.path, joint=True)
        joint = next(g for g in document(self.path)["graphs"] if g["name"] == "joint")
        sums = [n for n in joint["aten"] if n["op"] == "call_function" and n["target"].startswith("aten.add.")
                and any(key.endswith(".backward") for key, _, _ in n["modules"])]
        # x has three readers, and so there are two sums in each block; each block's forward pass has one of its own.
        self.assertEqual(sorted(n["modules"][-1][1] for n in sums), ["0", "0", "1", "1"])
        self.assertFalse([n["name"] for n in joint["aten"] if n["op"] == "call_function" and not n["modules"]])

    def test_functions_methods_and_objects_are_captured_with_what_they_use(self):
        net, table = Mlp(), torch.randn(16)

        class Holder:
            def __init__(self):
                self.net = net

            def __call__(self, x):
                return self.net(x).tanh()

        def closed(x, more):
            return net(x) + table * more["by"]

        x, more = torch.randn(2, 16), {"by": torch.randn(16)}
        weights = {f"net.{name}" for name, _ in net.named_parameters()}
        for f, inputs, paths in ((closed, (x, more), weights | {"table"}), (lambda x: net(x) * 2, (x,), weights),
                                 (Holder(), (x,), weights), (net.forward, (x,), {path[4:] for path in weights}),
                                 (of_globals, (x,), {"GLOBAL_NET.weight", "GLOBAL_NET.bias", "GLOBAL"}), (torch.relu, (x,), set())):
            with torch.no_grad():
                expected = f(*inputs)
            graft_fx.capture(f, inputs, self.path)
            self.assertEqual({n["path"] for n in document(self.path)["graphs"][0]["aten"] if n["op"] == "get_attr"}, paths)
            self.computes(self.path, inputs, expected)

    def test_joint_of_what_has_no_gradient_is_refused(self):
        model = Mlp().requires_grad_(False)
        with self.assertRaisesRegex(ValueError, "requires a gradient"):
            graft_fx.capture(model, (torch.randn(3, 16),), self.path, joint=True)

    def test_running_statistics_and_random_numbers_are_left_as_they_were(self):
        model = torch.nn.Sequential(torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5)).train()
        state, random = torch.get_rng_state(), model[0].running_mean.clone()
        graft_fx.capture(model, (torch.randn(8, 4, generator=torch.Generator().manual_seed(1)),), self.path)
        self.assertTrue(torch.equal(torch.get_rng_state(), state))
        self.assertTrue(torch.equal(model[0].running_mean, random))


class Backend(FxTestCase):
    def backend(self, rules=RULES, **options):
        return graft_fx.backend(rules, graft=GRAFT, library=OPERATORS, **options)

    def quietly(self, f, *args):
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("error")
            return f(*args)

    def rewritten(self, backend, rule, count):
        report = backend.reports[-1]
        self.assertTrue(report["rewritten"], report)
        counts = {s["name"]: s["rewrites"] for s in report["graft"]["steps"]}
        self.assertEqual(counts[rule], count)
        self.assertTrue(report["graft"]["verification"]["passed"])

    def test_the_rewritten_graph_runs_in_place(self):
        model, x, backend = Stacked().eval(), torch.randn(4, 16), self.backend()
        fast = torch.compile(model, backend=backend)
        with torch.no_grad():
            torch.testing.assert_close(self.quietly(fast, x), model(x))
        self.rewritten(backend, "GeluLinear", 3)

    def test_weights_are_shared_with_the_model(self):
        model, x = Mlp().eval(), torch.randn(4, 16)
        fast = torch.compile(model, backend=self.backend())
        self.quietly(fast, x)
        with torch.no_grad():
            model.fc1.weight.mul_(-1.0)
            model.fc2.bias.add_(3.0)
            torch.testing.assert_close(self.quietly(fast, x), model(x))

    def test_merged_weights_follow_the_model(self):
        model, x, backend = Projections().eval(), torch.randn(2, 5, 16), self.backend(recipe="Encoder")
        fast = torch.compile(model, backend=backend)
        self.quietly(fast, x)
        self.rewritten(backend, "QkvProjection", 1)
        with torch.no_grad():
            torch.testing.assert_close(self.quietly(fast, x), model(x))
            model.k.weight.mul_(2.0)
            torch.testing.assert_close(self.quietly(fast, x), model(x))
        optimizer = torch.optim.SGD(model.parameters(), 0.5, fused=True)  # whose writes PyTorch does not count
        before = model(x)
        before.sum().backward()
        optimizer.step()
        with torch.no_grad():
            self.assertGreater(float((model(x) - before).abs().max()), 1e-2)
            torch.testing.assert_close(self.quietly(fast, x), model(x))

    def test_a_step_of_an_optimizer_can_be_compiled(self):
        """Steps are counted by a hook of all optimizers, which torch.compile traces, too."""
        model = Mlp()
        other = copy.deepcopy(model)
        backend = self.backend()
        optimizers = [torch.optim.AdamW(m.parameters(), 1e-2, foreach=True) for m in (model, other)]
        steps = torch.compile(optimizers[0].step, backend=backend), optimizers[1].step
        for i in range(3):
            x = torch.randn(4, 16, generator=torch.Generator().manual_seed(i))
            for m, optimizer, step in zip((model, other), optimizers, steps):
                optimizer.zero_grad()
                m(x).square().mean().backward()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    step()
        self.assertEqual(backend.skipped, [])
        for a, b in zip(model.parameters(), other.parameters()):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)

    def test_between_steps_of_training_nothing_is_merged(self):
        """A recorded step writes weights and nobody is told."""
        model, x, backend = Projections().eval(), torch.randn(2, 5, 16), self.backend(recipe="Encoder", training=True)
        fast = torch.compile(model, backend=backend)
        with torch.no_grad():
            torch.testing.assert_close(self.quietly(fast, x), model(x))
            self.rewritten(backend, "QkvProjection", 1)
            version = model.k.weight._version
            model.k.weight.numpy()[:] *= 2
            self.assertEqual(model.k.weight._version, version)
            torch.testing.assert_close(self.quietly(fast, x), model(x))

    def test_one_graph_for_several_blocks_uses_each_block_s_weights(self):
        model, x = Stacked().eval(), torch.randn(4, 16)
        with torch.no_grad():
            expected = model(x)
        backend = self.backend()
        for layer in model.layers:
            layer.compile(backend=backend)
        for _ in range(2):
            torch.testing.assert_close(self.quietly(model, x), expected)

    def test_broken_captures_and_other_sizes(self):
        model, backend = Broken().eval(), self.backend()
        fast = torch.compile(model, backend=backend)
        for rows in (4, 6, 9):  # the second size makes torch.compile take it for variable
            x = torch.randn(rows, 16)
            with torch.no_grad():
                torch.testing.assert_close(self.quietly(fast, x), model(x))
        self.assertEqual({r["rewritten"] for r in backend.reports}, {True})
        self.assertLessEqual(len(backend.reports), 4)

    def test_several_outputs_keep_their_order(self):
        class Two(Mlp):
            def forward(self, x, y):
                a = F.gelu(self.fc1(y))
                return {"sum": a.sum(-1), "all": a}, x * 2, self.fc2(a)

        model, args = Two().eval(), (torch.randn(4, 16), torch.randn(4, 16))
        fast = torch.compile(model, backend=self.backend())
        with torch.no_grad():
            got, expected = self.quietly(fast, *args), model(*args)
        torch.testing.assert_close(got, expected)

    def runs_as_it_was(self, model, x, backend, says, grad=False):
        with torch.set_grad_enabled(grad), warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            got = torch.compile(model, backend=backend)(x)
            torch.testing.assert_close(got, model(x))
        text = "\n".join(str(w.message) for w in said)
        self.assertRegex(text, f"graft_fx: graph 0 runs as it was: .*{says}")
        self.assertFalse(backend.reports[0]["rewritten"])
        return got

    def test_where_gradients_are_wanted_the_graph_runs_as_it_was(self):
        self.runs_as_it_was(Mlp(), torch.randn(4, 16), self.backend(), "gradients", grad=True).sum().backward()

    def test_a_graph_without_a_match_runs_as_it_was(self):
        self.runs_as_it_was(torch.nn.Tanh(), torch.randn(2, 4), self.backend(), "no rule matches")

    def test_a_rule_that_computes_something_else_is_not_taken(self):
        rules = self.file("wrong.py", "import torch\nimport torch.nn.functional as F\nfrom graft import Rule\n\n\nclass Wrong(Rule):\n"
                          "    def pattern(x):\n        return F.gelu(x)\n\n    def replacement(x):\n        return F.relu(x)\n")
        self.runs_as_it_was(Mlp(), torch.randn(4, 16), self.backend(rules), "computes something else")

    def test_a_rule_file_with_an_error_is_named(self):
        rules = self.file("bad.py", "class Bad(Rule)\n")
        self.runs_as_it_was(Mlp(), torch.randn(4, 16), self.backend(rules), "bad.py")

    def test_rewrites_are_accepted_under_autocast(self):
        class Inside(torch.nn.Module):
            def __init__(self, model):
                super().__init__()
                self.model = model

            def forward(self, x):
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    y = self.model(x)
                return y.float()

        x = torch.randn(4, 16)
        for model, around in ((Stacked().eval(), True), (Inside(Stacked().eval()), False)):
            torch._dynamo.reset()
            backend = self.backend()
            fast = torch.compile(model, backend=backend)
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=around), torch.no_grad():
                got, expected = self.quietly(fast, x), model(x)
                self.assertEqual(got.dtype, expected.dtype)
                torch.testing.assert_close(got.float(), expected.float(), rtol=5e-2, atol=5e-2)
            self.rewritten(backend, "GeluLinear", 3)
            with torch.no_grad():
                exact = (model.model if not around else model).double()(x.double())
            self.assertLess((got.double() - exact).norm(), 3 * (expected.double() - exact).norm() + 1e-3)

    def test_a_function_that_cannot_be_captured_is_told(self):
        def loop(x):
            for _ in range(2):
                with open("/dev/null"):
                    torch._dynamo.graph_break()
                x = x + 1
            return x

        backend = self.backend()
        with warnings.catch_warnings(record=True) as caught, torch.no_grad():
            warnings.simplefilter("always")
            torch.testing.assert_close(torch.compile(loop, backend=backend)(torch.ones(2)), torch.full((2,), 3.0))
        self.assertEqual(len(backend.skipped), 1)
        self.assertIn("fx_test.py", backend.skipped[0])
        self.assertTrue(any("plain Python" in str(w.message) for w in caught))

    def test_strict_raises(self):
        with torch.no_grad(), self.assertRaisesRegex(Exception, "no rule matches"):
            torch.compile(torch.nn.Tanh(), backend=self.backend(strict=True))(torch.randn(2, 4))

    def test_missing_program_and_rules(self):
        with self.assertRaisesRegex(FileNotFoundError, "no rule file"):
            self.backend(self.folder / "nowhere.py")


main()
