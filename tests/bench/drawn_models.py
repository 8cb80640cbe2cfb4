"""Writes the models whose drawings docs/measurements/window.md measures, with random weights.

    python tests/bench/drawn_models.py FOLDER [NAME...]

Each as NAME.pt (traced) and NAME.pt2 (exported); `joint` is the joint graph of a training step of a small BERT, as joint.fx, and `flat` has
10,000 operators and no modules. Files that are there already stay.
"""

import argparse
import pathlib
import sys

import torch

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "resources/python"))


class First(torch.nn.Module):
    """The first output of a model of transformers."""

    def __init__(self, model, **options):
        super().__init__()
        self.model = model
        self.options = options

    def forward(self, *inputs):
        return self.model(*inputs, return_dict=False, **self.options)[0]


def transformers_model(make, inputs, **options):
    import transformers

    return First(make(transformers), **options), inputs


def bert():
    return transformers_model(lambda t: t.BertModel(t.BertConfig(attn_implementation="eager"), add_pooling_layer=False),
                              (torch.randint(0, 30000, (1, 128)), torch.ones(1, 128, dtype=torch.long)))


def gpt2():
    return transformers_model(lambda t: t.GPT2Model(t.GPT2Config(attn_implementation="eager")), (torch.randint(0, 50000, (1, 64)),), use_cache=False)


def whisper():
    return transformers_model(lambda t: t.models.whisper.modeling_whisper.WhisperEncoder(t.WhisperConfig(attn_implementation="eager")),
                              (torch.randn(1, 80, 3000),))


def vision(name):
    import torchvision

    return getattr(torchvision.models, name)(), (torch.randn(1, 3, 224, 224),)


class Flat(torch.nn.Module):
    """Blocks of nine operators: two branches and a residual; every eighth takes the input of the model again."""

    def __init__(self, blocks):
        super().__init__()
        self.blocks = blocks

    def forward(self, x, gate):
        y = x
        for i in range(self.blocks):
            a = torch.relu(y * gate)
            b = torch.sigmoid(y + gate)
            c = torch.tanh(a - b)
            d = a.mean(-1, keepdim=True) * b
            y = y + c + d
            if i % 8 == 7:
                y = y + x
        return y


def flat():
    return Flat(1000), (torch.randn(4, 8), torch.randn(8))


MODELS = {"bert_base": bert, "resnet50": lambda: vision("resnet50"), "swin_t": lambda: vision("swin_t"),
          "convnext_tiny": lambda: vision("convnext_tiny"), "gpt2": gpt2, "whisper_encoder": whisper, "flat": flat}


def write(name, folder):
    traced, exported = folder / f"{name}.pt", folder / f"{name}.pt2"
    if traced.exists() and exported.exists():
        return
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    model = model.eval().requires_grad_(False)
    if not traced.exists():
        torch.jit.trace(model, inputs, check_trace=False).save(str(traced))
    if not exported.exists():
        torch.export.save(torch.export.export(model, inputs), exported)


def write_joint(folder):
    path = folder / "joint.fx"
    if path.exists():
        return
    import transformers

    import graft_fx

    config = transformers.BertConfig(num_hidden_layers=4, hidden_size=128, num_attention_heads=4, intermediate_size=512, attn_implementation="eager")
    model = First(transformers.BertModel(config, add_pooling_layer=False))
    graft_fx.capture(model, (torch.randint(0, 30000, (2, 32)),), str(path), joint=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", help=f"some of {', '.join(MODELS)}, joint; all of them without")
    arguments = parser.parse_args()
    names = arguments.names or [*MODELS, "joint"]
    for unknown in set(names) - {*MODELS, "joint"}:
        parser.error(f"there is no {unknown}")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        print(name, flush=True)
        write_joint(arguments.folder) if name == "joint" else write(name, arguments.folder)


if __name__ == "__main__":
    main()
