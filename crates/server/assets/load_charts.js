// The processor's load: over time beside the viewers, and against the viewers with a
// measured run laid over it.

/* global uPlot */

import { base, getJson } from './api.js';
import { onTheme, resolved } from './colors.js';
import { plural } from './words.js';

/** The spans of the server's history, with the steps of their samples in seconds. */
const SPANS = { '10m': { step: 5, most: 121 }, '1d': { step: 120, most: 721 } };
const HEIGHT = 200;

/** Shortest time that the axis shows, in seconds: a single sample has no span of its own. */
const SPAN_MIN = 60;

/** Steps of an axis that counts. */
const WHOLE = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000];

const axis = (label, more = {}) => ({
  stroke: resolved('--quiet'), grid: { stroke: resolved('--grid'), width: 1 }, ticks: { show: false }, font: '11px system-ui, sans-serif', label, labelFont: '11px system-ui, sans-serif', labelSize: 16, size: 44, ...more,
});

/**
 * The scale of an axis of time for samples at `times`, in seconds since 1970. uPlot itself gives a single
 * sample a span of years.
 */
export function timeScale(times) {
  const range = () => {
    const end = times.at(-1) ?? Date.now() / 1000;
    return [Math.min(times.at(0) ?? end, end - SPAN_MIN), end];
  };
  return { range };
}

export class LoadCharts {
  #over;
  #against;
  #times = [];
  #cores = [];
  #viewers = [];
  #run = [];
  #where;
  #span = '10m';

  /** `span`: the choice of the time that is shown. */
  constructor({ over, against, span }) {
    this.#where = { over, against };
    for (const element of [over, against]) element.setAttribute('role', 'img');
    this.#make();
    new ResizeObserver(() => this.#resize()).observe(over);
    onTheme(() => this.#make());
    span.addEventListener('change', () => {
      this.#span = span.value;
      this.load();
    });
  }

  /** Shows what the server has kept, also from before the page was opened. */
  async load() {
    let history;
    try {
      history = await getJson(`${base}/api/v1/history?span=${this.#span}`);
    } catch {
      // The connection of the page tells that the server is away.
      return;
    }
    const start = Date.now() / 1000 - history.now_s;
    // The scale of the axis holds this list.
    this.#times.splice(0, Infinity, ...history.at_s.map((at) => start + at));
    this.#cores = history.cpu_cores;
    this.#viewers = history.viewers;
    this.#draw();
  }

  /** Adds the present CPU in cores and number of viewers, if a step is over. */
  add(cores, viewers) {
    if (!Number.isFinite(cores)) return;
    const { step, most } = SPANS[this.#span];
    const now = Date.now() / 1000;
    if (now - (this.#times.at(-1) ?? 0) < step) return;
    for (const [list, value] of [[this.#times, now], [this.#cores, cores], [this.#viewers, viewers]]) {
      list.push(value);
      if (list.length > most) list.shift();
    }
    this.#draw();
  }

  /** Lays the steps of a report of `glassline bench viewers` over the chart; an empty list removes them. */
  lay(steps) {
    this.#run = steps
      .filter((step) => Number.isFinite(step.server_cpu_percent))
      .map((step) => [step.viewers, step.server_cpu_percent / 100])
      .sort(([a], [b]) => a - b);
    this.#draw();
  }

  #make() {
    this.#over?.destroy();
    this.#against?.destroy();
    const { over, against } = this.#where;
    const size = (element) => ({ width: Math.max(240, element.clientWidth), height: HEIGHT });
    this.#over = new uPlot({
      ...size(over),
      legend: { show: false },
      scales: { x: timeScale(this.#times), cores: { range: (_, __, max) => [0, Math.max(0.1, max * 1.15)] }, viewers: { range: (_, __, max) => [0, Math.max(4, max * 1.15)] } },
      axes: [axis(null, { size: 28, values: '{HH}:{mm}' }), axis('cores', { scale: 'cores' }), axis('viewers', { scale: 'viewers', side: 1, incrs: WHOLE, grid: { show: false } })],
      series: [{},
        { label: 'Processor', scale: 'cores', stroke: resolved('--accent'), width: 1.5, points: { show: false }, fill: `color-mix(in srgb, ${resolved('--accent')} 12%, transparent)` },
        { label: 'Viewers', scale: 'viewers', stroke: resolved('--network'), width: 1.5, points: { show: false } }],
    }, [[], [], []], over);
    this.#against = new uPlot({
      ...size(against),
      legend: { show: false },
      scales: { x: { time: false, range: (_, __, max) => [0, Math.max(4, max * 1.05)] }, y: { range: (_, __, max) => [0, Math.max(0.1, max * 1.15)] } },
      axes: [axis('viewers', { size: 32, incrs: WHOLE }), axis('cores')],
      series: [{},
        { label: 'This server', stroke: resolved('--accent'), paths: () => null, points: { show: true, size: 4, fill: resolved('--accent') } },
        { label: 'Measured run', stroke: resolved('--decode'), width: 1.5, spanGaps: true, points: { show: true, size: 6 } }],
    }, [[], [], []], against);
    this.#draw();
  }

  #resize() {
    for (const [chart, element] of [[this.#over, this.#where.over], [this.#against, this.#where.against]]) {
      chart.setSize({ width: Math.max(240, element.clientWidth), height: HEIGHT });
    }
  }

  /** Says in words what the charts show, for those who do not see them. */
  #describe() {
    const { over, against } = this.#where;
    const [cores, viewers] = [this.#cores.at(-1), this.#viewers.at(-1)];
    const now = cores === undefined ? 'no figures yet' : `now ${cores.toFixed(2)} cores with ${plural(viewers, 'viewer')}`;
    const most = cores === undefined ? '' : `; at most ${Math.max(...this.#cores).toFixed(2)} cores and ${plural(Math.max(...this.#viewers), 'viewer')}`;
    over.setAttribute('aria-label', `Processor and viewers: ${now}${most}`);
    const run = this.#run.map(([count, used]) => `${used.toFixed(2)} cores with ${count}`).join(', ');
    against.setAttribute('aria-label', `Processor against viewers: ${now}${run ? `; load test: ${run}` : ''}`);
  }

  #draw() {
    this.#describe();
    this.#over.setData([this.#times, this.#cores, this.#viewers]);
    const points = this.#viewers.map((viewers, index) => [viewers, this.#cores[index], null]);
    const all = [...points, ...this.#run.map(([viewers, cores]) => [viewers, null, cores])].sort(([a], [b]) => a - b);
    this.#against.setData([0, 1, 2].map((column) => all.map((row) => row[column])));
  }
}
