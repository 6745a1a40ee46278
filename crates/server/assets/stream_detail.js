// One stream: its waterfall, the heat map of a stage, and lines to copy.

import { streamUrl } from './api.js';
import { commands } from './commands.js';
import { copyLine } from './copy_line.js';
import { html, setText } from './dom.js';
import { bitrate } from './format.js';
import { HeatMap } from './heat_map.js';
import { inPath } from './names.js';
import { viewerOrigin, watchUrl } from './watch_url.js';
import { STAGES, Waterfall } from './waterfall.js';

const $ = (id) => document.getElementById(id);

export class StreamDetail {
  #name = null;
  #events = null;
  #waterfall = new Waterfall($('waterfall'));
  #heat = new HeatMap($('heat'));
  #lines = '';

  constructor() {
    $('heat-stage').addEventListener('change', () => this.#draw());
    document.addEventListener('visibilitychange', () => (document.hidden ? this.#close() : this.#open()));
  }

  get name() { return this.#name; }

  /** Shows stream `name`, or nothing if it is null. */
  show(name) {
    if (name === this.#name) return;
    this.#name = name;
    this.#close();
    this.#heat.clear();
    this.#waterfall.update(null);
    $('detail').hidden = name === null;
    setText($('detail-name'), name ?? '');
    if (name !== null) this.#open();
  }

  /** Shows the lines to copy for a server with these ports: to watch, and to publish unless the server
   * fetches the stream itself. */
  ports(ports, stream) {
    if (this.#name === null || !stream) return;
    const text = JSON.stringify([this.#name, ports, stream.fetched, stream.owner]);
    if (text === this.#lines) return;
    this.#lines = text;
    const { hostname } = location;
    const name = inPath(this.#name);
    const place = { origin: viewerOrigin(ports), base: '', name: this.#name, rtspPort: ports.rtsp, rtspsPort: ports.rtsps, key: false };
    const watch = [{ program: 'Browser', note: 'watch', line: watchUrl(ports, this.#name, stream.owner) }];
    if (ports.rtsp) watch.push({ program: 'VLC', note: 'watch; Debian’s VLC has no RTSP', line: `vlc rtsp://${hostname}:${ports.rtsp}/${name}` });
    const lines = stream.fetched ? watch : [...watch, ...commands(place)];
    setText($('lines-title'), stream.fetched ? 'Lines to copy to watch' : 'Lines to copy to watch and to publish');
    $('lines').replaceChildren(...lines.map(({ program, note, line, fields }) => html('div', { class: 'line' },
      html('p', {}, html('strong', {}, program), ` ${note}`),
      line ? copyLine(line) : html('dl', {}, ...fields.flatMap(([key, value]) => [html('dt', {}, key), html('dd', {}, html('code', {}, value))])))));
  }

  #open() {
    if (this.#name === null || this.#events) return;
    this.#events = new EventSource(streamUrl(this.#name, '/stages'));
    this.#events.addEventListener('stages', ({ data }) => {
      const second = JSON.parse(data);
      this.#waterfall.update(second);
      this.#heat.add(second.heat);
      this.#showLayers(second.layers ?? []);
      this.#offer();
      this.#draw();
      const stage = second.stages.find((it) => it.stage === $('heat-stage').value);
      const range = stage ? `p50 ${stage.p50_ms.toFixed(2)} ms, p99 ${stage.p99_ms.toFixed(2)} ms over 10 s` : '';
      setText($('heat-range'), range);
      $('heat').setAttribute('aria-label', `Heat map of ${$('heat-stage').value}: ${range || 'no frames'}`);
    });
  }

  #close() {
    this.#events?.close();
    this.#events = null;
  }

  #showLayers(layers) {
    const texts = layers.map(({ rid, height, state, bitrate_bps: bps }) =>
      `${height ? `${height}p` : rid} ${state === 'live' ? bitrate(bps) : state}`);
    $('detail-layers').hidden = !texts.length;
    setText($('detail-layers'), `Layers: ${texts.join(', ')}`);
  }

  /** Offers the stages that have counts, in the order of the path. */
  #offer() {
    const select = $('heat-stage');
    const stages = STAGES.map(([name]) => name).filter((name) => this.#heat.stages.includes(name));
    if ([...select.options].map(({ value }) => value).join() === stages.join()) return;
    const chosen = select.value;
    select.replaceChildren(...stages.map((name) => html('option', { value: name, title: meaning(name) }, name.replaceAll('_', ' '))));
    if (stages.includes(chosen)) select.value = chosen;
    else if (stages.includes('send')) select.value = 'send';
  }

  #draw() {
    const stage = $('heat-stage').value;
    $('heat').parentElement.className = `heat stage-${stage}`;
    $('heat-stage').title = meaning(stage);
    this.#heat.draw(stage);
  }
}

/** What a stage spans, in a sentence. */
const meaning = (stage) => STAGES.find(([name]) => name === stage)?.[2] ?? '';
