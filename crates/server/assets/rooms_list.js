// The rooms of calls, and who is in them.

import { html, setText } from './dom.js';
import { bitrate } from './format.js';
import { plural } from './words.js';

const byName = new Intl.Collator('en', { numeric: true });

export class RoomsList {
  #shown = '';

  /** `card` holds all of it, and is shown while somebody is in a room. */
  constructor(card, { count, list }) {
    Object.assign(this, { card, count, list });
  }

  /** Shows `listed` rooms by name; `rooms` and `participants` count all of them. */
  update({ rooms, participants, listed }) {
    this.card.hidden = rooms === 0;
    const names = Object.keys(listed ?? {}).sort(byName.compare);
    const part = names.length < rooms ? `; the first ${names.length} by name` : '';
    setText(this.count, `${plural(participants, 'participant')} in ${plural(rooms, 'room')}${part}`);
    const rows = names.map((name) => ({ name, ...listed[name] }));
    const text = JSON.stringify(rows);
    if (text === this.#shown) return;
    this.#shown = text;
    this.list.replaceChildren(...rows.map(row));
  }
}

/** The words of a voice by the state of its stream. */
const VOICES = { live: 'voice comes', hangs: 'no voice for 8 s', waiting: 'no voice yet' };

function row({ name, count, participants }) {
  const people = Object.values(participants).sort((a, b) => byName.compare(a.name, b.name));
  const left = count - people.length;
  return html('li', {},
    html('p', {}, html('strong', {}, name), html('span', { class: 'quiet' }, ` ${plural(count, 'participant')}`)),
    html('ul', { class: 'people' },
      ...people.map(({ name: person, user, status, bitrate_bps: bps }) => html('li', {},
        html('span', { class: 'pill', 'data-state': status }, person || 'without a name'),
        html('span', { class: 'quiet' }, [user && `user ${user}`, status === 'live' ? bitrate(bps) : VOICES[status] ?? status].filter(Boolean).join(' · ')))),
      left > 0 ? html('li', { class: 'quiet' }, `and ${left} more`) : ''));
}
