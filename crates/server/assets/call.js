// A room of voice calls: one session in which this page sends its voice, and one (a leg) for each
// of the other participants, in which it receives theirs.
//
//   join ─ POST /call/ROOM ──────────► Location: the session
//   watch ─ GET the session ?since= ─► the other participants, when the list changes
//   hear  ─ POST the session/hear/ID ► their voice, as WHEP has it
//
// A leg that fails is dialled again while the other participant is in the room. If the page's own
// session ends, the page joins again by itself, as a new participant to the others.

import { Problem, base, pagePath, request, withToken } from './api.js';
import { html, setText } from './dom.js';
import { hasKey } from './key.js';
import { Retry, sleep } from './retry.js';
import { Servers } from './servers.js';
import { SILENCE_DB, arrival, describe, level } from './voice.js';
import { Session } from './whep.js';

const LEVELS_MS = 80;
const FIGURES_MS = 1000;
/** The server answers after 20 s even if the list has not changed. */
const WATCH_MS = 30000;
/** Longest pause between tries to join again: another server has the room as soon as somebody comes. */
const REJOIN_MAX_MS = 800;
/** Fields that are chosen before a call and apply to all of it. */
const CHOICES = ['name', 'microphone', 'copies'];

const $ = (id) => document.getElementById(id);
const room = decodeURIComponent(pagePath.split('/')[2] ?? '');

/** The present call, or null. */
let current = null;
window.call = { state: 'idle', others: new Map() }; // For tests and the console.

$('choose').hidden = room !== '';
$('join').hidden = room === '';
if (room) {
  document.title = `${room} · glassline`;
  setText($('title'), `Call · ${room}`);
  setText($('command'), `glassline call ${location.origin}${location.pathname}`);
  $('invite').addEventListener('click', invite);
}

/** Copies the address that others open to join, with the key if this page has one. */
async function invite() {
  try {
    await navigator.clipboard.writeText(location.href);
    setText($('invite'), 'Copied');
  } catch {
    // Plain HTTP of another host has no clipboard.
    prompt('The address for others', location.href);
  }
  setTimeout(() => setText($('invite'), 'Copy invitation'), 2000);
}

$('room-form').addEventListener('submit', (event) => {
  event.preventDefault();
  location.href = withToken(`${base}/call/${encodeURIComponent($('room').value)}`);
});

$('join-form').addEventListener('submit', (event) => {
  event.preventDefault();
  if (current) current.end('You left');
  else start();
});

$('mute').addEventListener('click', () => current?.setMuted($('mute').ariaPressed !== 'true'));
// A page that is closed leaves the call; if it cannot, the server notices the silence.
addEventListener('pagehide', () => current?.end('You left'));

function state(word, text) {
  $('state').dataset.state = word;
  setText($('state'), text);
}

/** Why this page may not join, in words for people who were invited. */
function refusal(error) {
  if (!(error instanceof Problem)) return error.message;
  if (error.status === 401) return hasKey ? 'This key is wrong: ask for another invitation.' : 'This room needs a key: ask for an invitation.';
  if (error.status === 403) return 'You may not join this room: ask for an invitation.';
  return error.message;
}

function trouble(text) {
  $('trouble').hidden = !text;
  setText($('trouble'), text ?? '');
}

async function start() {
  $('dial').disabled = true;
  trouble(null);
  const call = new Call();
  current = call;
  window.call = call;
  try {
    await call.open($('microphone').value);
    await listMicrophones();
  } catch (error) {
    call.end('Not in a call', refusal(error));
  } finally {
    $('dial').disabled = false;
  }
}

/** Browsers give the names of microphones only once the microphone is allowed. */
async function listMicrophones() {
  const select = $('microphone');
  const chosen = select.value;
  const all = await navigator.mediaDevices.enumerateDevices();
  const options = all
    .filter(({ kind, deviceId }) => kind === 'audioinput' && deviceId !== 'default')
    .map(({ label, deviceId }) => new Option(label || 'Microphone', deviceId));
  select.replaceChildren(select.options[0], ...options);
  select.value = chosen;
}

