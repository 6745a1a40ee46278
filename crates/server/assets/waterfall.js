// The waterfall: one row per stage, each bar beginning where the one before it
// ends, so that the eye adds up what the table says.
//
// The rows form a real table (a screen reader reads stage, p50, p95, max); the
// bars are SVG in percent of the column, so that nothing has to be measured or
// redrawn when the window changes. Bars are medians and the whisker reaches to
// p95. Medians of stages need not add up to the median of the whole; the parts
// of each single frame do, which `Accounts` checks.

import { html, setText, svg } from './dom.js';
import { ABSENT, milliseconds } from './format.js';

/** The stages of this path in order, where they happen, and what each one spans. */
export const STAGES = [
  ['capture', 'publisher', 'From the frame’s capture until the publisher’s encoder takes it'],
  ['encode', 'publisher', 'In the publisher’s encoder'],
  ['uplink', 'publisher', 'Through the publisher’s pacer and the network, until the server has the frame’s first packet'],
  ['ingest', 'server', 'From the frame’s capture, or its due time in a file, until it is packetized'],
  ['relay', 'server', 'From publication on the server that the stream was published to until this one has the whole frame; two clocks meet here'],
  ['hub', 'server', 'From publication until the viewer’s shard has read the frame'],
  ['pace', 'server', 'Held back by the viewer’s pacer, which spreads large frames'],
  ['send', 'server', 'Sealed and handed to the kernel, last packet of the frame'],
  ['record', 'server', 'From publication until the recording has the frame in a file: beside the way to viewers, and no part of the sum'],
  ['network', 'path', 'From the kernel until the browser has the frame’s last packet; two clocks meet here'],
  ['jitter_buffer', 'browser', 'Waiting for order and smoothness in the browser'],
  ['decode', 'browser', 'In the decoder'],
  ['render', 'browser', 'From decoded until handed to the compositor'],
];

const PLACES = ['publisher', 'server', 'path', 'browser'];

/** Bars thinner than this could not be seen; in percent of the column. */
const HAIR = 0.35;

export class Waterfall {
  #rows = new Map();
  #axis;
  #scale = 0;
  #measured = false;
  #publisher;
  #stages;

