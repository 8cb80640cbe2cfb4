"""Optimizers, and a net with parameters of many kinds for them to update."""

import torch

OPTIMIZERS = {
    "AdamW": {"lr": 1e-2, "foreach": True},
    "Adam": {"lr": 1e-2, "foreach": False, "weight_decay": 0.1, "amsgrad": True},
    "SGD": {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 1e-4, "foreach": True},
    "RMSprop": {"lr": 1e-2, "centered": True, "momentum": 0.9, "foreach": True},
    "Adagrad": {"lr": 1e-2, "foreach": True},
    "NAdam": {"lr": 1e-2, "foreach": True},
    "RAdam": {"lr": 1e-2, "foreach": True},
    "Rprop": {"foreach": True},
}


class Net(torch.nn.Module):
    """Parameters of several dimensions, one without any, two that lie in one piece of memory, and one whose elements lie turned."""

    def __init__(self):
        super().__init__()
        self.fc, self.norm = torch.nn.Linear(96, 250), torch.nn.LayerNorm(250)
        self.scale = torch.nn.Parameter(torch.tensor(1.5))
        both = torch.randn(2, 33)
        self.low, self.high = torch.nn.Parameter(both[0]), torch.nn.Parameter(both[1])
        self.turned = torch.nn.Parameter(torch.randn(5, 7).t())
        # A dimension of one element has any stride.
        self.image = torch.nn.Parameter(torch.randn(6, 4, 1, 1).as_strided((6, 4, 1, 1), (4, 1, 9, 3)))


def net():
    torch.manual_seed(0)
    return Net()
