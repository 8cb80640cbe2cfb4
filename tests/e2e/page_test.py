"""`graft draw -o model.html`: the page opens from a file, without a network, and does what its buttons say. A headless
Chromium clicks through it; where there is none, those tests are skipped."""

import json
import re
import statistics
import sys

import torch
from torch import nn

from support import SOURCE, TestCase, main

sys.path[:0] = [str(SOURCE / "tests/support"), str(SOURCE / "resources/python")]
from chromium import Chromium

NO_CHROMIUM = "no Chromium here: install Debian's chromium, or set GRAFT_CHROMIUM, and the page is clicked through"


class Block(nn.Module):
    def __init__(self, width, factor):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
        self.factor = factor

    def forward(self, x):
        return torch.tanh(self.inner(x) * self.factor) + x


class Nested(nn.Module):
    def __init__(self, blocks=3):
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.blocks = nn.ModuleList(Block(8, 1.5 + i) for i in range(blocks))

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return torch.softmax(x, -1)


def flat(operators, repeats=False):
    """A graph without modules and with a shortcut now and then, as canonical text."""
    lines, last, kept, state = ["graph Flat {", "  input %x : f32[4]"], "x", "x", 1
    for i in range(operators):
        state = state * 1103515245 + 12345 & 0x7FFFFFFF
        op = ("tanh", "relu", "sigmoid", "exp")[i % 50 % 4 if repeats else state >> 16 & 3]
        call = f"aten.add.Tensor(%{last}, %{kept})" if i % 50 == 49 else f"aten.{op}.default(%{last})"
        if i % 50 == 0:
            kept = last
        last = f"v{i}"
        lines.append(f"  %{last} = {call} : f32[4]")
    return "\n".join([*lines, f"  return %{last}", "}"]) + "\n"


RULE = """
from graft import Rule
import torch

class Tanh(Rule):
    def pattern(x): return torch.tanh(x)
    def replacement(x): return 2.0 * torch.sigmoid(2.0 * x) - 1.0
"""

# Boxes that are not inside their module, or that overlap.
MISPLACED = """(() => { const {rects} = graft.panes[0].layout, {boxes} = graft.panes[0].graph;
    let wrong = 0;
    boxes.forEach((b, i) => boxes.forEach((c, k) => {
      const r = rects[i], t = rects[k];
      if (!r || !t) return;
      if (k < i && b.parent === c.parent && r.x < t.x + t.w - .5 && t.x < r.x + r.w - .5 && r.y < t.y + t.h - .5 &&
          t.y < r.y + r.h - .5) ++wrong;
      if (b.parent === k && (r.x < t.x || r.y < t.y || r.x + r.w > t.x + t.w || r.y + r.h > t.y + t.h)) ++wrong;
    }));
    return wrong; })()"""

# Of a training step: where both passes are; of their ways those that run down (or to the right), those that run up,
# and those that do not begin or end at their boxes.
PASSES = """((isRight) => { const {layout, graph} = graft.panes[0], {rects, ways} = layout, {boxes} = graph;
    const there = boxes.findIndex((b) => b.path === 'net' && !b.title.endsWith(', backward'));
    const back = boxes.findIndex((b) => b.title === 'net, backward');
    const isIn = (i, outer) => { while (i >= 0 && i !== outer) i = boxes[i].parent; return i >= 0; };
    const touches = ([x, y], r) => x > r.x - 1 && x < r.x + r.w + 1 && y > r.y - 1 && y < r.y + r.h + 1;
    const passes = [there, back].map((i) => ({...rects[i], on: 0, against: 0}));
    let loose = 0;
    for (const {stops, from, into} of ways) {
      const last = stops[stops.length - 1], along = isRight ? last[0] - stops[0][0] : last[1] - stops[0][1];
      if (from >= 0 && !touches(stops[0], rects[from])) ++loose;
      if (into >= 0 && !touches(last, rects[into])) ++loose;
      if (from < 0 || into < 0) continue;
      [there, back].forEach((outer, k) => {
        if (isIn(from, outer) && isIn(into, outer)) ++passes[k][along > 0 ? 'on' : 'against'];
      });
    }
    return [...passes, loose]; })(%s)"""

