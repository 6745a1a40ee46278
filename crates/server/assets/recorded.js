// A stream's recordings as one video, by Media Source Extensions.
//
//   spans ─► GET …/get?start&duration ─► SourceBuffer ─► video       media time 0 = the oldest second
//              └─ the next part when the end of the one before comes near, or behind a gap
//
// Each answer begins at the keyframe before the wanted time and says so. What was played is removed, so that
// hours play in constant memory.

import { request } from './api.js';

/** Seconds of one request, and what is to be there ahead of the picture at the speed 1. */
const PART_S = 20;
const AHEAD_S = 15;

/** Seconds that are kept behind the picture, for steps back. */
const BEHIND_S = 20;

/** Longest time without a part of an answer. */
const PATIENCE_MS = 15_000;

/** Assumed distance of two frames before it is known. */
const FRAME_S = 0.04;

const Source = window.ManagedMediaSource ?? window.MediaSource;

export class Recorded {
  #spans = [];
  #origin = 0;
  #source = null;
  #buffer = null;
  #type = '';
  #running = null;
  #frameS = FRAME_S;
  #wake = () => {};

  /** `url(ms, seconds)` is the address of a part; `onTrouble(problem)` is told why there is none, and null
   * when there is one again. */
  constructor(video, { url, onTrouble }) {
    Object.assign(this, { video, url, onTrouble });
    video.addEventListener('timeupdate', () => this.#wake());
    video.addEventListener('waiting', () => this.#jump());
    video.addEventListener('ratechange', () => this.#wake());
    this.#measure();
  }

  /** Whether this browser can play recordings at all. */
  static get isSupported() { return Boolean(Source); }

  /** The spans that there are, by their beginnings, with `from` and `to` in ms. */
  set spans(spans) {
    this.#spans = spans;
    this.#wake();
  }

  /** Time of the picture, in ms; null before the first one. */
  get now() {
    return this.#origin && this.#source ? this.#origin + this.video.currentTime * 1000 : null;
  }

  /** Shows the time `ms`, or what comes next behind a gap. */
  seek(ms) {
    const at = this.#next(ms) ?? this.#last();
    if (at === null) return;
    // Retention removes the oldest part, so that no time before this one comes.
    this.#origin ||= this.#spans[0].from - 3_600_000;
    const seconds = (at - this.#origin) / 1000;
    if (this.#source && this.#isBuffered(seconds)) {
      this.video.currentTime = seconds;
      return;
    }
    this.#running?.abort();
    this.#running = new AbortController();
    this.#run(at, this.#running.signal).catch((error) => {
      if (error.name !== 'AbortError') this.onTrouble(error);
    });
  }

  /** Shows the next frame (1), or the one before (-1). */
  step(frames) {
    this.video.pause();
    this.seek(this.now + frames * this.#frameS * 1000);
  }

  /** The span of `ms`, or the next one's beginning; null behind the last one. */
  #next(ms) {
    const span = this.#spans.find((it) => it.to > ms);
    return span ? Math.max(ms, span.from) : null;
  }

  #last() {
    const span = this.#spans.at(-1);
    return span ? Math.max(span.from, span.to - 5000) : null;
  }

  #isBuffered(seconds) {
    const { buffered } = this.video;
    for (let index = 0; index < buffered.length; index += 1) {
      if (buffered.start(index) <= seconds && buffered.end(index) > seconds + this.#frameS) return true;
    }
    return false;
  }

  /** Seconds of what is there from the picture on, gaps that the picture jumps over included. */
  #ahead() {
    const { buffered, currentTime } = this.video;
    return buffered.length ? buffered.end(buffered.length - 1) - currentTime : 0;
  }

  /** Fetches one part behind the other from `at` on. */
  async #run(at, signal) {
    await this.#open(signal);
    await this.#clear(signal);
    let next = at;
    let isFirst = true;
    while (!signal.aborted) {
      const start = this.#next(next);
      // The newest span may grow.
      if (start === null || (!isFirst && this.#ahead() > AHEAD_S * Math.max(1, this.video.playbackRate))) {
        await this.#woken(signal);
        continue;
      }
      const end = await this.#fetch(start, signal, isFirst ? at : null);
      this.onTrouble(null);
      isFirst = false;
      next = Math.max(end, start + 1000);
      await this.#forget(signal);
    }
  }

