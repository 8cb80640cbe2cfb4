"""graft in a notebook that a Jupyter kernel runs: the picture in a cell, and the progress bar."""

import importlib.util
import os
import pathlib
import re
import sys
import unittest
import xml.etree.ElementTree

SOURCE = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else SOURCE / "build"
# No packages of requirements.txt: run this test by a Python that has them.
MISSING = [name for name in ("nbclient", "nbformat", "ipykernel") if importlib.util.find_spec(name) is None]

HEAD = f"""
import sys
sys.path.insert(0, {str(SOURCE / "resources/python")!r})
import torch, graft

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(16, 64)

    def forward(self, x):
        y = self.up(x)
        return y * torch.sigmoid(y)

model, x = Net().eval(), torch.randn(8, 16)
"""


@unittest.skipIf(MISSING, f"not installed: {', '.join(MISSING)}")
class Notebook(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        import nbclient
        import nbformat

        cells = [HEAD, "graft.show(model, (x,))", "fast = graft.optimize(model, (x,), budget=3, seconds=0.2)\nfast.report.verified",
                 "graft.optimize(model, (x,), rules='missing.py')"]
        book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in cells])
        kernel = {"GRAFT": str(BUILD / "bin/graft"), "OMP_NUM_THREADS": "1", "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
        shown = cls.shown = []  # each state of the outputs that a front end draws

        class Client(nbclient.NotebookClient):
            def process_message(self, message, cell, index):
                if message["msg_type"] in ("display_data", "update_display_data"):
                    shown.append((index, message["msg_type"], message["content"]["data"].get("text/html", "")))
                return super().process_message(message, cell, index)

        Client(book, timeout=200, kernel_name="python3", allow_errors=True).execute(env=os.environ | kernel)
        cls.outputs = [cell.outputs for cell in book.cells]

    def test_the_cell_shows_the_picture_with_the_script_that_moves_it(self):
        self.assertEqual(self.outputs[0], [])
        (output,) = self.outputs[1]
        self.assertEqual(output.output_type, "execute_result")
        html = output.data["text/html"]
        picture = xml.etree.ElementTree.fromstring(html[html.index("<svg"): html.index("</svg>") + len("</svg>")])
        words = "".join(picture.itertext())
        for word in ("sigmoid", "mul", "up"):
            self.assertIn(word, words)
        name = re.search(r'<div id="(graft-\w+)"', html)[1]
        self.assertIn(f'document.getElementById("{name}")', html)

    def test_a_bar_says_how_far_the_work_is_and_goes_away(self):
        bars = [(kind, html) for index, kind, html in self.shown if index == 2]
        self.assertEqual(bars[0][0], "display_data")
        self.assertEqual({kind for kind, _ in bars[1:]}, {"update_display_data"})
        self.assertTrue(any(re.fullmatch(r'<progress value="\d+" max="\d+"></progress> .+', html) for _, html in bars), bars)
        self.assertEqual(bars[-1][1], "")
        self.assertIn("True", [output.data["text/plain"] for output in self.outputs[2] if output.output_type == "execute_result"])

    def test_an_error_is_that_of_the_command_line(self):
        (error,) = [output for output in self.outputs[3] if output.output_type == "error"]
        self.assertEqual(error.ename, "Error")
        self.assertIn("missing.py: cannot read the rule file", error.evalue)


if __name__ == "__main__":
    unittest.main(verbosity=2)
