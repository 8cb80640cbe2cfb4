"""Decoders that keep keys and values in buffers: exported step by step, matched, rewritten, and run over several steps beside the model
without a cache.

    caches_test.py BUILD_FOLDER
"""

import os
import unittest
import warnings

os.environ["HF_HUB_OFFLINE"] = "1"
from support import OPERATORS, SOURCE, TestCase, main  # noqa: E402

import torch  # noqa: E402

import cached_decoders  # noqa: E402


class Caches(TestCase):
    def setUp(self):
        super().setUp()
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        torch.ops.load_library(OPERATORS)

    def close(self, model, exported):
        with torch.no_grad():
            got = torch.cat([model(*step) for step in exported.steps], 1)
        difference = ((got - exported.expected).abs().max() / exported.expected.abs().max()).item()
        self.assertLess(difference, 1e-5)


def test_of(name):
    def test(self):
        with torch.no_grad():
            exported = cached_decoders.DECODERS[name](self.folder)
        fast = self.folder / "fast.pt"
        report = self.of_model("apply", exported.archive, "--rules", SOURCE / "resources/rules/decoders.py", "--recipe",
                               cached_decoders.RECIPES[name.removesuffix("_filled")], "--inputs", exported.inputs, "--no-timing", "-o", fast)
        attentions = sum(step["rewrites"] for step in report["steps"] if step["isRule"] and "Attention" in step["name"])
        self.assertEqual(attentions, exported.attentions)
        self.close(torch.jit.load(fast), exported)
        if name == "bart_filled":  # archives of torch.export as well
            self.done("convert", exported.archive, "-o", self.folder / "again.pt2")
            self.close(torch.export.load(self.folder / "again.pt2").module(), exported)
    return test


for each in cached_decoders.DECODERS:
    setattr(Caches, f"test_{each}", test_of(each))

if __name__ == "__main__":
    main()
