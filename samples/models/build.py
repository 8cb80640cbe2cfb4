#!/usr/bin/env python3
"""Builds small models of many families, with seeded random weights, in the formats that Graft reads.

    build.py --list
    build.py bert vit --format torchscript -o build/samples/models
    build.py all --format pt2 --format fx

For each NAME it writes NAME.pt (traced, or scripted where the model branches on values), NAME.pt2 (torch.export), decomposed/NAME.pt2
(the same after run_decompositions) or NAME.fx (resources/python/graft_fx), and in the folder itself NAME_inputs.pt and NAME_expected.pt: the positional inputs and what PyTorch
computes for them. One model that fails does not stop the others; the exit code is 1 if any failed that is not known to.
Nothing is downloaded.
"""

import argparse
import copy
import os
import pathlib
import sys
import warnings

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import torchvision.models
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import modules

SUFFIX = {"torchscript": ".pt", "pt2": ".pt2", "decomposed": ".pt2", "fx": ".fx"}
FORMATS = {".pt": "torchscript", ".pt2": "pt2", ".fx": "fx"}


# Hugging Face models with tensors in and their first output out.
class FromTokens:
    def forward(self, input_ids, attention_mask):
        return super().forward(input_ids=input_ids, attention_mask=attention_mask, return_dict=False)[0]


class FromPixels:
    def forward(self, pixel_values):
        return super().forward(pixel_values=pixel_values, return_dict=False)[0]


class FromSound:
    def forward(self, input_features):
        return super().forward(input_features, return_dict=False)[0]


class Bert(FromTokens, transformers.BertModel): ...
class DistilBert(FromTokens, transformers.DistilBertModel): ...
class Roberta(FromTokens, transformers.RobertaModel): ...
class DebertaV2(FromTokens, transformers.DebertaV2Model): ...
class Gpt2(FromTokens, transformers.GPT2Model): ...
class T5Encoder(FromTokens, transformers.T5EncoderModel): ...
class Llama(FromTokens, transformers.LlamaModel): ...
class Qwen2(FromTokens, transformers.Qwen2Model): ...
class Vit(FromPixels, transformers.ViTModel): ...


class Clip(transformers.CLIPModel):
    """Both towers: how well each picture fits each text."""

    def forward(self, input_ids, pixel_values, attention_mask):
        return super().forward(input_ids=input_ids, pixel_values=pixel_values, attention_mask=attention_mask, return_dict=False)[0]


from transformers.models.whisper.modeling_whisper import WhisperEncoder as _WhisperEncoder  # not at the top level


class WhisperEncoder(FromSound, _WhisperEncoder): ...


TOKENS = 100
SMALL = dict(vocab_size=TOKENS, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128)

PICTURES = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, image_size=64, patch_size=16)


def tokens():
    ids = torch.randint(5, TOKENS, (2, 12))
    mask = torch.ones_like(ids)
    mask[1, 8:] = 0  # padding, so that the mask matters
    return ids, mask


def text_and_image():
    ids, mask = tokens()
    ids[:, -5:] = TOKENS - 1  # the end of the text
    return ids, torch.randn(2, 3, 64, 64), mask


def hugging_face(model, config, inputs=tokens, attention="eager"):
    config._attn_implementation = attention  # "sdpa" calls PyTorch's own attention
    config.use_cache = False
    return model(config).eval(), inputs()


def image(size=64):
    return (torch.randn(1, 3, size, size),)


def vision(build, **options):
    return build(weights=None, **options).eval(), image()


def swin():
    options = dict(patch_size=[4, 4], embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=[4, 4], num_classes=10)
    return torchvision.models.SwinTransformer(**options).eval(), image()


def convnext():
    block = torchvision.models.convnext.CNBlockConfig
    settings = [block(16, 32, 2), block(32, None, 2)]
    return torchvision.models.ConvNeXt(settings, num_classes=10).eval(), image()


def efficientnet():
    block = torchvision.models.efficientnet.MBConvConfig
    settings = [block(1, 3, 1, 16, 8, 1, 1, 1), block(6, 3, 2, 8, 16, 2, 1, 1), block(6, 5, 2, 16, 24, 1, 1, 1)]
    return torchvision.models.EfficientNet(settings, dropout=0.2, num_classes=10).eval(), image()


