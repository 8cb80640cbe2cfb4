#!/usr/bin/env python3
"""Proves in plain Python that a rewritten sentence encoder still means the same.

    check.py ORIGINAL FAST INPUTS [--ops build/lib/libgraft_ops.so]

Loads both TorchScript files with torch.jit.load (FAST with the operator library it was exported for), pools their outputs to
one embedding per sentence, and prints the cosine similarity of each pair of embeddings and the similarities among sentences.
Exits 1 when a pair is below 0.9999.
"""

import argparse
import pathlib
import sys

import torch

WANTED = 0.9999


def embed(model, inputs):
    hidden, mask = model(*inputs), inputs[1].unsqueeze(-1).float()
    if isinstance(hidden, (tuple, list)):
        hidden = hidden[0]
    return torch.nn.functional.normalize((hidden.float() * mask).sum(1) / mask.sum(1), dim=-1)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("original", "fast", "inputs"):
        arguments.add_argument(name, type=pathlib.Path)
    arguments.add_argument("--ops", type=pathlib.Path)
    arguments = arguments.parse_args()

    if arguments.ops:
        torch.ops.load_library(str(arguments.ops))
    inputs = torch.load(arguments.inputs, weights_only=True)
    with torch.no_grad():
        before = embed(torch.jit.load(str(arguments.original)), inputs)
        after = embed(torch.jit.load(str(arguments.fast)), inputs)

    agreement = (before.double() * after.double()).sum(-1)
    count = len(agreement)
    print("Sentence embeddings, original against rewritten (cosine similarity):")
    print("  " + "  ".join(f"{i + 1}: {value:.6f}" for i, value in enumerate(agreement.tolist())))
    print("Similarities among the sentences, by the rewritten model:")
    print("     " + "".join(f"{i + 1:>7}" for i in range(count)))
    for i, row in enumerate((after @ after.T).tolist()):
        print(f"  {i + 1:>2} " + "".join(f"{value:7.2f}" for value in row))
    worst = agreement.min().item()
    if worst < WANTED:
        print(f"FAILED: an embedding agrees only to {worst:.6f}; {WANTED} is wanted", file=sys.stderr)
        return 1
    print(f"The embeddings agree: the least similar pair has {worst:.6f}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