# How the titles of closed boxes are set where they stand: by form, how often; and those that are cut.
TITLES = """(() => { const p = graft.panes[0], s = p.scale, forms = {}, cut = [];
    for (const i of p.closed) {
      const r = p.layout.rects[i], at = {x: r.x * s, y: r.y * s, w: r.w * s, h: r.h * s};
      if (!p.hasLine(i)) continue;
      const t = p.titleIn(i, at);
      forms[t.form] = (forms[t.form] || 0) + 1;
      if (t.form === 'cut') cut.push(t.lines[0]);
      // They stand between their ends, and in letters that can be read.
      const width = (text) => { p.context.font = t.bold; return p.context.measureText(text).width; };
      for (const line of t.lines)
        if (width(line) * (t.isNarrow ? graft.data.narrowLetters : 1) > t.right - t.left + 0.5) cut.push(`${line} runs out`);
      if (t.size < 9) cut.push(`${t.lines[0]} is small`);
    }
    return [forms, cut]; })()"""

MIDDLE = """(() => { const pane = graft.panes[%d], key = "%s", {boxes} = pane.graph;
  const i = pane.boxOf.get(key) ?? boxes.findIndex((b) => b.title === key), r = pane.layout.rects[i];
  const o = pane.canvas.getBoundingClientRect();
  return [o.x + (r.x + r.w / 2 - pane.x) * pane.scale, o.y + (r.y + %s - pane.y) * pane.scale]; })()"""


