"""Each sample model, through each format that it has: read, run, and equal to PyTorch's own outputs."""


from support import SAMPLES, TestCase, main

FOLDER = SAMPLES / "models"
MODELS = sorted(path.name.removesuffix("_expected.pt") for path in FOLDER.glob("*_expected.pt"))


class Models(TestCase):
    def test_there_are_models(self):
        self.assertGreaterEqual(len(MODELS), 20)


def add(path, name):
    def test(self):
        self.done("run", path, "--inputs", FOLDER / f"{name}_inputs.pt", "--expect", FOLDER / f"{name}_expected.pt")

    setattr(Models, f"test_{name}_{path.suffix[1:]}", test)


for name in MODELS:
    for suffix in (".pt", ".pt2", ".fx"):
        if (FOLDER / (name + suffix)).exists():
            add(FOLDER / (name + suffix), name)

main()
