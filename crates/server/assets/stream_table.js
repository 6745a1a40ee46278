// The streams: one row each, those in trouble first, of which only the changed ones are touched.

import { streamUrl } from './api.js';
import { html, setText } from './dom.js';
import { ABSENT, bitrate, coresOf, track, way } from './format.js';
import { StreamActions } from './stream_actions.js';
import { Thumbnail } from './thumbnail.js';
import { watchUrl } from './watch_url.js';
import { isBroken, plural, refusal, statusWord } from './words.js';

/** Each picture costs the server a decoded keyframe. */
const THUMBNAIL_MS = 120_000;

/** Rows out of sight are brought up to date this many at a time: all of 200 within ten seconds. */
const UNSEEN_ROWS = 20;

/** Rows that are shown before somebody asks for all: what is below the streams stays within reach. */
const SHOWN_FIRST = 30;

const byName = new Intl.Collator('en', { numeric: true });

const COLUMNS = ['Stream', 'State', 'Tracks'];
const NUMBERS = ['Frames/s', 'Bitrate', 'Viewers'];

export class StreamTable {
  #rows = new Map();
  #body = html('tbody', { role: 'rowgroup' });
  #more = html('button', { class: 'small', type: 'button', hidden: '' });
  #all = false;
  #selected = null;
  #filter = '';
  #fits = () => true;
  #ports = {};
  #seen;
  /** Names of the rows out of sight whose numbers are old, the oldest first. */
  #stale = new Set();

