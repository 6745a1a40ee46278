// The strip of time below a recording: what was recorded, what is marked, and where the picture is. It is a
// slider: by pointer, by finger, and by keyboard.
//
//   shown part [from, to) ─► spans, marks, hours          pointer, keys ─► onSeek(time in ms)
//
// While a pointer is over the strip, a small picture shows the time below it.

import { request } from './api.js';
import { html } from './dom.js';

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

/** Width of a label. One that the edge would cut is left out. */
const LABEL_PX = 60;

/** Lengths that can be shown, the longest first. */
const LENGTHS = [24 * HOUR, 6 * HOUR, HOUR, 10 * MINUTE, MINUTE];

/** Distance of two labels for each length. */
const LABEL_EACH = [3 * HOUR, HOUR, 10 * MINUTE, 2 * MINUTE, 10 * SECOND];

/** Time without a movement after which the picture below the pointer is asked for. */
const REST_MS = 120;

/** Steps of the keys, in ms. */
const STEPS = { ArrowLeft: -5 * SECOND, ArrowRight: 5 * SECOND, ArrowDown: -MINUTE, ArrowUp: MINUTE, PageDown: -10 * MINUTE, PageUp: 10 * MINUTE };

const two = (number) => String(number).padStart(2, '0');

/** `14:03:05`, in the zone of the browser. */
export const clockOf = (ms) => {
  const date = new Date(ms);
  return [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(':');
};

export class TimeStrip {
  #zoom = 0;
  #spans = [];
  #marks = [];
  #now = 0;
  #preview;
  #resting = 0;
  #asked = null;
  #dragged = null;

  /** `onSeek(ms)` is called with the time that a person chooses, `onDrawn()` whenever another part is shown;
   * `picture(ms)` is the address of the picture of a time. */
  constructor(strip, { onSeek, onDrawn, picture }) {
    Object.assign(this, { strip, onSeek, onDrawn, picture });
    this.from = 0;
    this.cursor = html('div', { class: 'cursor' });
    strip.addEventListener('pointerdown', (event) => this.#press(event));
    strip.addEventListener('pointermove', (event) => this.#hover(event));
    strip.addEventListener('pointerup', (event) => this.#release(event));
    strip.addEventListener('pointercancel', () => this.#leave());
    strip.addEventListener('pointerleave', () => { if (this.#dragged === null) this.#leave(); });
    strip.addEventListener('keydown', (event) => this.#key(event));
    strip.addEventListener('wheel', (event) => this.#wheel(event), { passive: false });
  }

  get length() { return LENGTHS[this.#zoom]; }

  get to() { return this.from + this.length; }

  /** Shows the day that begins at `ms`. */
  showDay(ms) {
    this.#zoom = 0;
    this.from = ms;
    this.#draw();
  }

  /** What there is: `spans` and `marks` with `from` and `to` in ms. */
  fill({ spans, marks }) {
    this.#spans = spans;
    this.#marks = marks;
    this.#draw();
  }

  /** Shows where the picture is, and follows it beyond the end of what is shown. */
  moveTo(ms) {
    this.#now = ms;
    if (this.#dragged === null && this.#zoom > 0 && (ms < this.from || ms >= this.to)) {
      this.from = ms - this.length / 10;
      this.#draw();
    }
    this.#place();
  }

  /** Shows less time (`steps` > 0) or more around the picture. */
  zoom(steps, around = this.#now) {
    const next = Math.min(LENGTHS.length - 1, Math.max(0, this.#zoom + steps));
    if (next === this.#zoom) return;
    const share = Math.min(1, Math.max(0, (around - this.from) / this.length));
    this.#zoom = next;
    this.from = next === 0 ? new Date(around).setHours(0, 0, 0, 0) : around - share * this.length;
    this.#draw();
  }

  /** Shows the shortest part around `around` that has room for `ms`. */
  fit(ms, around) {
    while (LENGTHS[this.#zoom + 1] > ms) this.zoom(1, around);
  }

  #draw() {
    const place = ({ from, to }, name) => {
      const left = this.#share(from);
      const node = html('div', { class: name });
      node.style.left = `${left * 100}%`;
      node.style.width = `${(this.#share(to) - left) * 100}%`;
      return node;
    };
    const seen = (it) => it.to > this.from && it.from < this.to;
    this.strip.replaceChildren(
      ...this.#labels(),
      ...this.#spans.filter(seen).map((it) => place(it, 'span')),
      ...this.#marks.filter(seen).map((it) => place(it, 'mark')),
      this.cursor,
    );
    this.#place();
    this.onDrawn();
  }

  #labels() {
    // A narrow strip has half as many.
    const each = LABEL_EACH[this.#zoom] * (this.strip.clientWidth < 480 ? 2 : 1);
    const zone = new Date(this.from).getTimezoneOffset() * MINUTE;
    const labels = [];
    for (let at = Math.ceil((this.from - zone) / each) * each + zone; at < this.to; at += each) {
      const share = this.#share(at);
      const isWhole = (1 - share) * this.strip.clientWidth > LABEL_PX;
      const node = html('div', { class: 'hour' }, isWhole ? clockOf(at).slice(0, each < MINUTE ? 8 : 5) : '');
      node.style.left = `${share * 100}%`;
      labels.push(node);
    }
    return labels;
  }

  #place() {
    const { strip } = this;
    const isSeen = this.#now >= this.from && this.#now < this.to;
    this.cursor.hidden = !isSeen;
    this.cursor.style.left = `${this.#share(this.#now) * 100}%`;
    strip.setAttribute('aria-valuemax', Math.round(this.length / SECOND));
    strip.setAttribute('aria-valuenow', Math.round(this.#share(this.#now) * this.length / SECOND));
    strip.setAttribute('aria-valuetext', this.#now ? clockOf(this.#now) : 'no time yet');
  }

  #share(ms) { return Math.min(1, Math.max(0, (ms - this.from) / this.length)); }

  #timeAt(event) {
    const { left, width } = this.strip.getBoundingClientRect();
    const share = Math.min(1, Math.max(0, (event.clientX - left) / width));
    return this.from + share * this.length;
  }

  #press(event) {
    if (event.button !== 0) return;
    this.strip.setPointerCapture(event.pointerId);
    this.#dragged = this.#timeAt(event);
    this.#hover(event);
  }

  #hover(event) {
    const at = this.#timeAt(event);
    if (this.#dragged !== null) this.#dragged = at;
    this.#showPreview(event, at);
    clearTimeout(this.#resting);
    this.#resting = setTimeout(() => this.#ask(at), REST_MS);
  }

  #release(event) {
    if (this.#dragged === null) return;
    this.#dragged = null;
    this.onSeek(this.#timeAt(event));
    if (event.pointerType !== 'mouse') this.#leave();
  }

  #leave() {
    this.#dragged = null;
    clearTimeout(this.#resting);
    this.#asked?.abort();
    this.#preview?.remove();
    this.#preview = null;
  }

  #showPreview(event, at) {
    if (!this.#preview) {
      this.#preview = html('div', { class: 'preview', 'aria-hidden': 'true' }, html('img', { alt: '', hidden: '' }), html('span', {}));
      document.body.append(this.#preview);
    }
    const half = 100;
    const { top } = this.strip.getBoundingClientRect();
    this.#preview.style.left = `${Math.min(innerWidth - half, Math.max(half, event.clientX))}px`;
    this.#preview.style.top = `${top}px`;
    this.#preview.lastChild.textContent = clockOf(at);
  }

  /** Fetches the picture of a time; the one before stays until the new one is there. */
  async #ask(at) {
    const image = this.#preview?.firstChild;
    if (!image || !this.#spans.some((it) => it.from <= at && it.to > at)) {
      if (image) image.hidden = true;
      return;
    }
    this.#asked?.abort();
    const asked = new AbortController();
    this.#asked = asked;
    try {
      const blob = await (await request(this.picture(at), { cache: 'default', signal: asked.signal })).blob();
      if (asked.signal.aborted) return;
      if (image.src) URL.revokeObjectURL(image.src);
      image.src = URL.createObjectURL(blob);
      image.hidden = false;
    } catch {
      // A codec without a decoder has no pictures; the time is shown all the same.
    }
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { key } = event;
    const end = { Home: this.from, End: this.to - SECOND }[key];
    const step = STEPS[key];
    if (end === undefined && step === undefined) return;
    event.preventDefault();
    this.onSeek(end ?? this.#now + step);
  }

  #wheel(event) {
    if (!event.deltaY) return;
    event.preventDefault();
    this.zoom(event.deltaY < 0 ? 1 : -1, this.#timeAt(event));
  }
}
