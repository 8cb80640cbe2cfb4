"""The page of `graft draw -o model.html`: what a search counts, how F8 goes through changes, what is in view at first. Without a
headless Chromium, these tests are skipped."""

import pathlib
import sys

import torch
from torch import nn

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[2] / folder) for folder in ("e2e", "support")]
from chromium import Chromium  # noqa: E402
from support import SOURCE, TestCase, main  # noqa: E402

RULE = """
from graft import Rule
import torch

class Tanh(Rule):
    def pattern(x): return torch.tanh(x)
    def replacement(x): return 2.0 * torch.sigmoid(2.0 * x) - 1.0
"""


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x):
        return torch.tanh(self.inner(x)) + x


class Blocks(nn.Module):
    def __init__(self, count=5):
        super().__init__()
        self.blocks = nn.Sequential(*[Block() for _ in range(count)])

    def forward(self, x):
        return torch.softmax(self.blocks(x), -1)


class PageViewer(TestCase):
    def setUp(self):
        super().setUp()
        self.browser = Chromium.start()
        if not self.browser:
            self.skipTest("no Chromium here")
        self.addCleanup(self.browser.__exit__, None, None, None)
        self.model, self.page = self.folder / "blocks.pt", self.folder / "blocks.html"
        torch.jit.trace(Blocks().eval(), torch.randn(2, 8)).save(str(self.model))

    def text(self, element):
        return self.browser.run(f"document.getElementById('{element}').textContent")

    def test_a_search_counts_the_nodes_that_a_box_stands_for(self):
        self.done("draw", self.model, "--depth", "0", "-o", self.page)
        self.browser.open(self.page)
        self.browser.run("graft.find('tanh')")
        self.assertEqual(self.text("found"), "1 found, 5 nodes")
        self.browser.run("graft.find('softmax')")
        self.assertEqual(self.text("found"), "1 found")

    def test_a_step_to_a_change_moves_both_drawings(self):
        fast = self.folder / "fast.pt"
        self.done("apply", self.model, "--rules", self.file("rules.py", RULE), "--input", "f32[2,8]", "-o", fast)
        self.done("draw", self.model, "--diff", fast, "-o", self.page)
        self.browser.open(self.page)
        selected = "graft.panes.map((p) => p.selected < 0 ? '' : p.graph.boxes[p.selected].key)"
        seen = []
        for _ in range(int(self.browser.run("graft.changes().length"))):
            self.browser.key("F8")
            seen.append(self.browser.run(selected))
        self.assertTrue(self.text("changeCount").startswith(f"{len(seen)} of {len(seen)}: "))
        # What is gone has no counterpart: the module around it is marked where it was.
        self.assertIn("blocks.0", [after for before, after in seen])
        self.assertTrue(all(before and after for before, after in seen))
        self.browser.key("F8")
        where = self.browser.run("graft.panes.map((p) => [p.x, p.y])")
        for _ in range(3):
            self.browser.key("F8")
        for before, now in zip(where, self.browser.run("graft.panes.map((p) => [p.x, p.y])")):
            self.assertNotEqual(before, now)
        self.assertEqual(self.browser.complaints(), [])

    def test_a_training_step_is_shown_from_its_first_input(self):
        sys.path.insert(0, str(SOURCE / "resources/python"))
        import graft_fx

        step = self.folder / "step.fx"
        graft_fx.capture(Blocks(9), (torch.randn(2, 8, requires_grad=True),), str(step), joint=True)
        self.done("draw", step, "--method", "joint", "-o", self.page)
        self.browser.open(self.page)
        self.browser.frame()
        # Of the view, the upper half is not empty.
        seen = self.browser.run("""(() => { const p = graft.panes[0];
          return p.closed.filter((i) => { const r = p.layout.rects[i], x = (r.x - p.x) * p.scale, y = (r.y - p.y) * p.scale;
            return x > 0 && x < p.width && y > 0 && y < p.height / 2; }).length; })()""")
        self.assertGreater(seen, 2)


if __name__ == "__main__":
    main()
