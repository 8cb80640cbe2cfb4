// Places the boxes of one graph for the modules that are open. What does not depend on sizes — layers, the order in
// them, the ways of edges — comes with the page; this is the rest of views/layout/layered_*, in the same steps.
'use strict';

const BOX = 0, IN = 1, OUT = 2, DUMMY = 3;
const MARGIN = 14, HEADER = 26;
const SHAPE = 1.4;  // the width in heights that columns aim at
const LOW = 2000, SHORT = 5000;  // what is lower, or shorter, stays whole: boxes are wider than high
/**
 * When levels go on in columns: how long they are at least, in LOW or SHORT; how many times as slim as wanted; whether a
 * column ends before a layer that is too tall for the rest of it.
 */
const USUAL = {low: 1, slim: 3.5, early: false};
const OTHERS = [[1, 2], [2 / 3, 3.5], [8 / 3, 3.5], [0.4, 2.5], [0.3, 3.5], [1, 3.5], [0.6, 2], [0.6, 1.5]];
const WRAPPINGS = [false, true].flatMap((early) => OTHERS.map(([low, slim]) => ({low, slim, early})));

/** The positions nearest to the wishes that keep the gaps: pool adjacent violators. */
function project(positions, weights, gaps) {
  const sums = [], pooled = [], counts = [], shifts = [];
  let shift = 0;
  for (let i = 0; i < positions.length; ++i) {
    if (i) shift += gaps[i - 1];
    shifts.push(shift);
    sums.push((positions[i] - shift) * weights[i]);
    pooled.push(weights[i]);
    counts.push(1);
    for (let n = sums.length; n > 1 && sums[n - 2] / pooled[n - 2] > sums[n - 1] / pooled[n - 1]; --n) {
      sums[n - 2] += sums.pop();
      pooled[n - 2] += pooled.pop();
      counts[n - 2] += counts.pop();
    }
  }
  let i = 0;
  for (let p = 0; p < sums.length; ++p)
    for (let k = 0; k < counts[p]; ++k, ++i) positions[i] = sums[p] / pooled[p] + shifts[i];
}

/** The items of one container. `sizeOf(box)` gives {w, h} and, of an open one, its level. `shape`: of columns; 0: none. */
class PlacedLevel {
  constructor(plan, sizeOf, shape, wrapping, labelLength) {
    this.plan = plan;
    this.labelLength = labelLength;
    const n = plan.items.length;
    this.kind = plan.items.map((item) => item[0]);
    this.w = new Float64Array(n);
    this.h = new Float64Array(n);
    this.x = new Float64Array(n);
    this.y = new Float64Array(n);
    this.layer = new Int32Array(n);
    this.position = new Int32Array(n);
    this.inner = new Array(n).fill(null);
    this.ports = [null, new Map(), new Map()];
    plan.items.forEach(([kind, what], i) => {
      if (kind === BOX) {
        const size = sizeOf(what);
        this.w[i] = size.w;
        this.h[i] = size.h;
        this.inner[i] = size.level || null;
      } else {
        this.w[i] = kind === DUMMY ? 6 : 8;
        if (kind !== DUMMY) this.ports[kind].set(what, i);
      }
    });
    plan.layers.forEach((layer, l) => layer.forEach((item, k) => {
      this.layer[item] = l;
      this.position[item] = k;
    }));
    this.readEdges();
    this.readSegments();
    this.placeX();
    this.placeY();
    this.attach();
    this.route();
    if (plan.turn) this.mirror();
    else if (shape) this.breakIntoColumns(shape, wrapping);
  }

  isBack(item) { return this.plan.turn > 0 && this.layer[item] >= this.plan.turn; }

  /** Between what runs there and what runs back: no neighbours then. */
  goesOverTheTurn(segment) { return !this.isBack(segment.from) && this.isBack(segment.to); }

  /** Where an open container lets the value through, from its middle; null of a closed one. */
  portOffset(item, value, goesIn) {
    const inner = this.inner[item];
    if (!inner) return null;
    const port = inner.ports[goesIn ? IN : OUT].get(value);
    return port === undefined ? null : inner.left + inner.x[port] - this.w[item] / 2;
  }