class Call {
  state = 'connecting';
  others = new Map();
  muted = false;
  copies = $('copies').checked;

  async open(deviceId) {
    state('connecting', 'Asking for the microphone');
    if (!navigator.mediaDevices) {
      throw new Error('No microphone: browsers allow it only to pages from https or localhost');
    }
    const audio = deviceId ? { deviceId: { exact: deviceId } } : true;
    this.local = await navigator.mediaDevices.getUserMedia({ audio });
    if (this.state === 'ended') return this.release();
    this.context = new AudioContext();
    this.own = level(this.context, this.local);
    $('dial').textContent = 'Leave';
    $('dial').classList.add('live');
    $('mute').disabled = false;
    for (const id of CHOICES) $(id).disabled = true;
    this.levels = setInterval(() => this.showLevels(), LEVELS_MS);
    this.figures = setInterval(() => this.showFigures(), FIGURES_MS);
    await this.join();
    return undefined;
  }

  /** Sends the voice, and watches the list of participants until the session ends. */
  async join() {
    state('connecting', 'Joining');
    const name = encodeURIComponent($('name').value.trim());
    this.servers ??= new Servers(`${base}/call/${encodeURIComponent(room)}`, `name=${name}`);
    const session = await Session.dial(this.servers.present(), {
      send: this.local.getAudioTracks()[0],
      copies: this.copies,
      onTrack: () => {},
      onAnswer: (response) => this.servers.note(response),
      onConnected: () => {
        if (this.state === 'ended') return;
        this.servers.reset();
        this.state = 'live';
        state('live', this.muted ? 'Muted' : 'In the call');
      },
    });
    if (this.state === 'ended') return session.close();
    this.session = session;
    $('people').hidden = false;
    this.watch(session);
    session.ended.then((why) => {
      if (this.session === session && this.state !== 'ended') this.rejoin(why.message);
    });
    return undefined;
  }

  /** Joins again after the session ended without the user's wish. */
  async rejoin(why) {
    this.session?.close();
    this.session = null;
    this.state = 'connecting';
    this.follow([]);
    trouble(why);
    const retry = new Retry(REJOIN_MAX_MS);
    let pauseMs = null;
    while (this.state === 'connecting' && !this.session) {
      state('reconnecting', 'Joining again');
      await sleep(pauseMs ?? retry.next());
      if (this.state !== 'connecting') return;
      try {
        await this.join();
        trouble(null);
      } catch (error) {
        trouble(error.message);
        // A server that another one named refuses what has become invalid meanwhile: the own address decides.
        const isOwn = this.servers.isOwn();
        pauseMs = this.servers.next();
        if (isOwn && error instanceof Problem && [400, 401, 403, 422].includes(error.status)) {
          this.end('Not in a call', refusal(error));
        }
      }
    }
  }

  async watch(session) {
    let since = '';
    const retry = new Retry();
    while (this.session === session && this.state !== 'ended') {
      try {
        const response = await request(`${session.resource}${since}`, { timeoutMs: WATCH_MS });
        const list = await response.json();
        this.servers.note(response);
        if (this.session !== session || this.state === 'ended') return;
        since = `?since=${list.version}`;
        retry.reset();
        this.follow(list.others);
      } catch (error) {
        if (this.session !== session || this.state === 'ended') return;
        // 404, 410: the server no longer has the session.
        if (error.status === 404 || error.status === 410) return session.lose('The server ended the session');
        await sleep(retry.next());
      }
    }
    return undefined;
  }

