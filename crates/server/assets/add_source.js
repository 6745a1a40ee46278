// The form that adds a camera, or changes one: the server tries it, then makes its stream, which the page
// shows.

import { base, change, getJson } from './api.js';
import { confirmed } from './confirm.js';
import { html, setText } from './dom.js';
import { track } from './format.js';
import { forPeople, refusal } from './words.js';

/** Longest trial of the server, and some time for a slow network. */
const TRIAL_MS = 20_000;
/** The server reads files through before it answers. */
const MAKING_MS = 60_000;

/** Folders and a name, as the server takes them. */
const NAME = /^[A-Za-z0-9_~][A-Za-z0-9._~-]*(\/[A-Za-z0-9_~][A-Za-z0-9._~-]*)*$/;
const json = { 'content-type': 'application/json' };

/** What an answer says of the address; anything else is said of the name, or of the whole form. */
const OF_ADDRESS = [403, 422];
const OF_NAME = [400, 404, 409, 412];

/** A host without a scheme, as people copy it from a camera's manual: an address, or a name with something
 * behind it. A bare name with a dot may be a file. */
const WITHOUT_SCHEME = /^([^/\s@]+@)?((\d{1,3}\.){3}\d{1,3}|\[[0-9a-f:]+\]|localhost)(:\d+)?([/?].*)?$|^([^/\s@]+@)?[^/\s:@]+\.[^/\s:@]+(:\d+\/?|(:\d+)?[/?].*)$/i;

/** Options that the form has fields for, as they stand behind an address. */
const OPTION = /^(on_demand|transport=(tcp|udp)|ladder=(off|[0-9p:k,]+))$/;

/** The comma between the streams of a camera. */
const BETWEEN_STREAMS = /,(?=rtsps?:\/\/)/i;

/** Shares of a core at 1280 × 720 and 30 frames a second, as `cargo bench --bench transcode` measures them: decoding, and
 * a layer of so many rows. */
const DECODING = 0.06;
const ENCODING = (rows) => 0.03 + 0.39 * (rows / 720) ** 2;

/** What a ladder costs while somebody needs its layers; empty without one. */
function costOf(ladder) {
  const rows = [...ladder.matchAll(/(\d+)p/g)].map(([, it]) => Number(it));
  if (rows.length === 0) return '';
  const percent = (share) => `${Math.round(share * 20) * 5} %`;
  const all = rows.reduce((sum, it) => sum + ENCODING(it), DECODING);
  const least = DECODING + ENCODING(Math.min(...rows));
  const range = rows.length === 1 ? percent(all) : `${percent(least)} to ${percent(all)}`;
  return `About ${range} of a core while somebody watches a lower layer of a camera of 720p, and nothing otherwise.`;
}

/** A URL without the options that the form has fields for, and these options. */
function apart(text) {
  const [place, ...query] = text.split('?');
  const options = query.join('?').split('&').filter(Boolean);
  const others = options.filter((it) => !OPTION.test(it));
  return { url: `${place}${others.length ? `?${others.join('&')}` : ''}`, options: options.filter((it) => OPTION.test(it)) };
}

