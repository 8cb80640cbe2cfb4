"""The rule samples do what their READMEs say: counts, numbers, and what is kept of the model.

    rules_test.py BUILD_FOLDER
"""

import json
import pathlib
import runpy
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import torch

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
SOURCE = pathlib.Path(__file__).resolve().parents[2]
MODELS = BUILD / "samples/models"

sys.path.insert(0, str(SOURCE / "tests/support"))
import warm  # noqa: E402

warm.up(BUILD)


def graft(*arguments):
    return subprocess.run([str(BUILD / "bin/graft"), *map(str, arguments)], capture_output=True, text=True)


def make(sample, folder):
    """Runs the sample's model.py as its README does, in this process, which has imported torch already."""
    with mock.patch.object(sys, "argv", ["model.py", "-o", str(folder)]):
        runpy.run_path(str(SOURCE / "samples" / sample / "model.py"), run_name="__main__")


def table(report):
    """The rows of `graft report`'s first table."""
    lines = report.split("\n----------\n")[0].splitlines()
    starts = [i for i, c in enumerate(lines[1]) if c == "-" and (i == 0 or lines[1][i - 1] == " ")]
    return [[line[a:b].strip() for a, b in zip(starts, [*starts[1:], None])] for line in lines[2:]]


class Samples(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.output = pathlib.Path(self.folder.name) / "out.pt"

    def apply(self, sample, model, recipe):
        inputs = model.with_name(model.stem + "_inputs.pt")
        rules = SOURCE / "samples" / sample / "rules.py"
        done = graft("apply", model, "--rules", rules, "--recipe", recipe, "--inputs", inputs, "-o", self.output, "--json",
                     "--no-timing")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["models"][0]

    def operators(self, model):
        """How often each operator is called, from `graft info`."""
        return json.loads(graft("info", model, "--json").stdout)["operators"]

    def test_tanh_becomes_relu_and_the_layer_stays(self):
        model = MODELS / "feed_forward.pt"
        self.apply("kernl_tanh_to_relu", model, "Replace")
        before, after = torch.jit.load(model), torch.jit.load(self.output)
        x = torch.load(MODELS / "feed_forward_inputs.pt")[0]
        weights = dict(before.named_parameters())
        hidden = torch.nn.functional.linear(x, weights["fc1.weight"], weights["fc1.bias"]).relu()
        expected = torch.nn.functional.linear(hidden, weights["fc2.weight"], weights["fc2.bias"]).sigmoid()
        torch.testing.assert_close(after(x), expected)

    def test_the_table_of_the_feed_forward_model_is_the_tutorials(self):
        """Row for row what torch.fx prints for it. After the rewrite `fc1` is still the module that is called, and the
        call goes by the replacement's name for it."""
        model, sample = MODELS / "feed_forward.pt", SOURCE / "samples/kernl_tanh_to_relu/rules.py"
        self.assertEqual(table(graft("report", model).stdout), [
            ["placeholder", "x", "x", "()", "{}"],
            ["call_module", "fc1", "fc1", "(x,)", "{}"],
            ["call_module", "tanh", "tanh", "(fc1,)", "{}"],
            ["call_module", "fc2", "fc2", "(tanh,)", "{}"],
            ["call_module", "sigmoid", "sigmoid", "(fc2,)", "{}"],
            ["output", "output", "output", "(sigmoid,)", "{}"]])
        after = graft("report", model, "--rules", sample, "--recipe", "Replace")
        self.assertEqual(after.returncode, 0, after.stderr)
        self.assertEqual(table(after.stdout), [
            ["placeholder", "x", "x", "()", "{}"],
            ["call_module", "linear", "fc1", "(x,)", "{}"],
            ["call_module", "relu", "relu", "(linear,)", "{}"],
            ["call_module", "fc2", "fc2", "(relu,)", "{}"],
            ["call_module", "sigmoid", "sigmoid", "(fc2,)", "{}"],
            ["output", "output", "output", "(sigmoid,)", "{}"]])
        for module in ("Linear(in_features=5, out_features=10, bias=True)", "ReLU()", "Sigmoid()"):
            self.assertIn(module, after.stdout)
        self.assertNotIn("Tanh()", after.stdout)

    def test_a_traced_module_is_reported_and_written_as_torch_fx_does_it(self):
        class Clamped(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.param = torch.nn.Parameter(torch.rand(3, 4))
                self.linear = torch.nn.Linear(4, 5)

            def forward(self, x):
                return self.linear(x + self.param).clamp(min=0.0, max=1.0)

        sys.path.insert(0, str(SOURCE / "resources/python"))
        import graft_fx
        traced, file = torch.fx.symbolic_trace(Clamped()), pathlib.Path(self.folder.name) / "clamped.fx"
        graft_fx.save(traced, str(file), (torch.randn(3, 4),))
        report = graft("report", file).stdout
        self.assertEqual(table(report), [[n.op, n.name, str(n.target), str(n.args), str(n.kwargs)] for n in traced.graph.nodes])
        self.assertIn(f"linear  {traced.linear}\n", report)
        self.assertEqual(graft("code", file).stdout.strip(), traced.code.strip())
        rule = file.with_suffix(".py")
        rule.write_text(traced.code.replace("def forward", "def pattern"))  # printed code is a pattern as it is
        found = json.loads(graft("match", file, "--rules", rule, "--json").stdout)
        self.assertEqual([r["matches"] for r in found["models"][0]["rules"]], [1])

    def test_a_file_written_for_torch_fx_with_a_wrapped_function_is_taken_as_it_is(self):
        report = self.apply("kernl_wrapped_function", MODELS / "bert.pt", "Replace")
        self.assertTrue(report["verification"]["passed"])
        operators = self.operators(self.output)
        self.assertEqual(operators["graft.attention.default"], 2)
        self.assertNotIn("aten.empty_like.default", operators)

    def test_operators_become_the_steps_of_their_definitions_and_equal_ones_are_done_once(self):
        folder = pathlib.Path(self.folder.name)
        make("compile_stack", folder)
        report = self.apply("compile_stack", folder / "block.fx", "Steps")
        self.assertTrue(report["verification"]["passed"])
        operators = self.operators(self.output)
        self.assertEqual(operators["aten.conv2d.default"], 1)  # it was there twice
        for whole in ("silu", "batch_norm", "softmax", "layer_norm", "tanh"):
            self.assertFalse([name for name in operators if whole in name], whole)
        self.assertEqual(operators["aten.exp.default"], 1)

    def test_rules_look_into_both_sides_of_a_branch_and_at_rounds_that_are_written_out(self):
        folder = pathlib.Path(self.folder.name)
        make("compile_stack", folder)
        self.assertTrue(self.apply("compile_stack", folder / "branch.pt", "Branches")["verification"]["passed"])
        self.assertEqual(self.operators(folder / "branch.pt")["aten.linear.default"], 4)
        self.assertEqual(self.operators(self.output)["aten.linear.default"], 2)
        before, after = torch.jit.load(folder / "branch.pt"), torch.jit.load(self.output)
        for x in (torch.full((3, 4), -1.0), torch.full((3, 4), 1.0)):  # either side
            torch.testing.assert_close(after(x), before(x))
        self.assertTrue(self.apply("compile_stack", folder / "rounds.fx", "Rounds")["verification"]["passed"])
        self.assertEqual(self.operators(folder / "rounds.fx")["aten.mul.Tensor"], 4)
        self.assertEqual(self.operators(self.output)["aten.mul.Tensor"], 1)

    def test_every_attention_of_bert_is_found(self):
        report = self.apply("kernl_bert_attention", MODELS / "bert.pt", "Replace")
        self.assertTrue(report["verification"]["passed"])
        self.assertLess(report["nodesAfter"], report["nodesBefore"])

    def test_the_attention_block_is_merged_and_fused(self):
        report = self.apply("slapo_attention", MODELS / "slapo_attention.pt", "Optimize")
        self.assertTrue(report["verification"]["passed"])
        found = graft("match", MODELS / "slapo_attention.pt", "--inputs", MODELS / "slapo_attention_inputs.pt", "--rules",
                      SOURCE / "samples/slapo_attention/rules.py", "--json")
        counts = {rule["name"]: rule["matches"] for rule in json.loads(found.stdout)["models"][0]["rules"]}
        self.assertEqual(counts["Projection"], 3)

    def test_the_tutorials_own_module_takes_the_place_of_the_projections(self):
        self.apply("slapo_attention", MODELS / "slapo_attention.pt", "Retrain")
        weights = dict(torch.jit.load(self.output).named_parameters())
        self.assertEqual(tuple(weights["self_attn.fused_qkv.fused_linear.weight"].shape), (192, 64))
        self.assertFalse([name for name in weights if "q_proj" in name])

    def test_ln_pattern_is_there_once_the_dense_layer_is_taken_apart(self):
        model = MODELS / "slapo_attention.pt"
        rules = ["--rules", SOURCE / "samples/slapo_attention/rules.py", "--inputs", MODELS / "slapo_attention_inputs.pt"]
        whole = graft("match", model, *rules, "--json")
        self.assertEqual({r["name"]: r["matches"] for r in json.loads(whole.stdout)["models"][0]["rules"]}["LnPattern"], 0)
        self.apply("slapo_attention", model, "Find")  # fails when it is not found once

    def test_the_module_tree_is_kept_and_printed_as_python_prints_it(self):
        model = MODELS / "slapo_attention.pt"
        linear = "Linear(in_features=64, out_features=64, bias=True)"
        self.assertEqual(graft("modules", model).stdout, f"""Attention(
  (self_attn): SelfAttention(
    (q_proj): {linear}
    (k_proj): {linear}
    (v_proj): {linear}
  )
  (proj): Projection(
    (dense): {linear}
    (dropout): Dropout(p=0.1)
    (layer_norm): LayerNorm(normalized_shape=(64,), eps=1e-05, elementwise_affine=True)
  )
)
""")
        after = graft("modules", model, "--rules", SOURCE / "samples/slapo_attention/rules.py", "--recipe", "Merge",
                      "--inputs", MODELS / "slapo_attention_inputs.pt")
        self.assertEqual(after.stdout, f"""Attention(
  (self_attn): SelfAttention(
    (linear_4): aten.linear(in_features=64, out_features=192)
    (attention): graft.attention(scale=0.25)
  )
  (proj): Projection(
    (dense): {linear}
    (dropout): Dropout(p=0.1)
    (layer_norm): LayerNorm(normalized_shape=(64,), eps=1e-05, elementwise_affine=True)
  )
)
""", after.stderr)

    def test_the_profile_counts_fewer_kernels_and_the_output_bias_has_none_of_its_own(self):
        self.apply("transformer_blocks", MODELS / "self_atten.pt", "Fuse")
        views = {"aten.chunk.default", "aten.transpose.int", "prim.getitem", "aten.__getitem__.t"}

        def kernels(model):
            done = graft("profile", model, "--inputs", MODELS / "self_atten_inputs.pt", "--repetitions", 2, "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            return [node["op"] for node in json.loads(done.stdout)["nodes"] if node["op"] not in views]

        before, after = kernels(MODELS / "self_atten.pt"), kernels(self.output)
        self.assertEqual(len(before), 8)  # two products with bias, two without, scale, mask == 0, filling in, softmax
        self.assertEqual(after, ["graft.linear.default", "aten.ne.Tensor", "graft.attention.default",
                                 "graft.linear.default"])

    def test_own_compiler_rules_keep_the_numbers_or_say_that_they_do_not(self):
        folder = pathlib.Path(self.folder.name)
        make("byoc_bert", folder)
        self.assertTrue(self.apply("byoc_bert", folder / "block.pt", "Fuse")["verification"]["passed"])
        operators = self.operators(self.output)
        self.assertEqual(operators["aten.addcdiv.default"], 1)
        self.assertEqual(operators["aten._add_relu.Tensor"], 1)
        self.assertEqual(operators["aten.linear.default"], 1)  # three in one
        report = self.apply("byoc_bert", folder / "block.pt", "Retrain")
        self.assertFalse(report["verification"]["passed"])
        difference = report["verification"]["outputs"][0]
        self.assertGreater(difference["maxAbs"], 1e-2)  # the report shows what the swap costs

    def test_parts_for_another_compiler_are_modules_that_run(self):
        folder = pathlib.Path(self.folder.name)
        make("byoc_bert", folder)
        self.assertTrue(self.apply("byoc_bert", folder / "block.pt", "Parts")["verification"]["passed"])
        model, inputs = torch.jit.load(self.output), torch.load(folder / "block_inputs.pt")
        parts = {path: m for path, m in model.named_modules() if m.original_name == "npu"}
        self.assertEqual(sorted(parts), ["npu_0", "npu_1"])
        before = torch.jit.load(folder / "block.pt")
        torch.testing.assert_close(model(*inputs), before(*inputs))
        torch.testing.assert_close(parts["npu_0"](inputs[0], before.weight, inputs[1]), torch.matmul(inputs[0], before.weight) / 8.0 + inputs[1])
        self.assertEqual(sorted(before.state_dict()), sorted(k for k in model.state_dict() if not k.startswith("npu_")))
        self.apply("byoc_bert", folder / "block.pt", "PartsGenerated")
        self.assertEqual(self.operators(self.output)["graft.generated.default"], 2)

    def test_the_masked_block_computes_the_same_where_the_mask_keeps_something(self):
        self.apply("transformer_blocks", MODELS / "self_atten.pt", "Fuse")
        torch.ops.load_library(str(next((BUILD / "lib").glob("libgraft_ops.so"))))
        x = torch.load(MODELS / "self_atten_inputs.pt")
        expected = torch.load(MODELS / "self_atten_expected.pt")
        torch.testing.assert_close(torch.jit.load(self.output)(*x), expected, rtol=1e-4, atol=1e-5)


if __name__ == "__main__":
    unittest.main()