class Page(TestCase):
    @classmethod
    def setUpClass(cls):
        torch.manual_seed(0)

    def setUp(self):
        super().setUp()
        self.model = self.folder / "nested.pt"
        torch.jit.trace(Nested().eval(), torch.randn(2, 4)).save(str(self.model))
        self.page = self.folder / "nested.html"

    def browser(self, *size):
        browser = Chromium.start(*size)
        if not browser:
            self.skipTest(NO_CHROMIUM)
        self.addCleanup(browser.__exit__, None, None, None)
        return browser

    def place(self, browser, key, pane=0, down="r.h / 2"):
        browser.frame()
        return browser.run(MIDDLE % (pane, key, down))

    def passes(self, browser, to_right):
        """What runs there and what runs back in an open training step: beside each other, with nothing loose or out of place."""
        there, back, loose = browser.run(PASSES % ("true" if to_right else "false"))
        at, size = "yh" if to_right else "xw"
        self.assertGreater(back[at], there[at] + there[size])
        self.assertGreater(there["on"], 10)
        self.assertGreater(back["against"], 10)
        self.assertEqual(loose, 0)
        self.assertEqual(browser.run(MISPLACED), 0)
        return there, back

    def names(self, model):
        return re.findall(r"^\s*%(\w+) = aten\.tanh", self.done("text", model).stdout, re.M)

    def test_the_page_is_one_file_that_names_no_other(self):
        self.done("draw", self.model, "-o", self.page)
        html = self.page.read_text()
        self.assertLess(len(html), 200_000)
        self.assertNotRegex(html, r"https?://|<link|src=|@import|fetch\(|XMLHttpRequest|WebSocket")
        data = json.loads(re.search(r'<script id="graft-data" type="application/json">(.*?)</script>', html, re.S)[1])
        boxes = data["graphs"][0]["boxes"]
        self.assertIn("blocks.1.inner", [box.get("path") for box in boxes])
        # Every item is in one layer, every edge runs through neighbouring ones.
        for level in data["graphs"][0]["levels"]:
            layer = {item: n for n, items in enumerate(level["layers"]) for item in items}
            self.assertEqual(sorted(layer), list(range(len(level["items"]))))
            for _, _, far, chain in level["edges"]:
                self.assertTrue(far or all(layer[b] == layer[a] + 1 for a, b in zip(chain, chain[1:])))

    def test_what_a_file_is_called_cannot_end_the_script(self):
        name = "</script><b>.json"
        numbers = self.file(name.replace("/", "-"), json.dumps({self.names(self.model)[0]: 1}))
        self.done("draw", self.model, "--numbers", numbers, "-o", self.page)
        data = re.search(r'type="application/json">(.*?)</script>', self.page.read_text(), re.S)[1]
        self.assertNotIn("<", data)
        self.assertEqual(json.loads(data)["numbers"][0]["title"], "<-script><b>")

    def test_numbers_that_fit_no_node_are_refused(self):
        for text, says in (("{", "is no JSON"), ('{"tanh": "much"}', "does not give numbers"), ("[1]", "does not give"),
                           ('{"nobody": 1}', "names no node")):
            numbers = self.file("numbers.json", text)
            self.fails(3, "draw", self.model, "--numbers", numbers, "-o", self.page, says=says)

    def test_numbers_colour_pictures_too(self):
        name = self.names(self.model)[0]
        numbers = self.file("cost.json", json.dumps({"cost": {"results": {name: {"value": 41.5}}}}))
        picture = self.folder / "nested.svg"
        self.done("draw", self.model, "--all", "--numbers", numbers, "-o", picture)
        self.assertIn(">41.5<", picture.read_text())
        self.assertIn(">cost<", picture.read_text())

    def test_modules_open_and_close_and_boxes_tell_of_themselves(self):
        self.done("draw", self.model, "--depth", "0", "-o", self.page)
        browser = self.browser()
        browser.open(self.page)
        closed = browser.run("graft.panes[0].closed.length")
        before = self.place(browser, "blocks.0")
        browser.click(*before, times=2)
        self.assertGreater(browser.run("graft.panes[0].closed.length"), closed)
        head = self.place(browser, "blocks.0", down="6")
        self.assertLess(abs(head[1] - before[1]), 60)  # it opened where it stood
        tanh = self.names(self.model)[0]
        browser.click(*self.place(browser, tanh))
        self.assertIn("aten.tanh", browser.run("document.getElementById('details').textContent"))
        browser.click(*self.place(browser, "blocks.0", down="6"), times=2)
        self.assertEqual(browser.run("graft.panes[0].closed.length"), closed)
        browser.key(" ")  # the module is selected: Space opens it again
        self.assertGreater(browser.run("graft.panes[0].closed.length"), closed)
        self.assertEqual(browser.complaints(), [])

    def test_wheel_drag_and_keys_move_the_view(self):
        self.done("draw", self.model, "--all", "-o", self.page)
        browser = self.browser()
        browser.open(self.page)
        state = "[graft.panes[0].x, graft.panes[0].y, graft.panes[0].scale]"
        first = browser.run(state)
        browser.mouse("mouseWheel", 400, 400, deltaX=0, deltaY=-200)
        browser.frame()
        zoomed = browser.run(state)
        self.assertGreater(zoomed[2], first[2] * 1.2)
        browser.mouse("mousePressed", 400, 400, button="left", clickCount=1)
        for x in (420, 460, 500):
            browser.mouse("mouseMoved", x, 400, button="left", buttons=1)
        browser.mouse("mouseReleased", 500, 400, button="left", clickCount=1)
        browser.frame()
        panned = browser.run(state)
        self.assertAlmostEqual((zoomed[0] - panned[0]) * panned[2], 100, delta=2)
        browser.key("0", "0")
        browser.frame()
        self.assertEqual(browser.run("graft.panes[0].at(0, 0)"), -1)
        self.assertTrue(browser.run("(p => p.layout.height * p.scale <= p.height)(graft.panes[0])"))
        self.assertEqual(browser.run(MISPLACED), 0)

    def test_a_long_model_fills_the_page_in_columns(self):
        long = self.folder / "long.pt"
        torch.jit.trace(Nested(14), torch.randn(2, 4)).save(str(long))
        self.done("draw", long, "--all", "-o", self.page)
        browser = self.browser()
        browser.open(self.page)
        browser.frame()
        pane = "graft.panes[0]"
        self.assertEqual(browser.run(MISPLACED), 0)
        wide, high = browser.run(f"[{pane}.layout.width / {pane}.width, {pane}.layout.height / {pane}.height]")
        self.assertGreater(min(wide, high) / max(wide, high), 0.4)
        self.assertEqual(browser.complaints(), [])

    def test_the_drawing_runs_to_the_right_where_that_is_asked(self):
        self.done("draw", self.model, "--all", "--flow", "right", "-o", self.page)
        browser = self.browser()
        browser.open(self.page)
        browser.frame()
        layout = "graft.panes[0].layout"
        self.assertTrue(browser.run(f"{layout}.width > 2 * {layout}.height"))
        # Each edge enters its box at the left, and shapes stand beside it.
        self.assertEqual(browser.run(f"""{layout}.ways.filter((w) => w.to >= 0 && {layout}.rects[w.to] &&
            Math.abs(w.stops[w.stops.length - 1][0] - {layout}.rects[w.to].x) > 1).length"""), 0)
        self.assertGreater(browser.run("graft.panes[0].labels.length"), 5)
        browser.run("(() => { const e = document.getElementById('flow'); e.value = 'down'; e.dispatchEvent(new Event('change')); })()")
        browser.frame()
        self.assertTrue(browser.run(f"{layout}.height > 2 * {layout}.width"))
        self.assertEqual(browser.complaints(), [])

    def test_the_backward_pass_of_a_training_step_stands_beside_the_forward_pass(self):
        import graft_fx

        class Step(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = Nested(4)

            def forward(self, x):
                return self.net(x)

        graft_fx.capture(Step(), (torch.randn(2, 4, requires_grad=True),), str(self.folder / "step.fx"), joint=True)
        self.done("draw", self.folder / "step.fx", "--method", "joint", "--depth", "0", "-o", self.page)
        browser = self.browser()
        browser.open(self.page)
        browser.frame()
        there, back, loose = browser.run(PASSES % "false")
        self.assertGreater(back["x"], there["x"] + there["w"])
        self.assertLess(back["y"], there["y"] + there["h"])
        self.assertEqual(loose, 0)
        # What the forward pass keeps runs over as one bundle, which says how many values it holds.
        kept = browser.run("graft.panes[0].labels.map((l) => l.text).filter((text) => / values$/.test(text))")
        self.assertTrue(kept)
        self.assertGreater(int(kept[0].split()[0]), 5)

        # Each opens where it stands, and runs its way: the one down, the other up.
        for key in "net", "net, backward":
            closed = browser.run("graft.panes[0].closed.length")
            browser.click(*self.place(browser, key), times=2)
            self.assertGreater(browser.run("graft.panes[0].closed.length"), closed)
        browser.run("graft.panes[0].setDepth(-1)")
        browser.frame()
        there, back = self.passes(browser, False)
        self.assertGreater(there["on"], 5 * there["against"])  # a way goes up to another column
        self.assertGreater(back["against"], 5 * back["on"])

        # Of the bundle, a selected operator lights the ways to those that use its own value.
        source, users = browser.run("""(() => { const {graph} = graft.panes[0], [bundle] = Object.values(graph.bundles);
            return [bundle[0][0], bundle.filter(([from]) => from === bundle[0][0]).map(([, to]) => to)]; })()""")
        browser.click(*self.place(browser, browser.run(f"graft.panes[0].graph.boxes[{source}].key")))
        self.assertEqual(browser.run("graft.panes[0].selected"), source)
        lit = browser.run("""(() => { const p = graft.panes[0];
            return p.litWays().filter(({way, isInput}) => !isInput && p.graph.bundles[way.value] && way.to >= 0)
              .map(({way}) => way.to); })()""")
        self.assertEqual(sorted(lit), sorted(set(users)))

        browser.run("(() => { const e = document.getElementById('flow'); e.value = 'right'; e.dispatchEvent(new Event('change')); })()")
        browser.frame()
        self.passes(browser, True)
        self.assertEqual(browser.complaints(), [])

    def test_shapes_stand_on_no_box_and_on_no_other_shape(self):
        model = self.file("beside.txt", """graph Beside {
  input %x : f32[2,3]
  %a = aten.tanh.default(%x) : f32[2,3]
  %b = aten.relu.default(%x) : f32[2,3]
  %c = aten.sigmoid.default(%x) : f32[2,3]
  %d = aten.exp.default(%x) : f32[2,3]
  %ab = aten.add.Tensor(%a, %b) : f32[2,3]
  %cd = aten.add.Tensor(%c, %d) : f32[2,3]
  %all = aten.add.Tensor(%ab, %cd) : f32[2,3]
  return %all
}
""")
        for flow in "down", "right":
            self.done("draw", model, "--flow", flow, "-o", self.page)
            browser = self.browser()
            browser.open(self.page)
            browser.frame()
            self.assertEqual(browser.run("""(() => { const p = graft.panes[0];
                const r = p.labels.map((l) => ({x: l.x, y: l.y - 8, w: 4 * l.text.length, h: 10, text: l.text}));
                const boxes = p.layout.rects.filter((b) => b && !b.open);
                const meet = (a, b) => a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;
                return r.filter((a, i) => boxes.some((b) => meet(a, b)) || r.some((b, k) => k < i && meet(a, b)))
                  .map((a) => a.text); })()"""), [])
            self.assertGreaterEqual(browser.run("graft.panes[0].labels.length"), 5)

    def test_a_drawing_too_wide_begins_at_its_first_input(self):
        self.done("draw", self.file("flat.txt", flat(3000)), "--all", "-o", self.page)
        browser = self.browser()
        browser.open(self.page)
        browser.frame()
        x, y = self.place(browser, "input x")
        self.assertTrue(0 <= x <= 1280 and 0 <= y <= 800, (x, y))

    def test_what_a_flat_graph_repeats_is_a_block(self):
        self.done("draw", self.file("flat.txt", flat(3000, repeats=True)), "-o", self.page)
        browser = self.browser()
        browser.open(self.page)
        blocks = browser.run("graft.panes[0].graph.boxes.filter((box) => box.key === 'block.0').map((box) => box.repeat)")
        self.assertEqual(blocks, [60])

    def test_search_opens_what_hides_a_hit(self):
        self.done("draw", self.model, "--depth", "0", "-o", self.page)
        browser = self.browser()
        browser.open(self.page)
        browser.click(*self.place(browser, "blocks.0"))
        browser.key("/", "/")
        browser.type("relu")
        self.assertEqual(browser.run("document.getElementById('found').textContent"), "3 found")
        browser.key("Enter", "\r")
        pane = "graft.panes[0]"
        self.assertEqual(browser.run(f"{pane}.graph.boxes[{pane}.selected].operator"), "aten.relu.default")
        self.assertTrue(browser.run(f"Boolean({pane}.layout.rects[{pane}.selected])"))

    def test_numbers_colour_nodes_and_modules(self):
        tanhs = self.names(self.model)
        numbers = self.file("cost.json", json.dumps({name: 10.0 + i for i, name in enumerate(tanhs)}))
        self.done("draw", self.model, "--depth", "0", "--numbers", numbers, "-o", self.page)
        browser = self.browser()
        browser.open(self.page)
        self.assertEqual(browser.run("graft.panes[0].values[graft.panes[0].boxOf.get('blocks.1')]"), 11)
        self.assertIn("cost", browser.run("document.getElementById('legend').textContent"))
        browser.run("document.querySelector('#table tbody tr').click()")  # the largest comes first
        self.assertEqual(browser.run("graft.panes[0].graph.boxes[graft.panes[0].selected].key"), tanhs[-1])
        # Another file, in Model Explorer's form, as if it were dropped.
        theirs = json.dumps({"mine": {"results": {tanhs[0]: {"value": 7}}}})
        browser.run(f"graft.addNumbers(graft.readNumbers({json.dumps(theirs)}, 'mine'))")
        self.assertEqual(browser.run("graft.panes[0].values[graft.panes[0].boxOf.get('blocks.0')]"), 7)

    def test_negative_numbers_are_blue(self):
        tanhs = self.names(self.model)
        numbers = self.file("change.json", json.dumps({tanhs[0]: -4, tanhs[1]: 4}))
        self.done("draw", self.model, "--depth", "0", "--numbers", numbers, "-o", self.page)
        browser = self.browser()
        browser.open(self.page)

        def fill(path):
            return browser.run(f"graft.panes[0].shades[graft.panes[0].boxOf.get('{path}')].fill")

        def row(name):
            return browser.run(f"graft.data.colours[graft.data.theme].{name}")

        self.assertEqual([fill("blocks.0"), fill("blocks.1")], [row("cold")[-1], row("heat")[-1]])
        self.assertIn("-4", browser.run("document.getElementById('legend').textContent"))
        self.assertEqual(browser.complaints(), [])

    def test_a_view_that_nobody_moved_is_fitted_where_the_window_gets_another_size(self):
        self.done("draw", self.model, "--all", "-o", self.page)
        browser = self.browser()
        browser.open(self.page)
        scale, height = "graft.panes[0].scale", "graft.panes[0].height"
        before, high = browser.run(scale), browser.run(height)

        def resize(to):
            browser.call("Emulation.setDeviceMetricsOverride", width=1200, height=to, deviceScaleFactor=1, mobile=False)
            for _ in range(20):
                browser.frame()

        resize(400)
        self.assertLess(browser.run(height), high)
        self.assertLess(browser.run(scale), before)
        browser.run("graft.panes[0].zoom(2)")
        moved = browser.run(scale)
        resize(600)
        self.assertEqual(browser.run(scale), moved)

    def test_facts_without_room_are_left_out_whole(self):
        self.done("draw", self.model, "-o", self.page)
        browser = self.browser()
        browser.open(self.page)

        def facts(text, room):
            return browser.run(f"graft.wholeFacts({json.dumps(text)}, {room}, (part) => part.length)")

        self.assertEqual(facts("27 operators · 4896 weights", 30), "27 operators · 4896 weights")
        self.assertEqual(facts("27 operators · 4896 weights", 25), "27 operators")
        self.assertEqual(facts("start_dim=1, end_dim=-1", 20), "start_dim=1, …")
        self.assertEqual(facts("1×128×768 f32", 10), "1×128×768")

    def test_two_models_beside_each_other(self):
        rules, fast = self.file("rules.py", RULE), self.folder / "fast.pt"
        self.done("apply", self.model, "--rules", rules, "--input", "f32[2,4]", "-o", fast)
        self.done("draw", self.model, "--diff", fast, "-o", self.page)
        browser = self.browser()
        browser.open(self.page)
        self.assertEqual(browser.run("graft.panes.length"), 2)
        self.assertIn("3 removed", browser.run("document.getElementById('changeCount').textContent"))
        pane = "graft.panes[0]"
        seen = {}
        for _ in range(12):
            browser.key("F8")
            seen.setdefault(*browser.run(f"(b => [b.operator, b.change])({pane}.graph.boxes[{pane}.selected])"))
        self.assertEqual(seen["aten.tanh.default"], 1)
        self.assertEqual(browser.complaints(), [])
        self.done("draw", self.model, "--diff", self.model, "-o", self.page)
        browser.open(self.page)
        self.assertEqual(browser.run("document.getElementById('changeCount').textContent"), "identical")

    def test_titles_are_set_narrower_in_two_lines_or_in_short_before_they_are_cut(self):
        model = self.file("titles.txt", """graph Titles {
  input %x : f32[4,4]
  %a = aten.layer_norm.default(%x, [4]) : f32[4,4]
  %b = aten.softmax.int(%a, -1) : f32[4,4]
  %c = aten.transpose.int(%b, 0, 1) : f32[4,4]
  %d = aten.squeeze.default(%c) : f32[4,4]
  %e = aten.expand.default(%d, [4,4]) : f32[4,4]
  %f = aten.scaled_dot_product_attention.default(%e, %e, %e) : f32[4,4]
  return %f
}
""")
        self.done("draw", model, "-o", self.page)
        browser = self.browser()
        browser.open(self.page)

        def title(name, share, height=13):
            """In a box that has room for that share of the title, on a drawing that is shown small."""
            return browser.run(f"""(p => {{ p.scale = 0.2; const i = p.graph.boxes.findIndex((b) => b.title === "{name}");
                const within = (w) => {{ const r = {{x: 0, y: 0, w, h: {height}}};
                  return p.titleIn(i, r, Math.max(0, p.spellingIn(i, r))); }};
                p.context.font = within(50).bold;
                const room = p.context.measureText("{name}").width * {share} + 0.5;
                let w = room;
                while (w - 2 * within(w).padding < room) w += 0.1;
                const t = within(w);
                return [t.form, t.isNarrow || false, t.lines.join('|')]; }})(graft.panes[0])""")

        self.assertEqual(title("layer_norm", 1), ["whole", False, "layer_norm"])
        self.assertEqual(title("layer_norm", 0.9), ["whole", True, "layer_norm"])
        self.assertEqual(title("layer_norm", 0.6, 18.5), ["two lines", False, "layer_|norm"])
        self.assertEqual(title("layer_norm", 0.6), ["short", False, "LN"])
        self.assertEqual(title("softmax", 0.7, 18.5)[::2], ["short", "smax"])
        self.assertEqual(title("transpose", 0.4)[::2], ["short", "T"])
        self.assertEqual(title("scaled_dot_product_attention", 0.3)[::2], ["short", "SDPA"])
        self.assertEqual(title("squeeze", 0.7, 18.5)[0], "cut")
        for height in 12, 13:
            for percent in range(10, 84):  # never as another operator: what is cut says so
                form, _, words = title("expand", percent / 100, height)
                self.assertTrue(form != "cut" or words.endswith("…"), words)
        self.assertEqual(browser.complaints(), [])

    def test_no_title_is_cut_where_a_layer_of_an_encoder_is_shown_small(self):
        class Layer(nn.Module):
            def __init__(self, width=16):
                super().__init__()
                self.qkv = nn.ModuleList(nn.Linear(width, width) for _ in range(3))
                self.dense, self.norm = nn.Linear(width, width), nn.LayerNorm(width)

            def forward(self, x):
                q, k, v = (layer(x).view(2, 8, 2, 8).transpose(1, 2) for layer in self.qkv)
                weights = torch.dropout(torch.softmax(torch.matmul(q, k.transpose(-1, -2)), -1), 0.1, False)
                y = torch.matmul(weights, v).permute(0, 2, 1, 3).contiguous().reshape(2, 8, 16)
                return self.norm(self.dense(y) + x)

        torch.jit.trace(nn.Sequential(Layer(), Layer()).eval(), torch.randn(2, 8, 16)).save(str(self.model))
        self.done("draw", self.model, "--all", "-o", self.page)
        browser = self.browser(900, 560)
        browser.open(self.page)
        browser.run("graft.panes[0].fit()")
        browser.frame()
        self.assertLess(browser.run("graft.panes[0].scale"), 0.5)
        forms, cut = browser.run(TITLES)
        self.assertEqual(cut, [])
        self.assertGreater(forms["short"], 2)
        self.assertGreater(forms["whole"], 5)
        self.assertEqual(set(forms), {"whole", "short"})
        self.assertEqual(browser.complaints(), [])

    def test_ten_thousand_boxes_move_smoothly(self):
        model = self.file("flat.txt", flat(10_100))
        self.done("draw", model, "--all", "-o", self.page)
        self.assertLess(self.page.stat().st_size, 5_000_000)
        browser = self.browser()
        browser.open(self.page)
        self.assertGreater(browser.run("graft.panes[0].closed.length"), 10_000)
        for scale in (None, 0.15, 0.8):
            browser.run(f"(p => {{ p.fit(); if ({json.dumps(scale)}) p.zoom({json.dumps(scale)} / p.scale); p.frames = []; }})"
                        "(graft.panes[0])")
            browser.frame()
            browser.run("""(async () => { const p = graft.panes[0];
              for (let i = 0; i < 60; ++i) { p.pan(i % 2 ? -9 : 4, -12); await new Promise(requestAnimationFrame); } })()""")
            frames = browser.run("graft.panes[0].frames")
            print(f"panning at {scale or 'fit'}: {statistics.median(frames):.2f} ms of script a frame, {max(frames):.1f} at "
                  f"worst, layout {browser.run('graft.panes[0].layoutMs'):.0f} ms")
            self.assertLess(statistics.median(frames), 8)


if __name__ == "__main__":
    main()
