// The pictures of Motion JPEG, which no browser takes over WebRTC: one after the other in one answer.

import { request } from './api.js';
import { html } from './dom.js';

/** Longest time until the answer begins: a camera on demand is connected first. */
const PATIENCE_MS = 15_000;

const decoder = new TextDecoder();

/** Returns whether the stream has video, and all of it is Motion JPEG. */
export function hasPicturesAlone(tracks) {
  const video = (tracks ?? []).filter(({ kind }) => kind === 'video');
  return video.length > 0 && video.every(({ codec }) => codec === 'JPEG');
}

export class PictureView {
  #url;
  #image = html('img', { id: 'pictures', alt: 'Pictures of the stream', hidden: '' });
  #onSecond;
  #playing = null;
  #count = 0;

  /** `figure`: the element that holds the image; `onSecond`: is told the pictures of each second. */
  constructor(figure, url, onSecond) {
    this.#url = url;
    this.#onSecond = onSecond;
    figure.prepend(this.#image);
  }

  get shown() {
    return this.#playing !== null;
  }

  /** Shows pictures until the stream has none any more; resolves then, with the reason. */
  async play() {
    this.#playing ??= this.#play().finally(() => {
      this.#playing = null;
      this.#image.hidden = true;
    });
    return this.#playing;
  }

  async #play() {
    const timer = setInterval(() => {
      this.#onSecond(this.#count);
      this.#count = 0;
    }, 1000);
    try {
      // The server ends each answer after a minute, to look at the rights again.
      for (;;) await this.#read();
    } catch (error) {
      return error;
    } finally {
      clearInterval(timer);
    }
  }

  async #read() {
    const abort = new AbortController();
    const late = setTimeout(() => abort.abort(), PATIENCE_MS);
    const answer = await request(this.#url, { signal: abort.signal });
    clearTimeout(late);
    const reader = answer.body.getReader();
    let bytes = new Uint8Array();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const joined = new Uint8Array(bytes.length + value.length);
      joined.set(bytes);
      joined.set(value, bytes.length);
      bytes = this.#take(joined);
    }
  }

  /** Shows the whole pictures in `bytes`, and returns what is behind them. */
  #take(bytes) {
    for (;;) {
      const head = decoder.decode(bytes.subarray(0, 200));
      const length = /^[^]*?content-length: (\d+)\r\n\r\n/i.exec(head);
      const end = length ? length[0].length + Number(length[1]) : Infinity;
      if (end > bytes.length) return bytes;
      this.#show(new Blob([bytes.subarray(length[0].length, end)], { type: 'image/jpeg' }));
      bytes = bytes.subarray(end);
    }
  }

  #show(picture) {
    const before = this.#image.src;
    this.#image.src = URL.createObjectURL(picture);
    this.#image.hidden = false;
    if (before) URL.revokeObjectURL(before);
    this.#count += 1;
  }
}
