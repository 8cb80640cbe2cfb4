// The viewer of the page: draws on canvases, opens modules, searches, colours by numbers, steps through changes. It
// reads one JSON, which the page carries, and asks no server. `window.graft` is for tests and for the browser's console.
'use strict';

(() => {
const data = JSON.parse(document.getElementById('graft-data').textContent);
const byId = (id) => document.getElementById(id);
const FONT = 'Inter, "Helvetica Neue", Arial, "Liberation Sans", sans-serif';
const SMALLEST = 9;     // pixels: nobody reads smaller letters
const FEWEST = 3;       // letters of a beginning
const LOWEST = 5.4;     // of a box with words, in pixels: rows are then 9 pixels apart
const LOWEST_APART = 3; // of one from which all others are that far away
const LINE = 12;        // the height that words of one line take: in a box as low as that they may stand out of its ends
const OVERHANG = 3;
const BLOCKS = 0.23;    // at smaller scales, boxes are blocks of colour
const READABLE = 0.9;   // of the boxes have words: then a drawing is shown as a whole at first
const LABEL = `400 10px ${FONT}`;
const ADDED = 2, REMOVED = 1;
const INPUT = 8, MODULE = 10;  // kinds
let colours = data.colours[data.theme];
let numbers = null;     // what nodes are coloured by
let panes = [];
let toRight = Boolean(data.toRight);

// --- words -----------------------------------------------------------------------------------------------------------

const measuring = document.createElement('canvas').getContext('2d');
const advances = new Map();  // by font: by letter

function widthOf(font, text) {
  let known = advances.get(font);
  if (!known) advances.set(font, known = new Map());
  let sum = 0;
  for (const letter of text) {
    let w = known.get(letter);
    if (w === undefined) {
      measuring.font = font;
      known.set(letter, w = measuring.measureText(letter).width);
    }
    sum += w;
  }
  return sum;
}

/** All of the text, else its beginning before "…"; nothing where that would be fewer than three letters. */
function beginningOf(text, room, width) {
  const letters = [...text], ellipsis = width('…');
  let used = 0, fits = 0, before = 0;
  for (const letter of letters) {
    used += width(letter);
    if (used > room) break;
    ++fits;
    if (used + ellipsis <= room) before = fits;
  }
  if (fits === letters.length) return text;
  return before >= FEWEST ? `${letters.slice(0, before).join('')}…` : '';
}

function fitted(font, text, room) {
  return beginningOf(text, room, (part) => widthOf(font, part));
}

/** Of facts that stand beside each other, those that have room whole: "27 operators", "start_dim=1, …", a shape alone. */
function wholeFacts(text, room, width) {
  let out = text;
  while (width(out) > room && out.includes(' · ')) out = out.slice(0, out.lastIndexOf(' · '));
  if (width(out) <= room) return out;
  for (let part = out; part.includes(', ');) {
    part = part.slice(0, part.lastIndexOf(', '));
    if (width(`${part}, …`) <= room) return `${part}, …`;
  }
  const shape = out.slice(0, Math.max(0, out.lastIndexOf(' ')));
  return shape && out.includes('×') && width(shape) <= room ? shape : out;
}

// Titles, as views/layout/small_titles.h says. An operator has one spelling in a drawing: 0 is its name, the others are
// its short names.

function formsOf(title) { return data.titles[title] || {}; }

function spelled(title, spelling) { return spelling ? formsOf(title).brief[spelling - 1] : title; }

/** The first spelling that has room, in letters that may be narrow; -1 for none. */
function firstSpelling(font, title, room, lines) {
  const known = formsOf(title), fits = (text) => widthOf(font, text) * data.narrowLetters <= room;
  if (!title) return -1;
  if (fits(title) || (lines > 1 && known.lines && known.lines.every(fits))) return 0;
  const brief = (known.brief || []).findIndex(fits);
  return brief < 0 ? -1 : brief + 1;
}

/** That spelling in usual letters, in narrow ones, in two lines, or its beginning: the first of these that has room. */
function fitTitle(font, title, spelling, room, lines) {
  const known = formsOf(title), text = spelled(title, spelling);
  const width = (part, isNarrow) => widthOf(font, part) * (isNarrow ? data.narrowLetters : 1);
  const first = (form, list) => {
    for (const isNarrow of [false, true])
      if (list.every((part) => width(part, isNarrow) <= room)) return {form, isNarrow, lines: list};
    return null;
  };
  if (!title) return {form: 'none', lines: []};
  let set = first(spelling ? 'short' : 'whole', [text]);
  if (!set && !spelling && lines > 1 && known.lines) set = first('two lines', known.lines);
  if (set) return set;
  const cut = beginningOf(text, room, (part) => width(part, true));
  return cut ? {form: 'cut', isNarrow: true, lines: [cut]} : {form: 'none', lines: []};
}

/** How titles are spelled in one drawing: the first way that all boxes have room for, of those that have room for any. */
class Spellings {
  constructor() {
    this.of = new Map();
    this.usual = new Set();  // stems that go by the field's short name, with their variants and their backward pass
  }
  add(title, spelling) {
    const {brief, usual} = formsOf(title);
    this.of.set(title, Math.max(this.of.get(title) || 0, spelling));
    if (usual && spelling === brief.length) this.usual.add(usual);
  }
  get(title) {
    if (!this.of.has(title)) return 0;
    const {brief, usual} = formsOf(title);
    return usual && this.usual.has(usual) ? brief.length : this.of.get(title);
  }
  /** What stands for titles that are not spelled out, with those. */
  shortNames() {
    return [...this.of.keys()].filter((title) => this.get(title)).sort().map((title) => [spelled(title, this.get(title)), title]);
  }
}

function isWithin(graph, box, outer) {
  while (box >= 0 && box !== outer) box = graph.boxes[box].parent;
  return box === outer;
}

/** What is said of a way where it leaves that box: the shape of its value, or of a bundle, how many run in it. */
function labelOf(graph, value, from) {
  const bundle = graph.bundles[value];
  if (!bundle) return graph.labels[value];
  const values = new Set(bundle.filter(([source]) => isWithin(graph, source, from)).map(([, , own]) => own));
  return values.size === 1 ? graph.labels[[...values][0]] : `${values.size} values`;
}

/** Of the way to the next layer, in a drawing that runs to the right. */
function labelLength(graph, value, from) {
  const text = toRight ? labelOf(graph, value, from) : '';
  return text ? Math.min(150, widthOf(LABEL, text) + 22) : 0;
}

function figure(value) {
  if (value === 0) return '0';
  const size = Math.abs(value);
  return size >= 1e5 || size < 1e-3 ? value.toExponential(2) : String(Number(value.toPrecision(4)));
}

// --- a drawing -------------------------------------------------------------------------------------------------------

class Pane {
  constructor(graph, name) {
    this.graph = graph;
    this.boxOf = new Map(Object.entries(graph.others));
    this.standsFor = graph.boxes.map(() => 0);  // nodes beside its own: of equal blocks, of what is folded
    for (const i of this.boxOf.values()) ++this.standsFor[i];
    // A module of both passes of a training step is the one of the forward pass.
    graph.boxes.forEach((box, i) => { if (!this.boxOf.has(box.key)) this.boxOf.set(box.key, i); });
    this.children = graph.boxes.map(() => []);
    graph.boxes.forEach((box, i) => { if (box.parent >= 0) this.children[box.parent].push(i); });
    this.open = new Set();
    graph.boxes.forEach((box, i) => { if (box.open) this.open.add(i); });
    this.selected = -1;
    this.lit = new Set();
    this.element = document.createElement('div');
    this.element.className = 'pane';
    this.canvas = document.createElement('canvas');
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute('role', 'application');
    this.canvas.setAttribute('aria-label', `Drawing of ${name || graph.name}: arrows move, plus and minus zoom, ` +
      'n and Shift+n go through the boxes, Space opens a module');
    this.element.append(this.canvas);
    if (name) {
      const label = document.createElement('div');
      label.className = 'name';
      label.textContent = name;
      this.element.append(label);
    }
    this.context = this.canvas.getContext('2d');
    this.picture = document.createElement('canvas');  // what was drawn last, larger than the view
    this.scale = 1;
    this.x = this.y = 0;
    this.frames = [];
    this.listen();
    this.layOut();
  }

  layOut() {
    const start = performance.now();
    this.fitted = null;
    this.layout = layOut(this.graph, (box) => this.open.has(box),
                         {toRight, pane: {width: this.width || 1100, height: this.height || 760},
                          labelLength: (value, box) => labelLength(this.graph, value, box)});
    this.layoutMs = performance.now() - start;
    this.placeLabels();
    this.restyle();
  }

  /**
   * Shape and dtype of each value once, beside the edge where it leaves its box, on the side that it does not bend to;
   * equal ones of a box once. One that would stand on a box or on another label changes sides, or is left out.
   */
  placeLabels() {
    const seen = new Set(), of = new Map(), taken = new Taken();
    this.standing = new Taken();  // closed boxes
    this.layout.rects.forEach((r, i) => {
      if (!r || r.open) return;
      r.box = i;
      taken.add(r);
      this.standing.add(r);
    });
    this.labels = [];
    const starts = new Map();  // by box: where its ways leave
    for (const {stops, from, isStart} of this.layout.ways)
      if (isStart) starts.has(from) ? starts.get(from).push(stops[0][0]) : starts.set(from, [stops[0][0]]);
    for (const {value, stops, from, isStart} of this.layout.ways) {
      if (!isStart || seen.has(`${value} ${from}`)) continue;
      seen.add(`${value} ${from}`);
      const text = labelOf(this.graph, value, from);
      if (!text) continue;
      const own = of.get(from) || [], [x, y] = stops[0];
      if (own.some((other) => other.text === text)) continue;
      const shift = this.graph.boxes[from].repeat ? 5 : 0;
      const isUp = this.layout.turned[from];
      const w = widthOf(LABEL, text), down = isUp ? y - 5 : y + 12 + shift, left = x - 5 - w;
      const right = Math.max(x + 5, ...own.map((other) => other.end + 10));
      const bend = (stops.find((stop) => stop[0] !== x) || [x])[0] - x;
      // No other way of the box comes between a way and its label, as far as there is a side without one.
      const isFree = (begin, end) => !starts.get(from).some((other) => other > begin && other < end);
      const isFreeLeft = isFree(left, x - 1), isFreeRight = isFree(x + 1, x + 5 + w);
      const isLeft = bend > 3 ? isFreeLeft || !isFreeRight : !isFreeRight && isFreeLeft && bend > -3;
      const places = toRight ? [[isUp ? x - 7 - w : x + 7 + shift, y - 4 + 12 * own.length]]
        : isLeft ? [[left, down], [right, down]] : [[right, down], [left, down]];
      const at = places.find(([px, py]) => taken.isFree({x: px, y: py - 8, w, h: 10}));
      of.set(from, [...own, {text, end: (at || [right])[0] + w}]);
      if (!at) continue;
      taken.add({x: at[0], y: at[1] - 8, w, h: 10});
      this.labels.push({text, x: at[0], y: at[1], w, depth: this.layout.depth[from] - 1});
    }
  }

  // What is painted, in runs of neighbours that have one path each: a frame is a few hundred calls.
  restyle() {
    const {rects, ways, depth} = this.layout, {boxes} = this.graph;
    this.values = numbers ? this.rollUp(numbers) : null;
    this.least = numbers && numbers.fromZero ? 0 : Infinity;
    this.most = -this.least;
    if (this.values)
      boxes.forEach((box, i) => {
        if (!rects[i] || rects[i].open || this.values[i] === undefined) return;
        this.least = Math.min(this.least, this.values[i]);
        this.most = Math.max(this.most, this.values[i]);
      });
    this.range = rangeOf([this, ...panes.filter((pane) => pane !== this && pane.values)]);
    for (const pane of panes)  // two drawings have one scale
      if (pane !== this && pane.values && (pane.range.least !== this.range.least || pane.range.most !== this.range.most)) pane.restyle();
    this.shades = boxes.map((box, i) => this.shadeOf(i));
    this.containers = [];
    this.closed = [];
    boxes.forEach((box, i) => {
      if (!rects[i]) return;
      (rects[i].open ? this.containers : this.closed).push(i);
    });
    this.containers.sort((a, b) => depth[a] - depth[b]);
    this.boxRuns = [];
    const PER_RUN = 160;
    for (let at = 0; at < this.closed.length; at += PER_RUN) {
      const run = {left: Infinity, top: Infinity, right: -Infinity, bottom: -Infinity, paths: new Map()};
      for (const i of this.closed.slice(at, at + PER_RUN)) {
        const r = rects[i], shade = this.shades[i], key = `${shade.fill} ${shade.border} ${shade.block}`;
        if (!run.paths.has(key)) run.paths.set(key, {shade, stack: new Path2D(), round: new Path2D(), plain: new Path2D()});
        const {stack, round, plain} = run.paths.get(key), isEnd = boxes[i].kind === 8 || boxes[i].kind === 9;
        const radius = isEnd ? r.h / 2 : 6;
        if (boxes[i].repeat) stack.roundRect(r.x + 4, r.y + 4, r.w, r.h, radius);
        round.roundRect(r.x, r.y, r.w, r.h, radius);
        plain.rect(r.x, r.y, r.w, r.h);
        run.left = Math.min(run.left, r.x - 8);
        run.top = Math.min(run.top, r.y - 8);
        run.right = Math.max(run.right, r.x + r.w + 12);
        run.bottom = Math.max(run.bottom, r.y + r.h + 12);
      }
      this.boxRuns.push(run);
    }
    this.edgeRuns = [];
    for (let at = 0; at < ways.length; at += PER_RUN) {
      const run = {left: Infinity, top: Infinity, right: -Infinity, bottom: -Infinity, lines: new Path2D(),
                   arrows: new Path2D()};
      for (const way of ways.slice(at, at + PER_RUN)) {
        trace(run.lines, way.stops);
        if (way.to >= 0) arrow(run.arrows, way.stops);
        for (const [x, y] of way.stops) {
          run.left = Math.min(run.left, x - (toRight ? 48 : 4));
          run.right = Math.max(run.right, x + (toRight ? 48 : 4));
          run.top = Math.min(run.top, y - 48);
          run.bottom = Math.max(run.bottom, y + 48);
        }
      }
      this.edgeRuns.push(run);
    }
    this.redraw();
  }

  /** A module has the sum of its nodes' numbers, or the largest. */
  rollUp(what) {
    const out = new Array(this.graph.boxes.length).fill(undefined);
    for (const [name, value] of Object.entries(what.values)) {
      let box = this.boxOf.get(name);
      if (box === undefined) continue;
      for (; box >= 0; box = this.graph.boxes[box].parent)
        out[box] = out[box] === undefined ? value : what.adds ? out[box] + value : Math.max(out[box], value);
    }
    return out;
  }

  shadeOf(i) {
    const box = this.graph.boxes[i], change = this.changeIn(i);
    let [fill, border, block] = colours.kinds[box.kind];
    let text = colours.text, dim = colours.dim;
    if (this.values) {
      const value = this.values[i];
      fill = value === undefined ? colours.surface : heatColour(value, this.range);
      border = colours.edge;
      block = fill;
      text = dim = inkOn(fill);
    }
    if (change) {
      [fill, border] = this.values ? [fill, colours.changes[change][1]] : colours.changes[change];
      block = this.values ? fill : border;
    }
    return {fill, border, block, text, dim, change};
  }

  /** Of a closed module, that something in it changed. */
  changeIn(i) {
    const box = this.graph.boxes[i];
    if (box.change) return box.change;
    if (!box.container) return 0;
    if (!this.changedInside) {
      this.changedInside = new Set();
      this.graph.boxes.forEach((b) => {
        if (b.change) for (let up = b.parent; up >= 0; up = this.graph.boxes[up].parent) this.changedInside.add(up);
      });
    }
    return this.changedInside.has(i) ? 3 : 0;
  }

  // --- view ----------------------------------------------------------------------------------------------------------

  get width() { return this.element.clientWidth; }
  get height() { return this.element.clientHeight; }

  fit() {
    const {width, height} = this.layout;
    this.scale = Math.min((this.width - 24) / width, (this.height - 24) / height, 1.25);
    this.x = width / 2 - this.width / this.scale / 2;
    this.y = height / 2 - this.height / this.scale / 2;
    this.keepFitted('fit');
    this.redraw();
  }

  /** As long as nobody moves it, the view is fitted again where the window gets another size. */
  keepFitted(how) { this.fitted = {how, x: this.x, y: this.y, scale: this.scale}; }

  resized() {
    const was = this.fitted;
    if (was && was.x === this.x && was.y === this.y && was.scale === this.scale) this[was.how]();
    else this.redraw();
  }

  /** Whether nearly all boxes have words at this scale. */
  canBeRead() {
    if (this.closed.length > 3000) return false;
    const s = this.scale;
    const has = this.closed.filter((i) => {
      const r = this.layout.rects[i];
      return this.hasLine(i) && this.titleIn(i, {x: r.x * s, y: r.y * s, w: r.w * s, h: r.h * s}).form !== 'none';
    });
    return has.length >= READABLE * this.closed.length;
  }

  /** At first, what cannot be read as a whole is shown from its beginning. */
  first() {
    this.fit();
    this.keepFitted('first');
    if (this.scale >= 0.45 || this.canBeRead()) return;
    const {width, height} = this.layout;
    const across = toRight ? (this.height - 24) / height : (this.width - 24) / width;
    this.scale = Math.min(0.7, Math.max(0.45, across));
    // Where not all of it is in view across its way, its first input is.
    const start = this.layout.rects[this.graph.boxes.findIndex((box) => box.parent < 0)];
    const begin = (middle, all, seen) =>
      seen > all ? (all - seen) / 2 : Math.min(Math.max(middle - seen / 2, -10 / this.scale), all + 10 / this.scale - seen);
    this.x = toRight ? -10 / this.scale : begin(start.x + start.w / 2, width, this.width / this.scale);
    this.y = toRight ? begin(start.y + start.h / 2, height, this.height / this.scale) : -10 / this.scale;
    // A pass that begins further along, as beside a longer one of a training step, is shown from its beginning.
    const inputs = this.graph.boxes.flatMap((box, i) => (box.parent < 0 && box.kind === INPUT ? [this.layout.rects[i]] : []));
    const top = Math.min(start.y, ...inputs.map((r) => r.y)), left = Math.min(start.x, ...inputs.map((r) => r.x));
    if (!toRight && top > this.height / this.scale / 3) this.y = top - 20 / this.scale;
    if (toRight && left > this.width / this.scale / 3) this.x = left - 20 / this.scale;
    this.keepFitted('first');
    this.redraw();
  }

  zoom(factor, px = this.width / 2, py = this.height / 2) {
    const sx = this.x + px / this.scale, sy = this.y + py / this.scale;
    this.scale = Math.min(6, Math.max(0.01, this.scale * factor));
    this.x = sx - px / this.scale;
    this.y = sy - py / this.scale;
    this.redraw();
  }

  pan(dx, dy) {
    this.x -= dx / this.scale;
    this.y -= dy / this.scale;
    this.schedule();
  }

  centre(i, least = 0.7) {
    const r = this.layout.rects[this.shownFor(i)];
    this.scale = Math.max(this.scale, least);
    this.x = r.x + r.w / 2 - this.width / this.scale / 2;
    this.y = r.y + Math.min(r.h / 2, this.height / this.scale / 2 - 20) - this.height / this.scale / 2;
    this.redraw();
  }

  /** The box itself or the closed module that holds it. */
  shownFor(i) {
    while (!this.layout.rects[i]) i = this.graph.boxes[i].parent;
    return i;
  }

  at(px, py) {
    const x = this.x + px / this.scale, y = this.y + py / this.scale;
    let found = -1;
    this.layout.rects.forEach((r, i) => {  // containers come before what lies in them
      if (r && x >= r.x && x <= r.x + r.w && y >= r.y && y <= r.y + r.h) found = i;
    });
    return found;
  }

  // --- doing ---------------------------------------------------------------------------------------------------------

  toggle(i) {
    if (!this.graph.boxes[i].container) return;
    const before = this.layout.rects[i], px = (before.x - this.x) * this.scale, py = (before.y - this.y) * this.scale;
    if (!this.open.delete(i)) this.open.add(i);
    this.layOut();
    const after = this.layout.rects[i];  // it stays where it is
    this.x = after.x - px / this.scale;
    this.y = after.y - py / this.scale;
    this.redraw();
  }

  openTo(i) {
    let changed = false;
    for (let up = this.graph.boxes[i].parent; up >= 0; up = this.graph.boxes[up].parent)
      if (!this.open.has(up)) changed = Boolean(this.open.add(up));
    if (changed) this.layOut();
  }

  setDepth(depth) {
    const level = this.graph.boxes.map(() => 0);
    this.open.clear();
    this.graph.boxes.forEach((box, i) => {
      level[i] = box.parent < 0 ? 0 : level[box.parent] + 1;
      if (box.container && (depth < 0 || level[i] < depth)) this.open.add(i);
    });
    this.layOut();
    this.fit();
  }

  select(i) {
    this.selected = i;
    this.redraw();
    if (i >= 0) tell(this, i);
  }

  reveal(i) {
    this.openTo(i);
    this.select(i);
    this.centre(i);
  }

  step(direction) {
    const shown = this.closed;
    if (!shown.length) return;
    const at = shown.indexOf(this.selected);
    const next = shown[(at + direction + shown.length) % shown.length];
    this.select(next);
    const r = this.layout.rects[next], left = (r.x - this.x) * this.scale, top = (r.y - this.y) * this.scale;
    if (left < 0 || top < 0 || left > this.width - 40 || top > this.height - 20) this.centre(next, 0);
  }

  // --- painting ------------------------------------------------------------------------------------------------------

  redraw() {
    this.isStale = true;
    this.schedule();
  }

  schedule() {
    if (this.scheduled) return;
    this.scheduled = true;
    requestAnimationFrame(() => {
      this.scheduled = false;
      const start = performance.now();
      this.frame();
      this.frames.push(performance.now() - start);
      if (this.frames.length > 400) this.frames.shift();
    });
  }

  /** Moves the picture where it still covers the view; draws it anew where not. */
  frame() {
    const ratio = window.devicePixelRatio || 1, w = this.width, h = this.height;
    if (w < 10 || h < 10) return;
    const pw = Math.round(w * ratio), ph = Math.round(h * ratio);
    if (this.canvas.width !== pw || this.canvas.height !== ph) {
      this.canvas.width = pw;
      this.canvas.height = ph;
      this.isStale = true;
    }
    const border = Math.round(Math.max(w, h) * 0.35);
    let dx = 0, dy = 0;
    if (!this.isStale) {
      dx = (this.pictureX - this.x) * this.scale;
      dy = (this.pictureY - this.y) * this.scale;
      if (Math.abs(dx) > border || Math.abs(dy) > border) this.isStale = true;
    }
    if (this.isStale) {
      this.drawPicture(ratio, border);
      dx = dy = 0;
    }
    this.context.setTransform(1, 0, 0, 1, 0, 0);
    this.context.drawImage(this.picture, Math.round((dx - border) * ratio), Math.round((dy - border) * ratio));
  }

  drawPicture(ratio, border) {
    const w = this.width + 2 * border, h = this.height + 2 * border;
    this.picture.width = Math.round(w * ratio);
    this.picture.height = Math.round(h * ratio);
    this.pictureX = this.x;
    this.pictureY = this.y;
    this.isStale = false;
    const p = this.picture.getContext('2d', {alpha: false}), s = this.scale;
    const view = {left: this.x - border / s, top: this.y - border / s};
    view.right = view.left + w / s;
    view.bottom = view.top + h / s;
    const isSeen = (r) => r.left <= view.right && r.right >= view.left && r.top <= view.bottom && r.bottom >= view.top;
    p.fillStyle = colours.background;
    p.fillRect(0, 0, this.picture.width, this.picture.height);
    p.setTransform(s * ratio, 0, 0, s * ratio, -view.left * s * ratio, -view.top * s * ratio);
    const {rects, depth} = this.layout;
    p.lineWidth = Math.max(1, 0.8 / s);
    const shown = this.containers.filter((i) => {
      const r = rects[i];
      return r.x <= view.right && r.x + r.w >= view.left && r.y <= view.bottom && r.y + r.h >= view.top;
    });
    for (const i of shown) {
      const r = rects[i];
      p.fillStyle = colours.containers[Math.min(7, depth[i])];
      p.strokeStyle = i === this.selected ? colours.accent : colours.moduleEdge;
      p.beginPath();
      if (this.graph.boxes[i].repeat) p.roundRect(r.x + 5, r.y + 5, r.w, r.h, 8);
      p.roundRect(r.x, r.y, r.w, r.h, 8);
      p.fill();
      p.stroke();
    }
    p.strokeStyle = p.fillStyle = colours.edge;
    p.lineWidth = Math.max(1.2, 0.7 / s);
    for (const run of this.edgeRuns) {
      if (!isSeen(run)) continue;
      p.stroke(run.lines);
      if (s > 0.22) p.fill(run.arrows);
    }
    this.drawLit(p, s);
    if (s > 0.75) {
      p.font = LABEL;
      p.textBaseline = 'alphabetic';
      for (const {text, x, y, w, depth: around} of this.labels) {
        if (x > view.right || x + w < view.left || y < view.top || y > view.bottom + 12) continue;
        // On the colour of what it stands in: no edge strikes it through.
        p.fillStyle = around < 0 ? colours.background : colours.containers[Math.min(7, around)];
        p.fillRect(x - 1, y - 8, w + 2, 10);
        p.fillStyle = colours.dim;
        p.fillText(text, x, y);
      }
    }
    const isBlock = s < BLOCKS;
    for (const run of this.boxRuns) {
      if (!isSeen(run)) continue;
      for (const {shade, stack, round, plain} of run.paths.values()) {
        // Of a box that is too small for its border, the fill is as strong as one sees at that size.
        p.fillStyle = isBlock ? shade.block : shade.fill;
        p.strokeStyle = shade.border;
        p.lineWidth = Math.max(shade.change ? 2.2 : 1.3, 0.8 / s);
        if (!isBlock) {
          p.fill(stack);
          p.stroke(stack);
        }
        p.fill(isBlock ? plain : round);
        if (!isBlock) p.stroke(round);
      }
    }
    for (const i of [...this.lit, this.selected]) {
      const r = i >= 0 ? rects[i] : null;
      if (!r || r.open) continue;
      p.strokeStyle = colours.accent;
      p.lineWidth = Math.max(i === this.selected ? 3 : 2, 2 / s);
      p.beginPath();
      p.roundRect(r.x - 2, r.y - 2, r.w + 4, r.h + 4, 8);
      p.stroke();
    }
    p.setTransform(ratio, 0, 0, ratio, 0, 0);
    const place = (r) => ({x: (r.x - view.left) * s, y: (r.y - view.top) * s, w: r.w * s, h: r.h * s});
    for (const i of this.closed) {
      const r = rects[i];
      if (r.x > view.right || r.x + r.w < view.left || r.y > view.bottom || r.y + r.h < view.top) continue;
      this.write(p, i, place(r), ratio);
    }
    this.writeHeads(p, view);
    legendNames();
  }

  /** What flows into the selection and out of it. Of a bundle, the parts that its own values take. */
  litWays() {
    if (this.selected < 0) return [];
    const {bundles} = this.graph, {ways} = this.layout, given = new Set();
    for (const way of ways) if (way.from === this.selected && way.isStart) given.add(way.value);
    const isOwn = ({value, from, into}) => {
      if (!bundles[value]) return true;
      if (from >= 0 && !isWithin(this.graph, this.selected, from)) return false;
      return bundles[value].some(([source, user]) => isWithin(this.graph, source, this.selected) &&
                                                     (into < 0 || isWithin(this.graph, user, into)));
    };
    const out = [];
    for (const way of ways) {
      const isInput = way.to === this.selected;
      if (isInput || (given.has(way.value) && isOwn(way))) out.push({way, isInput});
    }
    return out;
  }

  drawLit(p, s) {
    for (const {way, isInput} of this.litWays()) {
      const path = new Path2D();
      trace(path, way.stops);
      p.strokeStyle = isInput ? colours.inputLit : colours.outputLit;
      p.lineWidth = Math.max(2.2, 1.4 / s);
      p.setLineDash(isInput ? [] : [5, 2.5]);  // told apart without colour, too
      p.stroke(path);
    }
    p.setLineDash([]);
  }

  /** Whether a closed box is high enough for words, or no other one is so near that their lines would meet. */
  hasLine(i) {
    const r = this.layout.rects[i], s = this.scale;
    if (r.h * s >= LOWEST) return true;
    if (r.h * s < LOWEST_APART) return false;
    const line = SMALLEST / s, middle = r.y + r.h / 2;
    return !this.standing.touching({x: r.x, y: middle - line, w: r.w, h: 2 * line}, (other) =>
      other !== r && Math.abs(other.y + other.h / 2 - middle) < line);
  }

  /** How far the words of a low box may stand out of its ends, in pixels: what stands beside it may do the same. */
  roomBeside(i) {
    const r = this.layout.rects[i], s = this.scale, apart = 1;
    const x = (OVERHANG + OVERHANG + apart) / s, y = Math.max(0, (LINE / s - r.h) / 2);
    let gap = Infinity;
    this.standing.touching({x: r.x - x, y: r.y - y, w: r.w + 2 * x, h: r.h + 2 * y}, (other) => {
      const between = Math.max(other.x - r.x - r.w, r.x - other.x - other.w) * s;
      if (other !== r && between >= 0) gap = Math.min(gap, between);
      return false;
    });
    return Math.min(OVERHANG, (gap - apart) / 2);
  }

  /** What stands in a closed box, in pixels of the screen: where its title has room, in which letters, on how many lines. */
  roomIn(i, r) {
    const box = this.graph.boxes[i], s = this.scale;
    const size = Math.max(SMALLEST, Math.floor(13 * s)), small = Math.max(SMALLEST, Math.floor(11 * s));
    const bold = `500 ${size}px ${FONT}`, plain = `400 ${small}px ${FONT}`;
    const padding = Math.max(0.5, Math.min(Math.max(4, 8 * s), (r.w - 14) / 10));
    const value = this.values && this.values[i] !== undefined ? figure(this.values[i]) + (numbers.unit ? ` ${numbers.unit}` : '') : '';
    const detail = value || [box.detail, ...(box.chips || []).map((chip) => `(${chip})`)].filter(Boolean).join('  ');
    const two = detail !== '' && r.h >= size + small + 4;
    let left = r.x + padding, right = r.x + r.w - padding, sign = 0, isCountIn = false;
    if (box.repeat) {
      const w = widthOf(plain, `×${box.repeat}`) + 8;
      isCountIn = right - left - w >= 24;
      if (isCountIn) right -= w;
    }
    if (box.container) {  // that it opens is said where the title stays whole
      const w = 12 * Math.max(1, s);
      if (widthOf(bold, box.title) <= right - left - w) [sign, right] = [right - 8 * Math.max(1, s), right - w];
    }
    return {left, right, size, small, bold, plain, padding, value, two, sign, isCountIn,
            lines: !two && !box.repeat && r.h >= 2 * size ? 2 : 1, mayStandOut: !box.repeat && r.h <= LINE};
  }

  /** The first spelling of its title that a closed box has room for, in it or a little out of it; -1 for none. */
  spellingIn(i, r) {
    const {title} = this.graph.boxes[i], room = this.roomIn(i, r);
    const inside = firstSpelling(room.bold, title, room.right - room.left, room.lines);
    if (inside === 0 || !room.mayStandOut) return inside;
    const beyond = this.roomBeside(i), wider = beyond > 0 ? firstSpelling(room.bold, title, r.w + 2 * beyond, 1) : -1;
    return inside < 0 || (wider >= 0 && wider < inside) ? wider : inside;
  }

  /** Of all closed boxes at this scale. */
  get spellings() {
    const known = this.spelling;
    if (known && known.scale === this.scale && known.layout === this.layout && known.values === this.values) return known.spellings;
    const spellings = new Spellings(), s = this.scale;
    for (const i of this.closed) {
      if (!formsOf(this.graph.boxes[i].title).brief || !this.hasLine(i)) continue;
      const r = this.layout.rects[i], first = this.spellingIn(i, {x: r.x * s, y: r.y * s, w: r.w * s, h: r.h * s});
      if (first >= 0) spellings.add(this.graph.boxes[i].title, first);
    }
    this.spelling = {scale: s, layout: this.layout, values: this.values, spellings};
    return spellings;
  }

  /** What a closed box is called where it stands: how its title is set, and between which ends. */
  titleIn(i, r, spelling = this.spellings.get(this.graph.boxes[i].title)) {
    const box = this.graph.boxes[i], room = this.roomIn(i, r);
    let {left, right} = room, title = fitTitle(room.bold, box.title, spelling, right - left, room.lines);
    if ((title.form === 'cut' || title.form === 'none') && room.mayStandOut) {
      const beyond = this.roomBeside(i);
      const wider = beyond > 0 ? fitTitle(room.bold, box.title, spelling, r.w + 2 * beyond, 1) : title;
      if (wider.form === 'whole' || wider.form === 'short') [title, left, right] = [wider, r.x - beyond, r.x + r.w + beyond];
    }
    return {...room, ...title, left, right};
  }

  /** As much as the box has room for. Sizes are in pixels of the screen. */
  write(p, i, r, ratio) {
    const box = this.graph.boxes[i], shade = this.shades[i];
    if (!this.hasLine(i)) return;
    const title = this.titleIn(i, r), {left, right, size, small, bold, plain, padding, two} = title;
    const middle = two ? r.y + r.h * 0.31 : r.y + r.h / 2;
    p.textBaseline = 'middle';
    if (title.isCountIn) {
      const text = `×${box.repeat}`, w = widthOf(plain, text) + 8;
      badge(p, text, plain, r.x + r.w - w - padding / 2, middle, w, small + 3);
    }
    if (title.sign) {
      p.fillStyle = shade.dim;
      p.font = bold;
      p.fillText('+', title.sign, middle);
    }
    if (title.form === 'none') return;
    const stretch = title.isNarrow ? data.narrowLetters : 1, isTwoLines = title.lines.length > 1;
    const used = Math.max(...title.lines.map((line) => widthOf(bold, line) * stretch));
    let name = '';
    if (box.name && title.form === 'whole') {
      name = fitted(plain, box.name, right - left - used - 6);
      const repeatsTitle = name.endsWith('…') && box.title.startsWith(name.slice(0, -1));  // "any_of any_of…"
      if (repeatsTitle || name.length < Math.min(6, box.name.length)) name = '';
    }
    const whole = used + (name ? 6 + widthOf(plain, name) : 0);
    const isEnd = box.kind === 8 || box.kind === 9;
    const x = !two || isEnd ? Math.max(left, (left + right - whole) / 2) : left;
    p.font = bold;
    p.fillStyle = shade.text;
    p.setTransform(ratio * stretch, 0, 0, ratio, 0, 0);
    title.lines.forEach((line, k) => {
      const own = isTwoLines ? x + (used - widthOf(bold, line) * stretch) / 2 : x;
      p.fillText(line, own / stretch, isTwoLines ? middle + (k - 0.5) * size : middle);
    });
    p.setTransform(ratio, 0, 0, ratio, 0, 0);
    p.font = plain;
    p.fillStyle = shade.dim;
    if (name) p.fillText(name, x + used + 6, middle);
    if (two) {
      const second = this.secondLine(i, plain, title.value, r.x + r.w - padding - left);
      p.fillText(second, isEnd ? Math.max(left, r.x + (r.w - widthOf(plain, second)) / 2) : left, r.y + r.h * 0.73);
    }
    if (shade.change) mark(p, shade.change, r.x + r.w - 2, r.y + 2);
  }

  /** Its number, or its facts and as many of its weights as have room behind them. */
  secondLine(i, font, value, room) {
    const box = this.graph.boxes[i], width = (part) => widthOf(font, part), detail = box.detail || '';
    if (value) return fitted(font, value, room);
    let line = wholeFacts(detail, room, width);
    if (line !== detail) return fitted(font, line, room);
    for (const chip of box.chips || []) {
      const more = [line, `(${chip})`].filter(Boolean).join('  ');
      if (width(more) > room) break;
      line = more;
    }
    return fitted(font, line, room);
  }

  /**
   * Where names of open modules, outer ones first, and counts stand at this scale, in pixels from the drawing's origin: on
   * no box that is not theirs, and not on each other.
   */
  get heads() {
    const known = this.placed, s = this.scale;
    if (known && known.scale === s && known.layout === this.layout && known.values === this.values) return known.heads;
    const {rects} = this.layout, {boxes} = this.graph;
    const size = Math.max(SMALLEST + 1, Math.floor(13 * s)), small = Math.max(SMALLEST, Math.floor(11 * s));
    const font = `600 ${size}px ${FONT}`, plain = `400 ${small}px ${FONT}`, line = size + 5;
    const heads = [], taken = new Taken();
    const place = (i) => ({x: rects[i].x * s, y: rects[i].y * s, w: rects[i].w * s, h: rects[i].h * s});
    const isFree = (at, own, mayCoverWordless) => at.x >= 0 && at.y >= 0 && taken.isFree(at) &&
      !this.standing.touching({x: at.x / s, y: (at.y - LINE) / s, w: at.w / s, h: (at.h + 2 * LINE) / s}, ({box}) => {
        if (box === own) return false;
        const r = place(box), hasLine = this.hasLine(box);
        if (mayCoverWordless && !hasLine && isWithin(this.graph, box, own)) return false;
        const high = hasLine ? Math.max(r.h, LINE) : r.h, top = r.y + r.h / 2 - high / 2;
        return at.y < top + high && top < at.y + at.h;
      });
    const add = (at, what) => {
      taken.add(at);
      heads.push({...at, ...what});
      return at;
    };
    const first = (places, size, own) => places.map(([x, y]) => ({x, y, ...size})).find((at) => isFree(at, own, false));
    for (const i of this.containers) {
      const r = place(i), box = boxes[i];
      if (r.h < 12) continue;
      const count = box.repeat ? `×${box.repeat}` : '', counted = count ? widthOf(font, count) + 8 : 0;
      const value = this.values && this.values[i] !== undefined ? ` · ${figure(this.values[i])}` : '';
      const text = fitted(font, box.title + value, Math.max(r.w - 14 - counted, Math.min(64, 2 * r.h)));
      const onBorder = r.y + 1 + Math.min(0, HEADER * s + 1 - line), left = r.x + 4;
      let end = left, row = onBorder;
      if (text) {
        const sizes = {w: widthOf(font, text) + 6, h: line}, right = Math.max(left, r.x + r.w - 4 - counted - sizes.w);
        let at = first([[left, onBorder], [left, r.y + 1], [left, r.y - line]], sizes, i);
        if (!at && isFree({x: left, y: r.y + 1, ...sizes}, i, true)) at = {x: left, y: r.y + 1, ...sizes};
        at = at || first([[right, onBorder], [right, r.y + 1], [r.x + r.w + 2, r.y], [r.x - 2 - sizes.w, r.y]], sizes, i);
        if (at) {
          add(at, {box: i, text, font, isCount: false});
          end = at.x + at.w + 2;
          if (at.x >= r.x + r.w) row = at.y;
        }
      }
      if (!count) continue;
      const sizes = {w: counted, h: line - 2}, right = r.x + r.w - 2 - counted;
      const at = first([[Math.max(right, end), row + 1], [right, r.y + 2], [right, r.y + r.h - line / 2], [r.x + r.w + 2, r.y + 1],
                        [left, r.y + r.h - line / 2]], sizes, i);
      if (at) add(at, {box: i, text: count, font, isCount: true});
    }
    for (const i of this.closed) {
      if (!boxes[i].repeat) continue;
      const r = place(i);
      if (r.h < LOWEST_APART || this.roomIn(i, r).isCountIn) continue;
      const text = `×${boxes[i].repeat}`, sizes = {w: widthOf(plain, text) + 8, h: small + 3};
      // Its own words, which may be higher than the box, stay free.
      const high = this.hasLine(i) ? Math.max(r.h, LINE) : r.h, top = r.y + r.h / 2 - high / 2, bottom = top + high;
      const right = r.x + r.w + (r.h <= LINE ? OVERHANG : 0) - 1, middle = r.x + r.w / 2 - sizes.w / 2;
      const at = first([[right, r.y + r.h / 2 - sizes.h / 2], [right, top + 1 - sizes.h], [middle, top + 1 - sizes.h],
                        [r.x - OVERHANG + 1 - sizes.w, r.y + r.h / 2 - sizes.h / 2], [right, bottom - 1], [middle, bottom - 1]], sizes, i);
      if (at) add(at, {box: i, text, font: plain, isCount: true});
    }
    this.placed = {scale: s, layout: this.layout, values: this.values, heads};
    return heads;
  }

  writeHeads(p, view) {
    const {depth} = this.layout, s = this.scale, dx = -view.left * s, dy = -view.top * s;
    const right = (view.right - view.left) * s, bottom = (view.bottom - view.top) * s;
    for (const {x, y, w, h, box, text, font, isCount} of this.heads) {
      const at = {x: x + dx, y: y + dy};
      if (at.x > right || at.y > bottom || at.x + w < 0 || at.y + h < 0) continue;
      if (isCount) {
        badge(p, text, font, at.x, at.y + h / 2, w, h);
        continue;
      }
      p.fillStyle = colours.containers[Math.min(7, depth[box])];
      p.beginPath();
      p.roundRect(at.x, at.y, w, h, 3);
      p.fill();
      p.fillStyle = colours.text;
      p.font = font;
      p.textBaseline = 'middle';
      p.fillText(text, at.x + 3, at.y + h / 2 + 0.5);
    }
  }

  // --- hands ---------------------------------------------------------------------------------------------------------

  listen() {
    const {canvas} = this;
    let last = null, moved = false;
    canvas.addEventListener('pointerdown', (e) => {
      last = [e.offsetX, e.offsetY];
      moved = false;
      canvas.setPointerCapture(e.pointerId);
      canvas.focus();
    });
    canvas.addEventListener('pointermove', (e) => {
      if (!last) return;
      const dx = e.offsetX - last[0], dy = e.offsetY - last[1];
      if (!moved && Math.abs(dx) + Math.abs(dy) < 4) return;
      moved = true;
      this.pan(dx, dy);
      last = [e.offsetX, e.offsetY];
      canvas.style.cursor = 'grabbing';
    });
    canvas.addEventListener('pointerup', (e) => {
      if (last && !moved) this.select(this.at(e.offsetX, e.offsetY));
      last = null;
      canvas.style.cursor = '';
    });
    canvas.addEventListener('dblclick', (e) => {
      const i = this.at(e.offsetX, e.offsetY);
      if (i >= 0) this.toggle(i);
    });
    canvas.addEventListener('wheel', (e) => {
      e.preventDefault();
      if (e.shiftKey) this.pan(-e.deltaY - e.deltaX, 0);
      else this.zoom(Math.pow(1.0016, -e.deltaY), e.offsetX, e.offsetY);
    }, {passive: false});
    canvas.addEventListener('keydown', (e) => {
      const far = 60;
      const doing = {
        ArrowLeft: () => this.pan(far, 0), ArrowRight: () => this.pan(-far, 0), ArrowUp: () => this.pan(0, far),
        ArrowDown: () => this.pan(0, -far), PageDown: () => this.pan(0, -0.8 * this.height),
        PageUp: () => this.pan(0, 0.8 * this.height), '+': () => this.zoom(1.25), '=': () => this.zoom(1.25),
        '-': () => this.zoom(0.8), 0: () => this.fit(), n: () => this.step(1), N: () => this.step(-1),
        ' ': () => this.selected >= 0 && this.toggle(this.selected),
        Enter: () => this.selected >= 0 && this.toggle(this.selected), Escape: () => this.select(-1),
      }[e.key];
      if (!doing || e.ctrlKey || e.metaKey || e.altKey) return;
      e.preventDefault();
      doing();
    });
  }
}

/** Of a drawing to the right as of one that runs down, with x and y exchanged. */
function trace(path, stops) {
  if (toRight) {
    const turned = {moveTo: (x, y) => path.moveTo(y, x), lineTo: (x, y) => path.lineTo(y, x),
                    bezierCurveTo: (a, b, c, d, x, y) => path.bezierCurveTo(b, a, d, c, y, x)};
    return traceDown(turned, stops.map(([x, y]) => [y, x]));
  }
  return traceDown(path, stops);
}

function traceDown(path, stops) {
  let [ax, ay] = stops[0], heading = 1;
  path.moveTo(ax, ay);
  for (let i = 1; i < stops.length; ++i) {
    const [bx, by] = stops[i];
    if (Math.abs(ax - bx) < 0.05) {
      if (Math.abs(ay - by) > 0.05) heading = by < ay ? -1 : 1;
      path.lineTo(bx, by);
    } else if (Math.abs(ay - by) < 0.05) {  // it turns back
      const swing = heading * (14 + 0.04 * Math.min(600, Math.abs(bx - ax)));
      path.bezierCurveTo(ax, ay + swing, bx, by + swing, bx, by);
      heading = -heading;
    } else {
      const pull = (by - ay) / 2;
      heading = pull < 0 ? -1 : 1;
      path.bezierCurveTo(ax, ay + pull, bx, by - pull, bx, by);
    }
    [ax, ay] = [bx, by];
  }
}

function arrow(path, stops) {
  const [x, y] = stops[stops.length - 1];
  const [beforeX, beforeY] = stops.findLast(([ax, ay]) => Math.abs(toRight ? ax - x : ay - y) > 0.05) || [x, y];
  const length = 6, half = 3.2;
  path.moveTo(x, y);
  if (toRight) {
    const back = x < beforeX ? length : -length;
    path.lineTo(x + back, y - half);
    path.lineTo(x + back, y + half);
  } else {
    const back = y < beforeY ? length : -length;
    path.lineTo(x - half, y + back);
    path.lineTo(x + half, y + back);
  }
  path.closePath();
}

function badge(p, text, font, x, middle, w, h) {
  p.fillStyle = colours.badge;
  p.beginPath();
  p.roundRect(x, middle - h / 2, w, h, h / 2);
  p.fill();
  p.fillStyle = colours.background;
  p.font = font;
  p.textBaseline = 'middle';
  p.fillText(text, x + 4, middle + 0.5);
}

function mark(p, change, x, y) {
  p.fillStyle = colours.changes[change][1];
  p.beginPath();
  p.arc(x, y, 6.5, 0, 7);
  p.fill();
  p.fillStyle = colours.background;
  p.font = `700 11px ${FONT}`;
  const sign = change === REMOVED ? '−' : change === ADDED ? '+' : '~';
  p.fillText(sign, x - widthOf(p.font, sign) / 2, y + 0.5);
}

/** Where something stands, in cells of a grid: whether a place is free. */
class Taken {
  constructor() { this.cells = new Map(); }
  * cellsOf(r) {
    for (let row = Math.floor(r.y / 64); row <= Math.floor((r.y + r.h) / 64); row++)
      for (let column = Math.floor(r.x / 256); column <= Math.floor((r.x + r.w) / 256); column++) yield row * 65536 + column;
  }
  add(r) {
    for (const cell of this.cellsOf(r)) this.cells.has(cell) ? this.cells.get(cell).push(r) : this.cells.set(cell, [r]);
  }
  /** Calls `is` with what touches a place, some of it more than once, until it returns true. */
  touching(r, is) {
    for (const cell of this.cellsOf(r))
      for (const other of this.cells.get(cell) || [])
        if (r.x < other.x + other.w && other.x < r.x + r.w && r.y < other.y + other.h && other.y < r.y + r.h && is(other))
          return true;
    return false;
  }
  isFree(r) { return !this.touching(r, () => true); }
}

/** Whether nobody tells two colours apart in a small sign. */
function isAlike(a, b) {
  const channel = (colour, k) => parseInt(colour.slice(1 + 2 * k, 3 + 2 * k), 16);
  return [0, 1, 2].reduce((sum, k) => sum + Math.abs(channel(a, k) - channel(b, k)), 0) < 60;
}

/** Black or white, whichever is read better on the colour: 4.5 : 1 at least. */
function inkOn(colour) {
  const n = parseInt(colour.slice(1), 16);
  const linear = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = 0.2126 * linear(n >> 16) + 0.7152 * linear(n >> 8 & 255) + 0.0722 * linear(n & 255);
  return (light + 0.05) / 0.05 > 1.05 / (light + 0.05) ? '#000000' : '#ffffff';
}

// --- around the drawings ---------------------------------------------------------------------------------------------

function element(name, text, parent) {
  const e = document.createElement(name);
  if (text !== undefined) e.textContent = text;
  if (parent) parent.append(e);
  return e;
}

function tell(pane, i) {
  const box = pane.graph.boxes[i], details = byId('details');
  details.replaceChildren();
  element('h2', box.title + (box.name ? ` ${box.name}` : ''), details);
  const list = element('dl', undefined, details);
  const row = (name, text) => {
    if (!text) return;
    element('dt', name, list);
    element('dd', text, list);
  };
  row('operator', box.operator);
  row('node', box.operator ? box.key : '');
  row('module', box.path);
  row('arguments', box.operator ? box.detail : '');
  row('holds', box.container ? box.detail : '');
  row('weights', (box.chips || []).join(', '));
  row('result', (box.types || []).filter(Boolean).join(', '));
  row('source', box.source);
  if (box.repeat) row(box.fold || 'equal blocks', `${box.repeat}, drawn ${box.fold ? 'as one' : 'once'}`);
  if (pane.values && pane.values[i] !== undefined) row(numbers.title, `${figure(pane.values[i])} ${numbers.unit}`);
  row('change', ['', 'removed', 'added', 'changed'][pane.changeIn(i)]);
}

function showNumbers(which) {
  numbers = which;
  for (const pane of panes) pane.restyle();
  const table = byId('table');
  table.replaceChildren();
  legend();
  if (!numbers) return;
  element('h2', numbers.title, table);
  const body = element('tbody', undefined, element('table', undefined, table));
  const rows = Object.entries(numbers.values).sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]));
  const known = rows.filter(([name]) => panes.some((pane) => pane.boxOf.has(name)));
  for (const [name, value] of known.slice(0, 200)) {
    const row = element('tr', undefined, body);
    row.tabIndex = 0;
    element('td', name, row);
    element('td', figure(value), row);
    const go = () => { for (const pane of panes) if (pane.boxOf.has(name)) pane.reveal(pane.boxOf.get(name)); };
    row.addEventListener('click', go);
    row.addEventListener('keydown', (e) => { if (e.key === 'Enter') go(); });
  }
  const lost = rows.length - known.length;
  if (lost > 0) element('p', `${lost} of ${rows.length} names are of no node here.`, table);
}

/** {"node": 1.5}, or Model Explorer's {"results": {"node": {"value": 1.5}}}, alone or under a name. */
function readNumbers(text, title) {
  let json = JSON.parse(text);
  const keys = Object.keys(json);
  if (keys.length === 1 && json[keys[0]] && json[keys[0]].results) json = json[keys[0]];
  const values = {};
  for (const [name, value] of Object.entries(json.results || json)) {
    const number = value !== null && typeof value === 'object' ? value.value : value;
    if (typeof number !== 'number') throw new Error(`"${name}" has no number`);
    values[name] = number;
  }
  return {title: (json.results && json.name) || title, unit: '', adds: true, values};
}

function addNumbers(which) {
  data.numbers.push(which);
  element('option', which.title, byId('colour')).value = String(data.numbers.length - 1);
  byId('colour').value = String(data.numbers.length - 1);
  byId('colourLabel').hidden = false;
  showNumbers(which);
}

async function takeFile(file) {
  try {
    addNumbers(readNumbers(await file.text(), file.name.replace(/\.json$/, '')));
  } catch (error) {
    byId('found').textContent = `${file.name} gives no numbers of nodes: ${error.message}`;
  }
}

let hits = [], hit = -1, found = '';

function find(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  hits = [];
  hit = -1;
  const isFound = (text) => words.every((word) => text.toLowerCase().includes(word));
  let nodes = 0;  // a box may stand for those of equal blocks
  panes.forEach((pane) => {
    pane.lit = new Set();
    if (words.length) {
      pane.graph.boxes.forEach((box, i) => {
        if (!isFound([box.title, box.name, box.key, box.path, box.operator, box.detail].join(' '))) return;
        pane.lit.add(i);
      });
      for (const i of pane.lit) nodes += pane.graph.boxes[i].container ? 1 : 1 + pane.standsFor[i];
      for (const [name, i] of Object.entries(pane.graph.others)) {
        if (!isFound(name) || (pane.lit.has(i) && !pane.graph.boxes[i].container)) continue;
        pane.lit.add(i);
        ++nodes;
      }
      hits.push(...[...pane.lit].sort((a, b) => a - b).map((i) => [pane, i]));
    }
    pane.redraw();
  });
  found = nodes > hits.length ? `${hits.length} found, ${nodes} nodes` : `${hits.length} found`;
  byId('found').textContent = words.length ? found : '';
}

