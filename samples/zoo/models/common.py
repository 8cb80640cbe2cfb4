"""What the families share: the list of builders, and what models need so that they can be traced and measured.

`First` only picks the tensor that a user reads, since a traced model returns tensors. `lively` gives random weights outputs that half
precision can tell apart.
"""
import torch
from torch import nn

MODELS = {}


def model(build):
    MODELS[build.__name__] = build
    return build


def from_timm(name):
    """The builder of timm's model NAME. timm is not among requirements.txt: the builder fails where it is not installed."""
    def build(batch):
        import timm
        module = timm.create_model(name, pretrained=False).eval()
        channels, height, width = module.default_cfg["input_size"]
        return lively(module, torch.randn(4, channels, height, width)), (torch.randn(batch, channels, height, width),)
    return build


LAYERS = ("num_hidden_layers", "num_layers", "n_layer", "n_layers", "encoder_layers", "decoder_layers")


def from_transformers(name, most_layers=4):
    """The builder of the class NAME of transformers (RobertaModel, Phi3Model, Dinov2WithRegistersModel), with its default configuration but at
    most `most_layers` layers. It takes tokens, pictures or one second of sound, as the class' main input says."""
    def build(batch):
        import transformers
        kind = getattr(transformers, name)
        config = kind.config_class()
        for layers in LAYERS:
            if isinstance(getattr(config, layers, None), int):
                try:
                    setattr(config, layers, min(most_layers, getattr(config, layers)))
                except (AttributeError, NotImplementedError):
                    pass  # computed from other entries (FunnelConfig)
        if hasattr(config, "use_cache"):
            config.use_cache = False
        wanted = getattr(kind, "main_input_name", "input_ids")
        if wanted == "pixel_values":
            size = getattr(config, "image_size", 224)
            return vision_transformer(kind, config, batch, size if isinstance(size, int) else 224)
        if wanted == "input_values":
            return First(kind(config).eval(), wanted), (torch.randn(batch, 16000),)
        if getattr(config, "vocab_size", 0) is None:
            config.vocab_size, config.pad_token_id, config.mask_token_id = 33, 1, 32  # EsmConfig leaves them to the user
        return text(kind, config, batch)
    return build


class First(nn.Module):
    """Calls a Hugging Face model with named tensors and returns its first output."""

    def __init__(self, model, *names, **options):
        super().__init__()
        self.model, self.names, self.options = model, names, options

    def forward(self, *tensors):
        return self.model(**dict(zip(self.names, tensors)), **self.options, return_dict=False)[0]


def tokens(batch, length, vocabulary=30000):
    return torch.randint(5, vocabulary, (batch, length)), torch.ones(batch, length, dtype=torch.int64)


def text(build, config, batch, length=128, **options):
    names = ("input_ids", "attention_mask")
    most = getattr(config, "max_position_embeddings", None)
    length = min(length, most) if most and most > 0 else length
    return First(build(config).eval(), *names, **options), tokens(batch, length, min(30000, config.vocab_size))


def lively(model, *inputs):
    """The model in eval mode, with statistics that its batch norms have seen, and without a last layer that begins with zeros: with
    random weights its outputs were all zero, or too small for half precision."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None  # the mean of all that it sees
        if isinstance(module, nn.Linear) and not module.weight.any():
            nn.init.normal_(module.weight, std=0.02)
    with torch.no_grad():
        model.train()(*inputs)
    return model.eval()


def pictures(batch, size=224):
    return (torch.randn(batch, 3, size, size),)


def vision_transformer(build, config, batch, size=224):
    return First(build(config).eval(), "pixel_values"), pictures(batch, size)
