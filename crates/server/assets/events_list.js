// What happened, with its reason: as the server has noted it, also before this page was opened.

import { base, getJson } from './api.js';
import { html } from './dom.js';
import { duration, when as dated } from './format.js';
import { forPeople } from './words.js';

/** Who signed in is told to admins alone, and changes rarely. */
const SIGN_INS_MS = 10_000;
const SIGN_INS = 50;

/** The look of each severity. */
const LOOKS = { good: 'live', neutral: 'off', bad: 'down' };

export class EventsList {
  #events = {};
  #signIns = [];
  #due = Infinity;
  #kind = '';
  #shown = '';

  /** `kinds` is the choice of what is listed. */
  constructor(list, { empty, kinds }) {
    Object.assign(this, { list, empty, kinds });
    kinds.addEventListener('change', () => {
      this.#kind = kinds.value;
      this.#draw();
    });
  }

  /** Shows `events` by their names. */
  update(events) {
    this.#events = events ?? {};
    this.#refreshSignIns();
    this.#draw();
  }

  /** Shows who signed in, or not: the server tells admins alone. */
  showSignIns(is) {
    this.kinds.querySelector('[value=sign_in]').hidden = !is;
    this.#due = is ? 0 : Infinity;
    if (is) return;
    this.#signIns = [];
    this.#draw();
  }

  async #refreshSignIns() {
    const now = performance.now();
    if (now < this.#due) return;
    this.#due = now + SIGN_INS_MS;
    try {
      ({ events: this.#signIns } = await getJson(`${base}/api/v1/events?kind=sign_in&limit=${SIGN_INS}`));
    } catch {
      // The connection of the page tells that the server is away.
    }
  }

  #draw() {
    const all = [...Object.values(this.#events), ...this.#signIns]
      .filter(({ kind }) => this.#kind === '' || kind === this.#kind)
      .sort((a, b) => b.at_ms - a.at_ms || (a.id < b.id ? 1 : -1));
    const items = all.map((it) => ({ ...it, ago: ago(Date.now() - it.at_ms) }));
    const text = JSON.stringify(items);
    if (text === this.#shown) return;
    this.#shown = text;
    this.empty.hidden = items.length > 0;
    this.list.hidden = items.length === 0;
    this.list.replaceChildren(...items.map(row));
  }
}

function row({ ago: when, at_ms: at, severity, subject, text, reason, remedy, count }) {
  const date = new Date(at);
  const times = count > 1 ? `, ${count} times` : '';
  const why = forPeople([reason, remedy].filter(Boolean).join('. '));
  return html('li', {},
    html('time', { class: 'quiet', datetime: date.toISOString(), title: dated(date) }, when),
    html('span', { class: 'pill', 'data-state': LOOKS[severity] ?? 'off' }, html('span', {}, html('strong', {}, subject || 'This server'), ` ${text}${times}`)),
    why ? html('p', { class: 'quiet' }, why) : '');
}

/** Coarse, so that the list does not change every second. The clocks of server and browser may differ. */
function ago(ms) {
  const seconds = Math.max(0, ms / 1000);
  if (seconds < 60) return 'just now';
  return `${duration(seconds - (seconds % 60)).replace(/ 00 s$/, '')} ago`;
}