function nextHit(direction) {
  if (!hits.length) return;
  hit = (hit + direction + hits.length) % hits.length;
  const [pane, i] = hits[hit];
  pane.reveal(i);
  byId('found').textContent = `${hit + 1} of ${found.replace(' found', '')}`;
}

let changes = [], change = -1, changeWords = '';

function collectChanges() {
  // What changed stands in both panes, and is gone to once.
  const isPlace = (box, k) => box.change && (k > 0 || box.change === REMOVED);
  changes = panes.flatMap((pane, k) =>
    pane.graph.boxes.map((box, i) => (isPlace(box, k) ? i : -1)).filter((i) => i >= 0).map((i) => [pane, i]));
  byId('changes').hidden = panes.length < 2;
  const count = (kind) => changes.filter(([pane, i]) => pane.graph.boxes[i].change === kind).length;
  changeWords = changes.length === 0 ? 'identical'
    : `${count(REMOVED)} removed, ${count(ADDED)} added, ${count(3)} changed`;
  byId('changeCount').textContent = changeWords;
}

/** In the other pane: the box of that name, else the innermost module around it that is there, too; -1 for none. */
function counterpart(pane, i, other) {
  for (let up = i; up >= 0; up = pane.graph.boxes[up].parent) {
    const there = other.boxOf.get(pane.graph.boxes[up].key);
    if (there !== undefined) return there;
  }
  return -1;
}