  readEdges() {
    this.edges = this.plan.edges.map(([value, reversed, far, chain]) => {
      const upper = this.portOffset(chain[0], value, Boolean(reversed));
      const lower = this.portOffset(chain[chain.length - 1], value, !reversed);
      return {value, reversed, far, chain, upper: upper || 0, lower: lower || 0, upperFixed: upper !== null,
              lowerFixed: lower !== null, stops: []};
    });
  }

  readSegments() {
    const n = this.kind.length;
    this.segments = [];
    this.up = Array.from({length: n}, () => []);
    this.down = Array.from({length: n}, () => []);
    const known = new Set();
    for (const edge of this.edges) {
      if (edge.far) continue;
      const {chain} = edge;
      for (let i = 0; i + 1 < chain.length; ++i) {
        const a = chain[i], b = chain[i + 1], key = a * n + b;
        if (known.has(key)) continue;
        known.add(key);
        const dummies = (this.kind[a] !== BOX) + (this.kind[b] !== BOX);
        const s = {from: a, to: b, fromOffset: i === 0 ? edge.upper : 0,
                   toOffset: i + 2 === chain.length ? edge.lower : 0, weight: [1, 2, 8][dummies]};
        this.segments.push(s);
        this.down[a].push(s);
        this.up[b].push(s);
      }
    }
    this.anchor = new Float64Array(n);
    for (const thread of this.plan.threads)
      thread.forEach((item, i) => {
        if (i === 0) {
          const s = this.down[item].find((other) => other.to === thread[1]);
          this.anchor[item] = s ? s.fromOffset : 0;
        } else {
          const s = this.up[item].find((other) => other.from === thread[i - 1]);
          this.anchor[item] = s ? s.toOffset : 0;
        }
      });
  }

  separation(a, b) {
    return (this.w[a] + this.w[b]) / 2 + (this.kind[a] !== BOX || this.kind[b] !== BOX ? 14 : 28);
  }

  /** What runs there and what runs back have a spine each: the thread of the second; 0: there is none. */
  secondSpine() {
    const {threads, turn} = this.plan;
    return turn ? Math.max(0, threads.findIndex((thread) => this.isBack(thread[0]) !== this.isBack(threads[0][0]))) : 0;
  }

  /** The spine's items and their x: on one line. */
  placeSpine() {
    const at = new Map(), second = this.secondSpine();
    this.placeOnLine(this.plan.threads[0] || [], at);
    if (second) this.placeOnLine(this.plan.threads[second], at);
    return at;
  }

  placeOnLine(spine, at) {
    const shifts = spine.map((item, i) => {
      const s = i + 1 < spine.length && this.down[item].find((other) => other.to === spine[i + 1]);
      const aside = s ? s.fromOffset - this.anchor[item] : 0;
      return Math.abs(aside) > 0.45 * this.w[item] ? aside : 0;
    });
    const mayShift = shifts.filter((s) => s !== 0).length <= 2;
    let line = 0;
    spine.forEach((item, i) => {
      at.set(item, line - this.anchor[item]);
      if (mayShift) line += shifts[i];
    });
  }

  placeX() {
    const {layers} = this.plan, n = this.kind.length;
    for (const layer of layers) {
      let x = 0;
      layer.forEach((item, k) => {
        if (k) x += this.separation(layer[k - 1], item);
        this.x[item] = x;
      });
      for (const item of layer) this.x[item] -= x / 2;
    }
    const spine = this.placeSpine();
    const sweeps = n > 20000 ? 4 : n > 3000 ? 8 : n > 400 ? 16 : 30;
    for (let sweep = 0; sweep < sweeps; ++sweep) {
      const isDown = sweep % 2 === 0, both = sweep >= sweeps / 2;
      for (let l = 0; l < layers.length; ++l) {
        const layer = layers[isDown ? l : layers.length - 1 - l];
        const wishes = [], weights = [], gaps = [];
        layer.forEach((item, k) => {
          let sum = 0, weight = 0;
          if (isDown || both)
            for (const s of this.up[item]) {
              if (this.goesOverTheTurn(s)) continue;
              sum += s.weight * (this.x[s.from] + s.fromOffset - s.toOffset);
              weight += s.weight;
            }
          if (!isDown || both)
            for (const s of this.down[item]) {
              if (this.goesOverTheTurn(s)) continue;
              sum += s.weight * (this.x[s.to] + s.toOffset - s.fromOffset);
              weight += s.weight;
            }
          const pinned = spine.get(item);
          wishes.push(pinned !== undefined ? pinned : weight > 0 ? sum / weight : this.x[item]);
          weights.push(pinned !== undefined ? 1e7 : weight > 0 ? weight : 0.05);
          if (k) gaps.push(this.separation(layer[k - 1], item));
        });
        project(wishes, weights, gaps);
        layer.forEach((item, k) => { this.x[item] = wishes[k]; });
      }
    }
    const second = this.secondSpine();
    for (let round = 0; round < 2; ++round) {
      this.plan.threads.forEach((thread, t) => { if (t && t !== second) this.straighten(thread); });
      for (const {far, chain} of this.edges) {
        if (far || chain.length < 3) continue;
        const dummies = chain.slice(1, -1).filter((item) => this.kind[item] === DUMMY);
        this.straighten(dummies.filter((item) => !this.isBack(item)));
        this.straighten(dummies.filter((item) => this.isBack(item)));
      }
    }
    let left = Infinity, right = -Infinity;
    for (let i = 0; i < n; ++i) {
      left = Math.min(left, this.x[i] - this.w[i] / 2);
      right = Math.max(right, this.x[i] + this.w[i] / 2);
    }
    if (n === 0) left = right = 0;
    for (let i = 0; i < n; ++i) this.x[i] -= left;
    this.width = right - left;
  }

  /** Onto one line as far as the neighbours leave room. */
  straighten(thread) {
    for (let i = 0; i < thread.length;) {
      let low = -Infinity, high = Infinity, sum = 0, end = i;
      for (; end < thread.length; ++end) {
        const item = thread[end], layer = this.plan.layers[this.layer[item]], k = this.position[item];
        const anchor = this.anchor[item];
        const l = k > 0 ? this.x[layer[k - 1]] + this.separation(layer[k - 1], item) + anchor : -Infinity;
        const h = k + 1 < layer.length ? this.x[layer[k + 1]] - this.separation(item, layer[k + 1]) + anchor : Infinity;
        if (Math.max(low, l) > Math.min(high, h) + 1e-6) break;
        low = Math.max(low, l);
        high = Math.min(high, h);
        sum += this.x[item] + anchor;
      }
      if (end === i) {
        ++i;
        continue;
      }
      const line = Math.min(Math.max(sum / (end - i), low), Math.max(low, high));
      for (; i < end; ++i) this.x[thread[i]] = line - this.anchor[thread[i]];
    }
  }

  placeY() {
    const {layers} = this.plan;
    const widest = new Float64Array(layers.length);
    for (const s of this.segments) {
      const dx = Math.abs(this.x[s.from] + s.fromOffset - this.x[s.to] - s.toOffset), l = this.layer[s.from];
      widest[l] = Math.max(widest[l], dx);
    }
    // The label that takes the most of the way to the next layer.
    const longest = this.longest = new Float64Array(layers.length);
    for (const edge of this.edges) {
      const first = edge.chain[edge.reversed ? edge.chain.length - 1 : 0];
      if (edge.far || this.kind[first] !== BOX || this.inner[first]) continue;
      longest[this.layer[first]] = Math.max(longest[this.layer[first]], this.labelLength(edge.value, this.plan.items[first][1]));
    }
    this.top = new Float64Array(layers.length);
    this.bottom = new Float64Array(layers.length);
    let y = 0;
    layers.forEach((layer, l) => {
      const tallest = layer.reduce((most, item) => Math.max(most, this.h[item]), 0);
      this.top[l] = y;
      this.bottom[l] = y + tallest;
      for (const item of layer) this.y[item] = y + (tallest - this.h[item]) / 2;
      const base = Math.max(layer.some((item) => this.kind[item] === BOX) ? 30 : 12, longest[l]);
      y = this.bottom[l] + Math.min(base + 44, base + widest[l] * 0.06);
    });
    this.height = layers.length ? this.bottom[layers.length - 1] : 0;
  }

