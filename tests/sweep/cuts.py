#!/usr/bin/env python3
"""What the backward pass keeps: Graft's cut beside PyTorch's two partitioners, on the same joint graphs.

    cuts.py BUILD [MODEL...]

Prints a table in Markdown: bytes that the forward half keeps for the backward half beside parameters, and operators that the
backward half computes again, views left out. Models are small random ones of transformers and torchvision.
"""

import copy
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import warnings

import torch

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "resources/python"))
from graft_fx.compiled import weights_of
from graft_fx.training import Joint


def models():
    import torchvision
    import transformers as t

    ids = torch.randint(0, 500, (4, 64))
    small = {"hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 512, "vocab_size": 500}
    image = torch.randn(4, 3, 64, 64)
    yield "BERT", lambda: t.BertForMaskedLM(t.BertConfig(**small)), {"input_ids": ids, "labels": ids}
    yield "GPT-2", lambda: t.GPT2LMHeadModel(t.GPT2Config(n_embd=128, n_layer=4, n_head=4, vocab_size=500, use_cache=False,
                                                          loss_type="ForCausalLM")), {"input_ids": ids}
    yield "Llama", lambda: t.LlamaForCausalLM(t.LlamaConfig(num_key_value_heads=2, use_cache=False, **small)), {"input_ids": ids}
    yield "ViT", lambda: t.ViTForImageClassification(t.ViTConfig(image_size=64, **{k: v for k, v in small.items() if k != "vocab_size"})), {
        "pixel_values": image, "labels": torch.tensor([0, 1, 0, 1])}
    yield "ResNet-18", lambda: torchvision.models.resnet18(num_classes=10), {"x": image}
    yield "MobileNet-v3", lambda: torchvision.models.mobilenet_v3_small(num_classes=10), {"x": image}
    yield "ConvNeXt", lambda: torchvision.models.convnext_tiny(num_classes=10), {"x": image}


def size(node):
    value = node.meta.get("val")
    return math.prod(value.shape) * value.dtype.itemsize if isinstance(value, torch.Tensor) else 8


def measured(forward, backward, outputs, static):
    """Bytes that `forward` keeps beside parameters, and how many operators both halves run."""
    def calls(graph):
        return {n.name for n in graph.graph.nodes if n.op == "call_function" and not getattr(n.target, "is_view", False)
                and n.target.__name__ != "getitem"}

    kept = next(iter(reversed(forward.graph.nodes))).args[0][outputs:]
    return sum(size(n) for n in kept if n.name not in static), len(calls(forward) & calls(backward))


def cuts(graft, model, inputs, decompose):
    """A row for each way of parting the model's joint graph."""
    from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func
    from torch._functorch.partitioners import default_partition, min_cut_rematerialization_partition

    rows = []

    def compiler(gm, example_inputs):
        placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
        known = weights_of(placeholders, example_inputs, {})
        static = [i for i, n in enumerate(placeholders) if n.name in known]

        def parted(joint, joint_inputs, *, num_fwd_outputs, **options):
            joint.graph.eliminate_dead_code()
            names = {n.name for n in Joint(joint, num_fwd_outputs, static).static}
            for name, partition in (("default_partition", default_partition), ("min_cut", min_cut_rematerialization_partition)):
                halves = partition(copy.deepcopy(joint), joint_inputs, num_fwd_outputs=num_fwd_outputs, static_lifetime_input_indices=static)
                rows.append((name, *measured(*halves, num_fwd_outputs, names)))
            with tempfile.TemporaryDirectory() as folder:
                Joint(joint, num_fwd_outputs, static).written(f"{folder}/joint.fx")
                for memory in ("100%", "75%", "50%"):
                    run = subprocess.run([graft, "partition", f"{folder}/joint.fx", "--memory", memory, "--no-verify", "--json"],
                                         capture_output=True, text=True)
                    if run.returncode:
                        rows.append((f"Graft, {memory}", None, run.stderr.strip().splitlines()[-1]))
                        continue
                    report = json.loads(run.stdout)
                    halves = Joint(copy.deepcopy(joint), num_fwd_outputs, static).halves([s["name"] for s in report["saved"]])
                    rows.append((f"Graft, {memory}", *measured(*halves, num_fwd_outputs, names)))
            return default_partition(joint, joint_inputs, num_fwd_outputs=num_fwd_outputs, **options)

        def half(graph, _):
            return make_boxed_func(graph.forward)

        return aot_module_simplified(gm, example_inputs, fw_compiler=half, bw_compiler=half, partition_fn=parted, decompositions=decompose)

    torch._dynamo.reset()
    torch.compile(model, backend=compiler, fullgraph=True)(**inputs)
    return rows


def main():
    build, wanted = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
    warnings.simplefilter("ignore")
    from torch._inductor import lowering as _
    from torch._inductor.decomposition import select_decomp_table

    print("| model | operators | way | kept bytes | of `default_partition`'s | computed again |\n|---|---|---|---|---|---|")
    for name, make, inputs in models():
        if wanted and name not in wanted:
            continue
        for operators, decompose in (("as traced", None), ("Inductor's", select_decomp_table())):
            torch.manual_seed(0)
            rows = cuts(build / "bin/graft", make().train(), inputs, decompose)
            for way, kept, again in rows:
                share = f"{100 * kept / rows[0][1]:.1f} %" if kept is not None else "-"
                print(f"| {name} | {operators} | {way} | {kept if kept is not None else '-'} | {share} | {again} |", flush=True)


if __name__ == "__main__":
    main()
