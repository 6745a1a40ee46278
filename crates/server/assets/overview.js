// What the server says of itself, kept up to date: a whole tree at first, then a
// merge patch (RFC 7396) each second.

import { base } from './api.js';

/** No event for this long means that the connection is broken without saying so. */
const SILENCE_MS = 5000;

/** Applies a merge patch to an object, and returns the object. */
export function merge(target, patch) {
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete target[name];
    else if (typeof value === 'object' && !Array.isArray(value)) {
      const old = target[name];
      target[name] = merge(old && typeof old === 'object' && !Array.isArray(old) ? old : {}, value);
    } else target[name] = value;
  }
  return target;
}

/**
 * Follows the server. `onOverview(tree, patch)` is called with each change, and with the tree alone
 * where everything may differ; `onLink(state)` with `live` or `reconnecting`; `onRefused()` when the server
 * ends the connection for good, as for a browser that is no longer signed in.
 */
export class Overview {
  #tree = null;
  #source = null;
  #heard = 0;

  constructor({ onOverview, onLink, onRefused }) {
    this.onOverview = onOverview;
    this.onLink = onLink;
    this.onRefused = onRefused;
    this.#open();
    setInterval(() => this.#check(), 1000);
    // A hidden page costs the server nothing.
    document.addEventListener('visibilitychange', () => (document.hidden ? this.#close() : this.#open()));
  }

  #open() {
    if (this.#source) return;
    this.#heard = performance.now();
    const source = new EventSource(`${base}/api/v1/overview`);
    this.#source = source;
    source.addEventListener('overview', ({ data }) => {
      this.#tree = JSON.parse(data);
      this.#heardOf(null);
    });
    source.addEventListener('change', ({ data }) => {
      const patch = JSON.parse(data);
      merge(this.#tree, patch);
      this.#heardOf(patch);
    });
    source.addEventListener('error', () => {
      this.onLink('reconnecting');
      if (source.readyState === EventSource.CLOSED) this.onRefused();
    });
  }

  #heardOf(patch) {
    this.#heard = performance.now();
    this.onLink('live');
    this.onOverview(this.#tree, patch);
  }

  #check() {
    if (!this.#source || performance.now() - this.#heard < SILENCE_MS) return;
    this.onLink('reconnecting');
    this.#close();
    this.#open();
  }

  #close() {
    this.#source?.close();
    this.#source = null;
  }
}
