"""Where Netron and Model Explorer put the boxes and edges of a model, and a picture of each, from their own pages.

    python tests/bench/other_viewers.py FOLDER MODEL.pt2...

Writes FOLDER/MODEL.netron.json, FOLDER/MODEL.explorer.json and, without its layer of inputs, FOLDER/MODEL.explorer_body.json, which
`layout_look` measures as it measures Graft's drawings, and pictures beside them. Run it by a Python with `netron`, `ai-edge-model-explorer` and `torch`; it needs a Chromium (tests/support/chromium.py).
Model Explorer shows all layers open. Positions come from the SVG of Netron's page, and from what Model Explorer's layout worker answers.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import time
import urllib.parse
import urllib.request

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests/support"))
from chromium import Chromium

SECONDS = 240
ALONE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost"  # nothing is reported to anybody

NETRON = """(() => {
  const nodes = [...document.querySelectorAll('#canvas g.node')], edges = [...document.querySelectorAll('#canvas path.edge-path')];
  const ask = [...document.querySelectorAll('button')].find((b) => b.textContent === 'Accept' && b.offsetParent);
  if (ask) ask.click();
  if (!nodes.length || edges.some((e) => !e.getAttribute('d'))) return null;
  const place = (e) => { const m = e.getCTM().inverse(), b = e.getBBox(), t = e.transform.baseVal.consolidate();
    return {x: b.x + (t ? t.matrix.e : 0), y: b.y + (t ? t.matrix.f : 0), w: b.width, h: b.height}; };
  return {font: parseFloat(getComputedStyle(document.querySelector('#canvas .node text')).fontSize),
    boxes: nodes.map((e) => ({...place(e), parent: -1, open: false, title: (e.querySelector('text') || {}).textContent || ''})),
    edges: edges.map((e) => { const n = Math.max(8, Math.ceil(e.getTotalLength() / 12)), points = [];
      for (let i = 0; i <= n; ++i) { const p = e.getPointAtLength(e.getTotalLength() * i / n); points.push([p.x, p.y]); }
      return {points}; })};
})()"""

# Model Explorer lays out in a worker; what that answers has the places of all boxes.
HOOK = """(() => {
  const Real = window.Worker;
  window.layouts = [];
  window.Worker = class extends Real {
    constructor(...a) { super(...a); this.addEventListener('message', (e) => {
      const d = e.data || {};
      if (d.modelGraph) window.layouts.push(d.modelGraph);
      for (const g of d.modelGraphs || []) window.layouts.push(g);
    }); }
  };
})()"""

EXPLORER = """(() => {
  const graph = window.layouts[window.layouts.length - 1];
  if (!graph) return null;
  const shown = new Map(), boxes = [], edges = [];
  const walk = (id, ox, oy, parent) => {
    const node = graph.nodesById[id];
    if (!node || node.x === undefined) return;
    const x = ox + (node.x || 0) + (node.localOffsetX || 0), y = oy + (node.y || 0) + (node.localOffsetY || 0);
    const isOpen = Boolean(node.expanded), i = boxes.length;
    shown.set(id, i);
    boxes.push({x, y, w: node.width, h: node.height, parent, open: isOpen, title: node.label || ''});
    if (!isOpen) return;
    for (const child of node.nsChildrenIds || []) walk(child, x, y, i);
    for (const e of (graph.edgesByGroupNodeIds || {})[id] || [])
      edges.push({from: e.fromNodeId, to: e.toNodeId, points: e.points.map((p) => [p.x + x, p.y + y])});
  };
  for (const node of graph.rootNodes || []) walk(node.id, 0, 0, -1);
  for (const e of (graph.edgesByGroupNodeIds || {})[''] || (graph.edgesByGroupNodeIds || {})['___root___'] || [])
    edges.push({from: e.fromNodeId, to: e.toNodeId, points: e.points.map((p) => [p.x, p.y])});
  if (!boxes.length) return null;
  return {font: 11, boxes, edges: edges.map((e) => ({from: shown.get(e.from), to: shown.get(e.to), points: e.points}))};
})()"""


def wait_for(browser, script, least=1, seconds=SECONDS):
    """Until it gives the same number of boxes twice, so many at least."""
    end, before = time.monotonic() + seconds, -1
    while time.monotonic() < end:
        found = browser.run(script)
        count = len(found["boxes"]) if found else -1
        if count >= least and count == before:
            return found
        before = count
        time.sleep(1.5)
    return None


def joined(found):
    """Ends of edges that the page does not name: the boxes nearest to their ends."""
    boxes = found["boxes"]

    def nearest(x, y):
        def away(b):
            return max(b["x"] - x, x - b["x"] - b["w"], 0) + max(b["y"] - y, y - b["y"] - b["h"], 0)
        return min(range(len(boxes)), key=lambda i: away(boxes[i]))

    for edge in found["edges"]:
        if edge.get("from") is None:
            edge["from"] = nearest(*edge["points"][0])
        if edge.get("to") is None:
            edge["to"] = nearest(*edge["points"][-1])
    left, top = min(b["x"] for b in boxes), min(b["y"] for b in boxes)
    for b in boxes:
        b["x"] -= left
        b["y"] -= top
    for edge in found["edges"]:
        edge["points"] = [[x - left, y - top] for x, y in edge["points"]]
    return found


def without_weights(found):
    """Model Explorer's drawing without its layer of inputs, where weights are boxes: others draw no boxes for weights."""
    gone = set()
    for i, box in enumerate(found["boxes"]):
        if box["parent"] in gone or (box["parent"] == -1 and box["title"] == "inputs"):
            gone.add(i)
    kept = [i for i in range(len(found["boxes"])) if i not in gone]
    place = {old: new for new, old in enumerate(kept)}
    boxes = [dict(found["boxes"][i], parent=place.get(found["boxes"][i]["parent"], -1)) for i in kept]
    edges = [dict(e, **{"from": place[e["from"]], "to": place[e["to"]]}) for e in found["edges"] if e["from"] in place and e["to"] in place]
    return joined({**found, "boxes": boxes, "edges": edges})