  /** Where edges meet closed boxes: in the order of their other ends, straight down where that is possible. */
  attach() {
    const above = this.kind.map(() => []), below = this.kind.map(() => []);
    for (const edge of this.edges) {
      below[edge.chain[0]].push(edge);
      above[edge.chain[edge.chain.length - 1]].push(edge);
    }
    this.kind.forEach((kind, item) => {
      if (kind !== BOX) return;
      this.spread(below[item], item, false);
      this.spread(above[item], item, true);
    });
  }

  spread(list, item, atTop) {
    if (list.length === 0) return;
    const slots = [], slotOf = new Map();
    for (const edge of list) {
      const {chain} = edge, other = atTop ? chain[chain.length - 2] : chain[1];
      const offset = chain.length === 2 ? (atTop ? edge.upper : edge.lower) : 0;
      const from = this.x[other] + offset - this.x[item];
      const known = atTop ? undefined : slotOf.get(edge.value);
      if (known) {
        if (Math.abs(from) < Math.abs(known.from)) known.from = from;
        known.edges.push(edge);
        continue;
      }
      const slot = {from, edges: [edge]};
      if (!atTop) slotOf.set(edge.value, slot);
      slots.push(slot);
    }
    slots.sort((a, b) => a.from - b.from);
    const half = this.w[item] * 0.35, count = slots.length;
    const step = count > 1 ? Math.min(14, 2 * half / (count - 1)) : 0;
    const wishes = slots.map((slot) => Math.min(Math.max(slot.from, -half), half));
    const weights = slots.map((slot) => (Math.abs(slot.from) <= half ? 20 : 1));
    project(wishes, weights, new Array(count - 1).fill(step));
    slots.forEach((slot, i) => {
      const offset = Math.max(-half + i * step, Math.min(wishes[i], half - (count - 1 - i) * step));
      for (const edge of slot.edges) {
        if (atTop && !edge.lowerFixed) edge.lower = offset;
        if (!atTop && !edge.upperFixed) edge.upper = offset;
      }
    });
  }

  route() {
    for (const edge of this.edges) {
      const {chain} = edge, first = chain[0], last = chain[chain.length - 1];
      const lowerX = this.x[last] + edge.lower, upperX = this.x[first] + edge.upper;
      if (edge.far) {
        const y = this.y[last];
        edge.stops = edge.reversed ? [[upperX, this.y[first] + this.h[first]], [upperX, this.y[first] + this.h[first] + 16]]
                                   : [[lowerX, y - 16], [lowerX, y]];
        continue;
      }
      const stops = [[upperX, this.y[first] + this.h[first]], [upperX, this.bottom[this.layer[first]]]];
      for (const item of chain.slice(1, -1)) {
        const l = this.layer[item];
        stops.push([this.x[item], this.top[l]], [this.x[item], this.bottom[l]]);
      }
      stops.push([lowerX, this.top[this.layer[last]]], [lowerX, this.y[last]]);
      edge.stops = stops;
    }
  }

