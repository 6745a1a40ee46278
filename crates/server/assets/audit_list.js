// What operators changed: asked for while it is looked at, since it changes rarely.

import { base, getJson } from './api.js';
import { html } from './dom.js';

/** Changes that are shown. */
const SHOWN = 50;

const INTERVAL_MS = 10_000;

const time = new Intl.DateTimeFormat([], { dateStyle: 'short', timeStyle: 'medium' });

export class AuditList {
  #latest = '';
  #due = 0;

  constructor(list, empty) {
    this.list = list;
    this.empty = empty;
  }

  /** Asks for the newest changes, unless that was just done. */
  async refresh() {
    const now = performance.now();
    if (now < this.#due) return;
    this.#due = now + INTERVAL_MS;
    let changes;
    try {
      ({ changes } = await getJson(`${base}/api/v1/audit?limit=${SHOWN}`));
    } catch {
      // The connection of the page tells that the server is away.
      return;
    }
    const latest = JSON.stringify(changes.map(({ number, count }) => [number, count]));
    if (latest === this.#latest) return;
    this.#latest = latest;
    this.empty.hidden = changes.length > 0;
    this.list.replaceChildren(...changes.map(row));
  }

  /** Asks again at the next turn. */
  expire() {
    this.#due = 0;
  }
}

function row({ at_ms: at, who, role, from, action, target, status, reason, count }) {
  const isDone = status < 400;
  return html('li', {},
    html('time', { class: 'quiet', datetime: new Date(at).toISOString() }, time.format(at)),
    html('span', { class: 'pill', 'data-state': isDone ? 'live' : 'down' }, html('strong', {}, who), ` (${role}) ${action}`, isDone ? '' : ` refused: ${status}`, count > 1 ? ` (${count} times)` : ''),
    html('p', { class: 'quiet' }, `${target} from ${from}${reason ? ` · ${reason}` : ''}`));
}
