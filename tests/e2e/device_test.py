"""A model that was traced on the CPU names the CPU where it makes masks. What Graft writes can be moved: it makes them where
the module is. The device "meta" stands for another one; it refuses to compute with tensors of the CPU as a GPU does."""

import sys
import warnings

import torch
from torch.export.passes import move_to_device_pass

from support import SAMPLES, SOURCE, TestCase, main

sys.path.insert(0, str(SOURCE / "resources/python"))
import graft_fx

MODELS = SAMPLES / "models"


class Mask(torch.nn.Module):
    """Has no weight that could say where it is."""

    def forward(self, x):
        steps = torch.arange(x.shape[-1], device=x.device, dtype=torch.float32)
        seen = torch.full((x.shape[-1],), 0.5, device=x.device) + torch.zeros(1, device=x.device)
        return (steps + seen).to(x.device)


class Masked(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.mask, self.fc = Mask(), torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.fc(x) + self.mask(x) * torch.tensor([1.0, 2.0, 3.0, 4.0], device=x.device)


class AskingItsWeight(torch.nn.Module):
    """Scripted code that asks a weight where it is."""

    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.fc(x) + torch.arange(4, device=self.fc.weight.device, dtype=torch.float32)


def moved(script):
    """What module.to() does with parameters and buffers, to which script modules do not let it go as far as "meta"."""
    for module in script.modules():
        for name, value in [*module._parameters.items(), *module._buffers.items()]:
            module._c.setattr(name, value.to("meta"))
    return script


def on_meta(model, inputs):
    """The devices of what the model gives for inputs on meta."""
    out = model(*[v.to("meta") for v in inputs])
    return {v.device.type for v in torch.utils._pytree.tree_leaves(out) if isinstance(v, torch.Tensor)}


class Devices(TestCase):
    def made(self, model, x):
        """The model in every format."""
        torch.jit.trace(model, x).save(self.folder / "m.pt")
        torch.export.save(torch.export.export(model, (x,)), self.folder / "m.pt2")
        graft_fx.capture(model, (x,), self.folder / "m.fx")
        return [self.folder / f"m{ending}" for ending in (".pt", ".pt2", ".fx")]

    def test_masks_and_constants_move_with_the_module(self):
        model, x = Masked().eval(), torch.randn(2, 4)
        for source in self.made(model, x):
            with self.subTest(source=source.name):
                script, program = self.folder / "out.pt", self.folder / "out.pt2"
                self.done("convert", source, "-o", script)
                self.done("convert", source, "-o", program)
                torch.testing.assert_close(torch.jit.load(script)(x), model(x))
                self.assertEqual(on_meta(torch.jit.load(script, map_location="meta"), [x]), {"meta"})
                self.assertEqual(on_meta(moved(torch.jit.load(script)), [x]), {"meta"})
                elsewhere = move_to_device_pass(torch.export.load(program), "meta")
                self.assertEqual(on_meta(elsewhere.module(), [x]), {"meta"})
                self.assertEqual(self.done("text", script).stdout, self.done("text", source).stdout)
                self.done("convert", script, "-o", self.folder / "again.pt")
                self.assertEqual(self.done("text", self.folder / "again.pt").stdout, self.done("text", source).stdout)

    def test_the_traced_file_itself_cannot_be_moved(self):
        x = torch.randn(2, 4)
        with self.assertRaises(RuntimeError):  # or the tests here show nothing
            on_meta(moved(torch.jit.load(self.made(Masked().eval(), x)[0])), [x])

    def test_a_module_that_only_has_masks(self):
        x = torch.randn(2, 4)
        torch.jit.trace(Mask(), x).save(self.folder / "m.pt")
        self.done("convert", self.folder / "m.pt", "-o", self.folder / "out.pt")
        self.assertEqual(on_meta(moved(torch.jit.load(self.folder / "out.pt")), [x]), {"meta"})
        self.assertEqual(self.done("text", self.folder / "out.pt").stdout, self.done("text", self.folder / "m.pt").stdout)

    def test_a_device_that_scripted_code_asks_of_a_weight(self):
        x = torch.randn(2, 4)
        torch.jit.script(AskingItsWeight()).save(self.folder / "m.pt")
        self.assertIn('device("cpu")', self.done("text", self.folder / "m.pt").stdout)
        self.done("convert", self.folder / "m.pt", "-o", self.folder / "out.pt")
        self.assertEqual(on_meta(moved(torch.jit.load(self.folder / "out.pt")), [x]), {"meta"})

    def test_transformers(self):
        for name in ("bert", "distilbert", "roberta", "deberta", "gpt2", "llama", "t5"):
            inputs = torch.load(MODELS / f"{name}_inputs.pt", weights_only=True)
            inputs = inputs if isinstance(inputs, (list, tuple)) else [inputs]
            for ending in (".pt", ".pt2", ".fx"):
                with self.subTest(model=name + ending):
                    self.done("convert", MODELS / (name + ending), "-o", self.folder / "out.pt")
                    self.assertEqual(on_meta(moved(torch.jit.load(self.folder / "out.pt")), inputs), {"meta"})


warnings.filterwarnings("ignore", category=DeprecationWarning)
main()
