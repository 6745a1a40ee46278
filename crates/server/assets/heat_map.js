// How the delays of one stage are distributed, second by second: a column a second,
// rows of a quarter of a decade, brighter where more frames are.

import { onTheme, resolved } from './colors.js';

/** Seconds that are shown. */
const COLUMNS = 120;
/** Rows of the server's counts: 24 between 10 µs and 10 s, and one beyond at either end. */
const ROWS = 26;
/** A line with its label at every decade. */
const DECADES = [[1, '10 µs'], [5, '100 µs'], [9, '1 ms'], [13, '10 ms'], [17, '100 ms'], [21, '1 s']];

export class HeatMap {
  #canvas;
  #columns = new Map();
  /** Colours of the stage that was drawn last: to ask for them is to lay out the page. */
  #colors = null;

  constructor(canvas) {
    this.#canvas = canvas;
    onTheme(() => { this.#colors = null; });
  }

  /** Adds the counts of one second, by stage. */
  add(heat) {
    for (const stage of new Set([...this.#columns.keys(), ...Object.keys(heat)])) {
      const columns = this.#columns.get(stage) ?? [];
      columns.push(heat[stage] ?? null);
      if (columns.length > COLUMNS) columns.shift();
      this.#columns.set(stage, columns);
    }
  }

  clear() {
    this.#columns.clear();
  }

  /** The stages with counts. */
  get stages() { return [...this.#columns.keys()]; }

  /** Draws the rows of `stage`, in the colour that its place in the page has. */
  draw(stage) {
    const canvas = this.#canvas;
    const columns = this.#columns.get(stage) ?? [];
    const ratio = devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (width === 0) return;
    if (this.#colors?.stage !== stage) {
      const [tone, grid, quiet] = ['--tone', '--grid', '--quiet'].map((name) => resolved(name, canvas.parentElement));
      this.#colors = { stage, tone, grid, quiet };
    }
    const { tone, grid, quiet } = this.#colors;
    Object.assign(canvas, { width: width * ratio, height: height * ratio });
    const context = canvas.getContext('2d');
    context.scale(ratio, ratio);
    context.fillStyle = tone;
    const [cellWidth, cellHeight] = [width / COLUMNS, height / ROWS];
    const top = (row) => height - (row + 1) * cellHeight;
    columns.forEach((counts, index) => {
      if (!counts) return;
      const all = counts.reduce((sum, count) => sum + count, 0);
      const x = width - (columns.length - index) * cellWidth;
      counts.forEach((count, row) => {
        if (count === 0) return;
        // Rare delays stay visible: one frame of a hundred has a fifth of the full strength.
        context.globalAlpha = 0.12 + 0.88 * Math.sqrt(count / all);
        context.fillRect(x, top(row), Math.ceil(cellWidth), Math.ceil(cellHeight));
      });
    });
    context.globalAlpha = 1;
    context.font = '11px system-ui, sans-serif';
    for (const [row, label] of DECADES) {
      const y = top(row - 1);
      context.fillStyle = grid;
      context.fillRect(0, y, width, 1);
      context.fillStyle = quiet;
      context.fillText(label, 4, y - 3);
    }
  }
}
