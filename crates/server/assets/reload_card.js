// What became of reading the configuration again, and the button that does it.

import { base, change, getJson } from './api.js';
import { html, setText } from './dom.js';
import { when } from './format.js';

/** Readings that are shown. */
const SHOWN = 5;

/** Reading certificates, names and cameras of a large configuration takes some seconds. */
const TIMEOUT_MS = 60_000;

/** Who or what asked for a reading. */
const CAUSES = { api: 'asked for here or over the API', signal: 'SIGHUP', file: 'a file changed' };

/** Look and words of each outcome. */
const OUTCOMES = {
  applied: ['live', 'In force'],
  unchanged: ['off', 'Nothing changed'],
  refused: ['down', 'Refused: nothing changed'],
};

export class ReloadCard {
  #number = null;

  /** `card` holds all of it, and is shown once the server says that it has a configuration file. */
  constructor(card, { waiting, list, empty, button, status }) {
    Object.assign(this, { card, waiting, list, empty, button, status });
    button.addEventListener('click', () => this.#reload());
  }

  /** Takes the number of readings so far; undefined of a server without a configuration file. */
  update(number) {
    this.card.hidden = number === undefined;
    if (number === undefined || number === this.#number) return;
    this.#number = number;
    this.#refresh();
  }

  async #reload() {
    this.button.disabled = true;
    setText(this.status, 'Reading\u2026');
    try {
      await change(`${base}/api/v1/reloads`, { method: 'POST', timeoutMs: TIMEOUT_MS });
      setText(this.status, '');
    } catch (error) {
      // What is wrong with a file stands in the list below.
      setText(this.status, error.status === 422 ? '' : error.message);
    }
    this.button.disabled = false;
    await this.#refresh();
  }

  async #refresh() {
    let reloads;
    try {
      ({ reloads } = await getJson(`${base}/api/v1/reloads?limit=${SHOWN}`));
    } catch {
      // The connection of the page tells that the server is away; the next overview asks again.
      this.#number = null;
      return;
    }
    this.empty.hidden = reloads.length > 0;
    this.list.hidden = reloads.length === 0;
    this.list.replaceChildren(...reloads.map(row));
    const keys = reloads[0]?.restart ?? [];
    this.waiting.hidden = keys.length === 0;
    this.waiting.replaceChildren(html('strong', {}, keys.length === 1 ? 'A key waits for a restart' : `${keys.length} keys wait for a restart`),
      html('ul', {}, ...[...byReason(keys)].map(([reason, of]) => html('li', {}, html('code', {}, of.join(', ')), `: ${reason}`))));
  }
}

/** Keys by the reason why they wait. */
function byReason(keys) {
  const reasons = new Map();
  for (const { key, reason } of keys) reasons.set(reason, [...(reasons.get(reason) ?? []), key]);
  return reasons;
}

function row({ at_ms: at, cause, outcome, changed, error }) {
  const [look, words] = OUTCOMES[outcome] ?? ['off', outcome];
  const date = new Date(at);
  const what = error ?? (changed.length ? `changed: ${changed.join(', ')}` : '');
  return html('li', {},
    html('time', { class: 'quiet', datetime: date.toISOString() }, when(date)),
    html('span', { class: 'pill', 'data-state': look }, html('span', {}, html('strong', {}, words), ` \u00b7 ${CAUSES[cause] ?? cause}`)),
    what ? html('p', { class: error ? 'told' : 'quiet' }, what) : '');
}
