"""`import graft`: the examples of docs/guide/python.md run as they stand, and what they do not show."""

import contextlib
import io
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
import unittest.mock
import warnings

import torch

SOURCE = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else SOURCE / "build"
os.environ["GRAFT"] = str(BUILD / "bin/graft")
sys.path.insert(0, str(SOURCE / "resources/python"))
import graft

RULES = """import torch
import torch.nn.functional as F
from graft import Recipe, Rule


class Swish(Rule):
    def pattern(x):
        return x * torch.sigmoid(x)

    def replacement(x):
        return F.silu(x)


class Wrong(Rule):
    def pattern(x):
        return torch.tanh(x)

    def replacement(x):
        return torch.relu(x)


class Fast(Recipe):
    steps = [Swish]
"""


class Plain(torch.nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(x)


BRIEF = {"seconds": 0.05, "budget": 2}


class Net(torch.nn.Module):
    """Nested arguments, a dropout, and results in a dict with a None in it."""

    def __init__(self, width=16):
        super().__init__()
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)
        self.dropout = torch.nn.Dropout(0.5)

    def forward(self, x, scale=None, *, other=None):
        y = self.up(x)
        y = self.down(self.dropout(y * torch.sigmoid(y)))
        if scale is not None:
            y = y * scale
        return {"y": y, "rest": (y + 1, None, [x if other is None else x + other["shift"]])}


