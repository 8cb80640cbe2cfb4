"""The rule samples do what their READMEs say: counts, numbers, and what is kept of the model.

    rules_test.py BUILD_FOLDER
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import torch

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
SOURCE = pathlib.Path(__file__).resolve().parents[2]
MODELS = BUILD / "samples/models"


def graft(*arguments):
    return subprocess.run([str(BUILD / "bin/graft"), *map(str, arguments)], capture_output=True, text=True)


class Samples(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.output = pathlib.Path(self.folder.name) / "out.pt"

    def apply(self, sample, model, recipe):
        inputs = model.with_name(model.stem + "_inputs.pt")
        rules = SOURCE / "samples" / sample / "rules.py"
        done = graft("apply", model, "--rules", rules, "--recipe", recipe, "--inputs", inputs, "-o", self.output, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_tanh_becomes_relu_and_the_layer_stays(self):
        model = MODELS / "feed_forward.pt"
        self.apply("kernl_tanh_to_relu", model, "Replace")
        before, after = torch.jit.load(model), torch.jit.load(self.output)
        x = torch.load(MODELS / "feed_forward_inputs.pt")[0]
        weights = dict(before.named_parameters())
        hidden = torch.nn.functional.linear(x, weights["fc1.weight"], weights["fc1.bias"]).relu()
        expected = torch.nn.functional.linear(hidden, weights["fc2.weight"], weights["fc2.bias"]).sigmoid()
        torch.testing.assert_close(after(x), expected)

    def test_every_attention_of_bert_is_found(self):
        report = self.apply("kernl_bert_attention", MODELS / "bert.pt", "Replace")
        self.assertTrue(report["verify"]["passed"])
        self.assertLess(report["nodes_after"], report["nodes"])

    def test_the_attention_block_is_merged_and_fused(self):
        report = self.apply("slapo_attention", MODELS / "slapo_attention.pt", "Optimize")
        self.assertTrue(report["verify"]["passed"])
        found = graft("match", MODELS / "slapo_attention.pt", "--inputs", MODELS / "slapo_attention_inputs.pt", "--rules",
                      SOURCE / "samples/slapo_attention/rules.py", "--json")
        counts = {rule["name"]: rule["matches"] for rule in json.loads(found.stdout)["rules"]}
        self.assertEqual(counts["Projection"], 3)

    def test_own_compiler_rules_keep_the_numbers_or_say_that_they_do_not(self):
        folder = pathlib.Path(self.folder.name)
        subprocess.run([sys.executable, str(SOURCE / "samples/byoc_bert/model.py"), "-o", str(folder)], check=True)
        self.assertTrue(self.apply("byoc_bert", folder / "block.pt", "Fuse")["verify"]["passed"])
        self.apply("byoc_bert", folder / "block.pt", "Retrain")

    def test_the_masked_block_computes_the_same_where_the_mask_keeps_something(self):
        self.apply("transformer_blocks", MODELS / "self_atten.pt", "Fuse")
        torch.ops.load_library(str(next((BUILD / "lib").glob("libgraft_ops.so"))))
        x = torch.load(MODELS / "self_atten_inputs.pt")
        expected = torch.load(MODELS / "self_atten_expected.pt")
        torch.testing.assert_close(torch.jit.load(self.output)(*x), expected, rtol=1e-4, atol=1e-5)


if __name__ == "__main__":
    unittest.main()