function nextChange(direction) {
  if (!changes.length) return;
  change = change < 0 && direction < 0 ? changes.length - 1 : (change + direction + changes.length) % changes.length;
  const [pane, i] = changes[change];
  for (const other of panes) {
    if (other === pane) continue;
    const there = counterpart(pane, i, other);
    if (there < 0) other.select(-1);
    else other.reveal(there);
  }
  pane.reveal(i);  // last: the details are its own
  byId('changeCount').textContent = `${change + 1} of ${changes.length}: ${changeWords}`;
}

/** The ends of the scale of colours, of what these panes show. */
function rangeOf(shown) {
  const least = Math.min(...shown.map((pane) => pane.least)), most = Math.max(...shown.map((pane) => pane.most));
  return least <= most ? {least, most} : {least: 0, most: 0};
}

/** As in the window: where both signs occur, two rows of colours part at 0. */
function heatColour(value, {least, most}) {
  const shade = (row, part, whole) => row[Math.round(20 * (whole > 0 ? Math.sqrt(Math.min(1, Math.max(0, part / whole))) : 1))];
  const farthest = Math.max(-least, most);
  if (least < 0 && most > 0) return value < 0 ? shade(colours.cold, -value, farthest) : shade(colours.heat, value, farthest);
  if (least < 0) return shade(colours.cold, most - value, most - least);
  return shade(colours.heat, value - least, most - least);
}