  /** Dials the participants that are new in the list, and drops those that are missing. */
  follow(list) {
    const here = new Map(list.map((other) => [other.id, other]));
    for (const [id, other] of this.others) {
      if (here.has(id)) continue;
      other.leave();
      this.others.delete(id);
    }
    for (const { id, name } of list) {
      if (this.others.has(id)) continue;
      const other = new Other(this, id, name);
      this.others.set(id, other);
      other.hear();
    }
    setText($('count'), this.others.size ? `${this.others.size + 1} with you` : '');
    $('alone').hidden = this.others.size > 0;
  }

  setMuted(muted) {
    this.muted = muted;
    for (const track of this.local?.getAudioTracks() ?? []) track.enabled = !muted;
    $('mute').ariaPressed = String(muted);
    $('mute').textContent = muted ? 'Unmute' : 'Mute';
    if (this.state === 'live') state('live', muted ? 'Muted' : 'In the call');
  }

  showLevels() {
    $('own').value = this.own();
    for (const other of this.others.values()) other.showLevel();
  }

  showFigures() {
    for (const other of this.others.values()) other.showFigures();
  }

  release() {
    for (const track of this.local?.getTracks() ?? []) track.stop();
    this.context?.close();
  }

  end(word, why = null) {
    if (this.state === 'ended') return;
    this.state = 'ended';
    this.why = why ?? word;
    clearInterval(this.levels);
    clearInterval(this.figures);
    this.follow([]);
    this.session?.close();
    this.release();
    current = null;
    state('idle', word);
    trouble(why);
    $('people').hidden = true;
    $('dial').textContent = 'Join';
    $('dial').classList.remove('live');
    $('mute').disabled = true;
    $('mute').ariaPressed = 'false';
    $('mute').textContent = 'Mute';
    for (const id of CHOICES) $(id).disabled = false;
    $('own').value = SILENCE_DB;
  }
}

/** Another participant of the room. */
class Other {
  constructor(call, id, name) {
    Object.assign(this, { call, id, name: name || id, session: null, gone: false, last: null });
    this.meter = html('meter', { min: SILENCE_DB, max: 0, low: -50, high: -3, optimum: -20, value: SILENCE_DB, 'aria-label': `Level of ${this.name}` });
    this.pill = html('span', { class: 'pill', 'data-state': 'connecting' }, 'Connecting');
    this.figures = html('span', { class: 'figures' });
    this.audio = html('audio', { autoplay: '' });
    this.row = html('li', { 'data-id': id },
      html('span', { class: 'name' }, this.name), this.meter, this.pill, this.figures, this.audio);
    $('others').append(this.row);
  }

  /** Receives the voice until the other participant, or this page, leaves. */
  async hear() {
    const retry = new Retry();
    while (!this.gone) {
      try {
        const endpoint = `${this.call.session.resource}/hear/${this.id}`;
        const session = await Session.dial(endpoint, {
          kinds: ['audio'],
          copies: this.call.copies,
          onTrack: (track) => this.play(track),
          onConnected: () => this.show('live', 'Heard'),
        });
        if (this.gone) return session.close();
        this.session = session;
        const why = await session.ended;
        session.close();
        retry.reset();
        if (!this.gone) this.show('reconnecting', why.message);
      } catch (error) {
        if (this.gone) return undefined;
        this.show('waiting', error.message);
      }
      await sleep(retry.next());
    }
    return undefined;
  }

  play(track) {
    this.remote = new MediaStream([track]);
    this.audio.srcObject = this.remote;
    this.level = level(this.call.context, this.remote);
  }

  show(word, text) {
    this.pill.dataset.state = word;
    setText(this.pill, text);
  }

  showLevel() {
    if (this.level) this.meter.value = this.level();
  }

  async showFigures() {
    if (!this.session?.connected) return;
    const now = await arrival(this.session.pc, this.last).catch(() => null);
    if (!now) return;
    this.last = now.raw;
    setText(this.figures, describe(now));
  }

  leave() {
    this.gone = true;
    this.session?.close();
    this.audio.srcObject = null;
    this.row.remove();
  }
}
