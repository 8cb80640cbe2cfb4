"""Models of many families at the sizes that people serve, with random weights: what samples/zoo/bench.py measures.

    MODELS["bert"](batch) -> (module in eval mode, its positional inputs), both fp32 on the CPU

Every builder keeps its library's defaults: PyTorch's own attention, a forward pass as the family's users call it. `First` only
picks the tensor that a user reads, since a traced model returns tensors. `lively` gives random weights outputs that half precision
can tell apart.
"""
import torch
import torchvision.models as vision
import transformers
from torch import nn
from torch.nn import functional as F

MODELS = {}


def model(build):
    MODELS[build.__name__] = build
    return build


def builder(name):
    """That of MODELS, or of timm:NAME: any model of timm (which is not among requirements.txt) with random weights."""
    if not name.startswith("timm:"):
        return MODELS[name]

    def build(batch):
        import timm
        module = timm.create_model(name.removeprefix("timm:"), pretrained=False).eval()
        channels, height, width = module.default_cfg["input_size"]
        return lively(module, torch.randn(4, channels, height, width)), (torch.randn(batch, channels, height, width),)
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


@model
def bert(batch):
    return text(transformers.BertModel, transformers.BertConfig(), batch)


@model
def mpnet(batch):
    return text(transformers.MPNetModel, transformers.MPNetConfig(), batch)


@model
def deberta(batch):
    config = transformers.DebertaV2Config(relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=256, hidden_size=768,
                                          num_hidden_layers=6, num_attention_heads=12, intermediate_size=3072)
    return text(transformers.DebertaV2Model, config, batch)


@model
def opt(batch):
    return text(transformers.OPTModel, transformers.OPTConfig(), batch, use_cache=False)


@model
def qwen3(batch):
    config = transformers.Qwen3Config(hidden_size=1024, num_hidden_layers=8, num_attention_heads=16, num_key_value_heads=8, head_dim=64,
                                      intermediate_size=3072, vocab_size=32000)
    return text(transformers.Qwen3Model, config, batch, use_cache=False)


@model
def gemma3(batch):
    config = transformers.Gemma3TextConfig(hidden_size=640, num_hidden_layers=8, num_attention_heads=4, num_key_value_heads=1, head_dim=256,
                                           intermediate_size=2048, vocab_size=32000)
    return text(transformers.Gemma3TextModel, config, batch, use_cache=False)


@model
def llama(batch):
    config = transformers.LlamaConfig(hidden_size=1024, num_hidden_layers=8, num_attention_heads=16, num_key_value_heads=4,
                                      intermediate_size=2816, vocab_size=32000)
    return text(transformers.LlamaModel, config, batch, use_cache=False)


@model
def mpt(batch):
    return text(transformers.MptModel, transformers.MptConfig(d_model=768, n_heads=12, n_layers=8, vocab_size=32000), batch, use_cache=False)


@model
def t5_encoder(batch):
    config = transformers.T5Config(d_model=768, d_kv=64, d_ff=2048, num_layers=12, num_heads=12, feed_forward_proj="gated-gelu")
    return text(transformers.T5EncoderModel, config, batch)


@model
def whisper_encoder(batch):
    from transformers.models.whisper.modeling_whisper import WhisperEncoder
    config = transformers.WhisperConfig(d_model=512, encoder_layers=6, encoder_attention_heads=8, encoder_ffn_dim=2048)
    return First(WhisperEncoder(config).eval(), "input_features"), (torch.randn(batch, 80, 3000),)


@model
def wav2vec2(batch):
    return First(transformers.Wav2Vec2Model(transformers.Wav2Vec2Config(num_hidden_layers=6)).eval(), "input_values"), (torch.randn(batch, 48000),)


@model
def clip_vision(batch):
    return First(transformers.CLIPVisionModel(transformers.CLIPVisionConfig()).eval(), "pixel_values"), pictures(batch)


@model
def segformer(batch):
    return First(transformers.SegformerModel(transformers.SegformerConfig()).eval(), "pixel_values"), pictures(batch, 512)


@model
def vit(batch):
    return lively(vision.vit_b_16(), *pictures(4)), pictures(batch)


@model
def swin(batch):
    return vision.swin_t().eval(), pictures(batch)


@model
def densenet(batch):
    return lively(vision.densenet121(), *pictures(4)), pictures(batch)


@model
def efficientnet(batch):
    return lively(vision.efficientnet_b0(), *pictures(4)), pictures(batch)


@model
def convnext(batch):
    return vision.convnext_tiny().eval(), pictures(batch)


@model
def regnet(batch):
    return lively(vision.regnet_y_1_6gf(), *pictures(4)), pictures(batch)


class ResBlock(nn.Module):
    """GroupNorm, SiLU and a convolution twice, shifted by an embedding of the time step: a diffusion model's block."""

    def __init__(self, into, out, time):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(32, into), nn.Conv2d(into, out, 3, padding=1)
        self.time = nn.Linear(time, out)
        self.norm2, self.conv2 = nn.GroupNorm(32, out), nn.Conv2d(out, out, 3, padding=1)
        self.skip = nn.Conv2d(into, out, 1) if into != out else nn.Identity()

    def forward(self, x, time):
        h = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(time))[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(h)))


class SelfAttention(nn.Module):
    """Attention between all places of a picture, with a residual."""

    def __init__(self, channels, heads=8):
        super().__init__()
        self.heads = heads
        self.norm, self.qkv, self.out = nn.GroupNorm(32, channels), nn.Conv2d(channels, 3 * channels, 1), nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, 3, self.heads, c // self.heads, h * w).transpose(3, 4).unbind(1)
        return x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(2, 3).reshape(b, c, h, w))


class UNet(nn.Module):
    """A diffusion UNet of three resolutions: blocks down, attention at the coarsest, blocks up beside what was kept."""

    def __init__(self, channels=128, time=512):
        super().__init__()
        sizes = [channels, 2 * channels, 4 * channels]
        self.width = channels
        self.time = nn.Sequential(nn.Linear(channels, time), nn.SiLU(), nn.Linear(time, time))
        self.first = nn.Conv2d(4, channels, 3, padding=1)
        self.down, self.up, into, kept = nn.ModuleList(), nn.ModuleList(), channels, [channels]
        for size in sizes:
            self.down.append(nn.ModuleList([ResBlock(into, size, time), nn.Conv2d(size, size, 3, stride=2, padding=1)]))
            kept.append(size)
            into = size
        self.middle = nn.ModuleList([ResBlock(into, into, time), SelfAttention(into), ResBlock(into, into, time)])
        for size in reversed(sizes):
            self.up.append(ResBlock(into + kept.pop(), size, time))
            into = size
        self.norm, self.last = nn.GroupNorm(32, into), nn.Conv2d(into, 4, 3, padding=1)

    def forward(self, x, step):
        angles = step[:, None].to(x.dtype) * torch.exp(torch.arange(self.width // 2, device=x.device, dtype=x.dtype) * (-9.2 / (self.width // 2)))
        time = self.time(torch.cat([angles.sin(), angles.cos()], -1))
        x, kept = self.first(x), []
        for block, smaller in self.down:
            x = block(x, time)
            kept.append(x)
            x = smaller(x)
        x = self.middle[2](self.middle[1](self.middle[0](x, time)), time)
        for block in self.up:
            x = block(torch.cat([F.interpolate(x, scale_factor=2.0, mode="nearest"), kept.pop()], 1), time)
        return self.last(F.silu(self.norm(x)))


@model
def unet(batch):
    return UNet().eval(), (torch.randn(batch, 4, 64, 64), torch.randint(0, 1000, (batch,)))
