// The server's clock as seen from this page.
//
// Four-timestamp exchange as in NTP (RFC 5905 §8): the page notes t1 and t4 on
// performance.now(), the server answers with t2 and t3 on its monotonic clock.
//
//   offset = ((t2 − t1) + (t3 − t4)) / 2        server minus page
//   |true offset − offset| ≤ ((t4 − t1) − (t3 − t2)) / 2
//
// The bound holds whatever the path does, so the exchange with the smallest
// round trip of the last half minute is the best one; queueing only ever widens
// the others. An old exchange is trusted a little less: two quartz clocks drift.
//
// performance.now() counts in 5 µs where the page is cross-origin isolated (the
// server sends COOP and COEP for that), in 100 µs or worse elsewhere.

// Behind a balancer, requests of one page come to several servers, each of which has a clock of its own.
// An answer names its server, and those of other servers than the session's are dropped.

import { authorization, base } from './api.js';
import { reach } from './reach.js';

const WINDOW_MS = 30_000;
const BURST = 8;
const TIMEOUT_MS = 2000;

/** Two disciplined clocks drift apart by less than this: 20 µs a second. */
const DRIFT = 20e-6;

/** Rounding of performance.now() at both ends of an exchange. */
const RESOLUTION_MS = globalThis.crossOriginIsolated ? 0.005 : 0.1;

/** The clock of this page's server. */
const OWN = `${base}/api/v1/clock`;

export class ServerClock {
  #samples = [];
  #serial = 0;
  #timer = null;

  /** Address that is asked. */
  #at = OWN;

  /** Name of the server whose answers count; null takes those of any server. */
  #server = null;

  /** Time from one exchange to the next: what the server asks for between reports. */
  intervalMs = 1000;

  /** Exchanges so far that were answered. */
  exchanges = 0;

  /** Headers by which the session's owner is known. */
  #headers = authorization;

  /** Asks for the clock of the server that has a session: `{resource, server, authorization}`. */
  follow({ resource, server, authorization: own = {} }) {
    this.#at = resource ? `${resource}/clock` : OWN;
    this.#server = server;
    this.#headers = { ...authorization, ...own };
  }

  /**
   * Begins with eight exchanges in a row, then one in each interval.
   *
   * A second call drops all earlier exchanges: a restarted server counts
   * from a new beginning.
   */
  async restart() {
    this.#samples = [];
    this.#serial += 1;
    const serial = this.#serial;
    clearTimeout(this.#timer);
    for (let i = 0; i < BURST && serial === this.#serial; i += 1) await this.#exchange();
    this.#goOn(serial);
  }

  #goOn(serial) {
    if (serial !== this.#serial) return;
    this.#timer = setTimeout(() => {
      this.#exchange();
      this.#goOn(serial);
    }, this.intervalMs);
  }

  /**
   * The best estimate, or null before the first exchange.
   *
   * `offsetMs`: server minus page; `errorMs`: the true offset lies within ±this.
   */
  estimate(nowMs = performance.now()) {
    this.#samples = this.#samples.filter(({ atMs }) => nowMs - atMs < WINDOW_MS);
    let best = null;
    for (const { offsetMs, rttMs, atMs } of this.#samples) {
      const errorMs = rttMs / 2 + RESOLUTION_MS + (nowMs - atMs) * DRIFT;
      if (!best || errorMs < best.errorMs) best = { offsetMs, rttMs, errorMs };
    }
    return best;
  }

  async #exchange() {
    const serial = this.#serial;
    // The serial makes the URL unique, so that its timing entry can be found.
    const url = new URL(`${this.#at}?n=${this.exchanges}`, location.href).href;
    try {
      const before = performance.now();
      const response = await reach(url, {
        cache: 'no-store',
        headers: this.#headers,
        signal: AbortSignal.timeout(TIMEOUT_MS),
      });
      const after = performance.now();
      const { server = null, received_ns: received, sent_ns: sent } = await response.json();
      if (serial !== this.#serial || !Number.isFinite(received) || !Number.isFinite(sent)) return;
      if (this.#server !== null && server !== this.#server) return;
      // The next exchange takes the short way.
      if (response.redirected) [this.#at] = response.url.split('?');
      this.exchanges += 1;
      const [t1, t4] = await onTheWire(url, before, after);
      const [t2, t3] = [received / 1e6, sent / 1e6];
      const rttMs = Math.max(0, t4 - t1 - (t3 - t2));
      this.#samples.push({ offsetMs: (t2 - t1 + (t3 - t4)) / 2, rttMs, atMs: after });
    } catch { /* the next exchange comes soon */ }
  }
}

/**
 * When the request left and the answer's first byte came.
 *
 * fetch() itself adds a hop or two between processes, a few tenths of a
 * millisecond and more under load. Resource Timing is stamped beside the
 * socket, on the same clock, and lies within the fetch; where it does not, the
 * fetch's own times are used.
 */
async function onTheWire(url, before, after) {
  // The entry is queued once the body has ended, a task after the promise.
  await new Promise((resolve) => { setTimeout(resolve, 0); });
  const entry = performance.getEntriesByName(url, 'resource').at(-1);
  // The browser keeps 250 entries and then no more: make room for the next ones.
  performance.clearResourceTimings();
  const [sent, answered] = [entry?.requestStart ?? 0, entry?.responseStart ?? 0];
  // A body may end before responseStart is on record; a zero means withheld.
  return before <= sent && sent < answered && answered <= after ? [sent, answered] : [before, after];
}
