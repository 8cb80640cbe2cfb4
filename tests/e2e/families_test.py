"""What models of families beyond the samples ask of Graft: each a few lines that broke something once; and how often the shipped
rules rewrite small models of transformers, by the table of families in docs/reference/shipped-rules.md."""

import math
import re
import sys
import warnings
from typing import Dict, Optional

import torch
from torch import nn
from torch.nn import functional as F

from support import OPERATORS, SOURCE, TestCase, main

sys.path.insert(0, str(SOURCE / "resources/python"))
sys.path.insert(0, str(SOURCE / "samples/models"))
import build as samples  # small models of transformers, offline
import graft_fx

import transformers
from transformers.models.sam.modeling_sam import SamVisionEncoder

RULES = SOURCE / "resources/rules"
DYNAMIC = torch.export.Dim.AUTO


class CrossAttention(nn.Module):
    """PyTorch's own attention layer: its result is viewed as the queries lie in memory."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)

    def forward(self, x, y):
        return self.attention(x, y, y, need_weights=False)[0]


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x, need_weights=False)[0]


class LearnedQueries(nn.Module):
    """Latents of batch 1 that attend to the input, or that the input attends to."""

    def __init__(self, how="written out", swapped=False):
        super().__init__()
        self.how, self.swapped = how, swapped
        self.latents = nn.Parameter(torch.randn(1, 5, 32))
        self.q, self.k, self.v, self.out, self.next = (nn.Linear(32, 32) for _ in range(5))
        self.norm = nn.LayerNorm(32)

    def forward(self, x):
        asking, asked = (x, self.latents) if self.swapped else (self.latents, x)
        q, k, v = self.q(asking), self.k(asked), self.v(asked)
        if self.how == "without heads":
            y = F.scaled_dot_product_attention(q, k, v)
        else:
            q, k, v = (t.view(t.shape[0], t.shape[1], -1, 8).transpose(1, 2) for t in (q, k, v))
            if self.how == "called":
                y = F.scaled_dot_product_attention(q, k, v)
            else:
                y = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(8), dim=-1) @ v
            y = y.transpose(1, 2).reshape(y.shape[0], y.shape[2], -1)
        y = self.norm(self.out(y) + asking)
        return F.gelu(self.next(y)) + y


class OneForAll(nn.Module):
    """What is added to the input, or multiplied with it, is of one sample and stands first."""

    def __init__(self, compute):
        super().__init__()
        self.compute, self.positions, self.gain = compute, nn.Parameter(torch.randn(1, 9, 32)), nn.Parameter(torch.ones(32))
        self.linear, self.next, self.q, self.k, self.v = (nn.Linear(32, 32) for _ in range(5))
        self.norm = nn.LayerNorm(32)

    def forward(self, x, y):
        return self.compute(self, x, y)

    def rms(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.gain + x

    def heads(self, x):
        return tuple(f(x).view(x.shape[0], x.shape[1], -1, 8).transpose(1, 2) for f in (self.q, self.k, self.v))


ONE_FOR_ALL = {
    ("AddLayerNorm", "transformer.py", "Encoder"): lambda m, x, y: m.norm(m.positions + x),
    ("LinearAddLayerNorm", "transformer.py", "Encoder"): lambda m, x, y: m.norm(m.linear(y) + x),
    ("LinearNormLinear", "transformer.py", "Encoder"): lambda m, x, y: (lambda h: F.gelu(m.next(h)) + h)(m.norm(m.linear(y) + x)),
    ("LinearNormQkv", "transformer.py", "Encoder"): lambda m, x, y: (lambda h: (*m.heads(h), h))(m.norm(m.linear(y) + x)),
    ("LinearAdd", "generated.py", "Generated"): lambda m, x, y: m.linear(y) + x,
    ("AddRmsNorm", "decoders.py", "Llama"): lambda m, x, y: m.rms(m.positions + x),
    ("SwiGlu", "decoders.py", "Llama"): lambda m, x, y: F.silu(y) * x,
}


class Blocks(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.second = nn.Conv2d(8, 8, 3, padding="valid")

    def forward(self, x):
        return torch.relu(self.second(torch.relu(self.first(x))))


class Pyramid(nn.Module):
    """Sizes that follow from sizes: two strides, and what is resized to the size between them."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.Conv2d(8, 8, 3, stride=2, padding=1)
        self.last = nn.Conv2d(16, 8, 3, padding=1)

    def forward(self, x):
        fine = torch.relu(self.first(x))
        coarse = F.interpolate(torch.relu(self.second(fine)), size=fine.shape[-2:], mode="bilinear")
        return torch.relu(self.last(torch.cat([coarse, fine], 1)))


