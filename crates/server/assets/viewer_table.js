// The viewers of all protocols, those in trouble first.

import { base, change } from './api.js';
import { html, setText } from './dom.js';
import { ABSENT, PROTOCOLS } from './format.js';

const COLUMNS = ['Viewer', 'Stream', 'Path', 'Round trip', 'Loss', 'Queue', 'Skips'];

const ms = (value) => (value === undefined ? ABSENT : `${value}\u00a0ms`);
const percent = (part) => (part === undefined ? ABSENT : `${(100 * part).toFixed(1)}\u00a0%`);
const bytes = (count) => (count >= 1e6 ? `${(count / 1e6).toFixed(1)}\u00a0MB` : `${Math.round(count / 1e3)}\u00a0kB`);

/** The queue in ms where that is known, otherwise in bytes. */
const queue = ({ queue_ms: time, queue_bytes: size }) =>
  (time !== undefined ? ms(time) : size === undefined ? ABSENT : bytes(size));

export class ViewerTable {
  #rows = new Map();
  #body = html('tbody', { role: 'rowgroup' });

  /** `onTold(text)` is called with what was done; `onExcluded()` when somebody is kept away. */
  constructor(container, { onProblem, onTold, onExcluded }) {
    Object.assign(this, { onProblem, onTold, onExcluded });
    container.append(html('table', { class: 'rows', role: 'table' },
      html('caption', { class: 'unseen' }, 'Viewers, those in trouble first'),
      html('thead', { role: 'rowgroup' }, html('tr', { role: 'row' },
        ...COLUMNS.map((name, index) => html('th', { scope: 'col', role: 'columnheader', class: index > 2 ? 'number' : null }, name)),
        html('th', { scope: 'col', role: 'columnheader' }, html('span', { class: 'unseen' }, 'Actions')))),
      this.#body));
  }

  /** Shows `listed`, viewers by key. */
  update(listed) {
    for (const [key, { row }] of this.#rows) {
      if (!listed[key]) {
        row.remove();
        this.#rows.delete(key);
      }
    }
    const keys = Object.keys(listed).sort((a, b) => trouble(listed[b]) - trouble(listed[a]) || (a < b ? -1 : 1));
    keys.forEach((key, index) => {
      if (!this.#rows.has(key)) this.#rows.set(key, this.#row(listed[key]));
      const parts = this.#rows.get(key);
      this.#fill(parts, listed[key]);
      const place = this.#body.children[index];
      if (place !== parts.row) this.#body.insertBefore(parts.row, place ?? null);
    });
  }

  #row(viewer) {
    const number = (label) => html('td', { role: 'cell', class: 'number', 'data-label': label });
    const parts = {
      pill: html('span', { class: 'pill' }),
      path: html('span'),
      limited: html('small', { class: 'quiet limited' }),
      rtt: number('round trip'),
      loss: number('loss'),
      queue: number('queue'),
      skips: number('skips'),
      end: html('button', { class: 'small', type: 'button', title: 'End the session; a page comes back by itself within some seconds' }, 'Disconnect', html('span', { class: 'unseen' }, ` ${viewer.viewer}`)),
      exclude: html('button', { class: 'small', type: 'button', title: 'End the session, and refuse this user or address for an hour' }, 'Keep away for an hour', html('span', { class: 'unseen' }, ` ${viewer.viewer}`)),
    };
    parts.end.addEventListener('click', () => this.#end(viewer, parts, 'DELETE', ''));
    parts.exclude.addEventListener('click', () => this.#end(viewer, parts, 'POST', '/exclusion'));
    parts.row = html('tr', { role: 'row' },
      html('th', { scope: 'row', role: 'rowheader' }, parts.pill, html('span', { class: 'quiet' }, `${PROTOCOLS[viewer.protocol] ?? viewer.protocol} ${viewer.protocol === 'webrtc' ? viewer.viewer : ''}`)),
      html('td', { role: 'cell' }, viewer.stream || ABSENT),
      html('td', { role: 'cell', class: 'path' }, parts.path, parts.limited), parts.rtt, parts.loss, parts.queue, parts.skips,
      html('td', { role: 'cell', class: 'act buttons' }, parts.end, parts.exclude));
    return parts;
  }

  #fill(parts, viewer) {
    const isTroubled = trouble(viewer) > 0;
    parts.pill.dataset.state = isTroubled ? 'hangs' : 'live';
    setText(parts.pill, isTroubled ? 'in trouble' : 'fine');
    setText(parts.path, `${viewer.relayed ? 'relayed' : 'direct'}, ${viewer.transport}, ${viewer.address}`);
    setText(parts.limited, viewer.limited ? `limited: ${viewer.limited.replaceAll('`', '')}` : '');
    setText(parts.rtt, ms(viewer.rtt_ms));
    setText(parts.loss, percent(viewer.loss));
    setText(parts.queue, queue(viewer));
    setText(parts.skips, String(viewer.skips));
  }

  /** Ends a viewer's session, and with `/exclusion` keeps the viewer away. */
  async #end({ protocol, stream, viewer }, { end, exclude }, method, below) {
    const of = stream ? `?stream=${encodeURIComponent(stream)}` : '';
    end.disabled = true;
    exclude.disabled = true;
    try {
      await change(`${base}/api/v1/viewers/${protocol}/${encodeURIComponent(viewer)}${below}${of}`, { method });
      this.onTold(below ? `${viewer} is kept away from ${stream || 'all streams'} for an hour.` : `${viewer} is disconnected; its page comes back by itself.`);
      if (below) this.onExcluded();
    } catch (error) {
      end.disabled = false;
      exclude.disabled = false;
      this.onProblem(error);
    }
  }
}

/** Viewers without trouble keep their order. */
const trouble = (viewer) => (viewer.trouble >= 1 ? viewer.trouble : 0);
