// Push to talk: while the button is held, the microphone goes to the camera's loudspeaker.
//
//   idle ── press ─► connecting ─► talking ⇄ silent ── 15 s ─► idle
//                        └── refused, or no microphone: a note says why
//
// The connection is another one than that of the video. It stays for some seconds, so that the next
// words need not wait for the camera.

import { Session } from './whep.js';

/** Time that the connection stays after the last word. */
const LINGER_MS = 15_000;

/** What the microphone is asked for: the browser removes what its own loudspeaker plays. */
const VOICE = { echoCancellation: true, noiseSuppression: true, autoGainControl: true };

const LABELS = { idle: 'Hold to talk', connecting: 'Connecting', talking: 'Talking', silent: 'Hold to talk' };

export class Talk {
  #button;
  #endpoint;
  #onChange;
  #session = null;
  #track = null;
  #isHeld = false;
  #timer = null;

  /** `onChange(state, problem)`: state is idle, connecting, talking or silent; problem a text or null. */
  constructor(button, endpoint, onChange) {
    this.#button = button;
    this.#endpoint = endpoint;
    this.#onChange = onChange;
    const isKey = ({ code }) => code === 'Space' || code === 'Enter';
    button.addEventListener('pointerdown', (event) => {
      button.setPointerCapture?.(event.pointerId);
      this.press();
    });
    for (const end of ['pointerup', 'pointercancel', 'lostpointercapture', 'blur']) button.addEventListener(end, () => this.release());
    button.addEventListener('keydown', (event) => {
      if (!isKey(event)) return;
      event.preventDefault();
      if (!event.repeat) this.press();
    });
    button.addEventListener('keyup', (event) => { if (isKey(event)) this.release(); });
    // A long touch would open a menu.
    button.addEventListener('contextmenu', (event) => event.preventDefault());
    addEventListener('pagehide', () => this.#end());
    this.#show('idle', null);
  }

  async press() {
    this.#isHeld = true;
    clearTimeout(this.#timer);
    if (this.#session) {
      this.#speak();
      return;
    }
    this.#show('connecting', null);
    try {
      this.#track ??= await microphone();
      this.#track.enabled = false;
      const session = await Session.dial(this.#endpoint, {
        send: this.#track,
        onTrack() {},
        onConnected: () => this.#speak(),
      });
      this.#session = session;
      session.ended.then((reason) => this.#lost(session, reason));
      if (session.connected) this.#speak();
    } catch (error) {
      this.#end();
      this.#show('idle', `The camera does not hear you: ${error.detail ?? error.message}`);
    }
  }

  release() {
    if (!this.#isHeld) return;
    this.#isHeld = false;
    this.#speak();
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#end(), LINGER_MS);
  }

  /** Opens or closes the microphone, as the button is held or not. */
  #speak() {
    if (!this.#session?.connected || !this.#track) return;
    this.#track.enabled = this.#isHeld;
    this.#show(this.#isHeld ? 'talking' : 'silent', null);
  }

  #lost(session, reason) {
    if (session !== this.#session) return;
    this.#end();
    this.#show('idle', `The talk has ended: ${reason.message}`);
  }

  /** Ends the session and gives the microphone back, so that the browser shows no recording. */
  #end() {
    clearTimeout(this.#timer);
    const session = this.#session;
    this.#session = null;
    session?.close();
    this.#track?.stop();
    this.#track = null;
    this.#show('idle', null);
  }

  #show(state, problem) {
    this.#button.setAttribute('aria-pressed', String(state === 'talking'));
    this.#button.dataset.state = state;
    this.#button.querySelector('span').textContent = LABELS[state];
    this.#onChange(state, problem);
  }
}

async function microphone() {
  if (!navigator.mediaDevices) {
    throw new Error('the browser gives a microphone to pages over HTTPS, or of this machine, only');
  }
  const stream = await navigator.mediaDevices.getUserMedia({ audio: VOICE });
  return stream.getAudioTracks()[0];
}