  /** `stages`: rows of the table, as `STAGES` has them for WebRTC. */
  constructor(container, stages = STAGES) {
    this.#stages = stages;
    this.#axis = svg('svg', { class: 'axis', 'aria-hidden': 'true' });
    const head = html('thead', {}, html('tr', {},
      html('th', { scope: 'col', class: 'place' }, html('span', { class: 'unseen' }, 'Where')),
      html('th', { scope: 'col', class: 'stage' }, html('span', { class: 'unseen' }, 'Stage, '), 'ms'),
      html('td', { class: 'bar' }, this.#axis),
      ...['p50', 'p95', 'max'].map((name) => html('th', { scope: 'col', class: `number ${name}` }, name))));
    const table = html('table', { class: 'waterfall' },
      html('caption', { class: 'unseen' }, 'Delay by stage over the last ten seconds, in milliseconds'), head);
    for (const place of PLACES) {
      const body = html('tbody', { class: `place-${place}` });
      const here = stages.filter((stage) => stage[1] === place);
      here.forEach(([name, , meaning], index) => {
        const row = this.#row(name, meaning);
        if (index === 0) {
          row.prepend(html('th', { scope: 'rowgroup', class: 'place', rowspan: here.length },
            html('span', {}, place)));
        }
        body.append(row);
      });
      table.append(body);
      if (place === 'publisher') this.#publisher = body;
    }
    table.append(html('tbody', { class: 'totals' },
      this.#row('end_to_end', 'All stages of a frame together', 2),
      this.#row('glass_to_glass', 'Measured independently, by the frame code in the video', 2)));
    container.replaceChildren(table);
    this.update(null);
  }

  /** Shows a report's answer (`stages`, `end_to_end`, `glass_to_glass`); null empties it. */
  update(answer) {
    const found = new Map((answer?.stages ?? []).map((stage) => [stage.stage, stage]));
    const bars = [];
    let offset = 0;
    let published = 0;
    for (const [name] of this.#stages) {
      const stage = present(found.get(name));
      const isBeside = name === 'record';
      if (name === 'hub') published = offset;
      bars.push([name, stage, isBeside ? published : offset]);
      if (stage && !isBeside) offset += Math.max(0, stage.p50_ms);
    }
    // Only publishing pages tell when a frame was captured: other sources have no such rows.
    this.#publisher.hidden = !bars.some(([, stage], i) => stage && this.#stages[i][1] === 'publisher');
    // Only streams that this server pulls from another one were under way between servers, and not all are recorded.
    for (const name of ['relay', 'record']) {
      const shown = this.#rows.get(name);
      if (shown) shown.row.hidden = !present(found.get(name));
    }
    bars.push(['end_to_end', present(answer?.end_to_end), 0]);
    bars.push(['glass_to_glass', present(answer?.glass_to_glass), 0]);
    const reach = Math.max(0, ...bars.map(([, stage, from]) => (stage ? from + stage.p95_ms : 0)));
    this.#rescale(reach);
    for (const [name, stage, from] of bars) this.#draw(this.#rows.get(name), stage, from);
  }

  #row(name, meaning, span) {
    const bar = svg('rect', { class: 'p50', y: '22%', height: '56%', rx: 1.5 });
    const whisker = svg('line', { class: 'whisker', y1: '50%', y2: '50%' });
    const cap = svg('line', { class: 'whisker', y1: '28%', y2: '72%' });
    const grid = svg('g', { class: 'grid' });
    const picture = svg('svg', { 'aria-hidden': 'true' }, grid, whisker, cap, bar);
    const numbers = Object.fromEntries(['p50', 'p95', 'max'].map((key) => [key, html('td', { class: `number ${key}` }, ABSENT)]));
    const row = html('tr', { class: `stage-${name}`, title: meaning },
      html('th', { scope: 'row', class: 'stage', colspan: span }, name.replaceAll('_', '\u00a0')),
      html('td', { class: 'bar' }, picture),
      ...Object.values(numbers));
    this.#rows.set(name, { row, bar, whisker, cap, grid, numbers });
    return row;
  }

  #draw({ row, bar, whisker, cap, grid, numbers }, stage, from) {
    for (const key of ['p50', 'p95', 'max']) setText(numbers[key], milliseconds(stage?.[`${key}_ms`]));
    row.classList.toggle('absent', !stage);
    const percent = (value) => `${((100 * Math.max(0, value)) / this.#scale).toFixed(3)}%`;
    const [start, end] = [from, from + Math.max(0, stage?.p50_ms ?? 0)];
    const reach = Math.max(end, from + (stage?.p95_ms ?? 0));
    set(bar, { x: percent(start), width: stage ? `${Math.max(HAIR, (100 * (end - start)) / this.#scale).toFixed(3)}%` : 0 });
    set(whisker, { x1: percent(start), x2: percent(stage ? reach : start) });
    set(cap, { x1: percent(reach), x2: percent(reach) });
    if (grid.dataset.scale !== String(this.#scale)) {
      grid.dataset.scale = this.#scale;
      grid.replaceChildren(...ticks(this.#scale).map((tick) =>
        svg('line', { x1: percent(tick), x2: percent(tick), y1: 0, y2: '100%' })));
    }
  }

  /** Widens at once, narrows only when much is unused: an axis that breathes cannot be read. */
  #rescale(reach) {
    const wanted = reach > 0 ? reach * 1.06 : 50;
    const settled = this.#measured && reach > 0;
    if (settled && wanted <= this.#scale && wanted > this.#scale * 0.6) return;
    this.#measured = reach > 0;
    this.#scale = wanted;
    this.#axis.replaceChildren(...ticks(wanted).map((tick) =>
      svg('text', { x: `${(100 * tick) / wanted}%`, y: '70%', class: tick === 0 ? 'first' : 'tick' },
        String(tick))));
  }
}

/** The stages and what each one spans, for reading. */
export const meanings = (stages = STAGES) => stages.flatMap(([name, , meaning]) =>
  [html('dt', {}, name.replaceAll('_', ' ')), html('dd', {}, meaning)]);

const present = (summary) => (summary && summary.count !== 0 && Number.isFinite(summary.p50_ms) ? summary : null);

const set = (node, attributes) => {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
};

/** Round values from zero, three to six of them: more would not fit on a phone. */
function ticks(scale) {
  const power = 10 ** Math.floor(Math.log10(scale / 5));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((value) => scale / value <= 5);
  return Array.from({ length: Math.floor((scale * 0.97) / step) + 1 }, (_, i) => Number((i * step).toPrecision(6)));
}