class Frames(nn.Module):
    """A convolution over time, whose frames go through a layer with a residual."""

    def __init__(self):
        super().__init__()
        self.frames, self.inner, self.outer, self.norm = nn.Conv1d(3, 8, 3, 2, 1), nn.Linear(8, 16), nn.Linear(16, 8), nn.LayerNorm(8)

    def forward(self, x):
        y = self.frames(x.mean(2)).transpose(1, 2)
        return self.norm(y + self.outer(F.gelu(self.inner(y))))


class AskedSize(nn.Module):
    """A branch that a size decides."""

    def forward(self, x):
        return torch.cond(x.shape[2] > 18, lambda x: torch.relu(x) + 1, lambda x: x * 2, (x,))


class Grid(nn.Module):
    """Positions of a square grid, resized to the image's: the side is a root, found while tracing."""

    def __init__(self):
        super().__init__()
        self.positions = nn.Parameter(torch.randn(1, 16, 8))
        self.patches = nn.Conv2d(3, 8, 4, stride=4)

    def forward(self, x):
        side = self.positions.shape[1] ** 0.5  # a tensor while it is traced
        side = side.to(torch.int64) if torch.jit.is_tracing() else int(side)
        height, width = x.shape[2] // 4, x.shape[3] // 4
        grid = self.positions.reshape(1, side, side, 8).permute(0, 3, 1, 2)
        grid = F.interpolate(grid, size=(height, width), mode="bilinear")
        return self.patches(x) + grid


class Positions(nn.Module):
    """A table of 77 positions, as CLIP's; scores divided in place; a window's edge as a number beside a tensor."""

    def __init__(self, most=77):
        super().__init__()
        self.words, self.places = nn.Embedding(50, 32), nn.Embedding(most, 32)
        self.register_buffer("ids", torch.arange(most).unsqueeze(0))
        self.q, self.k, self.v = nn.Linear(32, 32), nn.Linear(32, 32), nn.Linear(32, 32)

    def forward(self, ids):
        length = ids.shape[1]
        x = self.words(ids) + self.places(self.ids[:, :length])
        q, k, v = (f(x).view(x.shape[0], length, 4, 8).transpose(1, 2) for f in (self.q, self.k, self.v))
        scores = q @ k.transpose(-1, -2)
        scores /= math.sqrt(8)
        late = (torch.arange(length) >= length - 2).float() * -4.0
        return (torch.softmax(scores + late, dim=-1) @ v).transpose(1, 2).reshape(x.shape)


@torch.jit.script
class Pictures:
    """As torchvision's detection models keep theirs."""

    def __init__(self, batch: torch.Tensor):
        self.batch = batch


class Detector(nn.Module):
    def forward(self, x):
        return Pictures(x).batch + 1


class Cropping(nn.Module):
    def forward(self, x):
        pictures = Pictures(x)
        if bool(x.sum() > 0):
            pictures.batch = x[:1]
        return pictures.batch + 1


class Careful(nn.Module):
    """Scripted: asks for ranks, warns, and hands None on as an optional."""

    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(8, 8), nn.BatchNorm1d(8)

    def mask(self, x: torch.Tensor) -> Optional[torch.Tensor]:
        if x.size(0) == 7:
            return None
        return None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.dim() != 2:
            raise ValueError("two dimensions")
        mask = self.mask(x)
        if mask is not None and mask.dim() == 2:
            x = x + mask
        if x.size(1) > 100:
            torch.nn.functional.dropout(x, 0.5)
        warnings.warn("scripted")
        return self.norm(self.linear(x))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.gru = nn.LSTM(8, 16, 2, batch_first=True, bidirectional=True), nn.GRU(32, 8, batch_first=True)

    def forward(self, x):
        return self.gru(self.lstm(x)[0])[0]


