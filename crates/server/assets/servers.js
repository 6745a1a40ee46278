// Where a session is opened: at the page's own address, which a balancer may lead to any server, and
// then at the servers that the cluster named for the case that this one is lost.
//
//   own ─ no answer, 5xx ─► first named ─► second named ─► … ─► own, after a pause
//
// A named address has a ticket that is valid for half a minute. Each report, and each list of a room,
// brings new ones.

import { linksOf } from './links.js';
import { expect } from './reach.js';

/** How long a named address is used. Its ticket is valid for 30 s. */
const NAMED_MS = 28_000;

/** Longest pause before another server of the same round is tried. */
const NEXT_MS = 100;

export class Servers {
  #own;
  #query;
  #named = [];
  #namedMs = -Infinity;
  #place = 0;

  /** `own`: the page's own endpoint; `query`: what is asked for at every server, such as `transcode`. */
  constructor(own, query = '') {
    this.#own = own;
    this.#query = query;
  }

  /** Takes the servers that an answer names; an answer that names none changes nothing. */
  note(response, nowMs = performance.now()) {
    const named = linksOf(response.headers.get('link'), 'alternate').map(({ url }) => url);
    if (named.length === 0) return;
    expect(named);
    this.#named = named;
    this.#namedMs = nowMs;
  }

  /** The address at which the present try is made. */
  present(nowMs = performance.now()) {
    const addresses = this.#addresses(nowMs);
    const address = addresses[this.#place] ?? addresses[0];
    if (!this.#query) return address;
    return `${address}${address.includes('?') ? '&' : '?'}${this.#query}`;
  }

  /** Whether the present try is made at the page's own address. */
  isOwn(nowMs = performance.now()) {
    return this.#place === 0 || this.#place >= this.#addresses(nowMs).length;
  }

  /**
   * The present try has failed: takes the next server of this round. Returns the pause before it in ms,
   * or null if the round is over, and the page's own address is the next one.
   */
  next(nowMs = performance.now()) {
    this.#place += 1;
    if (this.#place < this.#addresses(nowMs).length) return Math.random() * NEXT_MS;
    this.#place = 0;
    return null;
  }

  /** A session works: the next round begins at the page's own address. */
  reset() {
    this.#place = 0;
  }

  #addresses(nowMs) {
    return nowMs - this.#namedMs < NAMED_MS ? [this.#own, ...this.#named] : [this.#own];
  }
}

/** Whether a failed try says that this server is lost or has no place, so that another one may take the session. */
export const isServersFault = (error) => error.status === 0 || error.status >= 500;