def conv_bn_relu():
    layers = torch.nn.Sequential(torch.nn.Conv2d(16, 32, 3), torch.nn.BatchNorm2d(32), torch.nn.ReLU())
    return layers.train(), (torch.randn(2, 16, 8, 8),)


MODELS = {
    "bert": ("BERT, 2 layers", lambda: hugging_face(Bert, transformers.BertConfig(**SMALL))),
    "distilbert": ("DistilBERT, 2 layers", lambda: hugging_face(
        DistilBert, transformers.DistilBertConfig(vocab_size=TOKENS, dim=64, n_layers=2, n_heads=4, hidden_dim=128))),
    "roberta": ("RoBERTa, 2 layers", lambda: hugging_face(Roberta, transformers.RobertaConfig(**SMALL))),
    "deberta": ("DeBERTa v2 with disentangled attention, 2 layers", lambda: hugging_face(
        DebertaV2, transformers.DebertaV2Config(**SMALL, relative_attention=True, pos_att_type=["p2c", "c2p"],
                                                position_buckets=16, norm_rel_ebd="layer_norm", share_att_key=True))),
    "gpt2": ("GPT-2, 2 layers, causal", lambda: hugging_face(
        Gpt2, transformers.GPT2Config(vocab_size=TOKENS, n_embd=64, n_layer=2, n_head=4, n_positions=64))),
    "t5": ("T5's encoder, 2 layers", lambda: hugging_face(
        T5Encoder, transformers.T5Config(vocab_size=TOKENS, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4))),
    "llama": ("Llama, 2 layers, grouped queries", lambda: hugging_face(
        Llama, transformers.LlamaConfig(**SMALL, num_key_value_heads=2, max_position_embeddings=64))),
    "qwen2": ("Qwen2, 2 layers, projections with biases", lambda: hugging_face(
        Qwen2, transformers.Qwen2Config(**SMALL, num_key_value_heads=2, max_position_embeddings=64))),
    "vit": ("Vision transformer, 2 layers", lambda: hugging_face(Vit, transformers.ViTConfig(**PICTURES), image)),
    "clip": ("CLIP, 2 layers for text and 2 for pictures", lambda: hugging_face(
        Clip, transformers.CLIPConfig(text_config=dict(**SMALL, max_position_embeddings=77), vision_config=PICTURES, projection_dim=32),
        text_and_image)),
    "whisper": ("Whisper's encoder, 2 layers", lambda: hugging_face(
        WhisperEncoder, transformers.WhisperConfig(d_model=64, encoder_layers=2, encoder_attention_heads=4,
                                                   encoder_ffn_dim=128, num_mel_bins=20, max_source_positions=50),
        lambda: (torch.randn(1, 20, 100),))),
    "bert_sdpa": ("BERT with PyTorch's own attention", lambda: hugging_face(
        Bert, transformers.BertConfig(**SMALL), attention="sdpa")),
    "gpt2_sdpa": ("GPT-2 with PyTorch's own attention", lambda: hugging_face(
        Gpt2, transformers.GPT2Config(vocab_size=TOKENS, n_embd=64, n_layer=2, n_head=4, n_positions=64),
        attention="sdpa")),
    "llama_sdpa": ("Llama with PyTorch's own attention", lambda: hugging_face(
        Llama, transformers.LlamaConfig(**SMALL, num_key_value_heads=2, max_position_embeddings=64), attention="sdpa")),
    "resnet": ("ResNet-18", lambda: vision(torchvision.models.resnet18, num_classes=10)),
    "mobilenet": ("MobileNetV3 small", lambda: vision(torchvision.models.mobilenet_v3_small, num_classes=10)),
    "efficientnet": ("EfficientNet, 3 stages", efficientnet),
    "swin": ("Swin transformer, 2 stages", swin),
    "convnext": ("ConvNeXt, 2 stages", convnext),
    "slapo_attention": ("Slapo's Attention", lambda: (modules.Attention(64, 4).eval(), (torch.randn(2, 10, 64),))),
    "self_atten": ("The notebook's SelfAtten", lambda: (
        modules.SelfAtten(64).eval(), (torch.randn(2, 10, 64), torch.tril(torch.ones(2, 10, 10))))),
    "my_module": ("Kernl's MyModule", lambda: (modules.MyModule().eval(), (torch.randn(3, 4),))),
    "feed_forward": ("Kernl's FeedForward", lambda: (modules.FeedForward(5, 10).eval(), (torch.randn(7, 5),))),
    "conv_bn_relu": ("Convolution, BatchNorm and ReLU, in training", conv_bn_relu),
    "control_flow": ("A scripted branch, loops, lists, dictionaries and optionals", lambda: (
        modules.ControlFlow().eval(), (torch.randn(4, 8), torch.randn(8)))),
}