function legend() {
  const foot = byId('legend');
  foot.replaceChildren();
  const key = (fill, border, text, mark = '') => {
    const item = element('span', undefined, foot);
    item.className = 'key';
    const sign = element('i', mark, item);
    sign.style.background = fill;
    sign.style.borderColor = border;
    item.append(text);
  };
  if (numbers) {
    const range = rangeOf(panes), {least, most} = range;
    element('span', `${numbers.title}: ${least === 0 ? '0' : `${figure(least)} ${numbers.unit}`}`, foot);
    const scale = element('span', undefined, foot);
    scale.className = 'scale';
    const stops = colours.heat.map((_, i) => heatColour(least + (i / 20) * (most - least), range));
    scale.style.background = `linear-gradient(90deg, ${stops.join(', ')})`;
    element('span', `${figure(most)} ${numbers.unit}`, foot);
    return;
  }
  const used = new Set(panes.flatMap((pane) => pane.graph.boxes.map((box) => box.kind)));
  const rows = [];  // kinds that are no more than shades of grey apart are one entry
  data.kinds.forEach((name, kind) => {
    if (!used.has(kind) || !name) return;
    const same = kind === MODULE ? undefined : rows.find((row) => isAlike(colours.kinds[row.kind][1], colours.kinds[kind][1]));
    if (same) same.name += `, ${name}`;
    else rows.push({kind, name});
  });
  for (const {kind, name} of rows) key(...colours.kinds[kind].slice(0, 2), name, kind === MODULE ? '+' : '');
  if (panes.length > 1)
    for (const [kind, name] of [[REMOVED, '− removed'], [ADDED, '+ added'], [3, '~ changed']]) key(...colours.changes[kind], name);
}

