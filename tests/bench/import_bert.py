"""How long reading BERT-base with its 440 MB of weights takes, beside torch.jit.load and torch.export.load of the same files.

    python tests/bench/import_bert.py build

Builds the model with random weights (once: build/samples/bert_base.pt, .pt2 and .fx), and times processes of their own, each several times in
turn. Of `graft info` what `graft --version` takes is subtracted, loading LibTorch; PyTorch's side is timed around the call alone.
The files are in the page cache. Least of the rounds, wall seconds and processor seconds.
"""

import argparse
import json
import pathlib
import subprocess
import sys

import torch

from import_large import measured

LOAD = """
import sys, time, torch
torch.{load}  # what is imported at first use
wall, cpu = time.perf_counter(), time.process_time()
torch.{load}(sys.argv[1])
print(time.perf_counter() - wall, time.process_time() - cpu)
"""


def files(folder):
    paths = {"jit.load": folder / "bert_base.pt", "export.load": folder / "bert_base.pt2", None: folder / "bert_base.fx"}
    if all(path.exists() for path in paths.values()):
        return paths
    import transformers

    class Encoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bert = transformers.BertModel(transformers.BertConfig(attn_implementation="eager"), add_pooling_layer=False)

        def forward(self, ids, mask):
            return self.bert(ids, attention_mask=mask, return_dict=False)[0]

    model, inputs = Encoder().eval().requires_grad_(False), (torch.randint(0, 30000, (1, 16)), torch.ones(1, 16, dtype=torch.long))
    torch.jit.trace(model, inputs, check_trace=False).save(str(paths["jit.load"]))
    torch.export.save(torch.export.export(model, inputs), paths["export.load"])
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "resources/python"))
    import graft_fx

    graft_fx.capture(model, inputs, str(paths[None]))
    return paths


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    graft, rounds = arguments.build / "bin/graft", range(arguments.rounds)
    for load, path in files(arguments.build / "samples").items():
        starts, ours, theirs = [], [], []
        for _ in rounds:
            starts.append(measured([graft, "--version"])[1:])
            ours.append(measured([graft, "info", path, "--json"])[1:])
            if not load:
                continue
            run = subprocess.run([sys.executable, "-c", LOAD.format(load=load), path], check=True, stdout=subprocess.PIPE, text=True)
            theirs.append([float(x) for x in run.stdout.split()])
        wall, cpu = (min(o[i] for o in ours) - min(s[i] for s in starts) for i in (1, 0))
        nodes = json.loads(measured([graft, "info", path, "--json"])[0])["nodes"]
        print(f"{path.name}, {path.stat().st_size / 1e6:.0f} MB, {nodes} nodes: graft info {wall:.2f} s wall, {cpu:.2f} s of processor time, "
              f"{max(o[2] for o in ours):.0f} MB with LibTorch's {max(s[2] for s in starts):.0f}")
        if load:
            print(f"  torch.{load}: {min(t[0] for t in theirs):.2f} s wall, {min(t[1] for t in theirs):.2f} s of processor time")


if __name__ == "__main__":
    sys.exit(main())
