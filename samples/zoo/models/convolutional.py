"""Convolutional networks of torchvision, and parts of its detectors and of its optical flow."""
import torch
import torchvision.models as library
from torch import nn

from .common import lively, model, pictures


@model
def densenet(batch):
    return lively(library.densenet121(), *pictures(4)), pictures(batch)


@model
def efficientnet(batch):
    return lively(library.efficientnet_b0(), *pictures(4)), pictures(batch)


@model
def convnext(batch):
    return library.convnext_tiny().eval(), pictures(batch)


@model
def regnet(batch):
    return lively(library.regnet_y_1_6gf(), *pictures(4)), pictures(batch)


class Entry(nn.Module):
    """Calls a model that returns a dict, and returns what it keeps under `name`."""

    def __init__(self, model, name):
        super().__init__()
        self.model, self.name = model, name

    def forward(self, x):
        return self.model(x)[self.name]


@model
def fcn_resnet50(batch):
    module = library.segmentation.fcn_resnet50(weights=None, weights_backbone=None)
    return Entry(lively(module, *pictures(2)), "out").eval(), pictures(batch)


@model
def raft_update(batch):
    """RAFT's update block: motion encoder, two convolutional GRUs and the flow head, at an eighth of 384x512."""
    module = library.optical_flow.raft_large().eval().update_block
    height, width = 48, 64
    correlations = module.motion_encoder.convcorr1[0].in_channels
    return module, (torch.randn(batch, 128, height, width).tanh(), torch.randn(batch, 128, height, width).relu(),
                    torch.randn(batch, correlations, height, width), torch.randn(batch, 2, height, width))


class Heads(nn.Module):
    """SSD's heads over all maps: where the boxes are, and what is in them."""

    def __init__(self, head):
        super().__init__()
        self.head = head

    def forward(self, *maps):
        found = self.head(list(maps))
        return found["bbox_regression"], found["cls_logits"]


@model
def ssd_heads(batch):
    head = library.detection.ssd300_vgg16(weights=None, weights_backbone=None).head
    sizes = ((512, 38), (1024, 19), (512, 10), (256, 5), (256, 3), (256, 1))
    return Heads(head).eval(), tuple(torch.randn(batch, channels, size, size) for channels, size in sizes)