  /**
   * What runs back, as the backward pass of a training step does, stands beside what runs there, turned by half a circle:
   * views/layout/layered_mirror.cpp.
   */
  mirror() {
    const gutter = 48, way = 10, deepest = 40, n = this.kind.length;
    const first = this.plan.turn, {top, bottom} = this;
    let there = 0, left = Infinity, right = -Infinity;
    for (let i = 0; i < n; ++i) {
      const from = this.x[i] - this.w[i] / 2, to = this.x[i] + this.w[i] / 2;
      if (!this.isBack(i)) {
        there = Math.max(there, to);
        continue;
      }
      left = Math.min(left, from);
      right = Math.max(right, to);
    }
    const keyOf = (item, value) => `${item} ${value}`, over = new Map();
    for (const {far, chain, value, upper} of this.edges)
      for (let i = 0; !far && i + 1 < chain.length; ++i) {
        const key = keyOf(chain[i], value);
        if (!this.isBack(chain[i]) && this.isBack(chain[i + 1]) && !over.has(key))
          over.set(key, this.x[chain[i]] + (i > 0 ? 0 : upper));
      }
    const begin = top[first], backHeight = bottom[bottom.length - 1] - begin;
    const thereHeight = bottom[first - 1] + this.longest[first - 1];
    const foot = Math.max(thereHeight, backHeight), down = foot - thereHeight, across = there + gutter + right;
    const placed = (item, [x, y]) => (this.isBack(item) ? [across - x, foot + begin - y] : [x, y + down]);
    // The turns lie one inside the other.
    const turnOf = new Map();
    for (const [key] of [...over].sort((a, b) => b[1] - a[1])) turnOf.set(key, foot + way * turnOf.size);
    for (const edge of this.edges) {
      const {chain} = edge;
      if (edge.far) {
        const end = edge.reversed ? chain[0] : chain[chain.length - 1];
        edge.stops = edge.stops.map((stop) => placed(end, stop));
        continue;
      }
      const stops = [];
      chain.forEach((item, i) => {
        for (const stop of edge.stops.slice(2 * i, 2 * i + 2)) stops.push(placed(item, stop));
        if (i + 1 === chain.length || this.isBack(item) || !this.isBack(chain[i + 1])) return;
        const y = turnOf.get(keyOf(item, edge.value));
        stops.push([stops[stops.length - 1][0], y], [placed(chain[i + 1], edge.stops[2 * i + 2])[0], y]);
      });
      edge.stops = stops;
    }
    for (let i = 0; i < n; ++i) {
      if (this.isBack(i)) [this.x[i], this.y[i]] = placed(i, [this.x[i], this.y[i] + this.h[i]]);
      else this.y[i] += down;
    }
    this.width = across - left;
    this.height = foot + way * turnOf.size + deepest;
  }

  /** What is much taller than wide goes on in another column. */
  breakIntoColumns(shape, {low, slim, early}) {
    const {layers} = this.plan, {top, bottom, height} = this, mostOverACut = 12;
    if (height < low * (shape < 1 ? SHORT : LOW) || height * shape < slim * this.width || layers.length < 4) return;
    const most = height / Math.max(2, Math.round(Math.sqrt(shape * height / (this.width + 48))));
    const keyOf = (item, value) => `${item} ${value}`;
    const over = layers.map(() => new Map());
    for (const edge of this.edges) {
      if (edge.far) continue;
      for (let i = 0; i + 1 < edge.chain.length; ++i) {
        const item = edge.chain[i], key = keyOf(item, edge.value), map = over[this.layer[item]];
        if (!map.has(key)) map.set(key, this.x[item] + (i > 0 ? 0 : edge.upper));
      }
    }
    const columns = [{first: 0, last: layers.length - 1}];
    for (let l = 0; l + 1 < layers.length;) {
      let best = -1, fewest = Infinity;
      const {first} = columns[columns.length - 1], start = top[first];
      for (; l + 1 < layers.length && bottom[l] - start < 1.25 * most; ++l) {
        if (bottom[l] - start < 0.75 * most || height - bottom[l] < 0.3 * most) continue;
        const cost = over[l].size + 4 * Math.abs(bottom[l] - start - most) / most;
        if (cost < fewest) [best, fewest] = [l, cost];
      }
      const least = 0.3 * most;
      if (best < 0 && early && l > first && bottom[l - 1] - start >= least && bottom[l] - top[l] >= least &&
          over[l - 1].size <= mostOverACut)
        best = l - 1;
      else if (best < 0 && l + 1 < layers.length && height - bottom[l] >= 0.3 * most)
        best = l;
      if (best < 0 || over[best].size > mostOverACut) {
        l = Math.max(l + 1, best + 1);
        continue;
      }
      columns[columns.length - 1].last = best;
      columns.push({first: best + 1, last: layers.length - 1});
      l = best + 1;
    }
    if (columns.length < 2) return;
    const turn = 44, way = 10, gutter = 24, columnOf = new Array(layers.length);
    let left = 0, lowest = 0;
    columns.forEach((column, c) => {
      let from = Infinity, to = -Infinity;
      for (let l = column.first; l <= column.last; ++l) {
        columnOf[l] = column;
        for (const item of layers[l]) {
          from = Math.min(from, this.x[item] - this.w[item] / 2);
          to = Math.max(to, this.x[item] + this.w[item] / 2);
        }
      }
      const isLast = c + 1 === columns.length;
      column.next = columns[c + 1];
      column.dx = left - from;
      column.dy = (c === 0 ? 0 : turn) - top[column.first];
      left += to - from + gutter;
      column.foot = bottom[column.last] + column.dy + (column.last + 1 < layers.length ? this.longest[column.last] : 0);
      lowest = Math.max(lowest, column.foot + (isLast ? 0 : turn));
      if (isLast) return;
      column.ways = new Map();
      for (const [key] of [...over[column.last]].sort((a, b) => b[1] - a[1])) {
        column.ways.set(key, left);
        left += way;
      }
      left += gutter;
    });
    this.width = left - gutter;
    this.height = lowest;
    for (const edge of this.edges) {
      const {chain} = edge;
      if (edge.far) {
        const column = columnOf[this.layer[chain[edge.reversed ? 0 : chain.length - 1]]];
        edge.stops = edge.stops.map(([x, y]) => [x + column.dx, y + column.dy]);
        continue;
      }
      const stops = [];
      chain.forEach((item, i) => {
        const column = columnOf[this.layer[item]];
        for (const [x, y] of edge.stops.slice(2 * i, 2 * i + 2)) stops.push([x + column.dx, y + column.dy]);
        if (i + 1 === chain.length || columnOf[this.layer[chain[i + 1]]] === column) return;
        const x = column.ways.get(keyOf(item, edge.value)), y = top[column.next.first] + column.next.dy;
        stops.push([stops[stops.length - 1][0], column.foot], [x, column.foot], [x, y], [edge.stops[2 * i + 2][0] + column.next.dx, y]);
      });
      if (this.kind[chain[chain.length - 1]] === OUT) stops[stops.length - 1][1] = lowest;
      edge.stops = stops;
    }
    for (let i = 0; i < this.kind.length; ++i) {
      const column = columnOf[this.layer[i]];
      this.x[i] += column.dx;
      this.y[i] = this.kind[i] === OUT ? lowest : this.y[i] + column.dy;
    }
  }
}