/** What stands for titles that have no room, behind the legend. */
function legendNames() {
  const foot = byId('legend'), names = new Map(panes.flatMap((pane) => pane.spellings.shortNames().map(([shown, title]) => [title, shown])));
  const text = numbers ? '' : [...names].map(([title, shown]) => `${shown} ${title}`).join(' · ');
  let item = foot.querySelector('.names');
  if (item && item.textContent === text) return;
  if (!item) item = element('span', undefined, foot);
  item.className = 'names';
  item.textContent = text;
  item.title = text;
}

function setFlow(isRight) {
  toRight = isRight;
  byId('panes').classList.toggle('stacked', isRight);  // beside each other across the way that they run
  for (const pane of panes) pane.layOut();
  for (const pane of panes) pane.first();
}

function setTheme(theme) {
  data.theme = theme;
  colours = data.colours[theme];
  document.body.classList.toggle('dark', theme === 'dark');
  for (const pane of panes) pane.restyle();
  legend();
}

function start() {
  byId('title').textContent = data.title;
  const isDiff = data.graphs.length > 1;
  panes = data.graphs.map((graph, i) => new Pane(graph, isDiff ? ['before', 'after'][i] : ''));
  byId('panes').append(...panes.map((pane) => pane.element));
  const depth = byId('depth');
  for (const [value, text] of [['', 'as opened'], [0, 'nothing'], [1, 'depth 1'], [2, 'depth 2'], [3, 'depth 3'], [4, 'depth 4'], [-1, 'everything']])
    element('option', text, depth).value = String(value);
  depth.addEventListener('change', () => { if (depth.value !== '') for (const pane of panes) pane.setDepth(Number(depth.value)); });
  const colour = byId('colour');
  element('option', 'by kind', colour).value = '';
  data.numbers.forEach((which, i) => { element('option', which.title, colour).value = String(i); });
  byId('colourLabel').hidden = data.numbers.length === 0;
  colour.addEventListener('change', () => showNumbers(colour.value === '' ? null : data.numbers[Number(colour.value)]));
  byId('fit').addEventListener('click', () => panes.forEach((pane) => pane.fit()));
  byId('in').addEventListener('click', () => panes.forEach((pane) => pane.zoom(1.25)));
  byId('out').addEventListener('click', () => panes.forEach((pane) => pane.zoom(0.8)));
  byId('next').addEventListener('click', () => nextChange(1));
  byId('previous').addEventListener('click', () => nextChange(-1));
  byId('flow').value = toRight ? 'right' : 'down';
  byId('flow').addEventListener('change', () => setFlow(byId('flow').value === 'right'));
  byId('panes').classList.toggle('stacked', toRight);
  byId('theme').addEventListener('click', () => setTheme(data.theme === 'dark' ? 'light' : 'dark'));
  byId('load').addEventListener('click', () => byId('file').click());
  byId('file').addEventListener('change', (e) => { for (const file of e.target.files) takeFile(file); });
  byId('find').addEventListener('input', (e) => find(e.target.value));
  byId('find').addEventListener('keydown', (e) => {
    if (e.key === 'Enter') nextHit(e.shiftKey ? -1 : 1);
    if (e.key === 'Escape') panes[0].canvas.focus();
  });
  document.addEventListener('keydown', (e) => {
    if (e.key === '/' && e.target.tagName !== 'INPUT') {
      e.preventDefault();
      byId('find').focus();
    }
    if (e.key === 'F8') {
      e.preventDefault();
      nextChange(e.shiftKey ? -1 : 1);
    }
  });
  document.addEventListener('dragover', (e) => e.preventDefault());
  document.addEventListener('drop', (e) => {
    e.preventDefault();
    for (const file of e.dataTransfer.files) takeFile(file);
  });
  new ResizeObserver(() => panes.forEach((pane) => pane.resized())).observe(byId('panes'));
  setTheme(data.theme);
  collectChanges();
  for (const pane of panes) pane.first();
  if (data.numbers.length) {
    colour.value = '0';
    showNumbers(data.numbers[0]);
  } else {
    element('p', 'Click a box to read about it; double-click a module to open it.', byId('details'));
  }
}

start();
window.graft = {panes, data, wholeFacts, readNumbers, addNumbers, find, changes: () => changes};
})();
