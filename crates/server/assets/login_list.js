// Users and tokens: who may watch, publish and operate, and what an administrator changes of that.

import { base, change, getJson } from './api.js';
import { confirmed } from './confirm.js';
import { copyLine } from './copy_line.js';
import { html, setText } from './dom.js';
import { session } from './session.js';

const INTERVAL_MS = 15_000;
const json = { 'content-type': 'application/json' };

/** The two kinds: where the API has them, and the name of its list. */
const KINDS = { user: 'users', token: 'tokens' };

/** The lists of streams, and what their holders do with them. */
const RIGHTS = { read: 'watches', publish: 'publishes', ptz: 'moves', playback: 'plays back', record: 'records', export: 'exports' };

export class LoginList {
  #due = 0;
  #shown = '';
  #logins = [];
  #form;

  /** `body`: the rows; `made` takes a token that is shown once. `onSignedIn()` is called when the first role
   * has closed the port, and this browser was signed in with it. */
  constructor({ body, empty, form, made, onProblem, onSignedIn }) {
    Object.assign(this, { body, empty, made, onProblem, onSignedIn });
    this.#form = form;
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      this.#put();
    });
    form.addEventListener('reset', () => setTimeout(() => this.#ask(null)));
    form.elements.kind.addEventListener('change', () => this.#ask(null));
    this.#ask(null);
  }

  /** Asks for users and tokens, unless that was just done. */
  async refresh() {
    const now = performance.now();
    if (now < this.#due) return;
    this.#due = now + INTERVAL_MS;
    try {
      const lists = await Promise.all(Object.entries(KINDS).map(async ([kind, place]) =>
        (await getJson(`${base}/api/v1/${place}`))[place].map((it) => ({ ...it, kind }))));
      this.#draw(lists.flat());
    } catch {
      // The connection of the page tells that the server is away.
    }
  }

  #renew() {
    this.#due = 0;
    return this.refresh();
  }

  #draw(logins) {
    this.#logins = logins;
    const text = JSON.stringify(logins);
    if (text === this.#shown) return;
    this.#shown = text;
    this.empty.hidden = logins.length > 0;
    this.body.closest('.scroll').hidden = logins.length === 0;
    this.body.replaceChildren(...logins.map((it) => this.#row(it)));
  }

  #row(login) {
    const { kind, name, role, origin } = login;
    const edit = html('button', { class: 'small', type: 'button' }, 'Change', html('span', { class: 'unseen' }, ` ${kind} ${name}`));
    const remove = html('button', { class: 'small', type: 'button' }, kind === 'token' ? 'Revoke' : 'Delete', html('span', { class: 'unseen' }, ` ${kind} ${name}`));
    edit.addEventListener('click', () => this.#ask(login));
    remove.addEventListener('click', () => this.#remove(login));
    const actions = origin === 'api' ? [edit, remove] : [html('span', { class: 'quiet' }, 'in the configuration')];
    const cell = (label, value) => html('td', { 'data-label': label }, value);
    return html('tr', {}, html('th', { scope: 'row' }, name), cell('', kind), cell('role', role ?? '–'),
      cell('watches', login.read.join(', ') || '–'), cell('publishes', login.publish.join(', ') || '–'), cell('may also', more(login) || '–'), html('td', { class: 'buttons' }, ...actions));
  }

  /** Fills the form with what is to be changed; null for something new. */
  #ask(login) {
    const { kind, name, role, password } = this.#form.elements;
    if (login) {
      kind.value = login.kind;
      name.value = login.name;
      role.value = login.role ?? '';
      for (const right of Object.keys(RIGHTS)) this.#form.elements[right].value = login[right].join(' ');
      password.value = '';
      this.#form.parentElement.open = true;
      role.focus();
    }
    name.readOnly = login !== null;
    password.closest('p').hidden = kind.value === 'token';
    password.placeholder = login ? 'unchanged' : '8 characters or more';
    setText(this.#form.parentElement.querySelector('summary'), login ? `Change ${login.kind} ${login.name}` : 'Add a user or a token');
    setText(this.#form.querySelector('[type=submit]'), login ? 'Save' : 'Add');
  }

  async #put() {
    const { kind, name, role, password } = this.#form.elements;
    const words = (right) => this.#form.elements[right].value.split(/[\s,]+/).filter(Boolean);
    const login = { kind: kind.value, name: name.value.trim(), role: role.value || null };
    if (!await this.#mayLose(login)) return;
    const body = { role: login.role, ...Object.fromEntries(Object.keys(RIGHTS).map((it) => [it, words(it)])), ...(login.kind === 'user' && password.value && { password: password.value }) };
    try {
      const here = await session();
      const answer = await change(urlOf(login), { method: 'PUT', headers: json, body: JSON.stringify(body) });
      const { token } = await answer.json();
      // The first role closes the port, also to this page, which would take the token with it.
      if (login.role && here && !here.signedIn) await this.#signIn(token ? { token } : { user: login.name, password: password.value });
      this.#form.reset();
      this.#form.parentElement.open = false;
      this.#show(login, token);
      await this.#renew();
    } catch (error) {
      this.onProblem(error);
    }
  }

  async #signIn(credential) {
    await change(`${base}/api/v1/session`, { method: 'POST', headers: json, body: JSON.stringify(credential) });
    this.onSignedIn();
  }

  /** Shows the text of a token, which the server does not keep. */
  #show({ name }, token) {
    this.made.hidden = !token;
    this.made.replaceChildren(...(token ? [
      html('p', {}, html('strong', {}, `The token ${name}`), ' is shown this once. Copy it now:'), copyLine(token)] : []));
  }

  async #remove(login) {
    const { kind, name } = login;
    const text = kind === 'token' ? 'Programs with this token are refused from now on.' : 'This person is signed out, and watches nothing that needs a right.';
    const isLast = this.#isLastAdmin(login);
    const sure = await confirmed({ title: `${kind === 'token' ? 'Revoke' : 'Delete'} ${kind} ${name}?`, text: isLast ? `${text} ${LAST}` : text, action: kind === 'token' ? 'Revoke' : 'Delete' });
    if (!sure) return;
    try {
      await change(urlOf(login), { method: 'DELETE' });
      this.#show(login, null);
      await this.#renew();
    } catch (error) {
      this.onProblem(error);
    }
  }

  /** Whether a change is wanted, also if it takes the role of the last administrator. */
  async #mayLose(login) {
    if (login.role === 'admin' || !this.#isLastAdmin(login)) return true;
    return confirmed({ title: `${login.name} is the last administrator`, text: LAST, action: 'Change it all the same' });
  }

  #isLastAdmin({ kind, name }) {
    const admins = this.#logins.filter(({ role }) => role === 'admin');
    return admins.length === 1 && admins[0].kind === kind && admins[0].name === name;
  }
}

/** What a login may do beside watching and publishing. */
const more = (login) => Object.entries(RIGHTS).slice(2).filter(([right]) => login[right].length)
  .map(([right, does]) => `${does} ${login[right].join(', ')}`).join('; ');

const LAST = 'This is the last administrator: make another one first. The server refuses the change, unless an identity provider can name an admin.';

const urlOf = ({ kind, name }) => `${base}/api/v1/${KINDS[kind]}/${encodeURIComponent(name)}`;
