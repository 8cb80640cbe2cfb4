"""Small decoders with random weights that keep keys and values in buffers, as torch.export writes them: one token a call.

    DECODERS["bart"](folder) -> Exported    writes an archive of torch.export and the inputs of its first step

The self attention writes its buffers in every step. An encoder's keys and values are computed in every step too, as transformers'
executorch modules have it, or lie in buffers that were filled before ("..._filled").
"""

import pathlib
from dataclasses import dataclass

import torch
import transformers
from torch import nn
from transformers import DynamicCache, EncoderDecoderCache, StaticCache
from transformers.integrations.executorch import TorchExportableModuleWithStaticCache

STEPS, LENGTH, WORDS, LAYERS = 8, 16, 99, 2


@dataclass
class Exported:
    archive: pathlib.Path
    inputs: pathlib.Path
    steps: list  # the inputs of each step
    expected: torch.Tensor  # what the model gives for all of them at once, without a cache
    attentions: int


class Step(nn.Module):
    """One step of a decoder that looks at an encoder's states."""

    def __init__(self, decoder, head, config, states, filled):
        super().__init__()
        self.decoder, self.head = decoder, head
        self.own = StaticCache(config=config, max_cache_len=LENGTH)
        self.cross = StaticCache(config=config, max_cache_len=states.shape[1]) if filled else DynamicCache(config=config)
        heads = config.num_attention_heads
        for name in ("own", "cross") if filled else ("own",):
            cache = getattr(self, name)
            cache.early_initialization(states.shape[0], heads, config.d_model // heads, torch.float32, "cpu")
            for i, layer in enumerate(cache.layers):
                for part in ("keys", "values", "cumulative_length"):
                    self.register_buffer(f"{name}_{part}_{i}", getattr(layer, part), persistent=False)
        self.cache = EncoderDecoderCache(self.own, self.cross)
        if filled:
            decoder(input_ids=torch.zeros(states.shape[0], 1, dtype=torch.int64), encoder_hidden_states=states, past_key_values=self.cache, use_cache=True)

    def forward(self, ids, states, position):
        for layer in self.own.layers:
            layer.cumulative_length.copy_(position[0])
        return self.head(self.decoder(input_ids=ids, encoder_hidden_states=states, past_key_values=self.cache, use_cache=True)[0])


def export(folder, module, steps, expected, attentions):
    archive, inputs = pathlib.Path(folder) / "step.pt2", pathlib.Path(folder) / "in.pt"
    torch.export.save(torch.export.export(module.eval(), steps[0], strict=False), archive)
    torch.save(steps[0], inputs)
    return Exported(archive, inputs, steps, expected, attentions)


def of_encoder(build, filled):
    """The step of a model with an encoder; `build` gives its decoder, its head and its configuration."""
    def make(folder):
        decoder, head, config = build()
        states, ids = torch.randn(1, 10, config.d_model), torch.randint(3, WORDS, (1, STEPS))
        expected = head(decoder(input_ids=ids, encoder_hidden_states=states, use_cache=False)[0])
        steps = [(ids[:, i:i + 1], states, torch.tensor([i])) for i in range(STEPS)]
        return export(folder, Step(decoder, head, config, states, filled), steps, expected, 2 * LAYERS)
    return make


def alone(build):
    """The step of a decoder-only model, by transformers' own module."""
    def make(folder):
        model = build()
        model.generation_config.update(use_cache=True, cache_implementation="static", cache_config={"batch_size": 1, "max_cache_len": LENGTH})
        ids = torch.randint(3, WORDS, (1, STEPS))
        expected = model(input_ids=ids, use_cache=False).logits
        module = TorchExportableModuleWithStaticCache(model)

        class Positional(nn.Module):
            def __init__(self):
                super().__init__()
                self.module = module

            def forward(self, ids, position):
                return self.module(input_ids=ids, cache_position=position)
        steps = [(ids[:, i:i + 1], torch.tensor([i])) for i in range(STEPS)]
        return export(folder, Positional(), steps, expected, LAYERS)
    return make


def bart():
    config = transformers.BartConfig(vocab_size=WORDS, d_model=64, encoder_layers=LAYERS, decoder_layers=LAYERS, encoder_attention_heads=4,
                                     decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128, max_position_embeddings=64)
    model = transformers.BartForConditionalGeneration(config).eval()
    return model.get_decoder(), model.lm_head, config


def whisper():
    config = transformers.WhisperConfig(vocab_size=WORDS, d_model=64, encoder_layers=LAYERS, decoder_layers=LAYERS, encoder_attention_heads=4,
                                        decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128, max_target_positions=64,
                                        max_source_positions=50, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)
    model = transformers.WhisperForConditionalGeneration(config).eval()
    return model.get_decoder(), model.proj_out, config


def t5():
    config = transformers.T5Config(vocab_size=WORDS, d_model=64, d_kv=16, d_ff=128, num_layers=LAYERS, num_decoder_layers=LAYERS, num_heads=4,
                                   feed_forward_proj="gated-gelu")
    model = transformers.T5ForConditionalGeneration(config).eval()
    return model.get_decoder(), model.lm_head, config


def llama():
    config = transformers.LlamaConfig(vocab_size=WORDS, hidden_size=64, intermediate_size=128, num_hidden_layers=LAYERS, num_attention_heads=4,
                                      num_key_value_heads=2)
    return transformers.LlamaForCausalLM(config).eval()


def gemma():
    config = transformers.GemmaConfig(vocab_size=WORDS, hidden_size=64, intermediate_size=128, num_hidden_layers=LAYERS, num_attention_heads=4,
                                      num_key_value_heads=1, head_dim=16)
    return transformers.GemmaForCausalLM(config).eval()


DECODERS = {"llama": alone(llama), "gemma": alone(gemma)} | {
    name + ("_filled" if filled else ""): of_encoder(build, filled)
    for name, build in (("t5", t5), ("bart", bart), ("whisper", whisper)) for filled in (False, True)}
# The recipe of decoders.py that knows the family.
RECIPES = {"llama": "Llama", "gemma": "Llama", "t5": "T5", "bart": "Gpt2", "whisper": "Gpt2"}