class Heads(nn.Module):
    """Scripted, as torchvision's segmentation models: a dictionary of results, one of them optional; a norm that asks for shapes."""

    def __init__(self):
        super().__init__()
        self.backbone, self.norm = nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def feature(self, x: torch.Tensor, wanted: bool) -> Optional[torch.Tensor]:
        return self.backbone(x) if wanted else None

    def forward(self, x: torch.Tensor):
        out: Dict[str, torch.Tensor] = {}
        feature = self.feature(x, x.size(0) > 1)
        if feature is not None:
            out["map"] = self.norm(feature)
            rows = out["map"].flatten(2).transpose(1, 2)
            out["rows"] = self.attention(rows, rows, rows, need_weights=False)[0]
        return out


class HalfRows(nn.Module):
    """Each row twice by a division that rounds down, as experts' tokens are found again."""

    def forward(self, x):
        order = torch.sort(torch.cat([x[:, 0], x[:, 0]])).indices
        return x[order // 2] * 2


def hugging_face(model, kind, config, inputs, attention="eager"):
    built = type(model.__name__, (kind, model), {})
    return lambda: samples.hugging_face(built, config(), inputs, attention)


def picture():
    return (torch.randn(1, 3, 64, 64),)


WORDS, PIXELS = samples.FromTokens, samples.FromPixels
SMALL = {k: v for k, v in samples.SMALL.items() if k != "intermediate_size"}
FAMILIES = {
    "Falcon with alibi": hugging_face(transformers.FalconModel, WORDS, lambda: transformers.FalconConfig(
        **SMALL, ffn_hidden_size=128, alibi=True, multi_query=False, bias=True, parallel_attn=False), samples.tokens),
    "Falcon with one key for all heads": hugging_face(transformers.FalconModel, WORDS, lambda: transformers.FalconConfig(
        **SMALL, ffn_hidden_size=128), samples.tokens),
    "MPT": hugging_face(transformers.MptModel, WORDS, lambda: transformers.MptConfig(
        d_model=64, n_heads=4, n_layers=2, expansion_ratio=2, max_seq_len=64, vocab_size=samples.TOKENS), samples.tokens),
    "GPT-NeoX": hugging_face(transformers.GPTNeoXModel, WORDS, lambda: transformers.GPTNeoXConfig(
        **samples.SMALL, max_position_embeddings=64), samples.tokens),
    "Phi-3": hugging_face(transformers.Phi3Model, WORDS, lambda: transformers.Phi3Config(
        **samples.SMALL, num_key_value_heads=2, max_position_embeddings=64, pad_token_id=0), samples.tokens),
    "T5 with PyTorch's attention": hugging_face(transformers.T5EncoderModel, WORDS, lambda: transformers.T5Config(
        d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, vocab_size=samples.TOKENS), samples.tokens, "sdpa"),
    "MPNet": hugging_face(transformers.MPNetModel, WORDS, lambda: transformers.MPNetConfig(
        **samples.SMALL, max_position_embeddings=64), samples.tokens),
    "ModernBERT": hugging_face(transformers.ModernBertModel, WORDS, lambda: transformers.ModernBertConfig(
        **samples.SMALL, max_position_embeddings=64, pad_token_id=0, local_attention=8, global_attn_every_n_layers=2), samples.tokens),
    "SAM's image encoder": hugging_face(SamVisionEncoder, PIXELS, lambda: transformers.SamVisionConfig(
        hidden_size=64, num_hidden_layers=2, num_attention_heads=4, image_size=64, patch_size=8, window_size=4, mlp_dim=128,
        global_attn_indexes=[1], output_channels=16, num_pos_feats=16), picture),
    "Swin v2": hugging_face(transformers.Swinv2Model, PIXELS, lambda: transformers.Swinv2Config(
        image_size=64, patch_size=4, embed_dim=32, depths=[2, 2], num_heads=[2, 4], window_size=4), picture),
}


def table():
    """family: (file, recipe, {rule: count}), of docs/reference/shipped-rules.md."""
    text = (SOURCE / "docs/reference/shipped-rules.md").read_text().split("| family | L |")[1].split("\n\n")[0]
    found = {}
    for line in text.splitlines()[2:]:
        family, layers, recipe, rewrites = (cell.strip() for cell in line.strip("|").split("|"))
        file, recipe = recipe.replace("`", "").split()
        count = lambda n: eval(re.sub(r"(\d)L", r"\1*L", n).replace("/", "//"), {"L": int(layers)})  # "2L-1"
        found[family] = file, recipe, {r.split()[0]: count(r.split()[1]) for r in rewrites.split(", ")}
    return found


class Families(TestCase):
    def saved(self, name, model, inputs, form):
        torch.manual_seed(0)
        path = self.folder / (name + {"export": ".pt2", "capture": ".fx", "dynamic": ".fx"}.get(form, ".pt"))
        model = model.eval()
        if form == "trace":
            torch.jit.trace(model, inputs, check_trace=False).save(path)
        elif form == "script":
            torch.jit.script(model).save(path)
        elif path.suffix == ".fx":
            graft_fx.capture(model, inputs, path, dynamic=form == "dynamic" or None)
        else:
            sizes = tuple({i: DYNAMIC for i in range(x.dim())} for x in inputs)
            torch.export.save(torch.export.export(model, inputs, dynamic_shapes=sizes), path)
        given = self.folder / f"{name}_inputs.pt"
        torch.save(inputs, given)
        return path, given

    def same(self, out, model, *inputs):
        loaded = torch.jit.load(out) if out.suffix == ".pt" else torch.export.load(out).module()
        with torch.no_grad():
            torch.testing.assert_close(loaded(*inputs), model(*inputs), rtol=1e-4, atol=1e-5)

    def applied(self, path, given, file, recipe, out):
        return self.of_model("apply", path, "--rules", RULES / file, "--recipe", recipe, "--inputs", given, "--no-timing",
                         "-o", self.folder / out)

    def test_the_rules_find_what_the_table_of_families_says(self):
        warnings.simplefilter("ignore")
        self.assertEqual(set(table()), set(FAMILIES))
        for family, (file, recipe, expected) in table().items():
            torch.manual_seed(0)
            model, inputs = FAMILIES[family]()
            given = self.folder / "inputs.pt"
            torch.save(inputs, given)
            with torch.no_grad():
                torch.jit.trace(model, inputs, check_trace=False).save(self.folder / "family.pt")
                torch.export.save(torch.export.export(model, inputs), self.folder / "family.pt2")
            for form in ("pt", "pt2"):
                with self.subTest(family=family, form=form):
                    report = self.applied(self.folder / f"family.{form}", given, file, recipe, f"fast.{form}")
                    self.assertEqual({s["name"]: s["rewrites"] for s in report["steps"] if s["isRule"] and s["rewrites"]}, expected)
                    self.assertTrue(report["verification"]["passed"], report["verification"])

    def test_attention_with_a_bias_is_found_in_half_precision_too(self):
        """The mask's number is another there, parts of the model stay in float32, and casts stand between."""
        warnings.simplefilter("ignore")
        for family in ("T5 with PyTorch's attention", "MPNet", "MPT", "Falcon with alibi"):
            file, recipe, expected = table()[family]
            torch.manual_seed(0)
            model, inputs = FAMILIES[family]()
            path, given = self.saved("half", model, inputs, "trace")
            for dtype in ("float16", "bfloat16"):
                with self.subTest(family=family, dtype=dtype):
                    report = self.of_model("apply", path, "--rules", RULES / file, "--recipe", recipe, "--inputs", given,
                                           "--no-timing", "--dtype", dtype, "-o", self.folder / "fast.pt")
                    found = {s["name"]: s["rewrites"] for s in report["steps"] if "Attention" in s["name"] and s["rewrites"]}
                    self.assertEqual(found, {rule: n for rule, n in expected.items() if "Attention" in rule})
                    self.assertTrue(report["verification"]["passed"], report["verification"])

    def test_a_view_of_what_a_kernel_lays_out_otherwise(self):
        model, inputs = CrossAttention().eval(), (torch.randn(2, 7, 32), torch.randn(2, 9, 32))
        path, given = self.saved("cross", model, inputs, "export")
        report = self.applied(path, given, "transformer.py", "Encoder", "fast.pt")
        self.assertIn("ScaledDotProductAttention", [s["name"] for s in report["steps"] if s["rewrites"]])
        self.assertTrue(report["verification"]["passed"])

    def test_what_one_sample_serves_serves_any_batch(self):
        """Traced with a batch of 1, the model does not say which sizes are 1 for good."""
        torch.ops.load_library(str(OPERATORS))
        for how in ("written out", "called", "without heads"):
            for swapped in (False, True):
                model = LearnedQueries(how, swapped).eval()
                path, given = self.saved("latents", model, (torch.randn(1, 9, 32),), "trace")
                for file, recipe in (("transformer.py", "Encoder"), ("generated.py", "Generated")):
                    with self.subTest(how=how, swapped=swapped, recipe=recipe):
                        report = self.applied(path, given, file, recipe, "fast.pt")
                        found = [s["name"] for s in report["steps"] if "Attention" in s["name"] and s["rewrites"]]
                        self.assertEqual(found != [], recipe == "Encoder" or how == "without heads")
                        for x in (torch.randn(1, 9, 32), torch.randn(3, 11, 32)):
                            self.same(self.folder / "fast.pt", model, x)

    def test_shifted_windows_of_any_batch(self):
        warnings.simplefilter("ignore")
        torch.ops.load_library(str(OPERATORS))
        torch.manual_seed(0)
        model, inputs = FAMILIES["Swin v2"]()
        for batch in (1, 2):
            path, given = self.saved("swin", model, (inputs[0].repeat(batch, 1, 1, 1),), "trace")
            report = self.applied(path, given, "transformer.py", "Encoder", "fast.pt")
            self.assertIn("CosineWindowAttention", [s["name"] for s in report["steps"] if s["rewrites"]])
            for other in (1, 2, 3):
                self.same(self.folder / "fast.pt", model, torch.randn(other, 3, 64, 64))

    def test_what_one_sample_is_added_to_has_any_batch(self):
        torch.ops.load_library(str(OPERATORS))
        for (rule, file, recipe), compute in ONE_FOR_ALL.items():
            with self.subTest(rule=rule):
                model = OneForAll(compute).eval()
                y = torch.randn(1, 9, 32)
                path, given = self.saved("one", model, (torch.randn(1, 9, 32), y), "trace")
                report = self.applied(path, given, file, recipe, "fast.pt")
                self.assertIn(rule, [s["name"] for s in report["steps"] if s["rewrites"]])
                for batch in (1, 3):
                    self.same(self.folder / "fast.pt", model, torch.randn(batch, 9, 32), y)

    def test_convolutions_of_any_size_stay_so(self):
        model = Blocks().eval()
        path, given = self.saved("blocks", model, (torch.randn(2, 3, 16, 20),), "export")
        self.applied(path, given, "conv.py", "ConvNet", "fast.pt2")
        text = self.done("text", self.folder / "fast.pt2").stdout
        self.assertRegex(text, r"conv_bias_add_relu.* : f32\[s\d+,8,[^\]]*//2")
        self.assertNotIn(" : tensor", text)

    def test_rewritten_programs_know_sizes_that_follow_from_sizes(self):
        torch.ops.load_library(str(OPERATORS))
        for model, file, recipe in ((Pyramid(), "conv.py", "ConvNet"), (Frames(), "transformer.py", "Encoder")):
            with self.subTest(model=type(model).__name__):
                path, given = self.saved("pyramid", model.eval(), (torch.randn(2, 3, 32, 45),), "export")
                report = self.applied(path, given, file, recipe, "fast.pt2")
                self.assertNotEqual([s for s in report["steps"] if s["isRule"] and s["rewrites"]], [])
                for shape in ((2, 3, 32, 45), (3, 3, 17, 64), (4, 3, 41, 22)):
                    self.same(self.folder / "fast.pt2", model, torch.randn(shape))

    def test_a_branch_that_a_size_decides_is_written_as_it_was(self):
        model = AskedSize().eval()
        path, _ = self.saved("asked", model, (torch.randn(2, 3, 20, 9),), "export")
        for out in ("copy.pt2", "copy.pt"):
            self.done("convert", path, "-o", self.folder / out)
            for height in (20, 19, 18, 5):
                self.same(self.folder / out, model, torch.randn(2, 3, height, 9))

    def test_a_traced_model_becomes_a_program_for_all_sizes(self):
        model = Positions().eval()
        path, given = self.saved("positions", model, (torch.randint(0, 50, (2, 12)),), "trace")
        text = self.done("text", path).stdout
        self.assertIn("input %ids : i64[s0,s1]", text)  # although 77 are the most
        self.assertNotIn("div_", text)  # the quotient is nobody else's
        report = self.applied(path, given, "transformer.py", "Encoder", "fast.pt2")
        found = {s["name"]: s["rewrites"] for s in report["steps"]}
        self.assertEqual((found["QkvProjection"], found["Attention"]), (1, 1))
        torch.ops.load_library(str(OPERATORS))
        for shape in ((2, 12), (3, 9), (1, 40)):
            self.same(self.folder / "fast.pt2", model, torch.randint(0, 50, shape))

    def test_a_short_table_of_positions_fixes_no_length(self):
        for most in (40, 16):
            model = Positions(most).eval()
            path, _ = self.saved("short", model, (torch.randint(0, 50, (2, 12)),), "trace")
            self.assertIn("input %ids : i64[s0,s1]", self.done("text", path).stdout)
            self.done("convert", path, "-o", self.folder / "out.pt2")
            for shape in ((2, 12), (3, 9), (4, 16)):
                self.same(self.folder / "out.pt2", model, torch.randint(0, 50, shape))

    def test_the_code_of_numbers_beside_tensors_runs(self):
        model, ids = Positions().eval(), torch.randint(0, 50, (2, 12))
        path, _ = self.saved("positions", model, (ids,), "trace")
        scope = {"torch": torch}
        exec(self.done("code", path).stdout, scope)
        with torch.no_grad():
            torch.testing.assert_close(scope["forward"](model, ids), model(ids))
        self.done("convert", path, "-o", self.folder / "out.pt2")
        self.same(self.folder / "out.pt2", model, ids)

    def test_the_side_of_a_grid_is_a_number(self):
        model, x = Grid().eval(), torch.randn(2, 3, 24, 24)
        path, _ = self.saved("grid", model, (x,), "trace")
        self.assertIn("[1, 4, 4, 8]", self.done("text", path).stdout)
        self.done("convert", path, "-o", self.folder / "out.pt2")
        self.same(self.folder / "out.pt2", model, x)

    def test_weight_norm_has_a_type(self):
        model = nn.utils.weight_norm(nn.Conv1d(4, 8, 3), dim=2).eval()
        path, _ = self.saved("norm", model, (torch.randn(2, 4, 10),), "trace")
        self.assertRegex(self.done("text", path).stdout, r"_weight_norm.* : f32\[8,4,3\]")

    def test_an_object_that_a_model_makes_and_reads_is_followed(self):
        x = torch.randn(2)
        path, _ = self.saved("detector", Detector(), (x,), "script")
        self.done("convert", path, "-o", self.folder / "out.pt")
        self.same(self.folder / "out.pt", Detector(), x)

    def test_an_object_that_a_branch_writes_is_named(self):
        path, _ = self.saved("detector", Cropping(), (torch.randn(2),), "script")
        self.fails(3, "info", path, says=["Pictures", "attribute batch", "control flow"])

    def test_a_scripted_model_that_asks_for_ranks(self):
        model, x = torch.jit.script(Careful().eval()), torch.randn(4, 8)
        path, given = self.saved("careful", Careful(), (x,), "script")
        model = torch.jit.load(path)
        torch.save(model(x), self.folder / "expected.pt")
        self.done("run", path, "--inputs", given, "--expect", self.folder / "expected.pt")  # the warning is no operator
        self.done("convert", path, "-o", self.folder / "out.pt")
        self.same(self.folder / "out.pt", model, x)
        self.done("convert", path, "--inputs", given, "-o", self.folder / "out.pt2")
        self.same(self.folder / "out.pt2", model, x)

    def runs_alike(self, path, given, model, *inputs, formats=("pt", "pt2")):
        """Graft's executor computes what the model does, and PyTorch what Graft writes of it."""
        with torch.no_grad():
            torch.save(model(*inputs), self.folder / "expected.pt")
        self.done("run", path, "--inputs", given, "--expect", self.folder / "expected.pt")
        for ending in formats:
            out = self.folder / f"out.{ending}"
            self.done("convert", path, "-o", out, *(("--inputs", given) if ending == "pt2" else ()))
            self.same(out, model, *inputs)

    def test_recurrent_layers_in_every_form(self):
        model, x = Recurrent().eval(), torch.randn(2, 5, 8)
        for form in ("trace", "script", "export", "capture"):
            with self.subTest(form=form):
                path, given = self.saved("recurrent", model, (x,), form)
                # Scripted, they ask for devices and compare shapes with tuples, which no program of torch.export does.
                self.runs_alike(path, given, model, x, formats=("pt",) if form == "script" else ("pt", "pt2"))
                if form != "script":
                    self.assertRegex(self.done("text", path).stdout, r"aten\.lstm\.input\(.* : f32\[\w+,\w+,32\]")

    def test_transformer_encoder_with_and_without_its_fast_path(self):
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
        x = torch.randn(2, 5, 16)
        for name, model, operator, times in (("encoder", encoder, "_transformer_encoder_layer_fwd", 2),
                                             ("attention", Attention().eval(), "_native_multi_head_attention", 1)):
            for form in ("trace", "export", "capture") if model is encoder else ("trace",):
                with self.subTest(model=name, form=form), torch.no_grad():
                    path, given = self.saved(name, model, (x,), form)
                    text = self.done("text", path).stdout
                    # Without gradients PyTorch traces a layer as one operator; what else captures has what it consists of.
                    self.assertEqual(text.count(operator + ".default"), times if form == "trace" else 0)
                    self.assertNotIn(" : tensor", text)
                    self.runs_alike(path, given, model, x)

    def test_a_dynamic_capture_takes_the_model_s_inputs_and_sizes_alone(self):
        model, x = CrossAttention().eval(), torch.randn(2, 7, 32)
        for name, module, inputs in (("attention", model, (x, torch.randn(2, 9, 32))),
                                     ("encoder", nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), (x,))):
            path, _ = self.saved(name, module, inputs, "dynamic")
            text = self.done("text", path).stdout
            given = re.findall(r"(?m)^  input %\w+ : (\S+)", text)
            self.assertEqual([t for t in given if t != "int" and not t.startswith("f32[s")], [], text)
            self.assertEqual(sum(t != "int" for t in given), len(inputs))

    def test_arithmetic_of_sizes_with_floats(self):
        def scaled(x):
            n = x.shape[1]
            return x[:, : int(n * 0.5)] * math.sqrt(n) + n * 4 // 3 - abs(2 - n)

        class Sizes(nn.Module):
            def forward(self, x):
                return scaled(x)

        x = torch.randn(2, 7)
        path, _ = self.saved("sizes", Sizes(), (x,), "dynamic")
        names = re.findall(r"(?m)^  input %(\w+) : ", self.done("text", path).stdout)
        for rows, columns in ((2, 7), (3, 11)):
            x = torch.randn(rows, columns)
            self.assertEqual(len(names), 3)  # the tensor, and its sizes in the order of its dimensions
            torch.save((x, rows, columns), self.folder / "in.pt")
            torch.save(scaled(x), self.folder / "expected.pt")
            self.done("run", path, "--inputs", self.folder / "in.pt", "--expect", self.folder / "expected.pt")
        self.done("convert", path, "-o", self.folder / "out.pt")
        torch.testing.assert_close(torch.jit.load(self.folder / "out.pt")(x, rows, columns), scaled(x))
        self.fails(3, "convert", path, "-o", self.folder / "out.pt2", says=("float", "torch.export"))

    def test_scripted_optionals_and_shapes(self):
        model, x = Heads().eval(), torch.randn(2, 3, 8, 8)
        path, given = self.saved("heads", model, (x,), "script")
        self.done("run", path, "--inputs", given)
        self.done("convert", path, "-o", self.folder / "out.pt")
        self.same(self.folder / "out.pt", model, x)

    def test_a_division_that_rounds_down_has_a_type(self):
        model, x = HalfRows().eval(), torch.randn(4, 3)
        path, given = self.saved("half", model, (x,), "trace")
        text = self.done("text", path).stdout
        self.assertRegex(text, r"floor_divide.* : i64\[")
        self.assertNotIn(" : tensor", text)
        self.runs_alike(path, given, model, x)


main()
