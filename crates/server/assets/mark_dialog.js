// The dialog that marks a moment of a recording, so that what is around it is kept for longer.

import { change } from './api.js';
import { setText } from './dom.js';
import { when } from './format.js';

const $ = (id) => document.getElementById(id);

export class MarkDialog {
  #at = 0;

  /** `url` takes the mark; `onMarked()` is called once there is one. */
  constructor({ url, onMarked }) {
    Object.assign(this, { url, onMarked });
    $('mark-close').addEventListener('click', () => $('mark').close());
    $('mark').addEventListener('click', (event) => { if (event.target === $('mark')) $('mark').close(); });
    $('mark-form').addEventListener('submit', (event) => {
      event.preventDefault();
      this.#save();
    });
  }

  /** Opens the dialog for the moment `ms`. */
  open(ms) {
    this.#at = Math.round(ms);
    setText($('mark-at'), when(ms));
    $('mark-trouble').hidden = true;
    $('mark').showModal();
  }

  async #save() {
    const { label, before, after, keep } = $('mark-form').elements;
    try {
      await change(this.url, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({
          action: 'mark', label: label.value.trim(), at_ms: this.#at,
          before_s: before.valueAsNumber, after_s: after.valueAsNumber, for_ever: keep.value === 'ever',
        }),
        timeoutMs: 20_000,
      });
      label.value = '';
      $('mark').close();
      this.onMarked();
    } catch (error) {
      setText($('mark-trouble'), error.message);
      $('mark-trouble').hidden = false;
    }
  }
}
