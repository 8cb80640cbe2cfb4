"""graft compare: two models beside each other, inside too, in the dtype asked for."""

import torch

from support import TestCase, main


class Net(torch.nn.Module):
    """Floating weights; `before` makes what they multiply of the input."""

    def __init__(self, before):
        super().__init__()
        self.before = before
        self.up, self.down = torch.nn.Linear(32, 64), torch.nn.Linear(64, 32)

    def forward(self, x):
        return self.down(torch.relu(self.up(self.before(x))))


class Compare(TestCase):
    def setUp(self):
        super().setUp()
        torch.manual_seed(0)

    def models(self, before, x):
        """The model, and one whose second layer is another: the numbers part behind `relu`."""
        model = Net(before).eval()
        a, b = self.folder / "a.pt", self.folder / "b.pt"
        torch.jit.trace(model, x).save(str(a))
        with torch.no_grad():
            model.down.weight.mul_(1.05)
        torch.jit.trace(model, x).save(str(b))
        inputs = self.folder / "in.pt"
        torch.save((x,), inputs)
        return a, b, inputs

    def test_what_is_inside_is_compared_in_the_dtype_asked_for(self):
        cases = {
            "floating-point input": (torch.nn.Identity(), torch.randn(4, 32)),
            "integer input": (torch.nn.Embedding(10, 32), torch.arange(8).reshape(2, 4)),
        }
        for name, (before, x) in cases.items():
            a, b, inputs = self.models(before, x)
            for dtype, wanted in (("bfloat16", "bf16["), ("float64", "f64["), ("", "f32[")):
                with self.subTest(name, dtype=dtype):
                    asked = ["--inputs", inputs, "--seconds", "0.05", "--layers", *(["--dtype", dtype] if dtype else [])]
                    doc = self.json("compare", a, a, *asked)
                    self.assertGreaterEqual(len(doc["layers"]), 3)
                    for layer in doc["layers"]:
                        self.assertTrue(layer["difference"]["type"].startswith(wanted), layer)
                        self.assertTrue(layer["difference"]["passed"], layer)
                    self.assertTrue(doc["outputs"][0]["type"].startswith(wanted), doc["outputs"])
                    self.assertGreater(doc["timing"]["original"]["median_ms"], 0)
                    self.fails(5, "compare", a, b, *asked, says="the models differ")

    def test_inputs_made_up_are_in_the_dtype_asked_for(self):
        a, _, _ = self.models(torch.nn.Identity(), torch.randn(4, 32))
        doc = self.json("compare", a, a, "--input", "f32[4,32]", "--dtype", "bfloat16", "--layers", "--seconds", "0.05")
        self.assertTrue(all(layer["difference"]["type"].startswith("bf16[") for layer in doc["layers"]), doc["layers"])


main()
