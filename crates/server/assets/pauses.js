// What the player says of a session that ended or was refused, and how long it waits until the next
// try. It never gives up, and waits longer where trying again is of no use by itself.

import { Problem } from './api.js';
import { asSentence } from './failure.js';
import { hasKey } from './key.js';
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

/** What a viewer is told, by the status of a refusal. The server's own words are for its operator. */
const REFUSED = {
  401: hasKey
    ? ['This key is wrong', 'Enter another one, or ask whoever gave you the link.']
    : ['A key is needed', 'Whoever runs this server has it.'],
  403: ['You may not watch this', 'Another key may open it.'],
  415: ['This video is not for browsers', null],
  422: ['This video is not for browsers', /\bFirefox\//.test(navigator.userAgent)
    ? 'Firefox fetches its H.264 decoder only some minutes after its first start.'
    : null],
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
   * Explains a `Lost` or a `Problem`: `{state, label, title, detail, operator, mayRetry, mayPublish,
   * mayEncodeAgain, needsKey, waitMs}`. `operator`: what whoever runs the server can do.
   * `mayPublish`: a name without a publisher may get one from this browser.
   * `mayEncodeAgain`: this browser shows the video if the server encodes it again. `sinceLostMs`: time since a
   * session that worked was lost.
   */
  explain(reason, sinceLostMs = Infinity) {
    const isMoving = sinceLostMs < MOVING_MS;
    const movingMs = MOVING_MAX_MS * (0.25 + 0.75 * Math.random());
    if (reason.neverConnected) {
      const waitMs = this.#unconnected.next();
      const detail = withNext(['The server answers, and its video does not come through.'], waitMs);
      return { state: 'reconnecting', label: 'Reconnecting', title: 'No connection, trying again', detail, operator: reason.message, mayRetry: true, waitMs };
    }
    if (reason.transcode) {
      const detail = `${hindrance(reason)} The server can encode it again for you.`;
      return { state: 'refused', label: 'Not for browsers', title: 'This video is not made for browsers', detail, mayEncodeAgain: true, waitMs: REFUSED_MAX_MS };
    }
    if (reason.ended === 'b_frames') {
      // The next offer is answered with the way out.
      return { state: 'reconnecting', label: 'Reconnecting', title: 'The video has B-frames now', detail: reason.message, waitMs: MOVING_MAX_MS };
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
    if (reason.status === 422 && reason.title === 'Not for browsers') {
      // Until somebody changes the source or the configuration; the first sentence is for viewers.
      const waitMs = reason.retryAfter ? reason.retryAfter * 1000 * (1 + Math.random() / 2) : REFUSED_MAX_MS;
      const detail = asSentence((reason.detail ?? '').split('; ')[0]);
      return { state: 'refused', label: 'Not for browsers', title: 'This video is not made for browsers', detail, mayRetry: true, waitMs };
    }
    if (REFUSALS.has(reason.status)) {
      // Where the server names a time, the reason may end by itself. Viewers must not all come at once.
      const waitMs = reason.retryAfter
        ? reason.retryAfter * 1000 * (1 + Math.random() / 2)
        : this.#refused.next();
      const [title, advice] = REFUSED[reason.status] ?? [reason.title, null];
      const operator = [asSentence(reason.detail ?? reason.title), reason.remedy].filter(Boolean).join('. To do: ');
      const needsKey = reason.status === 401 || reason.status === 403;
      const detail = needsKey ? advice : withNext([advice], waitMs);
      return { state: 'refused', label: 'Refused', title, detail, operator, needsKey, mayRetry: !needsKey, waitMs };
    }
    const waitMs = isMoving ? movingMs : Math.max(this.#waiting.next(), (reason.retryAfter ?? 0) * 1000);
    const isUnknown = reason.status === 404;
    const title = isUnknown ? 'Nobody publishes this yet' : [409, 503].includes(reason.status) ? 'Waiting for the stream' : reason.title;
    const told = isUnknown ? 'it plays here as soon as somebody does' : reason.detail ?? (title === reason.title ? null : reason.title);
    const detail = withNext([told], waitMs);
    const mayPublish = reason.status === 404 || reason.status === 409;
    const label = statusWord(reason.streamStatus ?? 'waiting');
    return { state: 'waiting', label, title, detail, mayRetry: waitMs > 1000, mayPublish, waitMs };
  }
}

/** Why the browser cannot show the video of a refusal, as a sentence. */
function hindrance({ hindrance, codec }) {
  if (hindrance === 'codec') return `It is ${codec}, which browsers do not play.`;
  if (hindrance === 'viewer') return `It is ${codec}, which this browser does not play.`;
  return 'Its frames are stored in an order that browsers cannot play live (B-frames).';
}

/** The parts of a text, with the time until the next try. */
const withNext = ([first, ...more], waitMs) =>
  [first && asSentence(first), ...more, `Next try in ${(waitMs / 1000).toFixed(1)} s.`].filter(Boolean).join(' · ');
