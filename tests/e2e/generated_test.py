"""Generated kernels from outside: applied, verified, written, loaded, and shown in each form. The models are of no family that a rule
was written for."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

os.environ["GRAFT_CACHE_DIR"] = tempfile.mkdtemp(prefix="graft-e2e-cache-")
import torch
from torch import nn
from torch.nn import functional as F

from support import OPERATORS, SOURCE, TestCase, graft, main

GENERATED = SOURCE / "resources" / "rules" / "generated.py"
torch.set_num_threads(1)


class Gated(nn.Module):
    """Convolutions with a norm, a gate and a squeeze: blocks of no published network."""

    def __init__(self):
        super().__init__()
        self.stem, self.norm, self.mix = nn.Conv2d(3, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.Conv2d(16, 32, 1)
        self.squeeze = nn.Linear(16, 16)

    def forward(self, x):
        x = self.norm(self.stem(x))
        a, b = self.mix(F.silu(x)).chunk(2, 1)
        x = x + a * torch.sigmoid(b)
        weight = self.squeeze(x.mean((2, 3))).sigmoid()
        return (x * weight[:, :, None, None]).roll(1, 2).flatten(1)


class Rows(nn.Module):
    """A softmax over scores with an offset, and a norm of its own making."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(24))

    def forward(self, x, ids):
        scores = x @ x.transpose(1, 2) / 4 - (torch.arange(x.shape[1])[:, None] - ids[:, None, :]).abs() * 0.1
        y = scores.softmax(-1) @ x
        y = (y - y.mean(-1, keepdim=True)) * torch.rsqrt(y.var(-1, keepdim=True, unbiased=False) + 1e-5) * self.scale
        return torch.where(y > 0, y, torch.expm1(y)), y.argmax(-1)


class Varying(nn.Module):
    """Attention under a mask and a gate, for batches and sequences of any length."""

    def __init__(self):
        super().__init__()
        self.query, self.gate, self.norm = nn.Linear(24, 24), nn.Linear(24, 48), nn.LayerNorm(24)

    def forward(self, x, mask):
        scores = self.query(x) @ x.transpose(1, 2) / 4.9 + mask[:, None, :]
        y = x + scores.softmax(-1) @ x
        a, b = self.gate(self.norm(y)).chunk(2, -1)
        y = y + F.gelu(a) * torch.sigmoid(b)
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5)).flatten(0, 1)