  /** Appends the part from `start` on; shows the time `shown` once it is there. Returns the part's end. */
  async #fetch(start, signal, shown) {
    const both = AbortSignal.any([signal, AbortSignal.timeout(PART_S * PATIENCE_MS)]);
    const answer = await request(this.url(start, PART_S), { signal: both });
    const type = answer.headers.get('content-type');
    if (!Source.isTypeSupported(type)) {
      throw Object.assign(new Error(`This browser does not play ${type}: save a part, and open it in a player.`), { title: 'Not playable here' });
    }
    const [from, to] = answer.headers.get('glassline-span').split('/').map(Date.parse);
    await this.#useType(type, signal);
    this.#buffer.timestampOffset = (from - this.#origin) / 1000;
    const seconds = shown === null ? null : (Math.max(shown, from) - this.#origin) / 1000;
    const reader = answer.body.getReader();
    let isShown = seconds === null;
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      await this.#append(value, signal);
      if (!isShown && this.#isBuffered(seconds)) {
        this.video.currentTime = seconds;
        isShown = true;
      }
    }
    if (!isShown) this.video.currentTime = seconds;
    if (shown === null) this.#jump();
    return to;
  }

  async #open(signal) {
    if (!this.#source) {
      this.#source = new Source();
      this.video.disableRemotePlayback = true;
      this.video.src = URL.createObjectURL(this.#source);
    }
    if (this.#source.readyState !== 'open') await happened(this.#source, 'sourceopen', signal);
  }

  async #useType(type, signal) {
    if (type === this.#type) return;
    if (this.#buffer) this.#buffer.changeType(type);
    else this.#buffer = this.#source.addSourceBuffer(type);
    this.#type = type;
    await this.#settled(signal);
  }

  /** Appends bytes; where the browser has no room, what was played goes first. */
  async #append(bytes, signal) {
    for (;;) {
      await this.#settled(signal);
      try {
        this.#buffer.appendBuffer(bytes);
        await this.#settled(signal);
        return;
      } catch (error) {
        if (error.name !== 'QuotaExceededError') throw error;
        await this.#forget(signal);
        await this.#woken(signal);
      }
    }
  }

  async #clear(signal) {
    if (!this.#buffer) return;
    await this.#settled(signal);
    // An answer may have broken off within a box.
    this.#buffer.abort();
    this.#buffer.remove(0, Infinity);
    await this.#settled(signal);
  }

  /** Removes what lies far behind the picture. */
  async #forget(signal) {
    const end = this.video.currentTime - BEHIND_S;
    await this.#settled(signal);
    if (end <= 0 || !this.video.buffered.length || this.video.buffered.start(0) >= end) return;
    this.#buffer.remove(0, end);
    await this.#settled(signal);
  }

  async #settled(signal) {
    signal.throwIfAborted();
    if (this.#buffer?.updating) await happened(this.#buffer, 'updateend', signal);
  }

  /** Waits until the picture has moved or there is more. */
  #woken(signal) {
    return new Promise((resolve, reject) => {
      this.#wake = resolve;
      signal.addEventListener('abort', () => reject(signal.reason), { once: true });
    });
  }

  /** Goes on behind a gap. */
  #jump() {
    const { buffered, currentTime } = this.video;
    for (let index = 0; index < buffered.length; index += 1) {
      const start = buffered.start(index);
      if (start > currentTime && !this.#isBuffered(currentTime)) {
        this.video.currentTime = start + 0.001;
        return;
      }
    }
    this.#wake();
  }

  /** Learns the distance of two frames. */
  #measure() {
    const { video } = this;
    if (!video.requestVideoFrameCallback) return;
    let before = 0;
    const look = (_, { mediaTime }) => {
      const distance = mediaTime - before;
      if (distance > 0.004 && distance < 0.6) this.#frameS = distance;
      before = mediaTime;
      video.requestVideoFrameCallback(look);
    };
    video.requestVideoFrameCallback(look);
  }
}

function happened(target, name, signal) {
  return new Promise((resolve, reject) => {
    target.addEventListener(name, resolve, { once: true });
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}