# What PyTorch itself cannot export, and why.
KNOWN = {
    ("control_flow", "pt2"): "torch.export does not take branches on values",
    ("control_flow", "decomposed"): "torch.export does not take branches on values",
    ("gpt2_sdpa", "decomposed"): "PyTorch views a transposed tensor while it decomposes",
    ("control_flow", "fx"): "symbolic tracing does not take branches on values",
}
SCRIPTED = {"control_flow"}


def build(name):
    torch.manual_seed(0)
    return MODELS[name][1]()


class Exports:
    """One model in several formats: built once, exported by torch.export once."""

    def __init__(self, name, folder):
        self.name, self.folder = name, folder
        self.model, self.inputs = build(name)
        self.program = None
        with torch.no_grad():
            self.expected = copy.deepcopy(self.model)(*self.inputs)
        torch.save(self.inputs, folder / f"{name}_inputs.pt")
        torch.save(self.expected, folder / f"{name}_expected.pt")

    def write(self, form):
        path = self.folder / ("decomposed" if form == "decomposed" else "") / (self.name + SUFFIX[form])
        path.parent.mkdir(exist_ok=True)
        with torch.no_grad():
            again = getattr(self, form)(copy.deepcopy(self.model), str(path))
        torch.testing.assert_close(again, self.expected)
        return path

    # Each writes the file and computes with what was written.
    def torchscript(self, model, path):
        if self.name in SCRIPTED:
            program = torch.jit.script(model)
        else:
            program = torch.jit.trace(model, self.inputs, check_trace=False)
        program.save(path)
        return torch.jit.load(path)(*self.inputs)

    def pt2(self, model, path, decomposed=False):
        self.program = self.program or torch.export.export(model, self.inputs)
        torch.export.save(self.program.run_decompositions() if decomposed else self.program, path)
        return torch.export.load(path).module()(*self.inputs)

    def decomposed(self, model, path):
        return self.pt2(model, path, decomposed=True)

    def fx(self, model, path):
        sys.path.insert(0, str(ROOT / "resources/python"))
        import graft_fx  # Graft's own; needed for this format only

        try:
            traced = torch.fx.symbolic_trace(model)
        except Exception:  # whatever symbolic tracing trips over, capturing while running may pass
            graft_fx.capture(model, self.inputs, path)
            return self.expected
        graft_fx.save(traced, path, self.inputs, lower=True)
        return traced(*self.inputs)


def in_short(error):
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="models to build, or 'all'")
    parser.add_argument("--format", choices=sorted(SUFFIX), action="append", help="may be given several times; torchscript where it is not")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=pathlib.Path("build/samples/models"))
    parser.add_argument("--list", action="store_true", help="name the models and what they are")
    arguments = parser.parse_args()
    if arguments.list:
        for name, (what, _) in MODELS.items():
            print(f"{name:16} {what}")
        return 0
    names = list(MODELS) if arguments.names == ["all"] else arguments.names
    unknown = [name for name in names if name not in MODELS]
    if unknown or not names:
        parser.error(f"no model {', '.join(unknown)}; see --list" if unknown else "name a model, or 'all'; see --list")
    warnings.filterwarnings("ignore")  # tracing warns of every branch; the comparison above is what counts
    transformers.utils.logging.set_verbosity_error()
    arguments.output.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in names:
        try:
            exports = Exports(name, arguments.output)
        except Exception as error:
            failed += 1
            print(f"{name:16} FAILED: {in_short(error)}", flush=True)
            continue
        for form in arguments.format or ["torchscript"]:
            if reason := KNOWN.get((name, form)):
                print(f"{name:16} not exported: {reason}", flush=True)
                continue
            try:
                path = exports.write(form)
                print(f"{name:16} {path} ({path.stat().st_size / 1000:.0f} kB)", flush=True)
            except Exception as error:
                failed += 1
                print(f"{name:16} FAILED: {in_short(error)}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
