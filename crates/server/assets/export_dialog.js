// The dialog that saves a part of a recording as a file.

import { change } from './api.js';
import { setText } from './dom.js';
import { fieldOf } from './format.js';

const $ = (id) => document.getElementById(id);

/** Length that is proposed, in ms. */
const PROPOSED_MS = 60_000;

export class ExportDialog {
  /** `url(from, seconds, exact)` is the address of a file. */
  constructor({ url }) {
    this.url = url;
    $('export-close').addEventListener('click', () => $('export').close());
    $('export').addEventListener('click', (event) => { if (event.target === $('export')) $('export').close(); });
    $('export-form').addEventListener('submit', (event) => {
      event.preventDefault();
      this.#save();
    });
  }

  /** Opens the dialog for what begins at `ms`. */
  open(ms) {
    const { from, to } = $('export-form').elements;
    from.value = fieldOf(ms);
    to.value = fieldOf(ms + PROPOSED_MS);
    $('export-trouble').hidden = true;
    $('export').showModal();
  }

  async #save() {
    const { from, to, exact } = $('export-form').elements;
    const [start, end] = [Date.parse(from.value), Date.parse(to.value)];
    try {
      if (!(end > start)) throw new Error('The end must be behind the beginning.');
      const address = this.url(start, (end - start) / 1000, exact.checked);
      // The head tells what is wrong before the browser opens a file for it.
      await change(address, { method: 'HEAD', timeoutMs: 30_000 });
      const link = document.createElement('a');
      link.href = address;
      link.download = '';
      link.click();
      $('export').close();
    } catch (error) {
      setText($('export-trouble'), error.message);
      $('export-trouble').hidden = false;
    }
  }
}
