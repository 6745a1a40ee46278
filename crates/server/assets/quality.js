// The menu of a stream's layers: the viewer's choice, and what is asked of the server for the size of the
// element.

import { request } from './api.js';
import { html } from './dom.js';

/** The element must have kept its height for so long before the server is told. */
const SETTLED_MS = 1000;

/** What a layer is called in the menu. */
const nameOf = ({ rid, height }) => (height ? `${height}p` : rid);

export class Quality {
  #layers = [];
  #pinned = null;
  #session = null;
  #asked = null;
  #timer;

  /** `menu`: an empty `<select>`, hidden until a stream has layers. `video`: the element that shows them. */
  constructor(menu, video) {
    this.menu = menu;
    this.video = video;
    menu.addEventListener('change', () => {
      this.#pinned = menu.value || null;
      this.#ask();
    });
    new ResizeObserver(() => {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.#ask(), SETTLED_MS);
    }).observe(video);
  }

  /** Follows a new session, which knows nothing of earlier requests. */
  follow(session) {
    this.#session = session;
    this.#asked = null;
    this.#ask();
  }

  /** Shows the layers among which the session can choose. */
  offer(offered) {
    // Publishers name their layers in any order: the largest is shown first.
    const layers = [...offered];
    layers.sort((a, b) => (b.height ?? 0) - (a.height ?? 0));
    this.menu.hidden = layers.length < 2;
    const text = (list) => JSON.stringify(list.map(({ rid, height }) => [rid, height]));
    if (text(layers) === text(this.#layers)) return;
    this.#layers = layers;
    // Right after a connection the server has no choice to offer yet.
    if (layers.length && !layers.some(({ rid }) => rid === this.#pinned)) this.#pinned = null;
    this.menu.replaceChildren(
      html('option', { value: '' }, 'Auto'),
      ...layers.map((layer) => html('option', { value: layer.rid }, nameOf(layer))),
    );
    this.menu.value = this.#pinned ?? '';
    this.#ask();
  }

  /** Shows the `layer` that arrives; returns why, if a better one is left out. */
  show(layer) {
    const thinned = layer?.temporal_layers ? `lower frame rate: ${layer.reason}` : null;
    if (!layer || this.#layers.length < 2) return thinned;
    const arriving = this.#layers.find(({ rid }) => rid === layer.rid);
    const [auto] = this.menu.options;
    const isChosen = this.#pinned !== null;
    auto.textContent = arriving && !isChosen ? `Auto (${nameOf(arriving)})` : 'Auto';
    this.menu.title = `Quality: ${layer.reason}`;
    const isBest = arriving === this.#layers[0];
    return arriving && !isBest && !isChosen && /path/.test(layer.reason)
      ? `${nameOf(arriving)}: ${layer.reason}`
      : thinned;
  }

  /** Tells the server what the viewer chose, or else the height of the element in pixels of the screen. */
  async #ask() {
    const session = this.#session;
    if (!session?.resource || this.#layers.length < 2) return;
    const isSmall = document.pictureInPictureElement === this.video;
    const height = isSmall ? 0 : Math.ceil(this.video.clientHeight * devicePixelRatio);
    const wish = this.#pinned ? { rid: this.#pinned } : height > 0 ? { maxHeight: height } : {};
    const body = JSON.stringify(wish);
    if (body === this.#asked) return;
    this.#asked = body;
    const headers = { 'content-type': 'application/json' };
    // A server without layers, or a session that has ended, needs no word: the menu stays as it is.
    await request(`${session.resource}/layer`, { method: 'POST', headers, body }).catch(() => { this.#asked = null; });
  }
}