class Api(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="graft-api-")
        self.addCleanup(holder.cleanup)
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        os.chdir(holder.name)
        pathlib.Path("rules.py").write_text(RULES)
        torch.manual_seed(0)
        torch._dynamo.reset()
        self.model, self.x = Net().eval(), torch.randn(4, 16)

    def same(self, a, b):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)

    def test_the_examples_of_the_guide_run(self):
        text = (SOURCE / "docs/guide/python.md").read_text()
        text = text[: text.index("## Graphs of torch.fx")]
        blocks = re.findall(r"(?ms)^```python\n(.*?)^```$", text)
        self.assertGreaterEqual(len(blocks), 4)
        code = "\n".join(blocks)
        # A few seconds are enough here; users time for longer.
        code = code.replace("graft.optimize(model, inputs) ", "graft.optimize(model, inputs, seconds=0.05, budget=2) ")
        code = code.replace('backend="graft"', "backend=brief")
        from graft.compiling import backend

        names = {"torch": torch, "model": self.model, "inputs": (self.x,),
                 "brief": lambda graph, inputs: backend(graph, inputs, options={"budget": 2})}
        with contextlib.redirect_stdout(io.StringIO()) as out, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(code, "docs/guide/python.md", "exec"), names)
        said = out.getvalue()
        self.assertIn("{'Swish': 1}", said)
        self.assertIn("missing.py: cannot read the rule file: No such file or directory 3", said)
        self.assertTrue(names["beside"].same)
        self.same(names["y"], self.model(self.x))
        self.same(names["model_again"](self.x), self.model(self.x))

    def test_the_examples_of_graft_fx_run(self):
        text = (SOURCE / "docs/guide/python.md").read_text()
        blocks = re.findall(r"(?ms)^```python\n(.*?)^```$", text[text.index("## Graphs of torch.fx"):])
        self.assertGreaterEqual(len(blocks), 3)
        code = "\n".join(blocks).replace('recipe="Encoder"', 'recipe="Fast"')  # the rule file of this test
        model, x = torch.nn.Sequential(torch.nn.Linear(16, 16), Plain()).eval(), self.x
        names = {"torch": torch, "model": model, "inputs": (x,), "example_inputs": (x,), "x": x}
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)  # a graph that is not rewritten is told by one
            warnings.filterwarnings("ignore", category=DeprecationWarning)
            exec(compile(code, "docs/guide/python.md", "exec"), names)
        self.same(names["y"], model(x))
        self.assertTrue(pathlib.Path("model.fx").exists())

    def test_calls_and_results_keep_their_containers(self):
        inputs = ((self.x,), {"other": {"shift": torch.ones(16)}})
        fast = graft.optimize(self.model, inputs, rules="rules.py", recipe="Fast", seconds=0.05)
        self.assertEqual(fast.report.rewrites, {"Swish": 1})
        self.assertTrue(fast.report.verified)
        for shift in (torch.ones(16), torch.zeros(16)):
            self.same(fast(self.x, other={"shift": shift}), self.model(self.x, other={"shift": shift}))
        with self.assertRaisesRegex(TypeError, "optimized for arguments nested as"):
            fast(self.x)
        fast.save("fast.pt2")
        self.same(graft.load("fast.pt2")(self.x, other={"shift": torch.ones(16)}), self.model(self.x, other={"shift": torch.ones(16)}))

    def test_keywords_come_in_any_order(self):
        scale, other = torch.full((16,), 2.0), {"shift": torch.ones(16)}
        fast = graft.optimize(self.model, {"x": self.x, "scale": scale, "other": other}, rules="rules.py", seconds=0.05)
        self.same(fast(other=other, scale=scale, x=self.x), self.model(self.x, scale, other=other))

    def test_classes_of_results_come_back(self):
        import transformers

        config = transformers.BertConfig(vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
        bert = transformers.BertModel(config).eval()
        inputs = {"input_ids": torch.randint(0, 50, (2, 7)), "attention_mask": torch.ones(2, 7, dtype=torch.long)}
        fast = graft.optimize(bert, inputs, rules=SOURCE / "resources/rules/transformer.py", recipe="Encoder", seconds=0.05)
        self.assertGreater(sum(fast.report.rewrites.values()), 4)
        got, expected = fast(**inputs), bert(**inputs)
        self.assertIs(type(got), type(expected))
        self.same(got.last_hidden_state, expected.last_hidden_state)
        self.same(got["pooler_output"], expected["pooler_output"])

    def test_it_takes_functions_programs_scripts_and_files(self):
        with torch.no_grad():
            program = torch.export.export(self.model, (self.x,), strict=False)
        scripted = torch.jit.trace(Plain().eval(), self.x)
        scripted.save("model.pt")
        weight = torch.randn(16, 16)

        def function(x):
            y = x @ weight
            return y * torch.sigmoid(y)

        for what, expected in ((program, self.model), (scripted, scripted), ("model.pt", scripted), (function, function)):
            fast = graft.optimize(what, (self.x,), rules="rules.py", seconds=0.05)
            self.assertEqual(fast.report.rewrites, {"Swish": 1})
            with torch.no_grad():
                self.same(fast(self.x), expected(self.x))

    def test_sizes_that_vary(self):
        fast = graft.optimize(self.model, (self.x,), rules="rules.py", seconds=0.05, dynamic_shapes=({0: torch.export.Dim("n", max=64)},))
        for n in (3, 9):
            x = torch.randn(n, 16)
            self.same(fast(x), self.model(x))

    def test_a_model_in_training_is_optimized_as_it_serves_and_stays_as_it_was(self):
        self.model.train()
        fast = graft.optimize(self.model, (self.x,), rules="rules.py", seconds=0.05)
        self.assertTrue(self.model.training and self.model.dropout.training)
        self.same(fast(self.x), self.model.eval()(self.x))

    def test_what_changes_nothing_says_so_and_computes_as_before(self):
        plain = torch.nn.Linear(16, 16)
        fast = graft.optimize(plain, (self.x,), rules="rules.py", seconds=0.05)
        self.assertFalse(fast.report.changed)
        self.same(fast(self.x), plain(self.x))

    def test_errors_have_the_text_and_the_code_of_the_program(self):
        pathlib.Path("broken.pt").write_bytes(b"no model")
        said = subprocess.run([BUILD / "bin/graft", "match", "broken.pt"], capture_output=True, text=True)
        with self.assertRaises(graft.Error) as caught:
            graft.match("broken.pt")
        self.assertEqual(caught.exception.exit_code, said.returncode)
        self.assertEqual(f"graft: {caught.exception}", said.stderr.strip())
        with self.assertRaisesRegex(TypeError, "inputs"):
            graft.optimize(self.model)
        with self.assertRaisesRegex(graft.Error, "ending"):
            graft.optimize(self.model, (self.x,), rules="rules.py", seconds=0.05).save("fast.onnx")

    def test_different_models_compare_as_different(self):
        other = Net().eval()
        beside = graft.compare(self.model, other, (self.x,), seconds=0.05)
        self.assertFalse(beside.same)
        self.assertTrue(graft.compare(self.model, self.model, (self.x,), seconds=0.05).same)

    def test_progress_is_reported_step_by_step(self):
        steps = []
        from graft import running

        class Noted(running.Bar):
            def show(self, what, done, total):
                steps.append((what, done, total))

        before, running.Bar = running.Bar, Noted
        self.addCleanup(setattr, running, "Bar", before)
        with contextlib.redirect_stderr(io.StringIO()):
            graft.optimize(self.model, (self.x,), progress=True, **BRIEF)
        self.assertGreater(len(steps), 3)
        self.assertTrue(all(isinstance(what, str) and done >= 0 for what, done, total in steps))

    def test_interrupted_it_stops_the_program_and_leaves_no_file(self):
        code = textwrap.dedent(f"""
            import os, sys, tempfile
            sys.path.insert(0, {str(SOURCE / "resources/python")!r})
            import torch, graft
            net = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU()) for _ in range(12)])
            tempfile.tempdir = os.getcwd()
            from graft import running
            start = running.subprocess.Popen
            def started(*a, **k):
                process = start(*a, **k)
                print(process.pid, flush=True)
                return process
            running.subprocess.Popen = started
            try:
                graft.optimize(net, (torch.randn(64, 64),), seconds=60)
            except KeyboardInterrupt:
                print("interrupted", flush=True)
        """)
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        child = int(process.stdout.readline())
        time.sleep(1.5)
        process.send_signal(signal.SIGINT)
        out = process.communicate(timeout=120)[0]
        self.assertIn("interrupted", out)
        self.assertEqual(process.returncode, 0)
        with self.assertRaises(ProcessLookupError):
            os.kill(child, 0)
        self.assertEqual([p.name for p in pathlib.Path().iterdir() if p.name.startswith("graft-")], [])

    def test_in_a_notebook_the_picture_moves_and_is_well_formed(self):
        import xml.etree.ElementTree

        from graft import running

        with unittest.mock.patch.object(running.Bar, "_in_notebook", staticmethod(lambda: True)):
            html = graft.show(self.model, (self.x,))._repr_html_()
        svg = html[html.index("<svg"): html.index("</svg>") + 6]
        self.assertEqual(xml.etree.ElementTree.fromstring(svg).tag.rpartition("}")[2], "svg")
        self.assertIn("viewBox", svg)
        self.assertIn("wheel", html)
        self.assertNotIn("%(", html)

    def test_importing_it_takes_little_time_beyond_torch(self):
        code = (f"import sys, time\nsys.path.insert(0, {str(SOURCE / 'resources/python')!r})\nimport torch\n"
                "begin = time.process_time()\nimport graft\nprint(time.process_time() - begin, 'graft_fx.capturing' in sys.modules)")
        seconds, heavy = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
        self.assertLess(float(seconds), 0.15)
        self.assertEqual(heavy, "False")

    def test_compile_with_rules_that_do_not_exist_or_options_that_are_none(self):
        from graft.compiling import backend

        with self.assertRaisesRegex(ValueError, "no option fast"):
            backend(None, (), options={"fast": True})


if __name__ == "__main__":
    unittest.main(verbosity=2)
