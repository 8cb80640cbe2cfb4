#!/usr/bin/env python3
"""Times steps of training on a GPU: eager, torch.compile, torch.compile with CUDA graphs, and graft_fx.backend(training=True), in turns.

    tests/bench/training_bench.py build/bin/graft [MODEL...] [--ways eager,compile,reduce-overhead,graft] [--seconds 6] [--tiny]

MODEL is one of bert, gpt2, vit, resnet50 (all of them by default). A step is the forward pass under torch.autocast(bfloat16), the backward
pass and fused AdamW. `graft-50` saves at most half of the activations that `graft` saves. With `-step`, torch.compile compiles the step of
a foreach AdamW as well, and Graft records it. Each way is a process of its own. Those of two models prepare at the same time, then each is
timed alone, a few steps at a time in turns. Memory is what PyTorch's allocator holds of the GPU during a step, with what CUDA graphs keep. `--tiny` takes small
models of the same kinds, and a CPU where there is no GPU. `--json FILE` writes all samples. It needs timm and transformers.
"""

import argparse
import gc
import json
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve()
WAYS = ("eager", "compile", "reduce-overhead", "graft", "graft-75", "graft-50", "graft-inductor", "reduce-overhead-step", "graft-step")


def bert(tiny):
    import torch
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128, vocab_size=500) if tiny else BertConfig()
    return BertForMaskedLM(config), tokens(torch, config, *((4, 16) if tiny else (32, 128)))


def gpt2(tiny):
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_embd=64, n_layer=2, n_head=2, vocab_size=500, use_cache=False) if tiny else GPT2Config(use_cache=False)
    return GPT2LMHeadModel(config), tokens(torch, config, *((2, 16) if tiny else (8, 512)))


def tokens(torch, config, rows, length):
    def batch(device):
        return {k: torch.randint(0, config.vocab_size, (rows, length), device=device) for k in ("input_ids", "labels")}

    return batch


def vit(tiny):
    import timm

    return images(timm.create_model("vit_base_patch16_224", **({"depth": 2, "embed_dim": 64, "num_heads": 2} if tiny else {})), tiny, 224)


def resnet50(tiny):
    import timm
    import torch

    return images(timm.create_model("resnet18" if tiny else "resnet50").to(memory_format=torch.channels_last), tiny, 64 if tiny else 224, True)


def images(model, tiny, side, last=False):
    import torch

    class Classifier(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, x, labels):
            return torch.nn.functional.cross_entropy(self.model(x), labels)

    def batch(device):
        n = 2 if tiny else 64
        x = torch.randn(n, 3, side, side, device=device)
        return {"x": x.to(memory_format=torch.channels_last) if last else x, "labels": torch.randint(0, 1000, (n,), device=device)}

    return Classifier(), batch


MODELS = {"bert": bert, "gpt2": gpt2, "vit": vit, "resnet50": resnet50}


