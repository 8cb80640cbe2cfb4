"""The main job on the real MiniLM: look at it, make it faster, verify it, use the result in plain Python."""

import json
import os
import pathlib
import re
import subprocess
import sys

import torch

from support import BUILD, MINILM, OPERATORS, RULES, SAMPLES, SENTENCES, SOURCE, TestCase, main


class Apply(TestCase):
    """One `graft apply`, whose results several tests look at."""

    @classmethod
    def setUpClass(cls):
        cls.fast, cls.report_file = SAMPLES / "e2e_minilm_fast.pt", SAMPLES / "e2e_report.json"

    def apply_once(self):
        if not hasattr(Apply, "stdout"):
            run = self.done("apply", MINILM, "--no-timing", "--rules", RULES, "--recipe", "Encoder", "--inputs", SENTENCES,
                            "-o", self.fast, "--report", self.report_file)
            Apply.stdout, Apply.report = run.stdout, json.loads(self.report_file.read_text())["models"][0]
        return Apply.report

    def test_every_rule_matches_where_it_should(self):
        report = self.apply_once()
        rules = [step for step in report["steps"] if step["isRule"]]
        counts = {rule["name"]: rule["rewrites"] for rule in rules}
        wanted = {"QkvProjection": 6, "Attention": 6, "GeluLinear": 6, "LinearAddLayerNorm": 12, "EmbeddingLayerNorm": 1, "PaddingMask": 1, "SelectBeforeExpand": 1,
                  "AttentionNormLinear": 6, "LinearNormQkv": 5}
        self.assertEqual({name: count for name, count in counts.items() if count}, wanted)
        for rule in rules:
            self.assertEqual(rule["rewrites"], len(rule["records"]), rule["name"])
        places = {record["scope"] for rule in rules if rule["name"] == "Attention" for record in rule["records"]}
        self.assertEqual(places, {f"encoder.layer.{i}.attention.self" for i in range(6)})

    def test_rules_that_match_nothing_are_one_line_unless_each_is_wanted(self):
        report = self.apply_once()
        idle = [step["name"] for step in report["steps"] if step["isRule"] and not step["rewrites"]]
        self.assertIn(f"\n{len(idle)} rules matched nothing: {', '.join(idle[:4])}, … (--verbose lists them)\n", Apply.stdout)
        self.assertNotIn(idle[-1], Apply.stdout)
        all_rows = self.done("apply", MINILM, "--verbose", "--no-verify", "--no-timing", "--rules", RULES, "--recipe", "Encoder",
                             "-o", self.folder / "out.pt").stdout
        for name in idle:
            self.assertRegex(all_rows, rf"(?m)^{name} +0 ")
        self.assertNotIn("matched nothing", all_rows)

    def test_the_result_is_verified_and_smaller(self):
        report = self.apply_once()
        self.assertTrue(report["verification"]["passed"])
        self.assertLess(report["nodesAfter"], report["nodesBefore"])
        for output in report["verification"]["outputs"]:
            self.assertGreater(output["cosine"], 0.99999)
            self.assertLess(output["maxAbs"], 1e-4)

    def test_inputs_beside_models_in_a_folder_are_passed_over(self):
        folder = self.folder / "models"
        folder.mkdir()
        os.symlink(MINILM, folder / "minilm.pt")
        for name in ("minilm_inputs.pt", "minilm_expected.pt"):
            torch.save((torch.zeros(2),), folder / name)
        run = self.done("match", folder, "--rules", RULES, "--rule", "GeluLinear")
        self.assertIn("2 files passed over, written by torch.save and so no model: minilm_expected.pt, minilm_inputs.pt\n", run.stderr)
        os.remove(folder / "minilm.pt")
        self.fails(3, "match", folder, "--rules", RULES, says="no models")

    def test_plain_python_loads_it_and_the_embeddings_agree(self):
        self.apply_once()
        check = [sys.executable, SOURCE / "samples/minilm/check.py", MINILM, self.fast, SENTENCES, "--ops", OPERATORS]
        run = subprocess.run(list(map(str, check)), capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)

    def test_it_computes_the_same_at_other_shapes(self):
        self.apply_once()
        torch.ops.load_library(str(OPERATORS))
        original, fast = torch.jit.load(str(MINILM)), torch.jit.load(str(self.fast))
        for batch, length in ((1, 1), (1, 16), (3, 50), (1, 128)):
            ids, mask = torch.randint(1000, 20000, (batch, length)), torch.ones(batch, length, dtype=torch.long)
            mask[-1, length // 2 + 1 :] = 0
            with torch.no_grad():
                a, b = (model(ids, mask, torch.zeros_like(ids)) for model in (original, fast))
            torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4, msg=lambda m: f"{batch}x{length}: {m}")

    def test_how_python_loads_it_is_said(self):
        self.apply_once()
        line = re.search(r'^in Python, before it is loaded: torch.ops.load_library\("(.+)"\)$', Apply.stdout, re.M)
        self.assertTrue(pathlib.Path(line[1]).samefile(os.environ.get("GRAFT_OPS", OPERATORS)))

    def test_compare_sees_the_same(self):
        self.apply_once()
        report = self.json("compare", MINILM, self.fast, "--inputs", SENTENCES, "--seconds", "0.2")
        self.assertIn("outputs", json.dumps(report))


class Look(TestCase):
    def test_info(self):
        info = self.json("info", MINILM)
        self.assertEqual(info["format"], "torchscript")
        text = self.done("info", MINILM).stdout
        for word in ("input_ids", "attention_mask", "token_type_ids", "aten.linear"):
            self.assertIn(word, text)

    def test_the_rule_of_the_readme_matches(self):
        rule = re.search(r"```python\n(from graft import .+?)```", (SOURCE / "README.md").read_text(), re.S)[1]
        matches = self.of_model("match", MINILM, "--rules", self.file("rules.py", rule))["rules"]
        self.assertEqual([rule["matches"] for rule in matches], [6])

    def test_match_changes_nothing(self):
        before = MINILM.stat().st_mtime_ns
        matches = {rule["name"]: rule["matches"] for rule in self.of_model("match", MINILM, "--rules", RULES)["rules"]}
        self.assertEqual(matches["Attention"], 6)
        self.assertEqual(MINILM.stat().st_mtime_ns, before)

    def test_report_and_text(self):
        self.assertRegex(self.done("report", MINILM).stdout, r"opcode\s+name\s+target\s+args\s+kwargs")
        self.assertEqual(self.done("text", MINILM).stdout.count("aten.softmax"), 6)

    def test_pictures(self):
        pictures = [("g.svg", b"<svg"), ("g.dot", b"digraph")]
        if (BUILD / "bin/graft-raster").exists():  # built where Qt is
            pictures += [("g.png", b"\x89PNG"), ("g.pdf", b"%PDF")]
        for name, magic in pictures:
            self.done("draw", MINILM, "-o", self.folder / name, "--depth", "3")
            self.assertTrue((self.folder / name).read_bytes().startswith(magic), name)
        self.assertIn(b"layer.0", (self.folder / "g.svg").read_bytes())

    def test_run_gives_what_pytorch_gives(self):
        out = self.folder / "out.pt"
        self.done("run", MINILM, "--inputs", SENTENCES, "-o", out, "--expect", SAMPLES / "sentences_expected.pt")
        got, expected = torch.load(out), torch.load(SAMPLES / "sentences_expected.pt")
        got = got[0] if isinstance(got, (tuple, list)) else got
        torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-5)


main()
