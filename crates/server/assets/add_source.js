// The form that adds a camera: the server tries it, then makes its stream, which the page shows.

import { base, change } from './api.js';
import { setText } from './dom.js';
import { track } from './format.js';

/** Longest trial of the server, and some time for a slow network. */
const TRIAL_MS = 20_000;
/** The server reads files through before it answers. */
const MAKING_MS = 60_000;

const NAME = /^[A-Za-z0-9_~][A-Za-z0-9._~-]*$/;
const json = { 'content-type': 'application/json' };

/** What an answer says of the address; anything else is said of the name, or of the whole form. */
const OF_ADDRESS = [403, 422];
const OF_NAME = [400, 409, 412];

export class AddSource {
  #form;
  #has;
  #onAdded;

  /** `has(name)`: whether there is such a stream; `onAdded(name)` is called once it was made. */
  constructor(form, { has, onAdded }) {
    this.#form = form;
    this.#has = has;
    this.#onAdded = onAdded;
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      this.#add(event.submitter?.value !== 'untried');
    });
    form.addEventListener('input', ({ target }) => {
      this.#say(target.name, '');
      this.#anyway.hidden = true;
    });
  }

  get #anyway() { return this.#form.querySelector('[value=untried]'); }

  /** The source as the API takes it. */
  #source() {
    const { address, user, password, transport, on_demand: onDemand } = this.#form.elements;
    const login = user.value ? `${encodeURIComponent(user.value)}:${encodeURIComponent(password.value)}@` : '';
    const source = address.value.trim().replace(/^rtsps?:\/\//i, (scheme) => scheme + login);
    return JSON.stringify({
      source,
      ...(transport.value && { transport: transport.value }),
      ...(onDemand.checked && { on_demand: true }),
    });
  }

  async #add(isTried) {
    const { name, address } = this.#form.elements;
    for (const field of [name, address]) this.#say(field.name, '');
    const problems = [
      [name, !NAME.test(name.value) && 'Letters, digits and . _ ~ -, and neither . nor - in front.'],
      [name, this.#has(name.value) && 'There is a stream of this name already.'],
      [address, !address.value.trim() && 'The address is missing.'],
    ].filter(([, wrong]) => wrong);
    if (problems.length > 0) {
      for (const [field, wrong] of problems.reverse()) this.#fail(field, wrong);
      return;
    }
    this.#busy(true);
    try {
      const found = isTried ? await this.#try() : '';
      if (found !== null) await this.#make(name.value, found);
    } catch (error) {
      const text = [error.detail ?? error.message, error.remedy].filter(Boolean).join('. ');
      if (OF_ADDRESS.includes(error.status)) this.#fail(address, text);
      else if (OF_NAME.includes(error.status)) this.#fail(name, text);
      else this.#tell(error.message, true);
    } finally {
      this.#busy(false);
    }
  }

  /** Lets the server try the source; returns its tracks in words, or null if no media came. */
  async #try() {
    this.#tell('Trying: up to 10 seconds…');
    const url = `${base}/api/v1/source-trials`;
    const answer = await change(url, { method: 'POST', headers: json, body: this.#source(), timeoutMs: TRIAL_MS });
    const { works, tracks, problem, remedy } = await answer.json();
    this.#tell('');
    if (works) return tracks.map(track).join(', ');
    this.#fail(this.#form.elements.address, [problem, remedy].filter(Boolean).join('; '));
    this.#anyway.hidden = false;
    return null;
  }

  async #make(name, found) {
    const url = `${base}/api/v1/sources/${encodeURIComponent(name)}`;
    const headers = { ...json, 'if-none-match': '*' };
    await change(url, { method: 'PUT', headers, body: this.#source(), timeoutMs: MAKING_MS });
    this.#form.reset();
    this.#anyway.hidden = true;
    this.#tell(`${name} is added${found ? `: ${found}` : ''}.`);
    this.#onAdded(name);
  }

  #busy(is) {
    for (const button of this.#form.querySelectorAll('button')) button.disabled = is;
  }

  #tell(text, isBad = false) {
    const status = this.#form.querySelector('[role=status]');
    status.classList.toggle('problem', isBad);
    setText(status, text);
  }

  /** Says beside a field what is wrong with it, and leads there. */
  #fail(field, text) {
    this.#tell('');
    this.#say(field.name, text);
    field.focus();
  }

  #say(name, text) {
    const field = this.#form.elements[name];
    const line = this.#form.querySelector(`#add-${name}-problem`);
    if (!line) return;
    setText(line, text);
    line.hidden = text === '';
    if (text) field.setAttribute('aria-invalid', 'true');
    else field.removeAttribute('aria-invalid');
  }
}
