// What the player says of a session that ended or was refused, and how long it waits until the next
// try. It never gives up, and waits longer where trying again is of no use by itself.

import { Problem } from './api.js';
import { asSentence } from './failure.js';
import { Retry } from './retry.js';
import { statusWord } from './words.js';

/** Longest pause after a refusal that may end by itself, like that of a stream without a source. */
const WAITING_MAX_MS = 4000;

/** Longest pause while the server cannot be reached: viewers should be back soon after its start. */
const UNREACHED_MAX_MS = 2000;

/**
 * For this long after a session was lost, no pause is longer than that: the cluster is about to have the
 * stream at another server.
 */
const MOVING_MS = 15_000;
const MOVING_MAX_MS = 800;

/**
 * Longest pauses after connections that did not come about: each keeps a place at the server for some
 * seconds, and the reason stays until somebody changes the network or the configuration.
 */
const UNCONNECTED_FIRST_MS = 2000;
const UNCONNECTED_MAX_MS = 15_000;

/** Longest pauses after a refusal, which stays the same until somebody changes the configuration. */
const REFUSED_FIRST_MS = 15_000;
const REFUSED_MAX_MS = 60_000;

/** Statuses that another try does not change: the request itself is wrong or not allowed. */
const REFUSALS = new Set([400, 401, 403, 415, 422]);

/** Advice for the viewer, by the status of a refusal. */
const ADVICE = {
  401: 'Add ?token=TOKEN to the address of this page, with a token that may read this stream.',
  403: 'Use another token: ?token=TOKEN in the address of this page.',
  ...(/\bFirefox\//.test(navigator.userAgent) && {
    422: 'Firefox fetches its H.264 decoder only some minutes after its first start.',
  }),
};

export class Pauses {
  #waiting = new Retry(WAITING_MAX_MS);
  #unconnected = new Retry(UNCONNECTED_MAX_MS, UNCONNECTED_FIRST_MS);
  #refused = new Retry(REFUSED_MAX_MS, REFUSED_FIRST_MS);

  /** The next pauses are first ones again, because a session worked. */
  reset() {
    for (const retry of [this.#waiting, this.#unconnected, this.#refused]) retry.reset();
  }

  /**
   * Explains a `Lost` or a `Problem`: `{state, label, title, detail, mayRetry, mayPublish,
   * mayEncodeAgain, waitMs}`. `mayPublish`: a name without a publisher may get one from this browser.
   * `mayEncodeAgain`: this browser shows the video if the server encodes it again. `sinceLostMs`: time since a
   * session that worked was lost.
   */
  explain(reason, sinceLostMs = Infinity) {
    const isMoving = sinceLostMs < MOVING_MS;
    const movingMs = MOVING_MAX_MS * (0.25 + 0.75 * Math.random());
    if (reason.neverConnected) {
      const waitMs = this.#unconnected.next();
      const detail = withNext([reason.message], waitMs);
      return { state: 'reconnecting', label: 'Reconnecting', title: 'No connection, trying again', detail, mayRetry: true, waitMs };
    }
    if (reason.transcode || reason.ended === 'b_frames') {
      const detail = 'Its frames are stored in an order that browsers cannot play live (B-frames). The server can encode it again for you.';
      return { state: 'refused', label: 'Not for browsers', title: 'This video is not made for browsers', detail, mayEncodeAgain: true, waitMs: REFUSED_MAX_MS };
    }
    if (reason.ended === 'dismissed') {
      const waitMs = this.#refused.next();
      return { state: 'refused', label: 'Ended', title: reason.title, detail: withNext([reason.message], waitMs), mayRetry: true, waitMs };
    }
    if (!(reason instanceof Problem) || reason.status === 0) {
      const waitMs = Math.min(this.#waiting.next(), isMoving ? movingMs : UNREACHED_MAX_MS);
      const told = reason instanceof Problem ? null : reason.title;
      return { state: 'reconnecting', label: 'Reconnecting', title: told ?? 'Reconnecting', detail: reason.message, waitMs };
    }
    if (REFUSALS.has(reason.status)) {
      // Where the server names a time, the reason may end by itself. Viewers must not all come at once.
      const waitMs = reason.retryAfter
        ? reason.retryAfter * 1000 * (1 + Math.random() / 2)
        : this.#refused.next();
      const detail = withNext([reason.detail, reason.remedy && `To do: ${reason.remedy}`, ADVICE[reason.status]], waitMs);
      return { state: 'refused', label: 'Refused', title: reason.title, detail, mayRetry: true, waitMs };
    }
    const waitMs = isMoving ? movingMs : Math.max(this.#waiting.next(), (reason.retryAfter ?? 0) * 1000);
    const title = [404, 409, 503].includes(reason.status) ? 'Waiting for the stream' : reason.title;
    const detail = withNext([reason.detail ?? (title === reason.title ? null : reason.title)], waitMs);
    const mayPublish = reason.status === 404 || reason.status === 409;
    const label = statusWord(reason.streamStatus ?? 'waiting');
    return { state: 'waiting', label, title, detail, mayRetry: waitMs > 1000, mayPublish, waitMs };
  }
}

/** The parts of a text, with the time until the next try. */
const withNext = ([first, ...more], waitMs) =>
  [first && asSentence(first), ...more, `Next try in ${(waitMs / 1000).toFixed(1)} s.`].filter(Boolean).join(' · ');
