"""The CPU operators against frozen TorchScript, on all-MiniLM-L6-v2 or on encoder stacks of its size.

    python tests/bench/ops_cpu.py build/lib/libgraft_ops.so [--rounds 60] [--threads 2] [--clock cpu]
    python tests/bench/ops_cpu.py build/lib/libgraft_ops.so --models build/samples/minilm.pt build/samples/minilm_fast.pt

Without --models it builds the encoder twice, plain and with graft:: operators (the same weights), and traces both. With it, the two
files are the original and what `graft apply` made of it. All are frozen, checked to agree, and run alternately: plain frozen, plain
frozen and optimized for inference, with graft operators. Prints medians with the 10th and 90th percentile, and the median of the
paired ratios to the faster plain one. On a busy machine, --threads 1 --clock cpu counts the thread's own time instead of the wall's.
"""

import argparse
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn

HIDDEN, HEADS, INNER, LAYERS = 384, 12, 1536, 6


class Plain(nn.Module):
    """A BERT layer as Hugging Face's eager attention writes it."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(HIDDEN, HIDDEN) for _ in range(4))
        self.up, self.down = nn.Linear(HIDDEN, INNER), nn.Linear(INNER, HIDDEN)
        self.norm1, self.norm2 = nn.LayerNorm(HIDDEN, 1e-12), nn.LayerNorm(HIDDEN, 1e-12)

    def forward(self, x, mask):
        def heads(t):
            return t.view(t.shape[0], t.shape[1], HEADS, HIDDEN // HEADS).transpose(1, 2)

        q, k, v = heads(self.q(x)), heads(self.k(x)), heads(self.v(x))
        weights = torch.softmax(torch.matmul(q, k.transpose(-1, -2)) / (HIDDEN // HEADS) ** 0.5 + mask, -1)
        y = torch.matmul(weights, v).transpose(1, 2).reshape(x.shape)
        x = self.norm1(self.o(y) + x)
        return self.norm2(self.down(F.gelu(self.up(x))) + x)


class Fused(nn.Module):
    """The same layer after Graft's rules."""

    def __init__(self, plain):
        super().__init__()
        for name, parts in (("weight", "weight"), ("bias", "bias")):
            merged = torch.cat([getattr(getattr(plain, p), parts) for p in "qkv"])
            setattr(self, "qkv_" + name, nn.Parameter(merged.detach(), requires_grad=False))
        self.plain = plain

    def forward(self, x, mask):
        ops, p = torch.ops.graft, self.plain
        q, k, v = ops.qkv_projection(x, self.qkv_weight, self.qkv_bias, heads=HEADS, kv_heads=HEADS)
        y = ops.attention(q, k, v, mask).transpose(1, 2).reshape(x.shape)
        x = ops.add_layer_norm(ops.linear(y, p.o.weight, p.o.bias), x, p.norm1.weight, p.norm1.bias, 1e-12)
        y = ops.linear(ops.linear(x, p.up.weight, p.up.bias, activation="gelu"), p.down.weight, p.down.bias)
        return ops.add_layer_norm(y, x, p.norm2.weight, p.norm2.bias, 1e-12)


class Stack(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x, mask):
        for layer in self.layers:
            x = layer(x, mask)
        return x


def frozen(module, example):
    return torch.jit.freeze(torch.jit.trace(module.eval(), example, check_trace=False))


def stacks(plain, batch, length):
    """A stack of the plain layers and the same with graft operators, frozen, and their inputs; a quarter of one row is padding."""
    inputs = (torch.randn(batch, length, HIDDEN), torch.zeros(batch, 1, 1, length))
    inputs[1][-1, ..., length - length // 4 :] = torch.finfo(torch.float32).min
    original, fast = Stack(plain), Stack([Fused(layer) for layer in plain])
    return frozen(original, inputs), torch.jit.optimize_for_inference(frozen(original, inputs)), frozen(fast, inputs), inputs


def models(original, fast, batch, length):
    """The two files, frozen, and tokens for them; a quarter of one row is padding."""
    inputs = (torch.randint(999, 20000, (batch, length)), torch.ones(batch, length, dtype=torch.long), torch.zeros(batch, length, dtype=torch.long))
    inputs[1][-1, length - length // 4 :] = 0

    def load(path):
        return torch.jit.freeze(torch.jit.load(path).eval())

    return load(original), torch.jit.optimize_for_inference(load(original)), load(fast), inputs


def seconds(module, inputs, clock):
    start = clock()
    module(*inputs)
    return clock() - start


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--models", nargs=2, metavar=("ORIGINAL", "REWRITTEN"))
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    arguments = parser.parse_args()
    clock = time.perf_counter if arguments.clock == "wall" else time.thread_time
    torch.ops.load_library(arguments.library)
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    plain = [Plain().requires_grad_(False) for _ in range(LAYERS)]
    what = arguments.models[0] if arguments.models else f"{LAYERS} layers, hidden {HIDDEN}, {HEADS} heads, FFN {INNER}, fp32"
    print(f"{what}, {arguments.threads} threads; {arguments.clock} ms: median (p10 to p90)")
    for batch, length in ((1, 16), (1, 128), (8, 128)):
        *modules, inputs = models(*arguments.models, batch, length) if arguments.models else stacks(plain, batch, length)
        contestants = dict(zip(("frozen", "frozen, optimized", "graft"), modules))
        with torch.inference_mode():
            for _ in range(5):
                outputs = [module(*inputs) for module in contestants.values()]
            for output in outputs[1:]:
                torch.testing.assert_close(output, outputs[0], rtol=1e-4, atol=1e-4)
            rounds = [[seconds(m, inputs, clock) for m in contestants.values()] for _ in range(arguments.rounds)]
        ratio = statistics.median(min(r[:-1]) / r[-1] for r in rounds)
        columns = [sorted(1e3 * r[i] for r in rounds) for i in range(len(contestants))]
        texts = [
            f"{name} {statistics.median(c):.3f} ({c[len(c) // 10]:.3f} to {c[len(c) * 9 // 10]:.3f})"
            for name, c in zip(contestants, columns)
        ]
        print(f"{batch}x{length}: " + "; ".join(texts) + f"; graft {ratio:.2f} times as fast", flush=True)


if __name__ == "__main__":
    main()
