// Buttons that move a camera: pan, tilt, zoom, and the positions that the camera keeps.
//
//   held ── each 0.8 s ─► POST …/ptz/move ─► moves        released, or the page goes ─► stops
//
// The server stops a movement that nobody repeats for two seconds. One request at a time is under
// way, so that a stop comes behind the movement that it ends.

import { authorization, getJson, request } from './api.js';
import { html } from './dom.js';
import { reach } from './reach.js';

const REPEAT_MS = 800;
/** The server may look for the camera's ONVIF first. */
const LOOK_MS = 30_000;
const SPEED = 0.5;
const STILL = { pan: 0, tilt: 0, zoom: 0 };
const JSON_BODY = { 'content-type': 'application/json' };

const LEFT = { ...STILL, pan: -SPEED };
const RIGHT = { ...STILL, pan: SPEED };
const UP = { ...STILL, tilt: SPEED };
const DOWN = { ...STILL, tilt: -SPEED };
const NEARER = { ...STILL, zoom: SPEED };
const FARTHER = { ...STILL, zoom: -SPEED };

const TURNS = [['←', 'Left', LEFT], ['↑', 'Up', UP], ['↓', 'Down', DOWN], ['→', 'Right', RIGHT]];
const ZOOMS = [['−', 'Zoom out', FARTHER], ['+', 'Zoom in', NEARER]];

/** Keys within the group. */
const KEYS = {
  ArrowLeft: LEFT, ArrowRight: RIGHT, ArrowUp: UP, ArrowDown: DOWN, '+': NEARER, '=': NEARER, '-': FARTHER,
};

export class Ptz {
  #url;
  #tell;
  #wanted = null;
  #timer = null;
  #isSending = false;
  #isAgain = false;

  /** Fills `box` if the camera at `url` can be moved by whoever asks; `tell(problem)`: a text, or null. */
  static async offer(box, url, tell) {
    const found = await getJson(url, LOOK_MS).catch(() => null);
    if (found?.allowed) new Ptz(box, url, tell, found);
  }

  constructor(box, url, tell, { pan_tilt: turns, zoom, presets }) {
    this.#url = url;
    this.#tell = tell;
    const moves = [...(turns ? TURNS : []), ...(zoom ? ZOOMS : [])];
    box.replaceChildren(...moves.map((move) => this.#button(...move)));
    if (presets.length > 0) box.append(this.#presets(presets));
    box.addEventListener('keydown', (event) => this.#key(event));
    box.addEventListener('keyup', () => this.#release());
    // Otherwise the movement would go on while nothing of the page is seen.
    addEventListener('blur', () => this.#release());
    document.addEventListener('visibilitychange', () => { if (document.hidden) this.#release(); });
    addEventListener('pagehide', () => this.#leave());
    box.hidden = false;
  }

  #button(sign, label, movement) {
    const button = html('button', { type: 'button', 'aria-label': label, title: `${label} (hold)` }, sign);
    button.addEventListener('pointerdown', (event) => {
      button.setPointerCapture?.(event.pointerId);
      this.#hold(movement);
    });
    for (const end of ['pointerup', 'pointercancel', 'lostpointercapture', 'blur']) button.addEventListener(end, () => this.#release());
    button.addEventListener('keydown', (event) => {
      if (event.code !== 'Space' && event.code !== 'Enter') return;
      event.preventDefault();
      if (!event.repeat) this.#hold(movement);
    });
    // A long touch would open a menu.
    button.addEventListener('contextmenu', (event) => event.preventDefault());
    return button;
  }

  #presets(presets) {
    const options = presets.map(({ token, name }) => html('option', { value: token }, name || token));
    const select = html('select', { 'aria-label': 'Position of the camera' }, ...options);
    const go = html('button', { type: 'button' }, 'Go');
    go.addEventListener('click', () => this.#post('/preset', { preset: select.value }));
    return html('span', { class: 'presets' }, select, go);
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches('select')) return;
    const movement = KEYS[event.key];
    if (!movement) return;
    // The arrows are those of the volume elsewhere on the page.
    event.preventDefault();
    event.stopPropagation();
    if (!event.repeat) this.#hold(movement);
  }

  #hold(movement) {
    clearInterval(this.#timer);
    this.#wanted = movement;
    this.#timer = setInterval(() => this.#send(), REPEAT_MS);
    this.#send();
  }

  #release() {
    if (!this.#wanted) return;
    clearInterval(this.#timer);
    this.#wanted = null;
    this.#send();
  }

  /** Sends what is wanted now; a movement that changes meanwhile is sent next. */
  async #send() {
    this.#isAgain = true;
    if (this.#isSending) return;
    this.#isSending = true;
    while (this.#isAgain) {
      this.#isAgain = false;
      await this.#post('/move', this.#wanted ?? STILL);
    }
    this.#isSending = false;
  }

  async #post(below, body) {
    try {
      await request(this.#url + below, { method: 'POST', headers: JSON_BODY, body: JSON.stringify(body), timeoutMs: 10_000 });
      this.#tell(null);
    } catch (error) {
      this.#tell(`The camera does not move: ${error.detail ?? error.message}`);
    }
  }

  /** Stops the camera although the page ends. */
  #leave() {
    if (!this.#wanted) return;
    clearInterval(this.#timer);
    this.#wanted = null;
    const headers = { ...authorization, ...JSON_BODY };
    reach(`${this.#url}/move`, { method: 'POST', keepalive: true, headers, body: JSON.stringify(STILL) }).catch(() => {});
  }
}