class Generated(TestCase):
    def saved(self, module, *inputs):
        torch.manual_seed(0)
        model, given = self.folder / "model.pt", self.folder / "in.pt"
        with torch.no_grad():
            torch.jit.trace(module.eval(), inputs, check_trace=False).save(str(model))
        torch.save(inputs, given)
        return model, given

    def check(self, module, *inputs):
        model, given = self.saved(module, *inputs)
        out = self.folder / "fast.pt"
        run = self.done("apply", model, "--rules", GENERATED, "--recipe", "Generated", "--inputs", given, "-o", out, "--no-timing", "--strict")
        self.assertRegex(run.stdout, r"(?m)^fuse +[1-9]")
        with torch.no_grad():
            expected = module(*inputs)
        torch.ops.load_library(OPERATORS)
        fast = torch.jit.load(str(out))
        for got, wanted in zip(fast(*inputs) if isinstance(expected, tuple) else (fast(*inputs),), expected if isinstance(expected, tuple) else (expected,)):
            torch.testing.assert_close(got, wanted)
        return model, given, out

    def test_a_convolutional_model_is_fused_verified_written_and_loaded(self):
        module = Gated().eval()
        *_, out = self.check(module, torch.randn(2, 3, 12, 12))
        fast = torch.jit.load(str(out))
        x = torch.randn(5, 3, 12, 12)  # another batch
        torch.testing.assert_close(fast(x), module(x).detach())

    def test_rows_and_places_are_fused_and_forms_agree_about_it(self):
        model, given, out = self.check(Rows().eval(), torch.randn(2, 9, 24), torch.randint(0, 9, (2, 9)))
        documents = {form: self.json("code", model, "--inputs", given, "--as", form) for form in ("groups", "loops", "cpp", "cuda")}
        names = [k["name"] for k in documents["groups"]["kernels"]]
        self.assertGreater(len(names), 0)
        for form, first in (("groups", "generated 1\n"), ("loops", "loops 1\n"), ("cpp", "#include"), ("cuda", "// ")):
            self.assertEqual([k["name"] for k in documents[form]["kernels"]], names)
            for kernel in documents[form]["kernels"]:
                self.assertTrue(kernel["text"].startswith(first), kernel)
        merged = [d for d in documents["groups"]["decisions"] if d["isMerged"]]
        apart = [d for d in documents["groups"]["decisions"] if not d["isMerged"]]
        self.assertTrue(merged and all("why" not in d and d["apartMicroseconds"] > d["togetherMicroseconds"] for d in merged))
        self.assertTrue(all(d["why"] for d in apart))
        self.assertIn("aten.matmul.default", {n["operator"] for n in documents["groups"]["notFused"]})
        in_file = self.json("code", out, "--as", "loops")["kernels"]
        self.assertTrue(in_file and all(k["isInFile"] for k in in_file))
        self.assertIn(names[0], self.done("code", model, "--inputs", given, "--as", "loops", "--kernel", "0").stdout)

    def test_a_model_exported_with_dynamic_shapes_takes_a_few_kernels_for_all_sizes(self):
        module, given, model = Varying().eval(), (torch.randn(3, 10, 24), torch.randn(3, 10)), self.folder / "model.pt2"
        batch, length = torch.export.Dim("batch", min=2, max=64), torch.export.Dim("length", min=2, max=512)
        sizes = {0: batch, 1: length}
        torch.export.save(torch.export.export(module, given, dynamic_shapes=(sizes, sizes)), model)
        torch.save(given, self.folder / "in.pt")
        kernels = self.json("code", model, "--as", "loops")["kernels"]
        self.assertGreater(len(kernels), 1)
        self.assertTrue(all("\nsize " in k["text"] for k in kernels))
        torch.ops.load_library(OPERATORS)
        for ending, load in ((".pt", lambda f: torch.jit.load(str(f))), (".pt2", lambda f: torch.export.load(f).module())):
            out = self.folder / ("fast" + ending)
            self.done("apply", model, "--rules", GENERATED, "--recipe", "Fused", "--inputs", self.folder / "in.pt", "-o", out, "--no-timing", "--strict")
            fast, before = load(out), self.compiled()
            for x, mask in ((torch.randn(b, n, 24), torch.randn(b, n)) for b in (2, 3, 8) for n in (2, 7, 10, 16, 33, 100)):
                with torch.no_grad():
                    torch.testing.assert_close(fast(x, mask), module(x, mask), rtol=1e-4, atol=1e-5)
            self.assertLessEqual(self.compiled() - before, 2 * len(kernels))

    @staticmethod
    def compiled():
        return len(list(pathlib.Path(os.environ["GRAFT_CACHE_DIR"]).rglob("*.code")))

    def test_planned_for_a_gpu_convolutions_read_weights_with_channels_last_and_views_take_any_layout(self):
        class Images(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.norm, self.last = nn.Conv2d(8, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.Conv2d(16, 16, 3, padding=1)

            def forward(self, x):
                y = F.silu(self.norm(self.first(x)))
                y = y + torch.tanh(self.last(y))
                return y.view(y.shape[0], -1)

        module, x = Images().eval(), torch.randn(2, 8, 6, 6)
        model, given = self.saved(module, x)
        rules, out = self.folder / "planned.py", self.folder / "fast.pt"
        rules.write_text("from graft import Recipe, channels_last, eliminate_dead, fold_constants, fuse, split_bias\n\n\nclass Planned(Recipe):\n"
                         "    steps = [channels_last(gpu=True), fold_constants, split_bias(gpu=True), fuse(gpu=True), eliminate_dead]\n")
        self.done("apply", model, "--rules", rules, "--recipe", "Planned", "--inputs", given, "-o", out, "--no-timing", "--strict")
        text = self.done("text", out).stdout
        self.assertEqual(text.count("generated 3\\n"), 3)
        self.assertEqual(text.count("aten.contiguous.default(%x, "), 1)  # the first lays out the caller's image
        self.assertIn("aten.reshape.default(%getitem", text)
        self.assertNotIn("aten.view.default", text)
        torch.ops.load_library(OPERATORS)
        fast = torch.jit.load(str(out))
        weights = [t for t in fast.state_dict().values() if t.dim() == 4]
        self.assertEqual(len(weights), 2)
        self.assertTrue(all(w.is_contiguous(memory_format=torch.channels_last) for w in weights))
        with torch.no_grad():
            for given in (x, x.contiguous(memory_format=torch.channels_last), torch.randn(3, 8, 6, 6)):
                torch.testing.assert_close(fast(given), module(given.contiguous()), rtol=1e-4, atol=1e-5)
        self.assertTrue(self.json("code", out, "--as", "groups")["kernels"][0]["text"].startswith("generated 3\n"))

    def test_planned_for_a_gpu_kernels_take_what_is_behind_convolutions_in_groups_and_operators_that_stand_alone(self):
        class Squeezed(nn.Module):
            """A convolution for each channel, a gate of its means, and a norm of each place."""

            def __init__(self):
                super().__init__()
                self.wide, self.each = nn.Conv2d(8, 32, 1), nn.Conv2d(32, 32, 3, padding=1, groups=32)
                self.gate, self.norm = nn.Conv2d(32, 32, 1), nn.LayerNorm(32)

            def forward(self, x):
                y = F.silu(self.each(F.silu(self.wide(x))))
                y = y * torch.sigmoid(self.gate(y.mean((2, 3), keepdim=True)))
                return F.avg_pool2d(self.norm(y.permute(0, 2, 3, 1)).permute(0, 3, 1, 2), 2)

        module, x = Squeezed().eval(), torch.randn(2, 8, 32, 32)
        model, given = self.saved(module, x)
        rules, out = self.folder / "squeezed.py", self.folder / "squeezed.pt"
        shutil.copy(SOURCE / "resources" / "rules" / "conv.py", self.folder / "conv.py")
        rules.write_text("from conv import ConvLast, ConvSigmoid, ConvSilu\n"
                         "from graft import Recipe, channels_last, eliminate_dead, fold_constants, fuse, split_bias\n\n\nclass Squeezed(Recipe):\n"
                         "    steps = [ConvLast, ConvSilu, ConvSigmoid, channels_last(gpu=True), fold_constants, split_bias(gpu=True), fuse(gpu=True),\n"
                         "             eliminate_dead]\n")
        self.done("apply", model, "--rules", rules, "--recipe", "Squeezed", "--inputs", given, "-o", out, "--no-timing", "--strict")
        text = self.done("text", out).stdout
        for graph in ("conv2d_add_silu_mean", "mul", "layer_norm", "avg_pool2d"):
            self.assertRegex(text, rf"graph \w*{graph}\w* {{")
        self.assertEqual(text.count("= graft.conv_activation.default("), 2)  # those of one group stay whole
        torch.ops.load_library(OPERATORS)
        with torch.no_grad():
            torch.testing.assert_close(torch.jit.load(str(out))(x), module(x), rtol=1e-4, atol=1e-5)

    def test_nothing_is_laid_out_anew_below_which_memory_is_read_as_it_lies_nor_for_a_cpu(self):
        class Strided(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv, self.norm = nn.Conv2d(4, 8, 3, padding=1), nn.GroupNorm(2, 8)

            def forward(self, x):
                return torch.as_strided(F.silu(self.norm(self.conv(x))), (2, 100), (288, 1))

        module, x = Strided().eval(), torch.randn(2, 4, 6, 6)
        model, given = self.saved(module, x)
        for planned in ("gpu=True", ""):
            rules, out = self.folder / "planned.py", self.folder / "fast.pt"
            rules.write_text("from graft import Recipe, channels_last, eliminate_dead, fold_constants, fuse\n\n\nclass Planned(Recipe):\n"
                             f"    steps = [channels_last({planned}), fold_constants, fuse({planned}), eliminate_dead]\n")
            self.done("apply", model, "--rules", rules, "--recipe", "Planned", "--inputs", given, "-o", out, "--no-timing", "--strict")
            text = self.done("text", out).stdout
            self.assertIn("generated 1\\n", text)
            self.assertNotIn("contiguous", text)
            torch.ops.load_library(OPERATORS)
            with torch.no_grad():
                torch.testing.assert_close(torch.jit.load(str(out))(x), module(x), rtol=1e-4, atol=1e-5)

    def test_wrong_questions_get_a_sentence(self):
        model, given = self.saved(Rows().eval(), torch.randn(2, 9, 24), torch.randint(0, 9, (2, 9)))
        for arguments, code, message in ((("--as", "fortran"), 2, "--as takes python, groups, loops, cpp, cuda, ptx or sass"),
                                         (("--as", "loops", "--usage"), 2, "--usage is of kernels on a GPU"),
                                         (("--as", "ptx", "--capability", "9.0.0"), 2, "such as 8.0, 8.9 or 9.0"),
                                         (("--as", "ptx", "--capability", "7.5"), 2, "8.0 or later"),
                                         (("--kernel", "0"), 2, "go with --as"),
                                         (("--as", "loops", "--kernel", "no_such"), 3, "there is no kernel no_such")):
            run = graft("code", model, "--inputs", given, *arguments)
            self.assertEqual(run.returncode, code, run.stderr)
            self.assertIn(message, run.stderr)

    def test_code_for_gpus_says_which_node_each_part_computes_and_what_a_kernel_takes(self):
        model, given = self.saved(Rows().eval(), torch.randn(2, 9, 24), torch.randint(0, 9, (2, 9)))
        code = lambda form, *more: self.json("code", model, "--inputs", given, "--as", form, *more)
        cuda = code("cuda")
        parts = lambda kernel: {s["node"]: kernel["text"].encode()[s["begin"]:s["end"]].decode() for s in kernel["spans"]}
        for kernel in cuda["kernels"]:
            self.assertTrue(set(parts(kernel)) <= set(kernel["nodes"]) and parts(kernel), kernel["name"])
            self.assertTrue(all(launch["blocks"] >= 1 and launch["threads"] >= 32 for launch in kernel["launches"]))
            self.assertNotIn("registers", kernel["launches"][0])  # nothing was compiled
        softmax = next(k for k in cuda["kernels"] if any(n.startswith("softmax") for n in k["nodes"]))
        self.assertIn("exp", next(t for n, t in parts(softmax).items() if n.startswith("softmax")) + softmax["text"])
        ptx = code("ptx", "--usage", "--capability", "8.0")
        if "libnvrtc" in ptx["kernels"][0].get("problem", ""):
            self.skipTest(ptx["kernels"][0]["problem"])
        for kernel in ptx["kernels"]:
            self.assertIn(".target sm_80", kernel["text"])
            self.assertNotRegex(kernel["text"], r"(?m)^\s*\.(loc|file)\b")
            self.assertTrue(set(parts(kernel)) <= set(kernel["nodes"]) and parts(kernel), kernel["name"])
            for launch in kernel["launches"]:
                self.assertTrue(8 <= launch["registers"] <= 255 and 0 < launch["occupancy"]["share"] <= 1, launch)
        shown = self.done("code", model, "--inputs", given, "--as", "cuda", "--usage", "--kernel", "0").stdout
        self.assertRegex(shown, r"(?m)^//   kernel_0: .* registers, .* nothing spilled, occupancy \d+ % \(")
        sass = code("sass", "--kernel", "0")["kernels"][0]
        if "problem" in sass:
            self.assertTrue(sass["problem"].startswith("SASS is read by nvdisasm or cuobjdump"), sass["problem"])
        else:
            self.assertIn("EXIT ;", sass["text"])
            self.assertTrue(set(parts(sass)) <= set(sass["nodes"]) and parts(sass))
            self.assertTrue(all("/*" in t and ";" in t for t in parts(sass).values()))
            self.assertGreater(sass["launches"][0]["registers"], 0)
        os.environ["GRAFT_DISASSEMBLER"] = "/no/such"
        self.addCleanup(os.environ.pop, "GRAFT_DISASSEMBLER")
        none = self.done("code", model, "--inputs", given, "--as", "sass", "--kernel", "0").stdout
        self.assertIn("// no text: SASS is read by nvdisasm or cuobjdump, and neither is installed", none)

    def test_only_and_apart_choose(self):
        model, given = self.saved(Gated().eval(), torch.randn(2, 3, 12, 12))
        everything = self.json("code", model, "--inputs", given, "--as", "groups")
        fewer = self.json("code", model, "--inputs", given, "--as", "groups", "--apart", "aten.sigmoid")
        nodes = lambda document: {n for k in document["kernels"] for n in k["nodes"]}
        self.assertTrue(any(n.startswith("sigmoid") for n in nodes(everything)))
        self.assertFalse(any(n.startswith("sigmoid") for n in nodes(fewer)))

    def test_a_file_in_another_process_finds_the_machine_code_on_disk(self):
        *_, out = self.check(Gated().eval(), torch.randn(2, 3, 12, 12))
        code = (f"import time, torch; torch.ops.load_library({str(OPERATORS)!r}); m = torch.jit.load({str(out)!r}); x = torch.randn(2, 3, 12, 12);"
                "b = time.perf_counter(); m(x); print(time.perf_counter() - b)")
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertNotIn("graft::generated", run.stderr)


if __name__ == "__main__":
    main()
