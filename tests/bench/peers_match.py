"""Graft's matcher beside torch.fx's SubgraphMatcher and replace_pattern, and TorchScript's SubgraphRewriter.

    python tests/bench/peers_match.py build/bin/bench/bench_rules [--layers 12 48 500]

Builds BERT encoders of that many layers, traces them with torch.fx and as TorchScript, and in one run times each tool on the same
pattern, masked attention. Graft reads the TorchScript file; its rewriting includes the inference of the new nodes' types, which the
others do not do. Milliseconds of one thread's own time, so that other work on the machine counts little: medians of the peers, means
of Graft.
"""

import argparse
import copy
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

import torch
import torch.nn.functional as F
from torch import fx, nn
from torch.fx.passes.utils.matcher_utils import SubgraphMatcher

HIDDEN, HEADS, TOKENS = 48, 3, 8


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(HIDDEN, HIDDEN) for _ in range(4))
        self.up, self.down = nn.Linear(HIDDEN, 2 * HIDDEN), nn.Linear(2 * HIDDEN, HIDDEN)
        self.norm1, self.norm2 = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)

    def heads(self, x):
        return x.view(1, TOKENS, HEADS, HIDDEN // HEADS).permute(0, 2, 1, 3)

    def forward(self, x, mask):
        q, k, v = self.heads(self.q(x)), self.heads(self.k(x)), self.heads(self.v(x))
        scores = torch.matmul(q, k.transpose(-1, -2)) / 4.0
        y = torch.matmul(torch.softmax(scores + mask, dim=-1), v).permute(0, 2, 1, 3).contiguous().view(1, TOKENS, HIDDEN)
        x = self.norm1(self.o(y) + x)
        return self.norm2(self.down(F.gelu(self.up(x))) + x)


class Encoder(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(layers))

    def forward(self, x, mask):
        for layer in self.layers:
            x = layer(x, mask)
        return x


def pattern(q, k, v, mask):
    scores = torch.matmul(q, k.transpose(-1, -2)) / 4.0
    return torch.matmul(torch.softmax(scores + mask, dim=-1), v)


def replacement(q, k, v, mask):
    return F.scaled_dot_product_attention(q, k, v, mask, scale=0.25)


GRAFT = """
import torch
from graft import Rule, kernels


class Attention(Rule):
    def pattern(q, k, v, mask, scale: float):
        scores = torch.matmul(q, k.transpose(-1, -2)) / scale
        return torch.matmul(torch.softmax(scores + mask, dim=-1), v)

    def replacement(q, k, v, mask, scale: float):
        return kernels.attention(q, k, v, mask, scale=1 / scale)
"""

SCRIPT_PATTERN = """graph(%q,%k,%v,%mask,%a,%b,%c,%one,%d,%none):
  %kt = aten::transpose(%k,%a,%b)
  %s = aten::matmul(%q,%kt)
  %t = aten::div(%s,%c)
  %u = aten::add(%t,%mask,%one)
  %p = aten::softmax(%u,%d,%none)
  %o = aten::matmul(%p,%v)
  return (%o)"""

SCRIPT_REPLACEMENT = """graph(%q,%k,%v,%mask,%a,%b,%c,%one,%d,%none):
  %z : float = prim::Constant[value=0.]()
  %f : bool = prim::Constant[value=0]()
  %o = aten::scaled_dot_product_attention(%q,%k,%v,%mask,%z,%f,%none,%f)
  return (%o)"""


def median_ms(prepare, run, seconds):
    times, begin = [], time.perf_counter()
    while len(times) < 3 or time.perf_counter() - begin < seconds:
        subject = prepare()
        start = time.thread_time()
        run(subject)
        times.append(1e3 * (time.thread_time() - start))
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench", help="build/bin/bench/bench_rules")
    parser.add_argument("--layers", type=int, nargs="+", default=[12, 48, 500])
    parser.add_argument("--seconds", type=float, default=2, help="for each measurement of a peer")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "rules.py").write_text(GRAFT)
        command, peers = [arguments.bench, "--rules", folder / "rules.py", "--benchmark_format=json"], []
        inputs = torch.randn(1, TOKENS, HIDDEN), torch.zeros(1, 1, 1, TOKENS)
        torch.save(inputs, folder / "in.pt")
        for layers in arguments.layers:
            model = Encoder(layers).eval().requires_grad_(False)
            traced = torch.jit.trace(model, inputs, check_trace=False)
            traced.save(str(folder / f"{layers}.pt"))
            command += ["--model", folder / f"{layers}.pt", folder / "in.pt"]
            script, symbolic = torch.jit.freeze(traced).graph, fx.symbolic_trace(model)
            matcher = SubgraphMatcher(fx.symbolic_trace(pattern).graph)
            found = len(matcher.match(symbolic.graph))
            rewritten = script.copy()
            torch._C._jit_pass_custom_pattern_based_rewrite_graph(SCRIPT_PATTERN, SCRIPT_REPLACEMENT, rewritten)
            counts = found, str(rewritten).count("aten::scaled_dot_product_attention")
            assert counts == (layers, layers), f"{counts} matches in {layers} layers"
            times = {
                "torch.fx SubgraphMatcher": median_ms(lambda: symbolic.graph, matcher.match, arguments.seconds),
                "TorchScript SubgraphRewriter": median_ms(
                    script.copy,
                    lambda g: torch._C._jit_pass_custom_pattern_based_rewrite_graph(SCRIPT_PATTERN, SCRIPT_REPLACEMENT, g),
                    arguments.seconds,
                ),
            }
            if layers <= 48:  # seconds a run beyond
                times["torch.fx replace_pattern"] = median_ms(
                    lambda: copy.deepcopy(symbolic), lambda m: fx.replace_pattern(m, pattern, replacement), arguments.seconds
                )
            peers.append(times)
        run = subprocess.run([str(c) for c in command], check=True, stdout=subprocess.PIPE, text=True)
        ours = {b["name"]: b for b in json.loads(run.stdout)["benchmarks"]}
    for k, (layers, times) in enumerate(zip(arguments.layers, peers)):
        match, rewrite = ours[f"matchAttention/{k}"], ours[f"rewriteAttention/{k}"]
        assert match["matches"] == rewrite["rewrites"] == layers, (match, rewrite)
        print(f"{layers} layers, {match['nodes']:.0f} nodes")
        print(f"  graft, match {match['cpu_time']:.3f} ms; match and rewrite {rewrite['cpu_time']:.3f} ms", end="; ")
        print(f"all {ours[f'matchShipped/{k}']['rules']:.0f} shipped rules {ours[f'matchShipped/{k}']['cpu_time']:.3f} ms", end="; ")
        print(f"explain {ours[f'explainAttention/{k}']['cpu_time']:.3f} ms")
        for name, ms in times.items():
            against = match if name.endswith("SubgraphMatcher") else rewrite
            print(f"  {name} {ms:.3f} ms: {ms / against['cpu_time']:.1f} times as long")
    for count in (10, 20):
        again = ours[f"readRuleFile/{count}/manual_time"]["least"]
        first = ours[f"readRuleFileFirst/{count}/iterations:10/manual_time"]["least"]
        print(f"reading a file of {count} rules {again:.2f} ms, the first time in a process {first:.2f} ms (least)")
    stop = ours["giveUp"]
    print(f"thirty commutative nodes {'given up' if stop['budget exceeded'] else 'searched'} after {stop['cpu_time']:.1f} ms")


if __name__ == "__main__":
    main()
