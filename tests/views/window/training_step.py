"""training_step.py FILE.fx: a training step of a small transformer, captured for the pictures of the guide."""

import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "resources" / "python"))
import graft_fx  # noqa: E402


class Layer(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (torch.nn.Linear(width, width) for _ in range(4))
        self.up, self.gelu, self.down = torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width)
        self.first, self.second, self.dropout = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width), torch.nn.Dropout(0.1)

    def forward(self, x):
        q, k, v = (p(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in (self.query, self.key, self.value))
        weights = torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, dim=-1)
        x = self.first(x + self.dropout(self.output((weights @ v).transpose(1, 2).flatten(2))))
        return self.second(x + self.dropout(self.down(self.gelu(self.up(x)))))


class Encoder(torch.nn.Module):
    def __init__(self, words=1000, width=128, heads=4, layers=6):
        super().__init__()
        self.embedding = torch.nn.Embedding(words, width)
        self.layer = torch.nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.head = torch.nn.Linear(width, words)

    def forward(self, ids, labels):
        x = self.embedding(ids)
        for layer in self.layer:
            x = layer(x)
        return torch.nn.functional.cross_entropy(self.head(x).flatten(0, 1), labels.flatten())


torch.manual_seed(0)
words = torch.randint(0, 1000, (8, 64))
graft_fx.capture(Encoder(), (words, words), sys.argv[1], joint=True)
