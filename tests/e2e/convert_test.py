"""graft convert: a model in another format is the same graph, computes the same, and PyTorch loads it."""

import json

import torch

from support import OPERATORS, RULES, SAMPLES, TestCase, main

MODELS = SAMPLES / "models"
torch.ops.load_library(str(OPERATORS))


class Convert(TestCase):
    def values(self, name, what):
        v = torch.load(MODELS / f"{name}_{what}.pt", weights_only=True)
        return v if isinstance(v, (list, tuple)) else [v]

    def test_every_format_into_both(self):
        for name, source in (("bert", ".pt2"), ("bert", ".fx"), ("resnet", ".pt2"), ("resnet", ".fx")):
            before = self.done("text", MODELS / (name + source)).stdout
            for out in (self.folder / "out.pt", self.folder / "out.pt2"):
                said = self.json("convert", MODELS / (name + source), "-o", out)
                self.assertEqual(said["output"], str(out))
                self.assertEqual(self.done("text", out).stdout, before, f"{name}{source} as {out.suffix}")
            inputs, expected = self.values(name, "inputs"), self.values(name, "expected")[0]
            torch.testing.assert_close(torch.jit.load(self.folder / "out.pt")(*inputs), expected)
            torch.testing.assert_close(torch.export.load(self.folder / "out.pt2").module()(*inputs), expected)

    def test_a_traced_model_becomes_a_program_with_symbols(self):
        out = self.folder / "out.pt2"
        self.done("convert", MODELS / "bert.pt", "-o", out)
        program = torch.export.load(out)
        self.assertTrue(program.range_constraints)
        inputs, expected = self.values("bert", "inputs"), self.values("bert", "expected")[0]
        torch.testing.assert_close(program.module()(*inputs), expected)
        again = [torch.cat([v, v, v]) for v in inputs]
        torch.testing.assert_close(program.module()(*again), torch.cat([expected] * 3), rtol=1e-4, atol=1e-5)
        self.assertIn("size    s0 in [2, inf]", self.done("info", out).stdout)
        self.assertEqual(self.json("info", out)["symbols"]["s0"], [2, None])

    def test_weights_keep_their_layout(self):
        net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.Conv2d(8, 4, 1), torch.nn.Conv2d(4, 4, 3, groups=4)).eval()
        net[0].weight.data = net[0].weight.data.contiguous(memory_format=torch.channels_last)
        net[1].weight.data = torch.empty_strided((4, 8, 1, 1), (8, 1, 8, 8)).copy_(net[1].weight.data)
        net[2].weight.data = torch.randn(8, 1, 3, 3)[::2]  # a view with holes: written without them
        x = torch.randn(2, 3, 16, 16)
        model, expected = self.folder / "net.pt", net(x)
        torch.jit.trace(net, x).save(model)
        for out in (self.folder / "out.pt2", self.folder / "out.pt"):
            self.done("convert", model, "-o", out)
            loaded = torch.export.load(out).module() if out.suffix == ".pt2" else torch.jit.load(out)
            torch.testing.assert_close(loaded(x), expected)
            strides = {name.split(".")[0]: w.stride() for name, w in loaded.named_parameters() if "weight" in name}
            self.assertEqual(strides["0"], net[0].weight.stride(), out.suffix)
            self.assertEqual(strides["1"], net[1].weight.stride(), out.suffix)

    def test_a_sparse_buffer_stays_sparse(self):
        class Graph(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(8, 8)
                self.register_buffer("edges", torch.sparse_coo_tensor([[0, 1, 2, 2], [1, 2, 0, 3]], torch.ones(4), (4, 4)).coalesce())

            def forward(self, x):
                return torch.relu(torch.sparse.mm(self.edges, self.layer(x))) * 2

        net, x = Graph().eval(), torch.randn(4, 8)
        model, out = self.folder / "net.pt", self.folder / "out.pt"
        torch.jit.trace(net, x).save(model)
        self.done("convert", model, "-o", out)
        loaded = torch.jit.load(out)
        self.assertTrue(next(loaded.buffers()).is_sparse)
        torch.testing.assert_close(loaded(x), net(x))
        self.fails(3, "convert", model, "-o", self.folder / "out.pt2", says="the weight 'edges' is sparse")

    def test_an_lstm_takes_its_states(self):
        class Decoder(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.lstm = torch.nn.LSTM(6, 8, num_layers=2)

            def forward(self, x, h, c):
                y, (h, c) = self.lstm(x, (h, c))
                return y, h, c

        net, inputs = Decoder().eval(), (torch.randn(5, 3, 6), torch.randn(2, 3, 8), torch.randn(2, 3, 8))
        model, out = self.folder / "net.pt", self.folder / "out.pt"
        torch.jit.trace(net, inputs).save(model)
        self.done("convert", model, "-o", out)
        torch.testing.assert_close(torch.jit.load(out)(*inputs), net(*inputs))
        self.assertEqual(len(self.json("info", model)["symbols"]), 2)  # length and batch: that of the input is the states'

    def test_a_rewritten_while_loop_is_still_one(self):
        class Iterates(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(8, 8)

            def forward(self, x):
                def goes_on(i, x):
                    return (i < 5) & (x.abs().sum() < 1e4)

                def turn(i, x):
                    return i + 1, torch.tanh(self.layer(x)) * 2 + x

                return torch._higher_order_ops.while_loop(goes_on, turn, (torch.zeros((), dtype=torch.long), x))

        net, x = Iterates().eval(), torch.randn(3, 8)
        model, out, inputs = self.folder / "net.pt2", self.folder / "out.pt2", self.folder / "in.pt"
        torch.export.save(torch.export.export(net, (x,)), model)
        torch.save(x, inputs)
        said = self.done("apply", model, "--rules", RULES.parent / "generated.py", "--recipe", "Generated", "--inputs", inputs, "--no-timing", "-o", out).stdout
        self.assertRegex(said, r"fuse +\d")
        torch.testing.assert_close(torch.export.load(out).module()(x), net(x))

    def test_the_model_itself_is_not_overwritten(self):
        path = self.file("net.pt2", (MODELS / "resnet.pt2").read_bytes())
        self.fails(2, "convert", path, "-o", path, says="the model itself would be overwritten")

    def test_what_cannot_be_written_is_said(self):
        self.fails(2, "convert", MODELS / "bert.pt", "-o", self.folder / "out.onnx", says=(".pt", ".pt2"))
        self.fails(2, "convert", MODELS / "bert.pt", says="-o")
        self.fails(3, "convert", self.folder / "nowhere.pt", "-o", self.folder / "out.pt", says="nowhere.pt")
        self.fails(3, "convert", MODELS / "control_flow.pt", "-o", self.folder / "out.pt2", says="cannot be written for torch.export")

    def test_inputs_fix_the_sizes(self):
        out = self.folder / "out.pt2"
        self.done("convert", MODELS / "bert.pt", "--inputs", MODELS / "bert_inputs.pt", "-o", out)
        self.assertFalse(any("s0" in json.dumps(i) for i in self.json("info", out)["inputs"]))

    def test_inputs_fix_sizes_that_the_file_leaves_open_where_it_is_written(self):
        program, fixed = self.folder / "open.pt2", self.folder / "fixed.pt2"
        self.done("convert", MODELS / "bert.pt", "-o", program)
        given = ("--inputs", MODELS / "bert_inputs.pt")
        self.done("convert", program, *given, "-o", fixed)
        self.assertEqual(self.json("info", fixed)["symbols"], {})
        inputs, expected = self.values("bert", "inputs"), self.values("bert", "expected")[0]
        torch.testing.assert_close(torch.export.load(fixed).module()(*inputs), expected)
        # Commands that only look keep what the file declares.
        self.assertEqual(self.done("text", program, *given).stdout, self.done("text", program).stdout)

    def test_dtype_is_what_the_file_is_in(self):
        for source, rules in (("bert.pt", "transformer"), ("resnet.pt2", "conv")):
            name = source.split(".")[0]
            inputs, expected = self.values(name, "inputs"), self.values(name, "expected")[0]
            half = [v.bfloat16() if v.is_floating_point() else v for v in inputs]
            converted, applied = self.folder / f"{name}.pt", self.folder / f"{name}_fast.pt"
            self.done("convert", MODELS / source, "--dtype", "bfloat16", "-o", converted)
            self.done("apply", MODELS / source, "--rules", RULES.parent / f"{rules}.py", "--inputs", MODELS / f"{name}_inputs.pt",
                      "--dtype", "bfloat16", "--no-timing", "-o", applied)
            for out in (converted, applied):
                module = torch.jit.load(out)
                self.assertEqual({p.dtype for p in module.parameters()}, {torch.bfloat16}, out)
                with torch.no_grad():
                    got = module(*half)
                self.assertEqual(got.dtype, torch.bfloat16)
                torch.testing.assert_close(got.float(), expected, rtol=0.05, atol=0.05)

    def test_dtype_reaches_what_follows_a_branch(self):
        class Branching(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = torch.nn.Linear(4, 4)

            def forward(self, x):
                y = self.linear(x)
                return torch.cond(y.sum() > 0, lambda a: (a * 2).relu(), lambda a: (a - 1).tanh(), (y,)).neg()

        source, out, x = self.folder / "branch.pt2", self.folder / "out.pt2", torch.randn(3, 4)
        torch.export.save(torch.export.export(Branching().eval(), (x,)), source)
        self.done("convert", source, "--dtype", "bfloat16", "-o", out)
        program = torch.export.load(out)
        said = {n.meta["val"].dtype for n in program.graph.nodes if isinstance(n.meta.get("val"), torch.Tensor)}
        self.assertEqual(said, {torch.bfloat16, torch.bool})
        self.assertEqual(program.module()(x.bfloat16()).dtype, torch.bfloat16)


main()
