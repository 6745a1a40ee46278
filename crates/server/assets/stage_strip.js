// How long the stages of a stream took, below its strip of time: a row a stage, a column a minute, brighter
// where frames took longer. One line says the figures of the minute of the picture, or below the pointer.

import { onTheme, resolved } from './colors.js';
import { setText } from './dom.js';
import { milliseconds } from './format.js';
import { clockOf } from './time_strip.js';
import { STAGES } from './waterfall.js';

const MINUTE_MS = 60_000;

/** Height of a row. */
const ROW = 12;

/** The longest delay that a brightness tells, in ms, and the shortest one. */
const LONGEST_MS = 2000;
const SHORTEST_MS = 0.1;

export class StageStrip {
  #minutes = new Map();
  #stages = [];
  #now = 0;
  #pointed = null;

  /** `time` is the strip of time above; `said` is the element of the line. */
  constructor(canvas, said, time) {
    Object.assign(this, { canvas, said, time });
    onTheme(() => this.draw());
    addEventListener('resize', () => this.draw());
    canvas.addEventListener('pointermove', ({ offsetX }) => {
      this.#pointed = time.from + (offsetX / canvas.clientWidth) * time.length;
      this.#say();
    });
    canvas.addEventListener('pointerleave', () => { this.#pointed = null; this.#say(); });
  }

  /** The minutes of a day: `at` in ms, and `p95` in ms by stage. */
  fill(minutes) {
    this.#minutes = new Map(minutes.map(({ at, p95 }) => [at, p95]));
    const found = new Set(minutes.flatMap(({ p95 }) => Object.keys(p95)));
    this.#stages = STAGES.map(([name]) => name).filter((name) => found.has(name));
    this.canvas.hidden = this.#stages.length === 0;
    this.draw();
  }

  /** Says the figures of the time of the picture. */
  moveTo(ms) {
    this.#now = ms;
    if (this.#pointed === null) this.#say();
  }

  draw() {
    this.#say();
    const { canvas, time } = this;
    if (canvas.hidden || canvas.clientWidth === 0) return;
    const ratio = devicePixelRatio || 1;
    canvas.style.height = `${this.#stages.length * ROW}px`;
    const width = canvas.clientWidth;
    Object.assign(canvas, { width: width * ratio, height: this.#stages.length * ROW * ratio });
    const context = canvas.getContext('2d');
    context.scale(ratio, ratio);
    const columnWidth = Math.max(1, (MINUTE_MS / time.length) * width);
    this.#stages.forEach((stage, row) => {
      context.fillStyle = resolved(`--${stage}`, canvas.parentElement);
      for (const [at, p95] of this.#minutes) {
        if (p95[stage] === undefined || at + MINUTE_MS < time.from || at >= time.to) continue;
        const span = Math.log(LONGEST_MS / SHORTEST_MS);
        const share = Math.log(Math.max(SHORTEST_MS, p95[stage]) / SHORTEST_MS) / span;
        context.globalAlpha = 0.1 + 0.9 * Math.min(1, share);
        context.fillRect(((at - time.from) / time.length) * width, row * ROW + 1, columnWidth, ROW - 2);
      }
    });
    context.globalAlpha = 1;
  }

  #say() {
    const minute = Math.floor((this.#pointed ?? this.#now) / MINUTE_MS) * MINUTE_MS;
    const p95 = this.#minutes.get(minute);
    const first = Math.min(...this.#minutes.keys());
    if (p95) {
      const figures = this.#stages.filter((it) => it in p95).map((it) => `${it.replaceAll('_', ' ')} ${milliseconds(p95[it])}`);
      setText(this.said, `${clockOf(minute).slice(0, 5)} · 95 % of frames, in ms: ${figures.join(', ')}`);
    } else if (Number.isFinite(first)) {
      setText(this.said, `No delays were noted then; those of this day begin at ${clockOf(first).slice(0, 5)}.`);
    } else {
      setText(this.said, 'No delays were noted on this day.');
    }
  }
}
