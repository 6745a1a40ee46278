// Pauses between tries to reach a server.
//
// A server that restarts serves again within a second, so the first tries follow each other
// quickly. Each pause is random, because all viewers of a server lose it at the same moment, and
// must not all come back at the same moment.

/** Longest first pause, unless another one is named. */
const FIRST_MS = 400;

/** Shortest pause as a share of the longest one of its turn. */
const LEAST = 0.25;

export class Retry {
  #firstMs;
  #longestMs;
  #mostMs;

  /**
   * `mostMs`: the longest pause of all; pauses double until they reach it. `firstMs`: the longest first
   * pause.
   */
  constructor(mostMs = 2000, firstMs = FIRST_MS) {
    this.#mostMs = mostMs;
    this.#firstMs = Math.min(firstMs, mostMs);
    this.#longestMs = this.#firstMs;
  }

  /** The next pause in ms. */
  next() {
    const longestMs = this.#longestMs;
    this.#longestMs = Math.min(longestMs * 2, this.#mostMs);
    return longestMs * (LEAST + (1 - LEAST) * Math.random());
  }

  /** The next pause is a first one again, because the server was reached. */
  reset() {
    this.#longestMs = this.#firstMs;
  }
}

/** Resolves after `ms`. */
export const sleep = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });
