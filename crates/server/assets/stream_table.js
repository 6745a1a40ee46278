// The streams: one row each, of which only the changed ones are touched.

import { base, change, streamUrl } from './api.js';
import { html, setText } from './dom.js';
import { ABSENT, PROTOCOLS, bitrate, track } from './format.js';
import { Thumbnail } from './thumbnail.js';
import { statusWord } from './words.js';

/** Each picture costs the server a decoded keyframe. */
const THUMBNAIL_MS = 120_000;

/** Rows out of sight are brought up to date this many at a time: all of 200 within ten seconds. */
const UNSEEN_ROWS = 20;

const byName = new Intl.Collator('en', { numeric: true });

export class StreamTable {
  #rows = new Map();
  #body = html('tbody', { role: 'rowgroup' });
  #selected = null;
  #filter = '';
  #seen;
  /** Names of the rows out of sight whose numbers are old, the oldest first. */
  #stale = new Set();

  /** `onSelect(name)` is called for the stream that the operator chooses. */
  constructor(container, { onSelect, onProblem }) {
    this.onSelect = onSelect;
    this.onProblem = onProblem;
    container.append(html('table', { class: 'rows', role: 'table' },
      html('caption', { class: 'unseen' }, 'Streams with their state, tracks, rates and viewers'),
      html('thead', { role: 'rowgroup' }, html('tr', { role: 'row' }, html('th', { scope: 'col', role: 'columnheader' }, html('span', { class: 'unseen' }, 'Picture')),
        ...['Stream', 'State', 'Tracks'].map((name) => html('th', { scope: 'col', role: 'columnheader' }, name)),
        ...['Frames/s', 'Bitrate', 'Viewers'].map((name) => html('th', { scope: 'col', role: 'columnheader', class: 'number' }, name)),
        html('th', { scope: 'col', role: 'columnheader' }, html('span', { class: 'unseen' }, 'Actions')))),
      this.#body));
    // Pictures of rows that nobody sees are not asked for.
    this.#seen = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) {
        const row = this.#rows.get(target.dataset.name);
        if (!row) continue;
        row.isSeen = isIntersecting;
        if (isIntersecting) this.#freshen(target.dataset.name);
      }
    });
  }

  get names() { return [...this.#rows.keys()]; }

  /** Shows `streams` by name; `changed` are the names to look at, all of them if it is null. */
  update(streams, changed) {
    let moved = false;
    for (const name of changed ?? new Set([...Object.keys(streams), ...this.#rows.keys()])) {
      const stream = streams[name];
      if (!stream) {
        this.#drop(name);
      } else {
        if (!this.#rows.has(name)) {
          this.#rows.set(name, this.#row(name));
          moved = true;
        }
        this.#take(name, stream);
      }
    }
    for (const name of [...this.#stale].slice(0, UNSEEN_ROWS)) this.#freshen(name);
    if (moved) {
      const names = this.names.sort(byName.compare);
      this.#body.append(...names.map((name) => this.#rows.get(name).row));
      this.#apply();
    }
  }

  /** Shows `stream` at once if somebody sees its row or its state is another one. Hundreds of numbers that
   * nobody sees would cost a frame each second. */
  #take(name, stream) {
    const parts = this.#rows.get(name);
    const isSame = parts.status === stream.status && parts.why === stream.detail;
    parts.stream = stream;
    this.#stale.add(name);
    if (parts.isSeen || !isSame) this.#freshen(name);
  }

  #freshen(name) {
    if (!this.#stale.delete(name)) return;
    const parts = this.#rows.get(name);
    this.#fill(parts, parts.stream);
  }

  /** Asks for pictures of the rows that are seen. */
  refreshThumbnails() {
    for (const row of this.#rows.values()) {
      if (row.isSeen && !row.row.hidden) row.thumbnail.update({ state: row.status, tracks: row.tracks });
    }
  }

  /** Shows only streams whose name contains `text`. */
  filter(text) {
    this.#filter = text.toLowerCase();
    this.#apply();
  }

  select(name) {
    this.#selected = name;
    for (const [it, { row, name: button }] of this.#rows) {
      row.classList.toggle('selected', it === name);
      button.setAttribute('aria-pressed', String(it === name));
    }
  }

  #apply() {
    for (const [name, { row }] of this.#rows) row.hidden = !name.toLowerCase().includes(this.#filter);
  }

  #drop(name) {
    const row = this.#rows.get(name);
    if (!row) return;
    this.#seen.unobserve(row.row);
    row.row.remove();
    row.thumbnail.remove();
    this.#stale.delete(name);
    this.#rows.delete(name);
  }

  #row(name) {
    const number = (label) => html('td', { role: 'cell', class: 'number', 'data-label': label }, ABSENT);
    const parts = {
      isSeen: false,
      thumbnail: new Thumbnail(streamUrl(name, '/snapshot.jpg'), { renewMs: THUMBNAIL_MS }),
      name: html('button', { class: 'link name', type: 'button', 'aria-pressed': String(name === this.#selected) }, name),
      pill: html('span', { class: 'pill' }),
      detail: html('span', { class: 'quiet' }),
      tracksCell: html('td', { role: 'cell', class: 'tracks' }),
      rate: number('frames/s'),
      bitrate: number('bitrate'),
      viewers: number('viewers'),
      keyframe: html('button', { class: 'small', type: 'button', title: 'Ask the source for a keyframe' }, 'Keyframe', html('span', { class: 'unseen' }, ` of ${name}`)),
      restart: html('button', { class: 'small restart', type: 'button', title: 'End the source and begin it anew; viewers stay', hidden: '' }, 'Restart', html('span', { class: 'unseen' }, ` the source of ${name}`)),
    };
    parts.name.addEventListener('click', () => this.onSelect(name));
    parts.keyframe.addEventListener('click', async () => {
      try {
        await change(streamUrl(name, '/keyframe'), { method: 'POST' });
      } catch (error) {
        this.onProblem(error);
      }
    });
    parts.restart.addEventListener('click', async () => {
      parts.restart.disabled = true;
      try {
        await change(`${base}/api/v1/sources/${encodeURIComponent(name)}/restart`, { method: 'POST', timeoutMs: 60_000 });
      } catch (error) {
        this.onProblem(error);
      }
      parts.restart.disabled = false;
    });
    parts.row = html('tr', { role: 'row', 'data-name': name },
      html('td', { role: 'cell', class: 'picture' }, parts.thumbnail.image),
      html('th', { scope: 'row', role: 'rowheader' }, parts.name),
      html('td', { role: 'cell', class: 'state' }, parts.pill, parts.detail),
      parts.tracksCell, parts.rate, parts.bitrate, parts.viewers,
      html('td', { role: 'cell', class: 'act' }, parts.keyframe, ' ', parts.restart));
    this.#seen.observe(parts.row);
    return parts;
  }

  #fill(parts, stream) {
    parts.status = stream.status;
    parts.why = stream.detail;
    parts.tracks = stream.tracks;
    parts.pill.dataset.state = stream.status;
    setText(parts.pill, statusWord(stream.status).toUpperCase());
    const from = PROTOCOLS[stream.source] ?? stream.source;
    const note = stream.stand_in ? `${stream.stand_in} plays in its place` : null;
    setText(parts.detail, [stream.detail, note, stream.status === 'live' ? from : null].filter(Boolean).join(' · '));
    const tracks = (stream.tracks ?? []).map((it) => track(it) + (it.b_frames ? ' with B-frames' : ''));
    if (parts.tracksCell.textContent !== tracks.join('')) {
      parts.tracksCell.replaceChildren(...tracks.map((text) => html('span', {}, text)));
    }
    setText(parts.rate, stream.frame_rate ? String(stream.frame_rate) : ABSENT);
    setText(parts.bitrate, bitrate(stream.bitrate_bps));
    setText(parts.viewers, String(stream.viewers));
    parts.restart.hidden = !stream.fetched;
  }
}
