"""Makes the sample models that the end-to-end tests use, where they are missing or older than the scripts that make them."""

import subprocess
import sys

from support import SAMPLES, SOURCE


def make(script, results, *arguments):
    newest = max(path.stat().st_mtime for path in script.parent.glob("*.py"))
    if not all(path.exists() and path.stat().st_mtime >= newest for path in results):
        subprocess.run([sys.executable, str(script), *arguments], check=True)


make(SOURCE / "samples/minilm/export.py", [SAMPLES / "minilm.pt", SAMPLES / "sentences_expected.pt"], "-o", str(SAMPLES))
make(SOURCE / "samples/minilm/export.py", [SAMPLES / "minilm.pt2"], "-o", str(SAMPLES), "--format", "pt2")
models = SAMPLES / "models"
# The last one in the list that has a format: it is written when all others are. One process makes all: each model is built once.
last = {"torchscript": "conv_bn_relu.pt", "pt2": "conv_bn_relu.pt2", "decomposed": "decomposed/conv_bn_relu.pt2", "fx": "conv_bn_relu.fx"}
make(SOURCE / "samples/models/build.py", [models / name for name in last.values()],
     "all", *(f"--format={form}" for form in last), "-o", str(models))
