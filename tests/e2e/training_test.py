"""Training steps: captured, parted by `graft partition`, and the halves run beside autograd in double precision."""

import copy
import os
import random
import re
import subprocess
import sys
import unittest
import warnings

import torch
import torch.nn.functional as F
import torch.utils._pytree as pytree

from support import GRAFT, SOURCE, TestCase, main

sys.path.insert(0, str(SOURCE / "resources/python"))
import graft_fx

TIGHT = {"rtol": 1e-10, "atol": 1e-12}


class Tied(torch.nn.Module):
    """Tied weights, a frozen parameter, an embedding, dropout, several outputs and a loss among them."""

    def __init__(self, words=17, width=8, dropout=0.0):
        super().__init__()
        self.embedding = torch.nn.Embedding(words, width)
        self.mix, self.norm = torch.nn.Linear(width, width), torch.nn.LayerNorm(width)
        self.dropout, self.head = torch.nn.Dropout(dropout), torch.nn.Linear(width, words, bias=False)
        self.head.weight = self.embedding.weight
        self.mix.bias.requires_grad_(False)

    def forward(self, ids, labels):
        x = self.embedding(ids)
        x = self.norm(x + self.dropout(F.silu(self.mix(x))))
        logits = self.head(x)
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten()), logits, x.mean(1)


class Normed(torch.nn.Module):
    """BatchNorm in training, whose statistics are results of the graph."""

    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Conv2d(3, 6, 3, padding=1), torch.nn.Conv2d(6, 6, 3, groups=2, padding=1)
        self.first, self.second = torch.nn.BatchNorm2d(6), torch.nn.BatchNorm2d(6)

    def forward(self, x):
        x = F.relu(self.first(self.a(x)))
        x = F.max_pool2d(x + F.hardswish(self.second(self.b(x))), 2)
        return x.mean((2, 3))


def small_models():
    """(name, model, inputs): small random models of transformers and torchvision."""
    import torchvision
    import transformers

    ids = torch.randint(0, 60, (2, 9))
    tiny = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24, "vocab_size": 60}
    gpt = transformers.GPT2Config(n_embd=16, n_layer=2, n_head=2, vocab_size=60, n_positions=16, use_cache=False)
    yield "gpt2", transformers.GPT2LMHeadModel(gpt), {"input_ids": ids}
    llama = transformers.LlamaConfig(num_key_value_heads=1, max_position_embeddings=16, use_cache=False, **tiny)
    yield "llama", transformers.LlamaForCausalLM(llama), {"input_ids": ids, "labels": ids}
    image = torch.randn(2, 3, 32, 32)
    yield "shufflenet", torchvision.models.ShuffleNetV2([2, 1, 1], [8, 16, 32, 64, 64], num_classes=5), (image,)


def randomised(inputs):
    return pytree.tree_map(lambda t: t.double() if isinstance(t, torch.Tensor) and t.is_floating_point() else t, inputs)


def in_order(inputs, names):
    """The tensors of `inputs` that a graph takes: torch.compile calls the argument `ids` l_ids_."""
    if isinstance(inputs, dict):
        return [inputs[re.fullmatch(r"l_(?:kwargs_)?(\w+?)_", n)[1]] for n in names]
    return list(inputs)


