// The numbers at the top. Those that count streams are buttons, which show these streams alone; those of
// viewers and of the machine lead to their part of the page.

import { html, setText } from './dom.js';
import { ABSENT, coresOf } from './format.js';
import { isBroken, plural, refusal } from './words.js';

/** The choices of streams, each with the tile that makes it. */
const CHOICES = {
  all: ['streams', () => true],
  live: ['live', ({ status }) => status === 'live'],
  broken: ['broken', isBroken],
  refused: ['not for browsers', ({ tracks }) => refusal(tracks) !== ''],
  waiting: ['waiting', ({ status }) => status === 'waiting'],
};

export class Tiles {
  #tiles = new Map();
  #chosen = 'all';

  /** `onChoice(fits)` gets what tells whether a stream is to be shown. */
  constructor(container, { onChoice }) {
    this.container = container;
    this.onChoice = onChoice;
  }

  update({ server, streams, viewers: { count, troubled, relayed }, rooms }) {
    const list = Object.values(streams ?? {});
    for (const [choice, [name, fits]] of Object.entries(CHOICES)) {
      const number = list.filter(fits).length;
      if (choice === 'refused' && number === 0 && !this.#tiles.has(name)) continue;
      const look = number === 0 ? '' : { broken: 'bad', refused: 'warn' }[choice] ?? '';
      this.#set(name, String(number), { look, choice });
    }
    const watching = Object.values(count).reduce((sum, it) => sum + it, 0);
    this.#set('viewers', String(watching), { to: 'viewers-title' });
    this.#set('in trouble', String(troubled), { look: troubled > 0 ? 'bad' : '', to: 'viewers-title' });
    if (relayed > 0 || this.#tiles.has('relayed')) this.#set('relayed', String(relayed), { to: 'viewers-title' });
    const { cpu_cores: cores } = server;
    this.#set('processor', cores === undefined ? ABSENT : `${cores.toFixed(2)} of ${server.cores}`, { look: cores > 0.9 * server.cores ? 'bad' : '', to: 'load-title' });
    this.#set('memory', server.memory_mib === undefined ? ABSENT : `${server.memory_mib}\u00a0MiB`, { to: 'load-title' });
    const encoding = list.flatMap(({ transcodings }) => transcodings ?? []).reduce((sum, it) => sum + it.cores, 0);
    if (encoding > 0 || this.#tiles.has('transcoding')) this.#set('transcoding', encoding > 0 ? coresOf(encoding) : 'none', { to: 'streams-title' });
    if (rooms.rooms > 0 || this.#tiles.has('voices')) this.#set('voices', rooms.rooms ? `${rooms.participants} in ${plural(rooms.rooms, 'room')}` : '0', { to: 'rooms-title' });
    if (server.copies || this.#tiles.has('copies waiting')) this.#set('copies waiting', String(server.copies?.waiting_files ?? 0), { look: server.copies?.problem ? 'bad' : '', to: 'events-title' });
    const stuck = server.stuck ?? [];
    if (stuck.length > 0 || this.#tiles.has('stuck threads')) this.#set('stuck threads', stuck.join(', ') || 'none', { look: stuck.length > 0 ? 'bad' : '', to: 'events-title' });
  }

  #set(name, value, { look = '', choice, to }) {
    if (!this.#tiles.has(name)) this.#tiles.set(name, this.#tile(name, choice, to));
    const { number, box } = this.#tiles.get(name);
    setText(number, value);
    box.className = `tile ${look}`;
  }

  #tile(name, choice, to) {
    const number = html('strong', {}, ABSENT);
    const box = html('button', { class: 'tile', type: 'button', 'aria-pressed': choice ? String(choice === this.#chosen) : null }, html('span', {}, name), ' ', number);
    box.addEventListener('click', () => {
      if (choice) this.#choose(choice);
      else document.getElementById(to).scrollIntoView({ block: 'start' });
    });
    this.container.append(box);
    return { number, box, choice };
  }

  /** A second click on a choice shows all streams again. */
  #choose(choice) {
    this.#chosen = choice === this.#chosen ? 'all' : choice;
    for (const tile of this.#tiles.values()) {
      if (tile.choice) tile.box.setAttribute('aria-pressed', String(tile.choice === this.#chosen));
    }
    this.onChoice(CHOICES[this.#chosen][1]);
  }
}