class Server:
    def __init__(self, command, port):
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.url = f"http://localhost:{port}/"
        for _ in range(600):
            try:
                urllib.request.urlopen(self.url, timeout=2).read(1)
                return
            except OSError:
                time.sleep(0.3)
        self.process.kill()
        raise SystemExit(f"{command[0]} does not serve on {port}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def netron(model, folder, port):
    command = [sys.executable, "-c", f"import netron, time; netron.start({str(model)!r}, address=('localhost', {port}), browse=False); time.sleep(1e6)"]
    with Server(command, port) as server, Chromium.start(1100, 760, flags=(ALONE,)) as browser:
        start = time.monotonic()
        browser.go(server.url)
        found = wait_for(browser, NETRON)
        seconds = time.monotonic() - start
        browser.picture(folder / f"{model.stem}.netron.png")
        return found, seconds


def explorer(model, folder, port):
    command = [sys.executable, "-m", "model_explorer", "--no_open_in_browser", "--host", "localhost", "--port", str(port)]
    flags = (ALONE, "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist")
    with Server(command, port) as server, Chromium.start(1100, 760, flags=flags) as browser:
        browser.call("Page.addScriptToEvaluateOnNewDocument", source=HOOK)
        start = time.monotonic()
        browser.go(server.url + "?data=" + urllib.parse.quote(json.dumps({"models": [{"url": str(model.resolve())}]})))
        found = wait_for(browser, EXPLORER)
        if found:
            browser.picture(folder / f"{model.stem}.explorer_first.png")
            browser.run("""[...document.querySelectorAll('button, .expand-all, [aria-label]')].find((e) =>
              /unfold_more_double|expand all/i.test(e.textContent + (e.getAttribute('aria-label') || ''))).click()""")
            found = wait_for(browser, EXPLORER, len(found["boxes"]) + 1)
        seconds = time.monotonic() - start
        browser.picture(folder / f"{model.stem}.explorer.png")
        return found, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--only", choices=["netron", "explorer"])
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    port = 18080
    for model in arguments.models:
        for name, show in (("netron", netron), ("explorer", explorer)):
            if arguments.only not in (None, name):
                continue
            port += 1
            found, seconds = show(model, arguments.folder, port)
            if not found:
                print(f"{model.name}: {name} showed nothing within {SECONDS} s", flush=True)
                continue
            (arguments.folder / f"{model.stem}.{name}.json").write_text(json.dumps(joined(found)))
            if name == "explorer":
                (arguments.folder / f"{model.stem}.explorer_body.json").write_text(json.dumps(without_weights(found)))
            print(f"{model.name}: {name}: {len(found['boxes'])} boxes, {len(found['edges'])} edges, shown after {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()
