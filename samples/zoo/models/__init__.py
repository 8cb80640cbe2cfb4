"""Models of many families at the sizes that people serve, with random weights: what samples/zoo/bench.py measures.

    MODELS["bert"](batch) -> (module in eval mode, its positional inputs), both fp32 on the CPU

Every builder keeps its library's defaults: PyTorch's own attention, a forward pass as the family's users call it. A family is one file;
a new builder there, marked with @model, is found by its name. `timm:NAME` is any model of timm, and `transformers:NAME` a class of transformers, of at most four layers. SETS are named lists.
"""
from . import convolutional, decoders, diffusion, encoders, own, vision
from .common import MODELS, from_timm, from_transformers

# No shipped rule was written for these.
ZOO = """
    timm:convnextv2_nano timm:efficientnetv2_rw_s timm:mobilenetv4_conv_small timm:coatnet_0_rw_224 timm:poolformer_s12
    timm:resmlp_12_224 timm:ghostnet_100 timm:res2net50d timm:dm_nfnet_f0 timm:beit_base_patch16_224 timm:cait_s24_224
    timm:xcit_small_12_p16_224 timm:volo_d1_224 timm:edgenext_small
    electra bart_encoder bart_decoder bloom mistral gpt_neo xlnet hubert siglip dinov2 detr_transformer linear_attention mamba
    fcn_resnet50 mvit_v2_s raft_update ssd_heads
    unet_cross vae_decoder dlrm tcn fourier_mlp moe flow_warp""".split()

SETS = {"zoo": ZOO, "rules": [name for name in MODELS if name not in ZOO], "all": [*MODELS, *(name for name in ZOO if name not in MODELS)]}


def known(name):
    return name in MODELS or name.startswith(("timm:", "transformers:"))


def builder(name):
    library, _, of_library = name.partition(":")
    return {"timm": from_timm, "transformers": from_transformers}[library](of_library) if of_library else MODELS[name]