class Steps:
    """One way to train one model."""

    def __init__(self, name, way, program, tiny):
        import torch

        self.torch, self.device = torch, "cuda" if torch.cuda.is_available() else "cpu"
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.manual_seed(0)
        model, batch = MODELS[name](tiny)
        self.model = model.to(self.device).train()
        self.data = [batch(self.device) for _ in range(4)]
        compiled_step, way = way.endswith("-step"), way.removesuffix("-step")
        if compiled_step:
            on_gpu = {"lr": torch.tensor(1e-4, device="cuda"), "capturable": True} if self.device == "cuda" else {"lr": 1e-4}
            self.optimizer = torch.optim.AdamW(self.model.parameters(), foreach=True, **on_gpu)
        else:
            self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-4, fused=True)
        self.call, self.losses, self.backend = self.model, [], None
        if way == "compile":
            self.call = torch.compile(self.model)
        elif way == "reduce-overhead":
            self.call = torch.compile(self.model, mode="reduce-overhead")
        elif way.startswith("graft"):
            sys.path.insert(0, str(HERE.parents[2] / "resources/python"))
            import graft_fx

            share = way.removeprefix("graft-")
            self.backend = graft_fx.backend(training=True, graft=program, fuse=True, decompose="inductor" if share == "inductor" else None,
                                            memory=f"{share}%" if share.isdigit() else "100%")
            self.call = torch.compile(self.model, backend=self.backend)
        if compiled_step and self.backend:
            graft_fx.compile_step(self.optimizer, self.backend)
            if self.device == "cuda":
                graft_fx.record_step(self.optimizer)
        elif compiled_step:
            self.optimizer.step = torch.compile(self.optimizer.step)

    def __call__(self):
        i = len(self.losses)
        self.torch.manual_seed(i)
        self.optimizer.zero_grad(set_to_none=True)
        with self.torch.autocast(self.device, self.torch.bfloat16):
            out = self.call(**self.data[i % len(self.data)])
        loss = out if isinstance(out, self.torch.Tensor) else out.loss
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.detach().clone())

    def wait(self):
        if self.device == "cuda":
            self.torch.cuda.synchronize()

    def milliseconds(self, steps):
        """GPU time of each step alone, and wall time of all in a row for each of them."""
        out = []
        for _ in range(steps if self.device == "cuda" else 0):
            begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
            self.wait()
            begin.record()
            self()
            end.record()
            end.synchronize()
            out.append(begin.elapsed_time(end))
        self.wait()
        since = time.perf_counter()
        for _ in range(steps):
            self()
        self.wait()
        return {"ms": out, "rowMs": (time.perf_counter() - since) * 1e3 / steps}

    def memory(self):
        if self.device == "cpu":
            return 0
        cuda = self.torch.cuda
        gc.collect()
        self.wait()
        cuda.empty_cache()
        cuda.reset_peak_memory_stats()
        for _ in range(3):
            self()
        self.wait()
        return cuda.max_memory_reserved()

    def profile(self):
        """Kernels of one step by their time, in microseconds: [name, calls, time]."""
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CUDA]) as run:
            self()
            self.wait()
        rows = [(e.key, e.count, e.self_device_time_total) for e in run.key_averages() if e.self_device_time_total > 0]
        return sorted(rows, key=lambda r: -r[2])

    def reports(self):
        listed = []
        for r in getattr(self.backend, "reports", []):
            listed.append({k: r[k] for k in ("reason", "recordings", "forward", "backward") if k in r}
                          | {"savedMiB": ((r.get("partition") or {}).get("savedBytes") or 0) >> 20})
        return listed


def work(name, way, program, tiny):
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print must not mix with the answers
    try:
        begin = time.perf_counter()
        steps = Steps(name, way, program, tiny)
        for _ in range(6):
            steps()
        steps.wait()
        answers.write(json.dumps({"readySeconds": time.perf_counter() - begin, "losses": [float(x) for x in steps.losses], "reports": steps.reports()}) + "\n")
        for line in sys.stdin:
            asked = line.split()
            answer = {"bytes": steps.memory()} if asked[0] == "memory" else {"kernels": steps.profile()} if asked[0] == "profile" else \
                steps.milliseconds(int(asked[1]))
            answers.write(json.dumps(answer) + "\n")
    except Exception as e:
        answers.write(json.dumps({"error": f"{type(e).__name__}: {str(e).strip().splitlines()[0] if str(e).strip() else ''}"}) + "\n")
        raise