class Training(TestCase):
    def setUp(self):
        super().setUp()
        torch.manual_seed(0)
        torch._dynamo.reset()
        self.path = self.folder / "net.fx"

    def captured(self, model, inputs, **options):
        graft_fx.capture(model, inputs, self.path, joint=True, **options)
        return self.path

    def trains_as_autograd(self, model, inputs, *options, seed=None):
        """Parts the captured step and compares results, new values of buffers and gradients with autograd's."""
        cut = self.json("partition", self.path, "-o", self.folder / "cut.pt", *options)
        self.assertIsNot(cut["verification"]["passed"], False)
        warnings.simplefilter("ignore", DeprecationWarning)  # of TorchScript
        halves = [torch.jit.load(self.folder / f"cut.{half}.pt") for half in ("forward", "backward")]
        count = sum(r["kind"] != "saved" for r in cut["forward"]["returns"])
        if seed is not None:
            torch.manual_seed(seed)
        results = halves[0](*in_order(inputs, cut["forward"]["inputs"]))
        results = results if isinstance(results, tuple) else (results,)
        saved, results = results[count:], results[:count]
        own = copy.deepcopy(model)
        if seed is not None:
            torch.manual_seed(seed)
        expected = own(**inputs) if isinstance(inputs, dict) else own(*inputs)
        expected = [t for t in pytree.tree_leaves(list(expected.values()) if isinstance(expected, dict) else expected)
                    if isinstance(t, torch.Tensor)]
        got = [t for r, t in zip(cut["forward"]["returns"], results) if r["kind"] == "output"]
        for t in got:  # torch.compile gives the results in an order of its own
            self.assertTrue(any(t.shape == e.shape and torch.allclose(t, e, **TIGHT) for e in expected), t.shape)
        buffers = dict(own.named_buffers())
        for r, t in zip(cut["forward"]["returns"], results):
            if r["kind"] == "mutation":
                torch.testing.assert_close(t, buffers[r["of"]], **TIGHT)
        match = [next(e for e in expected if t.shape == e.shape and torch.allclose(t, e, **TIGHT)) for t in got]
        ends = [e for e in match if e.requires_grad]
        tangents = [torch.randn_like(e) for e in ends]
        gradients = halves[1](*saved, *tangents)
        gradients = gradients if isinstance(gradients, tuple) else (gradients,)
        parameters = dict(own.named_parameters())
        wanted = torch.autograd.grad(ends, list(parameters.values()) if all(p.requires_grad for p in parameters.values())
                                     else [p for p in parameters.values() if p.requires_grad], tangents, allow_unused=True)
        wanted = dict(zip([n for n, p in parameters.items() if p.requires_grad], wanted))
        compared = set()
        for r, g in zip(cut["backward"]["returns"], gradients):
            if r["of"] in wanted:
                torch.testing.assert_close(g, wanted[r["of"]], **TIGHT)
                compared.add(r["of"])
        self.assertEqual(compared, {n for n, g in wanted.items() if g is not None})
        return cut

    def test_small_models_of_others_give_autograds_gradients_at_every_budget(self):
        for name, model, inputs in small_models():
            with self.subTest(name):
                model, inputs = model.double().train(), randomised(inputs)
                for m in model.modules():
                    if isinstance(m, torch.nn.Dropout):
                        m.p = 0.0
                    for rate in ("attention_dropout", "attn_pdrop", "resid_pdrop", "dropout_prob"):
                        if isinstance(getattr(m, rate, None), float):
                            setattr(m, rate, 0.0)
                self.captured(model, inputs)
                given = ("--inputs", self.folder / "in.pt")
                names = [i["name"] for i in self.json("info", self.path, "--method", "joint")["inputs"]]
                ahead = in_order(inputs, [n for n in names if not n.startswith("tangents")])
                shapes = [i["type"] for i in self.json("info", self.path, "--method", "joint")["inputs"]][len(ahead):]
                tangents = [torch.randn([int(d) for d in re.findall(r"\d+", t.split("[")[1].split("]")[0])],
                                        dtype=torch.float64 if t.startswith("f64") else torch.float32) for t in shapes]
                torch.save((*ahead, *tangents), self.folder / "in.pt")
                before = None
                for memory in ("100%", "50%"):
                    cut = self.trains_as_autograd(model, inputs, "--memory", memory, *given)
                    self.assertTrue(cut["verification"]["passed"], cut["verification"].get("notRun"))
                    self.assertLessEqual(cut["savedBytes"], float(memory[:-1]) / 100 * cut["defaultBytes"])
                    if before is not None:
                        self.assertLessEqual(cut["savedBytes"], before)
                    before = cut["savedBytes"]

    def test_decompositions_and_prims_compute_the_same(self):
        x = torch.randn(2, 3, 8, 8, dtype=torch.float64)
        for decompose in ("core", "inductor"):
            with self.subTest(decompose):
                model = Normed().double().train()
                self.captured(model, (x,), decompose=decompose)
                self.trains_as_autograd(model, (x,), "--input", "l_x_=f64[2,3,8,8]:randn")
        text = self.done("text", self.path, "--method", "joint").stdout
        self.assertIn("aten.var_mean.correction", text)
        self.assertIn(repr(128 / 127)[:8], text)  # the unbiased variance of 2*8*8 elements
        self.assertNotIn("prims.", text)

    def test_a_broken_capture_has_a_joint_graph_for_each_part(self):
        class Broken(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

            def forward(self, x):
                x = torch.tanh(self.a(x))
                torch._dynamo.graph_break()
                return torch.tanh(self.b(x))

        self.captured(Broken(), (torch.randn(3, 4),))
        info = self.json("info", self.path, "--method", "joint.1")
        self.assertEqual([r["of"] for r in info["signature"]["returns"] if r["kind"] == "gradient"][:2], ["b.weight", "b.bias"])
        for method in ("joint", "forward", "backward", "joint.1", "forward.1", "backward.1"):
            self.done("draw", self.path, "--method", method, "-o", self.folder / f"{method}.svg")
            self.done("run", self.path, "--method", method)
            self.done("convert", self.path, "--method", method, "-o", self.folder / f"{method}.pt2")
            self.done("compare", self.path, self.path, "--method", method, "--seconds", "0.01")
            self.done("code", self.path, "--method", method)
        rules = self.file("rules.py", "from graft import Rule\nimport torch\n\nclass Tanh(Rule):\n    def pattern(x):\n        return torch.tanh(x)\n")
        for method, count in (("joint", 1), ("forward.1", 1), ("backward", 0)):
            found = self.of_model("match", self.path, "--method", method, "--rules", rules)
            self.assertEqual([r["matches"] for r in found["rules"]], [count])
        self.assertTrue(self.json("partition", self.path, "--method", "joint.1")["verification"]["passed"])

    def test_the_signature_names_what_changes_and_what_is_saved(self):
        self.captured(Normed().train(), (torch.randn(2, 3, 8, 8),))
        returns = self.json("info", self.path, "--method", "joint")["signature"]["returns"]
        self.assertEqual({r["of"] for r in returns if r["kind"] == "mutation"},
                         {f"{n}.{b}" for n in ("first", "second") for b in ("running_mean", "running_var", "num_batches_tracked")})
        said = self.done("info", self.path, "--method", "joint").stdout
        self.assertIn("returns 6 new values (", said)
        saved = [r for r in self.json("info", self.path, "--method", "forward")["signature"]["returns"] if r["kind"] == "saved"]
        self.assertIn("a.weight", [r["of"] for r in saved])
        for method in ("joint", "forward", "backward"):
            self.assertNotRegex(self.done("text", self.path, "--method", method).stdout, r"= aten\.\w+_\.")

    def test_tied_weights_frozen_parameters_and_several_outputs(self):
        ids, labels = torch.randint(0, 17, (2, 5)), torch.randint(0, 17, (2, 5))
        model = Tied().double().train()
        self.captured(model, (ids, labels))
        for memory in ("100%", "60%"):
            self.trains_as_autograd(model, (ids, labels), "--memory", memory, "--no-verify")

    def test_random_graphs_at_random_budgets_give_autograds_gradients(self):
        choice = random.Random(5)
        for round in range(6):
            class Net(torch.nn.Module):
                def __init__(self):
                    super().__init__()
                    self.plan = [(choice.choice(("linear", "tanh", "norm", "softmax", "mix", "gelu")), choice.random()) for _ in range(7)]
                    self.layers = torch.nn.ModuleList([torch.nn.Linear(6, 6) if kind == "linear" else torch.nn.LayerNorm(6)
                                                       for kind, _ in self.plan])

                def forward(self, x):
                    seen = [x]
                    for (kind, at), layer in zip(self.plan, self.layers):
                        old = seen[int(at * len(seen))]
                        x = {"linear": lambda: layer(x), "norm": lambda: layer(x + old), "tanh": lambda: torch.tanh(x) * old,
                             "softmax": lambda: torch.softmax(x, -1) @ old.transpose(-1, -2) @ x, "mix": lambda: x * old + x.sum(-1, keepdim=True),
                             "gelu": lambda: F.gelu(x) - old}[kind]()
                        seen.append(x)
                    return x, x.exp().clamp(max=3.0)

            with self.subTest(round=round):
                torch._dynamo.reset()
                model, x = Net().double(), torch.randn(2, 4, 6, dtype=torch.float64)
                self.captured(model, (x,))
                least = self.json("partition", self.path, "--no-verify")
                share = max(choice.random(), least["leastBytes"] / least["defaultBytes"] + 1e-6)
                self.trains_as_autograd(model, (x,), "--memory", str(min(1.0, share)))

    def test_pins_and_what_cannot_be(self):
        self.captured(Tied(dropout=0.3).train(), (torch.randint(0, 17, (2, 5)), torch.randint(0, 17, (2, 5))))
        given = ("--no-verify",)
        cut = self.json("partition", self.path, "--recompute", "mix", *given)
        self.assertNotIn("mix", [s["module"] for s in cut["saved"]])
        self.assertIn("it was asked for", [n["reason"] for n in cut["recomputed"]])
        again = cut["recomputed"][0]["name"]
        saved = self.json("partition", self.path, "--save", "silu", *given)["saved"]
        self.assertIn(("silu", "it was asked for"), [(s["name"], s["reason"]) for s in saved])
        self.assertIn("draws random numbers", self.done("partition", self.path, "--recompute", "dropout", *given).stderr)
        self.fails(2, "partition", self.path, "--save", "silo", *given, says="did you mean silu")
        self.fails(2, "partition", self.path, "--save", again, "--recompute", again, *given, says="decide for one")
        self.fails(2, "partition", self.path, "--memory", "much", says="share of memory")
        self.fails(2, "partition", self.path, "--memory", "140%", says="share of memory")
        self.fails(3, "partition", self.path, "--memory", "1%", "-o", self.folder / "x.pt", *given, says=("cannot be met", "at least --memory"))
        self.fails(3, "partition", self.path, "--method", "forward", *given, says="no backward pass")

    def test_wishes_come_from_a_file_and_other_budgets_are_a_curve(self):
        net = torch.nn.Sequential(*[m for _ in range(4) for m in (torch.nn.Linear(32, 32), torch.nn.GELU())])
        self.captured(net, (torch.randn(64, 32),))
        file = self.folder / "cut.json"
        file.write_text('{"partition": 1, "memory": 0.6, "recompute": ["1"]}')
        by_file = self.json("partition", self.path, "--cut", file, "--no-verify")
        by_flags = self.json("partition", self.path, "--memory", "60%", "--recompute", "1", "--no-verify")
        self.assertEqual(by_file, by_flags)
        self.assertEqual(self.json("partition", self.path, "--cut", file, "--memory", "80%", "--no-verify")["memory"], 0.8)
        for wrong, says in (('{"partition": 1, "memori": 1}', 'did you mean "memory"?'), ('{"partition": 2}', "its version is 2"),
                            ('{"partition": 1, "memory": 60}', "a share from 0 to 1"), ('{"memory": 1}', "partition"), ("[]", "cut.json")):
            file.write_text(wrong)
            self.fails(3, "partition", self.path, "--cut", file, "--no-verify", says=says)
        self.fails(3, "partition", self.path, "--cut", self.folder / "none.json", "--no-verify", says="cannot read")
        cut = self.json("partition", self.path, "--no-verify", "--curve")
        curve = cut["curve"]
        self.assertGreater(len(curve), 2)
        self.assertEqual(curve[0]["savedBytes"], cut["defaultBytes"])
        self.assertEqual(curve[-1]["savedBytes"], cut["leastBytes"])
        for before, after in zip(curve, curve[1:]):
            self.assertLessEqual(after["savedBytes"], before["savedBytes"])
            self.assertLessEqual(after["savedBytes"], after["memory"] * cut["defaultBytes"] * (1 + 1e-6))
        # Live memory: the most of it is the peak that is printed.
        for half in ("forward", "backward"):
            self.assertEqual(max(n["bytes"] for n in cut["live"][half]), cut["simulatedPeak"][half])

    def test_measured_times_decide_and_the_measured_peak_is_near_the_simulated_one(self):
        net = torch.nn.Sequential(*[m for _ in range(4) for m in (torch.nn.Linear(32, 32), torch.nn.GELU())])
        self.captured(net, (torch.randn(64, 32),))
        cut = self.json("partition", self.path, "--memory", "60%", "--measure")
        self.assertTrue(cut["timesAreMeasured"])
        for half in ("forward", "backward"):
            self.assertLessEqual(abs(cut["simulatedPeak"][half] - cut["measuredPeak"][half]), 0.1 * cut["measuredPeak"][half])

    def test_gradients_that_are_not_finite_are_named(self):
        class Root(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.scale = torch.nn.Parameter(torch.zeros(4))

            def forward(self, x):
                return torch.sqrt(x * self.scale)

        self.captured(Root(), (torch.randn(3, 4),))
        run = self.done("partition", self.path)
        self.assertIn("gradient of scale", run.stderr)
        self.assertEqual(self.json("partition", self.path)["notFinite"], ["gradient of scale"])

    def test_a_model_without_a_backward_pass_is_refused(self):
        graft_fx.capture(torch.nn.Linear(4, 4), (torch.randn(2, 4),), self.path)
        self.fails(3, "partition", self.path, "--method", "forward", says="no joint graph")

    def test_the_guides_example_runs(self):
        guide = (SOURCE / "docs/guide/training.md").read_text()
        code = next(block for block in re.findall(r"```python\n(.*?)```", guide, re.S) if "graft partition" in block or '"partition"' in block)
        (self.folder / "example.py").write_text(code)
        paths = {"PATH": f"{GRAFT.parent}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(SOURCE / "resources/python")}
        run = subprocess.run([sys.executable, "example.py"], cwd=self.folder, env=os.environ | paths, capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)


if __name__ == "__main__":
    main()
