// What an operator can do to a stream: only what has a use for its source.

import { base, change, streamUrl } from './api.js';
import { confirmed } from './confirm.js';
import { html } from './dom.js';

/** Sources that can be asked for a keyframe: files and the clip send theirs anyway. */
const ASKED = ['whip', 'rtsp', 'moq', 'camera'];

/** Ways in which clients publish to the server by themselves. */
const PUBLISHED = ['whip', 'rtsp', 'moq'];

/** A source that is made anew closes a camera first, and dials it. */
const RESTART_MS = 60_000;

export class StreamActions {
  #name;
  #buttons;

  /** `box`: the folded list of actions; it is hidden where there are none. */
  constructor(name, { onEdit, onExcluded, onProblem, onTold }) {
    this.#name = name;
    Object.assign(this, { onProblem, onTold });
    const sourceUrl = `${base}/api/v1/sources/${encodeURIComponent(name)}`;
    this.#buttons = {
      restart: this.#button('Restart', 'End the source and begin it anew; viewers stay', () => change(`${sourceUrl}/restart`, { method: 'POST', timeoutMs: RESTART_MS })),
      keyframe: this.#button('Keyframe', 'Ask the source for a keyframe', () => change(streamUrl(name, '/keyframe'), { method: 'POST' })),
      end: this.#button('Disconnect publisher', 'End the publisher’s session; a program that tries again comes back', () => change(streamUrl(name, '/publisher'), { method: 'DELETE' })),
      exclude: this.#button('Keep away for an hour', 'End the publisher’s session, and refuse this user or address for an hour', () => this.#exclude(onExcluded)),
      edit: this.#button('Edit', 'Change the address of the camera', () => onEdit(name), 'admin'),
      remove: this.#button('Delete', 'Delete the camera and its stream', () => this.#delete(sourceUrl), 'admin'),
    };
    this.box = html('details', { class: 'more act' },
      html('summary', { class: 'small' }, 'More', html('span', { class: 'unseen' }, ` for ${name}`)), ...Object.values(this.#buttons));
  }

  update({ status, source, fetched, origin }) {
    const isThere = status === 'live' || status === 'hangs';
    const isOfApi = origin === 'api';
    const uses = {
      restart: fetched,
      keyframe: isThere && ASKED.includes(source),
      end: isThere && !fetched && PUBLISHED.includes(source),
      exclude: isThere && !fetched && PUBLISHED.includes(source),
      edit: isOfApi,
      remove: isOfApi,
    };
    for (const [name, button] of Object.entries(this.#buttons)) button.hidden = !uses[name];
    this.box.hidden = !Object.values(uses).some(Boolean);
  }

  #button(word, title, act, role = '') {
    const button = html('button', { class: `small ${word === 'Restart' ? 'restart' : ''} ${role}`, type: 'button', title }, word, html('span', { class: 'unseen' }, ` ${this.#name}`));
    button.addEventListener('click', async () => {
      button.disabled = true;
      try {
        await act();
      } catch (error) {
        this.onProblem(error);
      }
      button.disabled = false;
    });
    return button;
  }

  async #exclude(onExcluded) {
    await change(streamUrl(this.#name, '/publisher/exclusion'), { method: 'POST' });
    this.onTold(`The publisher is kept away from ${this.#name} for an hour.`);
    onExcluded();
  }

  async #delete(url) {
    const text = 'Its viewers are disconnected, and the server forgets the address and the password.';
    if (!await confirmed({ title: `Delete ${this.#name}?`, text, action: 'Delete' })) return;
    await change(url, { method: 'DELETE' });
    this.onTold(`${this.#name} is deleted.`);
  }
}