/** By box, whether it is on the way back: it runs up, or to the left. */
function turnedBoxes(graph) {
  const turned = graph.boxes.map(() => false), root = graph.levels.find((plan) => plan.box < 0);
  if (!root.turn) return turned;
  root.layers.slice(root.turn).flat().forEach((item) => {
    const [kind, what] = root.items[item];
    if (kind === BOX) turned[what] = true;
  });
  graph.boxes.forEach((box, i) => { if (box.parent >= 0) turned[i] = turned[box.parent]; });
  return turned;
}

/**
 * The way to go on in columns that shows most at fit in the pane, where the usual one shows little; of very many boxes
 * there is one try.
 */
function layOut(graph, isOpen, options = {}) {
  const {columns = true, pane = {width: 1100, height: 760}} = options;
  const small = 0.3, shown = 0.6, better = 1.1, muchBetter = 1.2, most = 5000;
  const scaleOf = ({width, height}) => Math.min(pane.width / width, pane.height / height);
  let best = placeAll(graph, isOpen, options, USUAL), scale = scaleOf(best);
  const count = best.rects.filter(Boolean).length;
  if (scale >= small) return best;
  let laidOut = count;
  for (const wrapping of columns ? WRAPPINGS : []) {
    laidOut += count;
    if (scale >= shown || laidOut > most) break;
    if (wrapping.low === USUAL.low && wrapping.slim === USUAL.slim && !wrapping.early) continue;  // that is `best` or was
    const other = placeAll(graph, isOpen, options, wrapping);
    if (scaleOf(other) < (scale < small ? better : muchBetter) * scale) continue;
    best = other;
    scale = scaleOf(other);
  }
  return best;
}

/**
 * All boxes of a graph: x, y, w, h by box, null where one is not shown; `ways`: edges as stops. A drawing that runs to the
 * right is one that runs down with x and y exchanged.
 */
