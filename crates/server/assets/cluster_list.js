// The servers of the cluster as this one knows them: asked for while the page is looked at.

import { base, getJson } from './api.js';
import { html, setText } from './dom.js';
import { plural } from './words.js';

const INTERVAL_MS = 5_000;

/** The look of each state of a server. */
const LOOKS = { serving: 'live', draining: 'hangs', dead: 'down', stranger: 'down', unheard: 'waiting' };

export class ClusterList {
  #due = 0;
  #shown = '';

  /** `card` holds all of it, and is shown once the server says that it is in a cluster. */
  constructor(card, { name, engine, list }) {
    Object.assign(this, { card, name, engine, list });
  }

  /** Asks for the servers, unless that was just done. */
  async refresh() {
    const now = performance.now();
    if (now < this.#due) return;
    this.#due = now + INTERVAL_MS;
    let cluster;
    try {
      cluster = await getJson(`${base}/api/v1/cluster/nodes`);
    } catch (error) {
      // The configuration of a cluster changes with a restart only, after which the page asks again.
      if (error.status === 404) this.#due = Infinity;
      return;
    }
    this.#draw(cluster);
  }

  /** Asks again at the next turn. */
  expire() {
    this.#due = 0;
  }

  #draw({ node, is_draining: isDraining, engine, nodes, takeovers, pulled }) {
    this.card.hidden = false;
    const taken = takeovers ? `, and has taken over ${plural(takeovers, 'stream')}` : '';
    setText(this.name, `this server is ${node}${isDraining ? ', which drains' : ''}${taken}${way(pulled)}`);
    const trouble = engine.state === 'connected' ? engine.warnings.join('; ') : `NATS is ${engine.state}${engine.failure ? `: ${engine.failure}` : ''}`;
    setText(this.engine, trouble);
    this.engine.hidden = trouble === '';
    const rows = nodes.map((it) => ({ ...it, isThis: it.name === node }));
    const text = JSON.stringify(rows);
    if (text === this.#shown) return;
    this.#shown = text;
    this.list.replaceChildren(...rows.map(row));
  }
}

/** What is pulled: over how many servers, how long that takes, and how much came. */
function way({ path_nodes: servers, bytes, delay_ms: delay } = {}) {
  if (!servers) return '';
  const time = delay === null ? '' : ` in ${delay} ms`;
  return `; it pulls over up to ${plural(servers, 'server')}${time}, ${(bytes / 1e6).toFixed(1)} MB so far`;
}

function row({ name, region, state, version, viewers, owned, pulled, isThis, quic, busy_percent: busy, mbps, clock_ahead_s: ahead }) {
  const facts = [
    region,
    plural(owned, 'stream'),
    Number.isInteger(viewers) ? plural(viewers, 'viewer') : null,
    pulled ? `${pulled} pulled from there` : null,
    Number.isInteger(busy) ? `${busy} % busy` : null,
    mbps ? `${mbps} Mbit/s` : null,
    ahead ? `its clock is ${Math.abs(ahead)} s ${ahead < 0 ? 'behind' : 'ahead'}` : null,
    state === 'stranger' ? 'it has another cluster.secret' : null,
    version ? `version ${version}` : null,
    quic,
  ];
  return html('li', {},
    html('span', { class: 'pill', 'data-state': LOOKS[state] ?? 'waiting' }, html('strong', {}, name), ` ${state}${isThis ? ', this server' : ''}`),
    html('p', { class: 'quiet' }, facts.filter(Boolean).join(' · ')));
}
