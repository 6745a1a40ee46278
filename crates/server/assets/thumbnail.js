// A small picture of a stream, renewed while the stream is live and somebody sees the page.

import { request } from './api.js';
import { html } from './dom.js';

const RETRY_MS = 2000;

export class Thumbnail {
  /**
   * `url`: where the stream's snapshot is, without a query; `renewMs`: age in ms at which a picture is
   * replaced; `width` and `height`: pixels of the box that the picture fits. By default they are twice
   * as many as a row takes, for dense screens.
   */
  constructor(url, { renewMs = 10_000, width = 192, height = 108 } = {}) {
    this.url = `${url}?width=${width}&height=${height}`;
    this.renewMs = renewMs;
    this.image = html('img', { class: 'thumbnail', alt: '', hidden: '' });
    this.tracks = '';
    this.nextMs = 0;
    /** Whether the server makes no pictures of the codec. */
    this.isWithout = false;
  }

  /** Asks for a new picture when it is time, and never again where the codec has no decoder. */
  async update({ state, tracks }) {
    const described = (tracks ?? []).map(({ codec }) => codec).join();
    if (described !== this.tracks) {
      this.tracks = described;
      this.isWithout = false;
      this.nextMs = 0;
    }
    const isAudioAlone = described !== '' && tracks.every(({ kind }) => kind === 'audio');
    if (isAudioAlone || state !== 'live' || performance.now() < this.nextMs) return;
    this.nextMs = Infinity;
    try {
      const answer = await request(this.url, { cache: 'no-cache' });
      this.show(URL.createObjectURL(await answer.blob()));
      this.nextMs = performance.now() + this.renewMs;
    } catch (error) {
      this.isWithout = error.status === 501;
      if (![404, 501].includes(error.status)) this.nextMs = performance.now() + RETRY_MS;
    }
  }

  show(url) {
    const before = this.image.src;
    this.image.src = url;
    this.image.hidden = false;
    if (before) URL.revokeObjectURL(before);
  }

  remove() {
    if (this.image.src) URL.revokeObjectURL(this.image.src);
  }
}
