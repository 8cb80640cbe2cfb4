"""graft bench --against: PyTorch's own modes beside the rewritten model; graft profile's times add up."""

import json

import torch

from support import RULES, TestCase, main


class Baselines(TestCase):
    def setUp(self):
        super().setUp()
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 32)).eval()
        x = torch.randn(4, 32)
        self.model, self.exported, self.inputs = self.folder / "m.pt", self.folder / "m.pt2", self.folder / "in.pt"
        torch.jit.trace(model, x).save(str(self.model))
        torch.export.save(torch.export.export(model, (x,)), self.exported)
        torch.save((x,), self.inputs)
        self.common = ["--rules", RULES, "--recipe", "Encoder", "--inputs", self.inputs, "--seconds", "0.2"]

    def baselines(self, model, modes, *more):
        doc = self.of_model("bench", model, *self.common, "--against", modes, *more)["baselines"]
        self.assertGreater(doc["rewritten"]["medianMs"], 0)
        self.assert_host_time(doc["rewritten"])
        return {b["mode"]: b for b in doc["modes"]}

    def assert_host_time(self, side):
        """On the CPU what the clock says is the time."""
        self.assertEqual(len(side["host"]["samplesMs"]), len(side["samplesMs"]))
        self.assertGreater(side["host"]["p10Ms"], 0)
        self.assertLessEqual(side["host"]["p10Ms"], side["host"]["p90Ms"])
        self.assertLess(abs(side["host"]["medianMs"] / side["medianMs"] - 1), 0.5)

    def test_torchscript(self):
        baselines = self.baselines(self.model, "eager,jit,exported")
        self.assertEqual(list(baselines), ["eager", "jit", "exported"])
        for p in baselines.values():
            self.assertNotIn("error", p)
            self.assertGreater(p["medianMs"], 0)
            self.assertGreaterEqual(len(p["samplesMs"]), 5)
            self.assertGreater(p["readySeconds"], 0)
            self.assert_host_time(p)

    def test_torch_export(self):
        self.assertGreater(self.baselines(self.exported, "eager")["eager"]["medianMs"], 0)

    def test_a_file_that_names_its_dtype_runs_in_another(self):
        class Named(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = torch.nn.Linear(32, 32)

            def forward(self, x):
                return self.linear(x) @ torch.ones(32, 4, dtype=torch.float32)

        torch.jit.trace(Named().eval(), torch.randn(4, 32)).save(str(self.model))
        doc = self.of_model("bench", self.model, *self.common, "--dtype", "bfloat16")
        self.assertEqual(doc["timing"]["against"], "original (written as TorchScript, frozen)")  # its own file would multiply BFloat16 with Float
        self.assertEqual(doc["timing"]["timed"], "written file (TorchScript)")
        self.assertGreater(doc["timing"]["rewritten"]["medianMs"], 0)
        baselines = self.baselines(self.model, "eager,jit,compile,exported", "--dtype", "bfloat16")
        self.assertEqual([p.get("error") for p in baselines.values()], [None] * 4)

    def test_refusals(self):
        self.fails(2, "bench", self.model, *self.common, "--against", "eager,nothing", says=["nothing", "compile"])
        run = self.fails(3, "bench", self.model, *self.common, "--against", "eager", "--python", "/bin/false", says="--python")
        self.assertEqual(run.stdout, "")  # before anything is timed

    def test_profile_adds_up(self):
        trace = self.folder / "trace.json"
        doc = self.json("profile", self.model, "--inputs", self.inputs, "--repetitions", "3", "--trace", trace)
        self.assertAlmostEqual(sum(n["us"] for n in doc["nodes"]), doc["us"], places=3)
        self.assertEqual(len(json.loads(trace.read_text())["traceEvents"]), doc["operators"])


main()
