"""Expressions in a rule's `where` mean what they mean in Python: random texts of operators and parentheses, each with the
value that Python itself finds, as the conditions of rules that must all match. Texts that Python refuses are refused.

    precedence_test.py BUILD [SEED]
"""

import ast
import math
import pathlib
import random
import sys
import tempfile
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))

from engine_client import Engine  # noqa: E402

BUILD = pathlib.Path(sys.argv[1]).resolve()
SIZES = {"n": 2, "m": 3, "k": 7}
GRAPH = "graph relu {\n  input %x : f32[2,3,7]\n  %y = aten.relu.default(%x) : f32[2,3,7]\n  return %y\n}\n"
INFIX = ["or", "and", "|", "^", "&", "<<", ">>", "+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "in", "not in"]
BY_HAND = ["n == 1 or n == 2 and m == 4", "not n == 2 or m == 3", "1 < n <= 4", "1 < n < m < 7", "1 < n > 5", "-n ** 2", "2 ** -1",
           "2 ** 3 ** 2", "-2 ** 2", "(-2) ** 2", "2 ** -n ** 2", "~n & m", "~n == m", "not n & 1 == 0", "n | m == 3", "n == 2 == True",
           "(n == 2) == True", "(n or m) and k", "n - m - k", "k // n * n", "-k // n", "-k % m", "k % -m", "1.0 // 0.1", "n << 1 + 1",
           "n if n > m else m if m > k else k", "n not in (1, m) and k in (m, 7)", "not n in (1, 3)", "(not n) + 1"]


def random_text(rng, depth=0):
    def operand():
        prefix = rng.choice(["", "", "", "", "-", "~", "- -", "not " if rng.random() < 0.3 else ""])
        pick = rng.random()
        if pick < 0.25 and depth < 3:
            return f"{prefix}({random_text(rng, depth + 1)})"
        if pick < 0.3 and depth < 3:
            return f"{prefix}max({random_text(rng, depth + 1)}, {random_text(rng, depth + 1)})"
        return prefix + (rng.choice(list(SIZES)) if pick < 0.6 else rng.choice(["0", "1", "2", "3", "5", "0.5", "True"]))

    text = operand()
    for _ in range(rng.randrange(5)):
        op = rng.choice(INFIX)
        right = "(1, n, 5)" if op.endswith("in") else operand()
        text += f" {op} {right}"
    return text


def value_of(text):
    """Python's value; None where a part of it is no number of modest size. SyntaxError where Python reads nothing."""
    tree = ast.parse(text, mode="eval")
    parts = [p for p in ast.walk(tree) if isinstance(p, ast.expr) and not isinstance(p, ast.Tuple)
             and not (isinstance(p, ast.Name) and p.id == "max")]
    try:
        for part in sorted(parts, key=lambda p: len(ast.unparse(p))):  # the exponent before the power
            value = eval(compile(ast.Expression(part), "", "eval"), {}, {**SIZES, "max": max})
            if isinstance(value, complex) or not math.isfinite(value) or abs(value) > 2**50:
                return None
    except (ArithmeticError, TypeError, ValueError):
        return None
    return value


def random_texts(rng, count):
    valued, refused = [], []
    while len(valued) < count:
        text = random_text(rng)
        try:
            value = value_of(text)
            if value is not None:
                valued.append((text, value))
        except SyntaxError:
            refused.append(text)
    return valued, refused[:20]


def main():
    warnings.simplefilter("ignore")
    rng = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 21)
    valued, refused = random_texts(rng, 400)
    valued += [(text, value_of(text)) for text in BY_HAND]

    def rule(i, text, value):
        return (f"class R{i}(Rule):\n    def pattern(x):\n        return torch.relu(x)\n\n    def where(x):\n"
                f"        n, m, k = x.shape\n        return ({text}) == {value!r}\n\n")

    failed = []
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder) / "relu.txt"
        model.write_text(GRAPH)
        engine = Engine([BUILD / "bin/graft", "engine"])
        document = engine.ask("model/open", path=str(model), graph="none")["result"]["document"]
        said = engine.ask("rules/match", document=document, file="rule.py",
                          text="import torch\nfrom graft import *\n\n" + "".join(rule(i, *v) for i, v in enumerate(valued)))
        assert "result" in said, said
        for (text, value), matched in zip(valued, said["result"]["rules"], strict=True):
            if not matched["matches"]:
                failed.append(f"Python says that `{text}` is {value!r}, and the rule another thing")
        for text in refused:
            said = engine.ask("rules/match", document=document, file="rule.py", text="import torch\nfrom graft import *\n\n" + rule(0, text, 0))
            if "error" not in said:
                failed.append(f"Python refuses `{text}`, and the rule reads it")
        engine.kill()
    print("\n".join(failed))
    print(f"{len(valued)} expressions with Python's values, {len(refused)} that Python refuses, {len(failed)} failures")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
