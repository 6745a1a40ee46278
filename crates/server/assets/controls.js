// The player's buttons and keys: sound, picture in picture, full screen, details, embedding.

import { base, pagePath } from './api.js';
import { copyLine } from './copy_line.js';
import { html } from './dom.js';

const $ = (id) => document.getElementById(id);

const VOLUME_KEY = 'glassline-volume';
const DETAILS_KEY = 'glassline-details';

/** Volume that one press of a key adds or takes. */
const VOLUME_STEP = 0.1;

// Storage throws where the site's data is blocked: a choice then lives for the page.
const read = (key) => { try { return localStorage.getItem(key); } catch { return null; } };
const write = (key, value) => { try { localStorage.setItem(key, value); } catch { /* see above */ } };

export class Controls {
  /** `play()`: starts `video` again, as after each change of its sound; browsers allow sound after a click only. */
  constructor(video, play) {
    this.video = video;
    this.play = play;
    this.#sound();
    this.#pictureInPicture();
    this.#details();
    this.#embedding();
    $('fullscreen').addEventListener('click', () => this.#fullscreen());
    video.addEventListener('dblclick', () => this.#fullscreen());
    addEventListener('keydown', (event) => this.#key(event));
  }

  /** Whether the page shows its instruments. */
  static get showsDetails() {
    return document.documentElement.dataset.view === 'details';
  }

  #sound() {
    const { video } = this;
    const [sound, volume] = [$('sound'), $('volume')];
    video.volume = Math.min(1, Math.max(0, Number(read(VOLUME_KEY) ?? 1) || 0)) || 1;
    const label = () => {
      const word = video.muted ? 'Unmute' : 'Mute';
      sound.setAttribute('aria-pressed', String(!video.muted));
      sound.querySelector('span').textContent = word;
      sound.title = `${word} (m)`;
      volume.value = video.muted ? 0 : video.volume;
    };
    sound.addEventListener('click', () => {
      video.muted = !video.muted;
      this.play();
    });
    volume.addEventListener('input', () => this.#setVolume(Number(volume.value)));
    video.addEventListener('volumechange', label);
    label();
  }

  /** Sets the loudness, from 0 to 1; nothing mutes. */
  #setVolume(loudness) {
    const { video } = this;
    const wasMuted = video.muted;
    video.muted = loudness === 0;
    if (loudness > 0) {
      video.volume = Math.min(1, loudness);
      write(VOLUME_KEY, String(video.volume));
    }
    if (wasMuted && !video.muted) this.play();
  }

  #pictureInPicture() {
    const button = $('pip');
    button.hidden = !document.pictureInPictureEnabled;
    button.addEventListener('click', () => this.#togglePictureInPicture());
  }

  async #togglePictureInPicture() {
    try {
      if (document.pictureInPictureElement) await document.exitPictureInPicture();
      else await this.video.requestPictureInPicture?.();
    } catch { /* without a picture yet there is none to take out */ }
  }

  #fullscreen() {
    if (document.fullscreenElement) document.exitFullscreen();
    else $('picture').requestFullscreen?.().catch(() => {});
  }

  #details() {
    const button = $('details');
    const label = () => button.setAttribute('aria-expanded', String(Controls.showsDetails));
    button.addEventListener('click', () => {
      const open = !Controls.showsDetails;
      document.documentElement.dataset.view = open ? 'details' : 'video';
      write(DETAILS_KEY, open ? 'open' : 'closed');
      label();
    });
    label();
  }

  /** The line for other web pages. A token stays out of the line: whoever opens that page could read it. */
  #embedding() {
    const dialog = $('embedding');
    const address = `${location.origin}${base}${pagePath.replace(/\/+$/, '')}`;
    const line = `<iframe src="${address}?embed" width="640" height="360" style="border:0" allow="autoplay; fullscreen; picture-in-picture"></iframe>`;
    $('embed').addEventListener('click', () => {
      $('embedding-lines').replaceChildren(
        html('p', {}, 'Video alone in a page of yours:'), copyLine(line),
        html('p', {}, 'This page:'), copyLine(address),
      );
      dialog.showModal();
    });
    $('embedding-close').addEventListener('click', () => dialog.close());
    dialog.addEventListener('click', (event) => { if (event.target === dialog) dialog.close(); });
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest?.('input, dialog')) return;
    const { video } = this;
    const loudness = video.muted ? 0 : video.volume;
    if (event.key === 'ArrowUp' || event.key === 'ArrowDown') {
      const step = event.key === 'ArrowUp' ? VOLUME_STEP : -VOLUME_STEP;
      this.#setVolume(Math.min(1, Math.max(0, Math.round((loudness + step) * 10) / 10)));
      event.preventDefault();
      return;
    }
    if (event.repeat) return;
    if (event.key === 'm') $('sound').click();
    if (event.key === 'f') this.#fullscreen();
    if (event.key === 'p') this.#togglePictureInPicture();
    if (event.key === 'd' && document.documentElement.dataset.view !== 'embed') $('details').click();
  }
}