  /** `onSelect(name)` is called for the stream whose details the operator asks for; `onEdit(name)` for a
   * camera that is to be changed. */
  constructor(container, { onSelect, onEdit, onExcluded, onProblem, onTold }) {
    Object.assign(this, { onSelect, onEdit, onExcluded, onProblem, onTold });
    const head = (name, more = {}) => html('th', { scope: 'col', role: 'columnheader', ...more }, name);
    const unseen = (name) => html('span', { class: 'unseen' }, name);
    container.append(html('table', { class: 'rows', role: 'table' },
      html('caption', { class: 'unseen' }, 'Streams, those in trouble first, with their state, tracks, rates and viewers'),
      html('thead', { role: 'rowgroup' }, html('tr', { role: 'row' }, head(unseen('Picture')),
        ...COLUMNS.map((name) => head(name)), ...NUMBERS.map((name) => head(name, { class: 'number' })), head(unseen('Actions')))),
      this.#body), this.#more);
    this.#more.addEventListener('click', () => {
      this.#all = true;
      this.#apply();
    });
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

  /** The first stream that has figures to show; the first of all if none has, null without streams. */
  get first() {
    const names = [...this.#body.children].map(({ dataset }) => dataset.name);
    return names.find((name) => this.#rows.get(name).stream.status === 'live') ?? names[0] ?? null;
  }

  /** Shows `streams` by name; `changed` are the names to look at, all of them if it is null. */
  update(streams, changed, ports) {
    this.#ports = ports;
    let moved = false;
    for (const name of changed ?? new Set([...Object.keys(streams), ...this.#rows.keys()])) {
      const stream = streams[name];
      if (!stream) {
        this.#drop(name);
        moved = true;
      } else {
        if (!this.#rows.has(name)) this.#rows.set(name, this.#row(name));
        moved = this.#take(name, stream) || moved;
      }
    }
    for (const name of [...this.#stale].slice(0, UNSEEN_ROWS)) this.#freshen(name);
    if (moved) this.#arrange();
  }

  /** Shows `stream` at once if somebody sees its row or its state is another one. Hundreds of numbers that
   * nobody sees would cost a frame each second. Returns whether the row may have another place. */
  #take(name, stream) {
    const parts = this.#rows.get(name);
    const isSame = parts.status === stream.status && parts.why === stream.detail;
    const before = parts.trouble;
    parts.stream = stream;
    parts.trouble = trouble(stream);
    this.#stale.add(name);
    if (parts.isSeen || !isSame) this.#freshen(name);
    return !isSame || before !== parts.trouble;
  }

  #freshen(name) {
    if (!this.#stale.delete(name)) return;
    const parts = this.#rows.get(name);
    this.#fill(name, parts, parts.stream);
  }

  /** Puts the rows in order. A row that is moved loses the focus, so that only those out of place are. */
  #arrange() {
    const order = [...this.#rows].sort(([a, one], [b, other]) => other.trouble - one.trouble || byName.compare(a, b));
    order.forEach(([, { row }], index) => {
      const place = this.#body.children[index];
      if (place !== row) this.#body.insertBefore(row, place ?? null);
    });
    this.#apply();
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

  /** Shows only streams for which `fits(stream)` is true. */
  choose(fits) {
    this.#fits = fits;
    this.#apply();
  }

  select(name) {
    this.#selected = name;
    for (const [it, { row, details }] of this.#rows) {
      row.classList.toggle('selected', it === name);
      details.setAttribute('aria-pressed', String(it === name));
    }
  }

  #apply() {
    let fitting = 0;
    for (const row of this.#body.children) {
      const { name } = row.dataset;
      const fits = name.toLowerCase().includes(this.#filter) && this.#fits(this.#rows.get(name).stream);
      if (fits) fitting += 1;
      row.hidden = !fits || (!this.#all && fitting > SHOWN_FIRST);
    }
    this.#more.hidden = this.#all || fitting <= SHOWN_FIRST;
    setText(this.#more, `Show all ${plural(fitting, 'stream')}`);
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
      picture: html('a', { tabindex: '-1', 'aria-hidden': 'true' }),
      name: html('a', { class: 'name' }, name),
      owner: html('span', { class: 'quiet' }),
      pill: html('span', { class: 'pill' }),
      detail: html('span', { class: 'quiet' }),
      tracksCell: html('td', { role: 'cell', class: 'tracks' }),
      rate: number('frames/s'),
      bitrate: number('bitrate'),
      viewers: number('viewers'),
      watch: html('a', { class: 'small' }, 'Watch', html('span', { class: 'unseen' }, ` ${name}`)),
      details: html('button', { class: 'small', type: 'button', title: 'Delays by stage, and lines to copy', 'aria-pressed': String(name === this.#selected) }, 'Details', html('span', { class: 'unseen' }, ` of ${name}`)),
      actions: new StreamActions(name, { onEdit: this.onEdit, onExcluded: this.onExcluded, onProblem: this.onProblem, onTold: this.onTold }),
    };
    parts.picture.append(parts.thumbnail.image);
    parts.details.addEventListener('click', () => this.onSelect(name));
    parts.row = html('tr', { role: 'row', 'data-name': name },
      html('td', { role: 'cell', class: 'picture' }, parts.picture),
      html('th', { scope: 'row', role: 'rowheader' }, parts.name, parts.owner),
      html('td', { role: 'cell', class: 'state' }, parts.pill, parts.detail),
      parts.tracksCell, parts.rate, parts.bitrate, parts.viewers,
      html('td', { role: 'cell', class: 'buttons' }, parts.watch, parts.details, parts.actions.box));
    this.#seen.observe(parts.row);
    return parts;
  }

  #fill(name, parts, stream) {
    parts.status = stream.status;
    parts.why = stream.detail;
    parts.tracks = stream.tracks;
    const url = watchUrl(this.#ports, name, stream.owner);
    for (const link of [parts.picture, parts.name, parts.watch]) {
      if (link.getAttribute('href') !== url) link.setAttribute('href', url);
    }
    setText(parts.owner, stream.owner ? `on ${stream.owner.server}` : '');
    parts.pill.dataset.state = stream.status;
    setText(parts.pill, statusWord(stream.status).toUpperCase());
    const note = stream.stand_in ? `${stream.stand_in} plays in its place` : null;
    const recorded = { recording: 'recorded', losing: 'its recording loses frames' }[stream.recording];
    setText(parts.detail, [stream.detail, note, recorded, stream.status === 'live' && stream.source ? way(stream.source) : null].filter(Boolean).join(' · '));
    this.#tracks(parts.tracksCell, stream);
    setText(parts.rate, stream.frame_rate ? String(stream.frame_rate) : ABSENT);
    setText(parts.bitrate, stream.bitrate_bps ? bitrate(stream.bitrate_bps) : ABSENT);
    setText(parts.viewers, String(stream.viewers));
    parts.actions.update(stream);
  }

  #tracks(cell, { tracks, transcodings }) {
    const refused = refusal(tracks);
    const lines = (tracks ?? []).map((it) => track(it) + (it.b_frames ? ' with B-frames' : ''));
    lines.push(...(transcodings ?? []).map(transcoding));
    const text = [...lines, refused].join('\n');
    if (cell.dataset.text === text) return;
    cell.dataset.text = text;
    cell.replaceChildren(...lines.map((line) => html('span', {}, line)), ...(refused ? [html('span', { class: 'warned' }, refused)] : []));
  }
}

/** What it costs to encode a track again for those who need another codec. */
const transcoding = ({ to, viewers, cores }) => `as ${to} for ${plural(viewers, 'viewer')}: ${coresOf(cores)}`;

/** How much a stream needs somebody: rows with more come first. */
function trouble(stream) {
  if (stream.status === 'unreachable') return 3;
  if (isBroken(stream)) return 2;
  return refusal(stream.tracks) ? 1 : 0;
}
