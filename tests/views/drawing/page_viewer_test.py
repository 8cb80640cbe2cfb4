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


class Net(nn.Module):
    """Two equal layers and a narrow module: operators have much room in one place, and little in another."""

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.dense, self.norm = nn.Linear(8, 8), nn.LayerNorm(8)

        def forward(self, x):
            return self.norm(torch.softmax(self.dense(x), -1).transpose(1, 2).contiguous().transpose(1, 2) + x)

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*[Net.Layer() for _ in range(4)])
        self.norm = nn.LayerNorm(8)

    def forward(self, x):
        return torch.nn.functional.layer_norm(self.norm(self.layers(x)), (8,))


AT_EACH_SCALE = """(() => { const p = graft.panes[0], forms = {}, covers = [];
  for (let s = 0.06; s < 1.3; s *= 1.1) {
    p.scale = s;
    const place = (r) => ({x: r.x * s, y: r.y * s, w: r.w * s, h: r.h * s});
    const meet = (a, b) => a.x < b.x + b.w - 1 && b.x < a.x + a.w - 1 && a.y < b.y + b.h - 1 && b.y < a.y + a.h - 1;
    for (const i of p.closed) {
      const {title} = p.graph.boxes[i], set = p.titleIn(i, place(p.layout.rects[i]));
      if (!p.hasLine(i) || set.form === 'none' || set.form === 'cut') continue;
      const words = forms[`${title} at ${s.toFixed(3)}`] || (forms[`${title} at ${s.toFixed(3)}`] = []);
      if (!words.includes(set.lines.join(''))) words.push(set.lines.join(''));
    }
    for (const head of p.heads) {
      for (const i of p.closed)
        if (i !== head.box && (head.isCount || p.hasLine(i)) && meet(head, place(p.layout.rects[i]))) covers.push([head.text, i, s]);
      for (const other of p.heads) if (other !== head && meet(head, other)) covers.push([head.text, other.text, s]);
    }
  }
  p.fit();
  return [forms, covers]; })()"""


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

    def test_an_operator_has_one_spelling_and_names_and_counts_stand_on_no_box(self):
        model = self.folder / "net.pt"
        torch.jit.trace(Net().eval(), torch.randn(2, 4, 8)).save(str(model))
        self.done("draw", model, "--all", "-o", self.page)
        self.browser.open(self.page)
        forms, covers = self.browser.run(AT_EACH_SCALE)
        self.assertEqual([words for words in forms.values() if len(words) > 1], [])
        self.assertTrue(any(words == ["LN"] for words in forms.values()), forms)
        self.assertTrue(any(words == ["layer_norm"] for words in forms.values()), forms)
        self.assertEqual(covers, [])
        self.browser.run("(() => { const p = graft.panes[0]; p.scale = 0.2; p.redraw(); })()")
        self.browser.frame()
        self.assertIn("LN layer_norm", self.text("legend"))
        self.assertEqual(self.browser.complaints(), [])

    def test_a_drawing_that_can_be_read_is_shown_as_a_whole_at_first(self):
        layers = [layer for i in range(4, 104) for layer in (nn.Linear(i, i + 1), nn.Tanh())]
        torch.jit.trace(nn.Sequential(*layers).eval(), torch.randn(2, 4)).save(str(self.model))
        self.done("draw", self.model, "--all", "-o", self.page)
        self.browser.open(self.page)
        self.browser.frame()
        scale, can_be_read, is_whole = self.browser.run("""(() => { const p = graft.panes[0], {width, height} = p.layout;
          return [p.scale, p.canBeRead(), width * p.scale <= p.width && height * p.scale <= p.height]; })()""")
        self.assertLess(scale, 0.45)
        self.assertTrue(can_be_read)
        self.assertTrue(is_whole)


if __name__ == "__main__":
    main()
