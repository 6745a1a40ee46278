// What operators changed: asked for while it is looked at, since it changes rarely.

import { base, getJson } from './api.js';
import { html } from './dom.js';
import { when } from './format.js';
import { actionWords } from './words.js';

/** Changes that are shown. */
const SHOWN = 50;

const INTERVAL_MS = 10_000;

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

function row(change) {
  const { at_ms: at, who, role, from, target, status, reason, count } = change;
  const isDone = status < 400;
  const times = count > 1 ? `, ${count} times` : '';
  return html('li', {},
    html('time', { class: 'quiet', datetime: new Date(at).toISOString() }, when(at)),
    html('span', { class: 'pill', 'data-state': isDone ? 'live' : 'down', title: `${target}: ${status}` },
      html('span', {}, html('strong', {}, who), `${role ? ` (${role})` : ''} ${actionWords(change)}${times}${isDone ? '' : ' – refused'}`)),
    html('p', { class: 'quiet' }, `from ${from}${reason ? ` · ${reason}` : ''}`));
}
