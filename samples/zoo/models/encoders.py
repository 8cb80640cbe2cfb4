"""Encoders of text and of speech, of transformers."""
import torch
import transformers

from .common import First, model, text


@model
def bert(batch):
    return text(transformers.BertModel, transformers.BertConfig(), batch)


@model
def electra(batch):
    config = transformers.ElectraConfig(embedding_size=768, hidden_size=768, num_attention_heads=12, intermediate_size=3072)
    return text(transformers.ElectraModel, config, batch)


@model
def mpnet(batch):
    return text(transformers.MPNetModel, transformers.MPNetConfig(), batch)


@model
def deberta(batch):
    config = transformers.DebertaV2Config(relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=256, hidden_size=768,
                                          num_hidden_layers=6, num_attention_heads=12, intermediate_size=3072)
    return text(transformers.DebertaV2Model, config, batch)


@model
def xlnet(batch):
    config = transformers.XLNetConfig(d_model=768, n_layer=6, n_head=12, d_inner=3072)
    return text(transformers.XLNetModel, config, batch, use_mems=False)


@model
def t5_encoder(batch):
    config = transformers.T5Config(d_model=768, d_kv=64, d_ff=2048, num_layers=12, num_heads=12, feed_forward_proj="gated-gelu")
    return text(transformers.T5EncoderModel, config, batch)


def bart_config():
    return transformers.BartConfig(d_model=768, encoder_layers=6, decoder_layers=6, encoder_attention_heads=12, decoder_attention_heads=12,
                                   encoder_ffn_dim=3072, decoder_ffn_dim=3072)


@model
def bart_encoder(batch):
    from transformers.models.bart.modeling_bart import BartEncoder
    return text(BartEncoder, bart_config(), batch)


@model
def whisper_encoder(batch):
    from transformers.models.whisper.modeling_whisper import WhisperEncoder
    config = transformers.WhisperConfig(d_model=512, encoder_layers=6, encoder_attention_heads=8, encoder_ffn_dim=2048)
    return First(WhisperEncoder(config).eval(), "input_features"), (torch.randn(batch, 80, 3000),)


@model
def wav2vec2(batch):
    return First(transformers.Wav2Vec2Model(transformers.Wav2Vec2Config(num_hidden_layers=6)).eval(), "input_values"), (torch.randn(batch, 48000),)


@model
def hubert(batch):
    return First(transformers.HubertModel(transformers.HubertConfig(num_hidden_layers=6)).eval(), "input_values"), (torch.randn(batch, 48000),)
