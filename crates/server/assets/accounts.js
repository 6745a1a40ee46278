// Checks frame by frame that the stages add up to the delay that the frame code shows.
//
// A frame's sum of stages and its glass-to-glass delay are measured
// independently, the first by stamps along the path, the second by the number
// in the shown frame. They must agree within the printed error.

import { svg } from './dom.js';
import { STAGES } from './waterfall.js';

const WINDOW_MS = 10_000;

/** Columns in the chart of frames: three seconds at 30 frames/s. */
const COLUMNS = 90;

/** Seconds in the sparkline. */
const SECONDS = 60;

export class Accounts {
  #frames = [];
  #seen = new Set();

  /** Adds the frames of a report's answer, in any order; a frame that is reported twice counts once. */
  add(frames, nowMs) {
    for (const frame of inOrder(frames ?? [])) {
      if (this.#seen.has(frame.rtp_timestamp)) continue;
      this.#seen.add(frame.rtp_timestamp);
      this.#frames.push({ ...frame, atMs: nowMs });
    }
    const fresh = this.#frames.findIndex(({ atMs }) => nowMs - atMs < WINDOW_MS);
    const old = fresh < 0 ? this.#frames.splice(0) : this.#frames.splice(0, fresh);
    for (const { rtp_timestamp: timestamp } of old) this.#seen.delete(timestamp);
  }

  clear() {
    this.#frames = [];
    this.#seen.clear();
  }

  /** The frames to draw, oldest first. */
  recent() {
    return this.#frames.slice(-COLUMNS);
  }

  /**
   * Of the frames whose glass-to-glass delay is known in the last ten seconds:
   * how many agree, the error they had to agree within (median), and the worst
   * disagreement seen here. `counted`: the server's own count over every frame,
   * `{within, of}`, where it gives one; an answer need not list all frames.
   */
  balance(counted) {
    const known = this.#frames.filter((frame) => Number.isFinite(frame.glass_to_glass_ms));
    let [within, worstMs] = [0, 0];
    for (const { sum_ms: sum, glass_to_glass_ms: measured, error_ms: error } of known) {
      const residual = Math.abs(sum - measured);
      if (residual <= error) within += 1;
      worstMs = Math.max(worstMs, residual);
    }
    const errors = known.map((frame) => frame.error_ms).sort((a, b) => a - b);
    const whole = counted ? { within: counted.within, total: counted.of } : { within, total: known.length };
    return { ...whole, errorMs: errors[errors.length >> 1] ?? null, worstMs };
  }
}

/** Oldest first. RTP timestamps wrap, so each is weighed as a signed step from the first. */
const inOrder = (frames) => [...frames].sort((a, b) => {
  const [{ rtp_timestamp: zero }] = frames;
  return ((a.rtp_timestamp - zero) | 0) - ((b.rtp_timestamp - zero) | 0);
});

/** One column a frame, its stages stacked; a line across where the frame code puts its top. */
export class FrameColumns {
  #svg;

  constructor(container) {
    this.#svg = svg('svg', { viewBox: `0 0 ${COLUMNS} 100`, preserveAspectRatio: 'none', class: 'columns', 'aria-hidden': 'true' });
    container.replaceChildren(this.#svg);
  }

  /** Returns the value at the top of the chart in milliseconds, null when empty. */
  update(frames) {
    const tops = frames.map((frame) => Math.max(frame.sum_ms ?? 0, frame.glass_to_glass_ms ?? 0)).sort((a, b) => a - b);
    if (!tops.length || !(tops.at(-1) > 0)) {
      this.#svg.replaceChildren();
      return null;
    }
    // One late frame must not flatten all others: it is cut off at the top.
    const median = tops[Math.floor(tops.length / 2)];
    const top = Math.min(tops.at(-1), median * 2.5) * 1.08;
    const unit = 100 / top;
    const first = COLUMNS - frames.length;
    this.#svg.replaceChildren(...frames.flatMap((frame, index) => column(frame, first + index, unit)));
    return top;
  }
}

function column(frame, x, unit) {
  const marks = [];
  let y = 100;
  for (const [name] of STAGES) {
    const height = Math.max(0, frame.stages?.[name] ?? 0) * unit;
    if (!(height > 0)) continue;
    y -= height;
    marks.push(svg('rect', { class: `stage-${name}`, x: x + 0.1, y: y.toFixed(2), width: 0.8, height: height.toFixed(2) }));
  }
  if (Number.isFinite(frame.glass_to_glass_ms)) {
    const at = 100 - frame.glass_to_glass_ms * unit;
    marks.push(svg('line', { class: 'measured', x1: x, x2: x + 1, y1: at.toFixed(2), y2: at.toFixed(2) }));
  }
  return marks;
}

/** A value per second over the last minute. */
export class Sparkline {
  #values = [];
  #line = svg('polyline', { class: 'line' });
  #area = svg('polygon', { class: 'area' });

  constructor(container) {
    container.replaceChildren(svg('svg', {
      viewBox: `0 0 ${SECONDS - 1} 100`, preserveAspectRatio: 'none', class: 'sparkline', 'aria-hidden': 'true',
    }, this.#area, this.#line));
  }

  /** Adds the newest second, null where nothing was measured; returns lowest and highest, or null. */
  push(value) {
    this.#values.push(Number.isFinite(value) ? value : null);
    this.#values = this.#values.slice(-SECONDS);
    const known = this.#values.filter((v) => v !== null);
    if (!known.length) return null;
    const [low, high] = [Math.min(...known), Math.max(...known)];
    // The range never closes below a few milliseconds, or noise would look like large changes.
    const half = Math.max((high - low) / 2, 4);
    const middle = (high + low) / 2;
    const first = SECONDS - this.#values.length;
    const points = this.#values
      .map((v, i) => (v === null ? null : `${first + i},${(50 - (42 * (v - middle)) / half).toFixed(1)}`))
      .filter((point) => point !== null);
    this.#line.setAttribute('points', points.join(' '));
    const [left, right] = [points[0].split(',')[0], points.at(-1).split(',')[0]];
    this.#area.setAttribute('points', `${left},100 ${points.join(' ')} ${right},100`);
    return { low, high };
  }
}
