// Back in the recordings of the stream that plays, and to the present again, within the session.
//
//   −10 s, −1 min, a time ─► POST …/whep/SESSION/at ─► the server sends the past in place of the live stream
//   Live                  ─►          "             ─► the live stream again
//
// The server knows which frame it sends, so steps are counted there.

import { request } from './api.js';
import { setText } from './dom.js';
import { duration, fieldOf, when } from './format.js';

/** Steps of the buttons and keys, in seconds. */
const STEP_S = 10;
const LONG_STEP_S = 60;

const $ = (id) => document.getElementById(id);

export class Past {
  #session = null;

  /** What is shown, in ms since 1970 on the server's calendar, since `#sinceMs`; null for the live stream. */
  #atMs = null;
  #sinceMs = 0;

  /** How long ago that was, in seconds. */
  #agoS = 0;

  /** Whether a request is under way, and what is asked for behind it. */
  #isBusy = false;
  #next = null;

  /** `onChange()` is called when the session goes to the past, elsewhere in it, or to the present. */
  constructor(onChange) {
    this.onChange = onChange;
    $('past-minute').addEventListener('click', () => this.go({ by: -LONG_STEP_S }));
    $('past-step').addEventListener('click', () => this.go({ by: -STEP_S }));
    $('past-live').addEventListener('click', () => this.go({ at: 'live' }));
    $('past-time').addEventListener('click', () => this.#ask());
    $('past-close').addEventListener('click', () => $('past-dialog').close());
    $('past-dialog').addEventListener('click', (event) => { if (event.target === $('past-dialog')) $('past-dialog').close(); });
    $('past-form').addEventListener('submit', (event) => {
      event.preventDefault();
      const at = Date.parse($('past-form').elements.at.value);
      $('past-dialog').close();
      if (Number.isFinite(at)) this.go({ at: new Date(at).toISOString() });
    });
    addEventListener('keydown', (event) => this.#key(event));
  }

  /** When what is shown was recorded, in ms since 1970; null for the live stream. */
  get shownMs() {
    return this.#atMs === null ? null : this.#atMs + performance.now() - this.#sinceMs;
  }

  /** Follows a new session, which shows the live stream; null while there is none. What was shown goes on in it. */
  follow(session) {
    const shownMs = this.shownMs;
    this.#session = session;
    $('past').hidden = session === null;
    if (session !== null && shownMs !== null) this.go({ at: new Date(shownMs).toISOString() });
  }

  /** Goes elsewhere: `{at}`, a time or `live`, or `{by}`, seconds from what is shown. */
  async go(wish) {
    if (this.#isBusy) {
      const isStep = wish.by !== undefined && this.#next?.by !== undefined;
      this.#next = isStep ? { by: this.#next.by + wish.by } : wish;
      return;
    }
    this.#isBusy = true;
    await this.#send(wish);
    this.#isBusy = false;
    const next = this.#next;
    this.#next = null;
    if (next !== null) this.go(next);
  }

  async #send(wish) {
    const session = this.#session;
    if (!session?.resource) return;
    try {
      const headers = { 'content-type': 'application/json' };
      const response = await request(`${session.resource}/at`, { method: 'POST', headers, body: JSON.stringify(wish), timeoutMs: 15_000 });
      const { at } = await response.json();
      if (session !== this.#session) return;
      this.#atMs = at === 'live' ? null : Date.parse(at);
      this.#sinceMs = performance.now();
      const serverMs = Date.parse(response.headers.get('date') ?? '');
      this.#agoS = ((Number.isFinite(serverMs) ? serverMs : Date.now()) - this.#atMs) / 1000;
      this.#tell(null);
    } catch (problem) {
      this.#tell(problem.status === 404 ? 'Nothing is recorded there.' : problem.message);
    }
    this.onChange();
  }

  /** Shows the time of what is shown; runs once a second, too. */
  show() {
    const shownMs = this.shownMs;
    $('past-live').setAttribute('aria-pressed', String(shownMs === null));
    setText($('past-at'), shownMs === null ? '' : `${when(shownMs)}, ${duration(Math.max(1, Math.round(this.#agoS)))} ago`);
  }

  #tell(trouble) {
    $('past-note').hidden = trouble === null;
    setText($('past-note'), trouble ?? '');
    this.show();
  }

  #ask() {
    $('past-form').elements.at.value = fieldOf(this.shownMs ?? Date.now());
    $('past-dialog').showModal();
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || $('past').hidden) return;
    if (event.target.closest?.('input, select, dialog')) return;
    const steps = { j: -STEP_S, J: -LONG_STEP_S, l: STEP_S, L: LONG_STEP_S };
    if (event.key in steps) {
      // From the present, nothing leads ahead.
      if (steps[event.key] < 0 || this.shownMs !== null) this.go({ by: steps[event.key] });
    } else if (event.key === 'End') this.go({ at: 'live' });
    else if (event.key === 't') this.#ask();
    else return;
    event.preventDefault();
  }
}
