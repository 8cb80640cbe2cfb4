"""The activation after the first layer becomes ReLU; the layer and its weights stay."""

from torch import nn
from graft import Recipe, Rule


class TanhToRelu(Rule):
    """Matched by the modules' types, whatever their sizes. `linear` is named on both sides, so the model's own is kept."""

    changes_numbers = True

    class pattern(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(1, 1)
            self.activation = nn.Tanh()

        def forward(self, v):
            return self.activation(self.linear(v))

    class replacement(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(1, 1)
            self.relu = nn.ReLU()

        def forward(self, v):
            return self.relu(self.linear(v))


class Replace(Recipe):
    steps = [TanhToRelu]
    expect = {TanhToRelu: 1}
