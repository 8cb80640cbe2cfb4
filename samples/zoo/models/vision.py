"""Transformers of pictures and videos, of transformers and torchvision."""
import torch
import torchvision.models as library
import transformers

from .common import lively, model, pictures, vision_transformer


@model
def clip_vision(batch):
    return vision_transformer(transformers.CLIPVisionModel, transformers.CLIPVisionConfig(), batch)


@model
def siglip(batch):
    return vision_transformer(transformers.SiglipVisionModel, transformers.SiglipVisionConfig(), batch)


@model
def dinov2(batch):
    return vision_transformer(transformers.Dinov2Model, transformers.Dinov2Config(image_size=224, patch_size=14), batch)


@model
def segformer(batch):
    return vision_transformer(transformers.SegformerModel, transformers.SegformerConfig(), batch, 512)


@model
def vit(batch):
    return lively(library.vit_b_16(), *pictures(4)), pictures(batch)


@model
def swin(batch):
    return library.swin_t().eval(), pictures(batch)


@model
def mvit_v2_s(batch):
    """Of a video of 16 frames."""
    return library.video.mvit_v2_s().eval(), (torch.randn(batch, 3, 16, 224, 224),)