export class AddSource {
  #form;
  #has;
  #onAdded;
  /** Name of the camera that is changed; null while one is added. */
  #edited = null;

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
    form.elements.ladder.addEventListener('change', () => this.#showCost());
    form.querySelector('[value=cancel]').addEventListener('click', () => this.#reset());
  }

  get #anyway() { return this.#form.querySelector('[value=untried]'); }

  /** Shows the source of stream `name`, to be changed. The server never tells its password. */
  async edit(name) {
    const { source } = await getJson(`${base}/api/v1/sources/${encodeURIComponent(name)}`);
    this.#reset();
    this.#edited = name;
    const { name: field, address, user, password, transport, ladder, on_demand: onDemand } = this.#form.elements;
    const [first, ...more] = source.split(BETWEEN_STREAMS);
    const [, scheme, login, rest] = /^((?:rtsp|http)s?:\/\/)(?:([^@]*)@)?(.*)$/i.exec(first) ?? [null, '', null, first];
    // The login of the main stream is that of the others at its host.
    const subs = more.map((it) => it.replace(`${scheme}${login}@`, scheme));
    const urls = [`${scheme}${rest}`, ...subs].map(apart);
    const options = urls.flatMap((it) => it.options);
    field.value = name;
    field.readOnly = true;
    address.value = urls.map(({ url }) => url).join(',');
    user.value = login ? decoded(login.split(':')[0]) : '';
    password.placeholder = login?.includes(':') ? 'type it again' : '';
    transport.value = options.find((it) => it.startsWith('transport='))?.slice('transport='.length) ?? '';
    onDemand.checked = options.includes('on_demand');
    const chosen = options.find((it) => it.startsWith('ladder='))?.slice('ladder='.length) ?? '';
    if (![...ladder.options].some((it) => it.value === chosen)) ladder.add(new Option(chosen, chosen));
    ladder.value = chosen;
    this.#showCost();
    this.#title(`Change ${name}`, 'Try and save');
    this.#form.parentElement.open = true;
    (password.placeholder ? password : address).focus();
  }

  /** Puts an address that was found into the form. */
  offer(url) {
    this.#reset();
    this.#form.parentElement.open = true;
    this.#form.elements.address.value = url;
    this.#form.elements.name.focus();
  }

  #title(summary, button) {
    setText(this.#form.parentElement.querySelector('summary'), summary);
    setText(this.#form.querySelector('.main'), button);
    this.#form.querySelector('[value=cancel]').hidden = this.#edited === null;
  }

  #reset() {
    this.#edited = null;
    this.#form.reset();
    this.#showCost();
    this.#form.elements.name.readOnly = false;
    this.#form.elements.password.placeholder = '';
    for (const name of ['name', 'address']) this.#say(name, '');
    this.#anyway.hidden = true;
    this.#tell('');
    this.#title('Add a camera', 'Try and add');
  }

  /** Says what a ladder costs before it is switched on. */
  #showCost() {
    const line = this.#form.querySelector('#add-ladder-cost');
    const cost = costOf(this.#form.elements.ladder.value);
    setText(line, cost);
    line.hidden = cost === '';
  }

  /** The source as the API takes it. */
  #source() {
    const { address, user, password, transport, ladder, on_demand: onDemand } = this.#form.elements;
    const login = user.value ? `${encodeURIComponent(user.value)}:${encodeURIComponent(password.value)}@` : '';
    const source = address.value.trim().replace(/^(rtsp|http)s?:\/\//i, (scheme) => scheme + login);
    return JSON.stringify({
      source,
      ...(transport.value && { transport: transport.value }),
      ...(ladder.value && { ladder: ladder.value }),
      ...(onDemand.checked && { on_demand: true }),
    });
  }

  async #add(isTried) {
    const { name, address } = this.#form.elements;
    for (const field of [name, address]) this.#say(field.name, '');
    const isNew = this.#edited === null;
    const problems = [
      [name, isNew && !NAME.test(name.value) && 'Letters, digits and . _ ~ -, with / between folders, and neither . nor - in front.'],
      [name, isNew && this.#has(name.value) && 'There is a stream of this name already.'],
      [address, !address.value.trim() && 'The address is missing.'],
      [address, WITHOUT_SCHEME.test(address.value.trim()) && `Write rtsp:// in front: rtsp://${address.value.trim()}`],
    ].filter(([, wrong]) => wrong);
    if (problems.length > 0) {
      for (const [field, wrong] of problems.reverse()) this.#fail(field, wrong);
      return;
    }
    this.#busy(true);
    try {
      const tracks = isTried ? await this.#try() : [];
      if (tracks !== null && await this.#isWanted(name.value, tracks)) await this.#make(name.value, tracks);
    } catch (error) {
      const text = forPeople([error.detail ?? error.message, error.remedy].filter(Boolean).join('. '));
      if (OF_ADDRESS.includes(error.status)) this.#fail(address, text);
      else if (OF_NAME.includes(error.status)) this.#fail(name, text);
      else this.#tell(error.message, true);
    } finally {
      this.#busy(false);
    }
  }

  /** Lets the server try the source; returns its tracks, or null if no media came. */
  async #try() {
    this.#tell('Trying: up to 10 seconds…');
    const url = `${base}/api/v1/source-trials`;
    const answer = await change(url, { method: 'POST', headers: json, body: this.#source(), timeoutMs: TRIAL_MS });
    const { works, tracks, problem, remedy } = await answer.json();
    this.#tell('');
    if (works) return tracks;
    this.#fail(this.#form.elements.address, [problem, remedy].filter(Boolean).join('; '));
    this.#anyway.hidden = false;
    return null;
  }

  /** Names what browsers refuse before it is added. */
  async #isWanted(name, tracks) {
    const refused = refusal(tracks);
    if (!refused) return true;
    const text = `The camera sends ${inWords(tracks)}: ${refused}. H264 without B-frames, set in the camera, plays everywhere.`;
    return confirmed({ title: `Browsers do not play ${name} as it is`, text, action: this.#edited ? 'Save it' : 'Add it', isFinal: false });
  }

  async #make(name, tracks) {
    const url = `${base}/api/v1/sources/${encodeURIComponent(name)}`;
    const isNew = this.#edited === null;
    const headers = { ...json, ...(isNew ? { 'if-none-match': '*' } : { 'if-match': '*' }) };
    await change(url, { method: 'PUT', headers, body: this.#source(), timeoutMs: MAKING_MS });
    this.#reset();
    const refused = refusal(tracks);
    this.#tell(`${name} is ${isNew ? 'added' : 'changed'}${tracks.length ? `: ${inWords(tracks)}` : ''}.`);
    if (refused) this.#form.querySelector('[role=status]').append(' ', html('span', { class: 'warned' }, `${refused}.`));
    this.#onAdded(name);
  }

  #busy(is) {
    for (const button of this.#form.querySelectorAll('button')) button.disabled = is;
  }

  #tell(text, isBad = false) {
    const status = this.#form.querySelector('[role=status]');
    status.classList.toggle('problem', isBad);
    status.replaceChildren(text);
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

/** `H264 640×360 with B-frames, AAC stereo`. */
const inWords = (tracks) => tracks.map((it) => track(it) + (it.b_frames ? ' with B-frames' : '')).join(', ');

function decoded(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}