function placeAll(graph, isOpen, {columns = true, toRight = false, labelLength = () => 0}, wrapping) {
  const {boxes} = graph, placed = new Map(), turned = turnedBoxes(graph);
  const isShown = boxes.map(() => false);
  boxes.forEach((box, i) => { isShown[i] = box.parent < 0 || (isShown[box.parent] && isOpen(box.parent)); });
  const sizeOf = (i) => {
    const level = isShown[i] && isOpen(i) ? placed.get(i) : null;
    if (level) return {w: level.outerWidth, h: level.outerHeight, level};
    return toRight ? {w: boxes[i].h, h: boxes[i].w} : {w: boxes[i].w, h: boxes[i].h};
  };
  for (let k = graph.levels.length - 1; k >= 0; --k) {
    const plan = graph.levels[k], b = plan.box;
    if (b >= 0 && !(isShown[b] && isOpen(b))) continue;
    const level = new PlacedLevel(plan, sizeOf, !columns ? 0 : toRight ? 1 / SHAPE : SHAPE, wrapping, labelLength);
    const header = b < 0 ? MARGIN : HEADER + 4, least = b < 0 ? 0 : boxes[b].headWidth;
    // The title stays above where the rest is turned.
    const isTurned = b >= 0 && turned[b];
    level.sign = isTurned ? -1 : 1;
    level.left = toRight && !isTurned ? header : MARGIN;
    level.topOffset = toRight || isTurned ? MARGIN : header;
    level.outerWidth = level.left + level.width + (toRight && isTurned ? header : MARGIN);
    const foot = level.ports[OUT].size === 0 ? MARGIN : 2;
    level.outerHeight = level.topOffset + level.height + (!toRight && isTurned ? header : foot);
    const missing = least - (toRight ? level.outerHeight : level.outerWidth);
    if (missing > 0 && toRight) {
      level.topOffset += missing / 2;
      level.outerHeight = least;
    } else if (missing > 0) {
      level.left += missing / 2;
      level.outerWidth = least;
    }
    placed.set(b, level);
  }
  const result = {rects: boxes.map(() => null), ways: [], turned, width: 0, height: 0, depth: new Array(boxes.length).fill(0)};
  const root = placed.get(-1);
  result.width = root.outerWidth;
  result.height = root.height + 2 * MARGIN;
  const walk = (b, outer, depth) => {
    const level = placed.get(b), {sign} = level;
    const ox = sign > 0 ? outer.x + level.left : outer.x + outer.w - level.left;
    const oy = sign > 0 ? outer.y + level.topOffset : outer.y + outer.h - level.topOffset;
    const at = ([px, py]) => [ox + sign * px, oy + sign * py];
    level.plan.items.forEach(([kind, what], i) => {
      if (kind !== BOX) return;
      const w = level.w[i], h = level.h[i];
      const [ax, ay] = at([level.x[i] - sign * w / 2, level.y[i] + (sign > 0 ? 0 : h)]);
      const rect = {x: ax, y: ay, w, h, open: Boolean(level.inner[i])};
      result.rects[what] = rect;
      result.depth[what] = depth;
      if (rect.open) walk(what, rect, depth + 1);
    });
    const ends = level.plan.items;
    for (const edge of level.edges) {
      const chain = edge.chain, from = edge.reversed ? chain[chain.length - 1] : chain[0];
      const to = edge.reversed ? chain[0] : chain[chain.length - 1];
      const stops = [...edge.stops];
      // Through the header, and through what is left below the last layer.
      if (ends[chain[0]][0] === IN) stops.unshift([stops[0][0], -level.topOffset]);
      if (ends[chain[chain.length - 1]][0] === OUT)
        stops.push([stops[stops.length - 1][0], level.outerHeight - level.topOffset]);
      if (edge.reversed) stops.reverse();
      const boxOf = (end) => (ends[end][0] === BOX ? ends[end][1] : -1), isStart = boxOf(from) >= 0 && !level.inner[from];
      result.ways.push({value: edge.value, stops: stops.map(at), from: boxOf(from), into: boxOf(to),
                        to: level.inner[to] ? -1 : boxOf(to), isStart});
    }
  };
  walk(-1, {x: 0, y: 0, w: result.width, h: result.height}, 0);
  if (!toRight) return result;
  const exchanged = (r) => r && {x: r.y, y: r.x, w: r.h, h: r.w, open: r.open};
  const ways = result.ways.map((way) => ({...way, stops: way.stops.map(([x, y]) => [y, x])}));
  return {...result, rects: result.rects.map(exchanged), ways, width: result.height, height: result.width};
}

if (typeof module !== 'undefined') module.exports = {layOut, project};
