"""Decoders of text, of transformers: one pass over a prompt, without a cache."""
import torch
import transformers
from torch import nn
from transformers.models.bloom import modeling_bloom

from .common import First, model, text, tokens
from .encoders import bart_config


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
def mistral(batch):
    config = transformers.MistralConfig(hidden_size=1024, num_hidden_layers=4, num_attention_heads=16, num_key_value_heads=4,
                                        intermediate_size=3584, vocab_size=32000)
    return text(transformers.MistralModel, config, batch, use_cache=False)


@model
def mpt(batch):
    return text(transformers.MptModel, transformers.MptConfig(d_model=768, n_heads=12, n_layers=8, vocab_size=32000), batch, use_cache=False)


class BloomGelu(nn.Module):
    """What BLOOM's own computes. That one is an autograd function in Python, which no traced file can hold."""

    def forward(self, x):
        return modeling_bloom.bloom_gelu_forward(x)


@model
def bloom(batch):
    """BLOOM-560m's layers, four of 24."""
    config = transformers.BloomConfig(hidden_size=1024, n_layer=4, n_head=16, vocab_size=32000)
    module, inputs = text(transformers.BloomModel, config, batch, use_cache=False)
    for block in module.model.h:
        block.mlp.gelu_impl = BloomGelu()
    return module, inputs


@model
def gpt_neo(batch):
    config = transformers.GPTNeoConfig(hidden_size=768, num_layers=12, attention_types=[[["global", "local"], 6]], num_heads=12, vocab_size=32000)
    return text(transformers.GPTNeoModel, config, batch, use_cache=False)


@model
def bart_decoder(batch):
    """Over a prompt, beside an encoder's states of 128 tokens."""
    from transformers.models.bart.modeling_bart import BartDecoder
    decoder = First(BartDecoder(bart_config()).eval(), "input_ids", "encoder_hidden_states", use_cache=False)
    return decoder, (tokens(batch, 64)[0], torch.randn(batch, 128, 768))


@model
def mamba(batch):
    """Two blocks; without kernels of its own the scan is a loop over 64 tokens, which tracing unrolls."""
    config = transformers.MambaConfig(hidden_size=768, num_hidden_layers=2, vocab_size=32000)
    return First(transformers.MambaModel(config).eval(), "input_ids", use_cache=False), tokens(batch, 64)[:1]
