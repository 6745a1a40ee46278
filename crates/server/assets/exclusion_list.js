// Who is kept away from streams, and the button that lets them come back.

import { base, change, getJson } from './api.js';
import { html } from './dom.js';

const URL_OF_LIST = `${base}/api/v1/exclusions`;
const INTERVAL_MS = 10_000;

export class ExclusionList {
  #due = 0;
  #shown = '';

  /** `box` holds all of it, and is shown while somebody is kept away. */
  constructor(box, { list, onProblem }) {
    Object.assign(this, { box, list, onProblem });
  }

  /** Asks for the list, unless that was just done. */
  async refresh() {
    const now = performance.now();
    if (now < this.#due) return;
    this.#due = now + INTERVAL_MS;
    try {
      this.#draw((await getJson(`${URL_OF_LIST}?limit=100`)).exclusions);
    } catch {
      // The connection of the page tells that the server is away.
    }
  }

  /** Asks again at once. */
  renew() {
    this.#due = 0;
    this.refresh();
  }

  #draw(exclusions) {
    const rows = exclusions.map(({ ends_in_s: left, ...it }) => ({ ...it, minutes: Math.ceil(left / 60) }));
    const text = JSON.stringify(rows);
    if (text === this.#shown) return;
    this.#shown = text;
    this.box.hidden = rows.length === 0;
    this.list.replaceChildren(...rows.map((it) => this.#row(it)));
  }

  #row({ number, user, address, stream, minutes }) {
    const lift = html('button', { class: 'small act', type: 'button' }, 'Let back in', html('span', { class: 'unseen' }, ` ${user ?? address}`));
    lift.addEventListener('click', async () => {
      lift.disabled = true;
      try {
        await change(`${URL_OF_LIST}/${number}`, { method: 'DELETE' });
      } catch (error) {
        if (error.status !== 404) this.onProblem(error);
      }
      this.renew();
    });
    return html('li', {}, html('span', {}, html('strong', {}, user ?? address), ` from ${stream ?? 'all streams'}, another ${minutes} min`), lift);
  }
}
