// What happened: connections that failed in the last hour, and streams that changed
// their state while this page was open.

import { html } from './dom.js';
import { PROTOCOLS, duration } from './format.js';
import { WORDS } from './stream_table.js';

/** Most changes that are kept. */
const CHANGES_MAX = 100;

export class EventsList {
  #changes = [];
  #failures = [];
  #statuses = new Map();
  #nowS = 0;
  #shown = '';

  constructor(list, empty) {
    this.list = list;
    this.empty = empty;
  }

  update({ server, streams, failures }) {
    this.#nowS = server.now_s;
    for (const [name, { status, detail }] of Object.entries(streams)) {
      const before = this.#statuses.get(name);
      this.#statuses.set(name, status);
      if (before && before !== status) this.#note(name, `${WORDS[before]} → ${WORDS[status]}`, status, detail);
    }
    for (const name of [...this.#statuses.keys()]) {
      if (streams[name]) continue;
      this.#statuses.delete(name);
      this.#note(name, 'gone', 'waiting');
    }
    this.#failures = failures ?? [];
    this.#draw();
  }

  #note(stream, text, state, detail) {
    this.#changes.unshift({ at: this.#nowS, stream, text, state, detail });
    this.#changes.length = Math.min(this.#changes.length, CHANGES_MAX);
  }

  #draw() {
    const failed = this.#failures.map((it) => ({
      at: it.latest_s,
      stream: it.stream,
      state: 'down',
      text: `${it.role} by ${PROTOCOLS[it.protocol] ?? it.protocol} from ${it.source} failed${it.count > 1 ? ` ${it.count} times` : ''}`,
      detail: [it.reason, it.remedy].filter(Boolean).join('. '),
    }));
    const all = [...this.#changes, ...failed].sort((a, b) => b.at - a.at).slice(0, CHANGES_MAX);
    this.empty.hidden = all.length > 0;
    const items = all.map((it) => ({ ...it, ago: ago(this.#nowS - it.at) }));
    const text = JSON.stringify(items);
    if (text === this.#shown) return;
    this.#shown = text;
    this.list.replaceChildren(...items.map(({ ago: when, stream, text: what, state, detail }) => html('li', {},
      html('time', { class: 'quiet' }, when),
      html('span', { class: 'pill', 'data-state': state }, html('strong', {}, stream || 'server'), ` ${what}`),
      detail ? html('p', { class: 'quiet' }, detail) : '')));
  }
}

/** Coarse, so that the list does not change every second. */
function ago(seconds) {
  if (seconds < 60) return 'just now';
  return `${duration(seconds - (seconds % 60)).replace(/ 00 s$/, '')} ago`;
}
