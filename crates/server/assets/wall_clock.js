// The server's calendar as seen from this page, by the Date header of answers (RFC 9110 §6.6.1).
//
//   the header says D, whole seconds:   D ≤ server's time when it was written < D + 1 s
//   the page asked at t1, had it at t4:  D − t4 ≤ server minus page < D + 1 s − t1
//
// Each answer bounds the offset. As answers come at different times within the second, the bounds close in
// on it, down to the round trip.

import { base } from './api.js';
import { reach } from './reach.js';

/** Answers older than this no longer count: clocks are set, and drift. */
const WINDOW_MS = 60_000;

const INTERVAL_MS = 730;

const TIMEOUT_MS = 3000;

export class WallClock {
  #bounds = [];
  #timer = null;

  start() {
    this.#ask();
    this.#timer = setInterval(() => this.#ask(), INTERVAL_MS);
  }

  stop() {
    clearInterval(this.#timer);
  }

  /** `{offsetMs, errorMs}` of the server's calendar minus this page's; null before the first answer. */
  estimate(nowMs = Date.now()) {
    this.#bounds = this.#bounds.filter(({ atMs }) => nowMs - atMs < WINDOW_MS);
    return joined(this.#bounds);
  }

  async #ask() {
    try {
      const before = Date.now();
      const response = await reach(`${base}/api/v1/clock`, { cache: 'no-store', signal: AbortSignal.timeout(TIMEOUT_MS) });
      const after = Date.now();
      const saidMs = Date.parse(response.headers.get('date') ?? '');
      if (Number.isFinite(saidMs)) this.#bounds.push({ atMs: after, low: saidMs - after, high: saidMs + 1000 - before });
    } catch { /* the next answer comes soon */ }
  }
}

/** The middle of what all bounds allow. Bounds that exclude each other are of a clock that was set. */
export function joined(bounds) {
  if (bounds.length === 0) return null;
  const low = Math.max(...bounds.map((it) => it.low));
  const high = Math.min(...bounds.map((it) => it.high));
  if (low > high) return joined(bounds.slice(Math.ceil(bounds.length / 2)));
  return { offsetMs: (low + high) / 2, errorMs: (high - low) / 2 };
}
