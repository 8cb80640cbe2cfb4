"""What Graft offers or suggests as a function exists in Python: matcher/lang/python_names.txt is what PyTorch has, every word that
rules can call is there, and so is every "did you mean".

    python_names_test.py BUILD [--record]      --record writes python_names.txt anew
"""

import operator
import pathlib
import random
import re
import sys
import tempfile
import textwrap

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

from engine_client import Engine  # noqa: E402

BUILD = pathlib.Path(sys.argv[1]).resolve()
FILE = pathlib.Path(__file__).resolve().parents[3] / "matcher/lang/python_names.txt"
SPACES = {"torch": torch, "F": F, "torch.Tensor": torch.Tensor, "torch.linalg": torch.linalg, "torch.special": torch.special,
          "torch.fft": torch.fft}
PREFIXES = {"torch.linalg": "linalg_", "torch.special": "special_", "torch.fft": "fft_"}
GRAPH = "graph relu {\n  input %x : f32[2,3]\n  %y = aten.relu.default(%x) : f32[2,3]\n  return %y\n}\n"


def names_of_pytorch():
    """The operators of LibTorch by the names that Python has for them."""
    operators = {name.removeprefix("aten::").split(".")[0] for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")}
    text = "# Where Python has LibTorch's operators. tests/matcher/lang/python_names_test.py --record writes this file.\n"
    for space, module in SPACES.items():
        names = [n for n in dir(module) if not n.startswith("_") and not n.endswith("_") and PREFIXES.get(space, "") + n in operators
                 and (callable(getattr(module, n)) or space == "torch.Tensor")]
        text += f"{space}\n" + textwrap.indent(textwrap.fill(" ".join(sorted(names)), 110), "  ") + "\n"
    return text


def exists(name):
    """Whether Python has "F.softmax", "nn.Linear", ".view"; Graft's own kernels and words are no names of PyTorch's."""
    root, _, rest = name.partition(".")
    if root in ("kernels", "call_module", "call_function", "any_of", "optional", "runtime") or name.isidentifier():
        return True
    found = {"torch": torch, "F": F, "nn": torch.nn, "": torch.Tensor, "operator": operator}.get(root)
    for part in rest.split("."):
        found = getattr(found, part, None)
    return found is not None


def main():
    if "--record" in sys.argv:
        FILE.write_text(names_of_pytorch())
        return 0
    failed = [] if FILE.read_text() == names_of_pytorch() else [f"{FILE.name} is not what this PyTorch has: --record writes it"]
    engine = Engine([BUILD / "bin/graft", "engine"])
    words = [word.split("(")[0] for word in engine.ask("rules/words")["result"]["words"]]
    failed += [f"rules can call `{word}`, which Python does not have" for word in words if not exists(word)]
    missing = {"torch.view", "torch.linalg_inv", "torch.leaky_relu"} & set(words) | {"torch.linalg.inv", "F.leaky_relu", "torch.relu"} - set(words)
    failed += [f"`{word}` should be the other way round among the words" for word in missing]
    rng = random.Random(3)
    suggested = 0
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder) / "relu.txt"
        model.write_text(GRAPH)
        document = engine.ask("model/open", path=str(model), graph="none")["result"]["document"]
        for word in rng.sample([w for w in words if not w.startswith("kernels.")], 150) + ["torch.leaky_relu", "F.flatten", ".leaky_relu"]:
            space, _, last = word.rpartition(".")
            at = rng.randrange(1, len(last))
            typo = f"{space}.{last[:at]}q{last[at + 1:]}"
            call = f"x{typo}(2)" if not space else f"{typo}(x)"
            said = engine.ask("rules/match", document=document, file="rule.py", text=f"def pattern(x):\n    return {call}\n")
            for name in re.findall(r"did you mean `([^`]+)`", said.get("error", {}).get("message", "")):
                suggested += 1
                if not exists(name):
                    failed.append(f"`{typo}`: did you mean `{name}`, which Python does not have")
    engine.kill()
    print("\n".join(failed))
    print(f"{len(words)} words, {suggested} suggestions, {len(failed)} failures")
    return 1 if failed or suggested < 100 else 0


if __name__ == "__main__":
    sys.exit(main())
