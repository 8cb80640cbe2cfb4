#!/usr/bin/env python3
"""Training on a GPU beside eager: what people do in their loops, with CUDA graphs and generated kernels. Exit code 1 where something differs,
77 without a GPU.

    tests/gpu/training_test.py build/bin/graft build/lib/libgraft_ops.so [-k NAME]
"""

import copy
import io
import pathlib
import sys
import unittest
import warnings

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "resources/python"))
import graft_fx

PROGRAM, LIBRARY = (str(pathlib.Path(p).resolve()) for p in sys.argv[1:3])


class Net(torch.nn.Module):
    """Attention, norms, tied and frozen parameters; the loss is one of two results."""

    def __init__(self, dropout=0.0, again=False, width=64):
        super().__init__()
        self.embedding = torch.nn.Embedding(100, width)
        self.layers = torch.nn.ModuleList(torch.nn.TransformerEncoderLayer(width, 4, 4 * width, dropout, "gelu", batch_first=True) for _ in range(2))
        self.norm, self.head = torch.nn.LayerNorm(width), torch.nn.Linear(width, 100)
        torch.nn.init.normal_(self.embedding.weight, std=0.1)  # so that a word does not foretell itself
        self.head.weight = self.embedding.weight
        self.norm.bias.requires_grad_(False)
        self.again = again

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.again else layer(x)
        logits = self.head(self.norm(x))
        scores = logits.to(torch.promote_types(logits.dtype, torch.float32))
        return logits, F.cross_entropy(scores.flatten(0, 1), tokens.roll(-1, 1).flatten())