class Worker:
    def __init__(self, name, way, options):
        self.name, self.way = name, way
        command = [sys.executable, str(HERE), options.program, name, "--work", way] + (["--tiny"] if options.tiny else [])
        self.log = open(f"{options.logs}/train_{name}_{way}.log", "w", encoding="utf-8")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.ready = self.error = None
        self.samples, self.rows, self.bytes = [], [], 0

    def read(self):
        line = self.process.stdout.readline()
        answer = json.loads(line) if line else {"error": f"it ended with exit code {self.process.wait()}"}
        self.error = answer.get("error", self.error)
        return answer

    def ask(self, what):
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        return self.read()

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def median(values):
    return sorted(values)[len(values) // 2] if values else float("nan")


def measure(name, workers, seconds, kernels):
    """In turns, each alone; prints the model's rows."""
    live = [w for w in workers if w.error is None]
    until, turns = time.perf_counter() + seconds, 0
    while live and (turns < 2 or time.perf_counter() < until):
        turns += 1
        for w in list(live):
            answer = w.ask("time 5")
            if w.error:
                live.remove(w)
            else:
                w.samples += answer["ms"]
                w.rows.append(answer["rowMs"])
    for w in live:
        w.bytes = w.ask("memory").get("bytes", 0)
    best = min((median(w.rows) for w in live if not w.way.startswith("graft")), default=float("nan"))
    for w in workers:
        if w.error:
            print(f"{name:9} {w.way:16} {w.error[:200]}", flush=True)
            continue
        spread = sorted(w.rows)
        print(f"{name:9} {w.way:16} {median(w.rows):8.2f} ms a step ({spread[0]:.2f} to {spread[-1]:.2f}), alone {median(w.samples):8.2f}, "
              f"{w.bytes >> 20:6} MiB, ready {w.ready['readySeconds']:.0f} s, {best / median(w.rows):.2f} of the best, "
              f"losses {' '.join(f'{x:.4f}' for x in w.ready['losses'][:6])}", flush=True)
        if w.ready["reports"]:
            counts = [{k: {n: c for n, c in v.items() if n != "kernels"} if isinstance(v, dict) else v for k, v in r.items()} for r in w.ready["reports"]]
            print(" " * 10 + json.dumps(counts)[:600], flush=True)
        if kernels:
            groups = [(half, k) for r in w.ready["reports"] for half in ("forward", "backward") for k in r.get(half, {}).get("kernels", [])]
            groups.sort(key=lambda g: -g[1]["calls"] * min(g[1]["us"], g[1]["plainUs"]))
            for half, k in groups[:kernels]:
                print(f"{'':10}{half:8} {k['calls']:4} x {k['us']:8.1f} us, ATen {k['plainUs']:8.1f}  {'kept' if k['isKept'] else 'not kept'}  {k['name'][:110]}")
        if kernels:
            listed = w.ask("profile").get("kernels", [])
            print(f"{'':10}{sum(r[2] for r in listed) / 1e3:.2f} ms in {sum(r[1] for r in listed)} kernels")
            for name_, calls, time_ in listed[:kernels]:
                print(f"{'':10}{time_:9.0f} us {calls:5}  {name_[:150]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--ways", default=",".join(WAYS[:4]))
    parser.add_argument("--seconds", type=float, default=6, help="of timing for each model")
    parser.add_argument("--kernels", type=int, default=0, help="print so many kernels of a step, the longest first")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--logs", default="/tmp", help="where each process writes what it prints")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    options = parser.parse_args()
    models = options.models or list(MODELS)
    unknown = [m for m in models if m not in MODELS] + [w for w in options.ways.split(",") if w not in WAYS]
    if unknown:
        parser.error(f"there is no {unknown[0]}; models are {', '.join(MODELS)}, ways {', '.join(WAYS)}")
    if options.work:
        return work(models[0], options.work, options.program, options.tiny)
    done = []
    for at in range(0, len(models), 2):
        wave = {m: [Worker(m, way, options) for way in options.ways.split(",")] for m in models[at:at + 2]}
        waiting = [w for workers in wave.values() for w in workers]
        done += waiting
        for w in waiting:  # all prepare before one is timed
            w.ready = w.read()
        for m, workers in wave.items():
            measure(m, workers, options.seconds, options.kernels)
        for w in waiting:
            w.end()
    if options.json:
        rows = [{"model": w.name, "way": w.way, "error": w.error, "rowMs": w.rows, "aloneMs": w.samples, "bytes": w.bytes, "ready": w.ready} for w in done]
        pathlib.Path(options.json).write_text(json.dumps(rows), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