class Convolutions(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.BatchNorm2d(16), torch.nn.ReLU(), torch.nn.Conv2d(16, 32, 3, 2),
                                        torch.nn.BatchNorm2d(32), torch.nn.SiLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
        self.head = torch.nn.Linear(32, 10)

    def forward(self, x):
        y = self.head(self.body(x))
        return y, F.cross_entropy(y, torch.arange(len(x), device=x.device) % 10)


class Training(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        warnings.simplefilter("ignore")

    def tearDown(self):
        torch.cuda.empty_cache()

    def batch(self, i, rows=8):
        generator = torch.Generator().manual_seed(i)
        return torch.randint(0, 100, (rows, 32), generator=generator).cuda()

    def both(self, make, steps, tolerance=2e-2, recorded=True, **options):
        """`steps(call, net, optimizer)` gives losses. The same for eager and the backend."""
        torch.manual_seed(0)
        first = make().cuda().train()
        nets = first, copy.deepcopy(first)
        self.backend = graft_fx.backend(training=True, graft=PROGRAM, library=LIBRARY, **{"fuse": True} | options)
        out = []
        for net, call in zip(nets, (torch.compile(nets[0], backend=self.backend), nets[1])):
            torch.manual_seed(1)
            optimizer = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], 1e-3, fused=True)
            out.append(torch.stack([t.detach().float().cpu() for t in steps(call, net, optimizer)]))
        if steps == self.plain:
            self.assertGreater(out[1].min().item(), 0.5, "nothing is left to learn, and any two losses agree")
        told = [{k: r.get(k) for k in ("reason", "recordings", "forward", "backward") if r.get(k)} for r in self.backend.reports]
        torch.testing.assert_close(out[0], out[1], rtol=tolerance, atol=tolerance * 1e-1, msg=lambda m: f"{m}\n{told}")
        for (name, a), b in zip(nets[0].state_dict().items(), nets[1].state_dict().values()):
            if a.is_floating_point():
                torch.testing.assert_close(a, b, rtol=0.1, atol=2e-2, msg=lambda m, name=name: f"{name}: {m}")
        self.assertTrue(told, "the backend was not asked")
        self.assertFalse(any("reason" in r for r in told), told)
        if recorded:
            self.assertTrue(any(r.get("recordings", {}).get("replayed", 0) > 0 for r in told), told)
        return told

    def plain(self, call, net, optimizer, cast=torch.bfloat16, steps=8):
        out = []
        for i in range(steps):
            optimizer.zero_grad()
            with torch.autocast("cuda", cast, enabled=cast is not None):
                loss = call(self.batch(i))[1]
            loss.backward()
            optimizer.step()
            out.append(loss)
        return out

    def test_bfloat16(self):
        told = self.both(Net, self.plain)
        self.assertTrue(any(r.get("backward", {}).get("isKept") for r in told), told)
        print(told, file=sys.stderr)

    def test_single_precision(self):
        self.both(Net, lambda *a: self.plain(*a, cast=None), 1e-3)

    def test_half_with_a_scaler(self):
        def steps(call, net, optimizer):
            scaler, out = torch.amp.GradScaler("cuda", init_scale=2.0**10), []
            for i in range(8):
                optimizer.zero_grad()
                with torch.autocast("cuda", torch.float16):
                    loss = call(self.batch(i))[1]
                scaler.scale(loss).backward()
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
                out.append(loss)
            return out

        self.both(Net, steps)

    def test_accumulated_gradients(self):
        for set_to_none in (True, False):
            with self.subTest(set_to_none):
                def steps(call, net, optimizer, set_to_none=set_to_none):
                    out = []
                    for i in range(4):
                        optimizer.zero_grad(set_to_none=set_to_none)
                        for j in range(3):
                            with torch.autocast("cuda", torch.bfloat16):
                                loss = call(self.batch(3 * i + j))[1]
                            (loss / 3).backward()
                            out.append(loss)
                        optimizer.step()
                    return out

                torch._dynamo.reset()
                self.both(Net, steps)

    def test_masks_of_dropouts_are_those_of_pytorch(self):
        """Bit for bit: with fewer elements than threads, with as many, and with several rounds; two draws at once; in a CUDA graph."""
        from graft_fx import dropouts

        torch.ops.load_library(LIBRARY)
        aten, ops = torch.ops.aten, torch.ops.graft
        for dtype, vector in dropouts.VECTORS.items():
            for n in (8, 1000, 270336, 2162696, 12582928, 50331648):
                x = torch.randn(n, device="cuda", dtype=dtype)
                threads = dropouts.threads_for(n, x.device)
                blocks = -(-n // (dropouts.LANES * threads))
                torch.manual_seed(n)
                wanted = [aten.native_dropout(x, p, True)[1] for p in (0.1, 0.5)]
                torch.manual_seed(n)
                states = ops.random_states(x, [blocks, blocks])
                for row, (p, mask) in enumerate(zip((0.1, 0.5), wanted)):
                    with self.subTest(dtype=dtype, n=n, p=p):
                        self.assertTrue(torch.equal(ops.dropout_mask(states, row, [n], p, vector, threads), mask))
        x, graph = torch.randn(1 << 20, device="cuda"), torch.cuda.CUDAGraph()
        threads = dropouts.threads_for(x.numel(), x.device)
        blocks = -(-x.numel() // (dropouts.LANES * threads))
        with torch.cuda.graph(graph):
            mask = ops.dropout_mask(ops.random_states(x, [blocks]), 0, [x.numel()], 0.3, 4, threads)
        torch.manual_seed(5)
        wanted = [aten.native_dropout(x, 0.3, True)[1] for _ in range(2)]
        torch.manual_seed(5)
        for m in wanted:
            graph.replay()
            self.assertTrue(torch.equal(mask, m))

    def test_dropout_draws_what_eager_draws(self):
        """In the same order, so the same numbers."""
        self.both(lambda: Net(dropout=0.1), self.plain, 5e-2)

    def test_checkpointed_layers(self):
        self.both(lambda: Net(again=True), self.plain)

    def test_half_of_the_memory(self):
        self.both(Net, self.plain, memory="70%")

    def test_sizes_that_vary(self):
        def steps(call, net, optimizer):
            out = []
            for i in range(12):
                optimizer.zero_grad()
                with torch.autocast("cuda", torch.bfloat16):
                    loss = call(self.batch(i, 4 + 2 * (i % 3)))[1]
                loss.backward()
                optimizer.step()
                out.append(loss)
            return out

        self.both(Net, steps)

    def test_evaluation_between_steps(self):
        def steps(call, net, optimizer):
            out = []
            for i in range(3):
                out += self.plain(call, net, optimizer, steps=3)
                net.eval()
                with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
                    out.append(call(self.batch(50 + i))[1])
                net.train()
            return out

        self.both(Net, steps)

    def test_batch_norms_keep_their_statistics(self):
        def steps(call, net, optimizer):
            out = []
            for i in range(8):
                optimizer.zero_grad()
                x = torch.randn(16, 3, 20, 20, generator=torch.Generator().manual_seed(i)).cuda().to(memory_format=torch.channels_last)
                with torch.autocast("cuda", torch.bfloat16):
                    loss = call(x)[1]
                loss.backward()
                optimizer.step()
                out.append(loss)
            return out  # both() compares the buffers, too

        self.both(lambda: Convolutions().to(memory_format=torch.channels_last), steps)

    def test_several_forward_passes_before_a_backward_pass(self):
        def steps(call, net, optimizer):
            out = []
            for i in range(5):
                optimizer.zero_grad()
                with torch.autocast("cuda", torch.bfloat16):
                    losses = [call(self.batch(3 * i + j))[1] for j in range(2)]
                (losses[0] + 2 * losses[1]).backward()
                optimizer.step()
                out += losses
            return out

        self.both(Net, steps)

    def test_a_state_that_is_saved_and_loaded(self):
        def steps(call, net, optimizer):
            out = self.plain(call, net, optimizer, steps=4)
            file = io.BytesIO()
            torch.save((net.state_dict(), optimizer.state_dict()), file)
            out += self.plain(call, net, optimizer, steps=3)
            file.seek(0)
            state, optimizer_state = torch.load(file)
            net.load_state_dict(state)
            optimizer.load_state_dict(optimizer_state)
            return out + self.plain(call, net, optimizer, steps=3)

        self.both(Net, steps)

    def test_an_optimizer_whose_step_is_recorded(self):
        counts = []

        def steps(call, net, optimizer):
            if call is not net:
                graft_fx.record_step(optimizer)
            schedule = torch.optim.lr_scheduler.StepLR(optimizer, 4, 0.5)
            out = []
            for i in range(10):
                out += self.plain(call, net, optimizer, steps=1)
                schedule.step()
            counts.append(getattr(optimizer, "recordings", None))
            return out

        self.both(Net, steps)
        self.assertGreater(counts[0]["replayed"], 4, counts)

    def test_gradients_are_those_of_eager_in_double(self):
        torch.manual_seed(0)
        net = Net().cuda().double().train()
        eager = copy.deepcopy(net)
        call = torch.compile(net, backend=graft_fx.backend(training=True, graft=PROGRAM, library=LIBRARY, fuse=True))
        for i in range(3):
            for model, run in ((net, call), (eager, eager)):
                model.zero_grad()
                run(self.batch(i))[1].backward()
            for (name, a), b in zip(net.named_parameters(), eager.parameters()):
                if b.grad is not None:
                    torch.testing.assert_close(a.grad, b.grad, rtol=1e-10, atol=1e-12, msg=lambda m, name=name: f"{name}: {m}")


if __name__ == "__main__":
    if not torch.cuda.is_available():
        print("no GPU")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[3:]])
