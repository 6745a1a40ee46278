// The dashboard: one connection tells what changed, and each part touches only that.

import { AddSource } from './add_source.js';
import { AuditList } from './audit_list.js';
import { ClusterList } from './cluster_list.js';
import { html, setText } from './dom.js';
import { EventsList } from './events_list.js';
import { ABSENT, duration } from './format.js';
import { LoadCharts } from './load_charts.js';
import { LoadTest } from './load_test.js';
import { Overview } from './overview.js';
import { ReloadCard } from './reload_card.js';
import { RoomsList } from './rooms_list.js';
import { session, signOut } from './session.js';
import { StreamDetail } from './stream_detail.js';
import { StreamTable } from './stream_table.js';
import { ViewerTable } from './viewer_table.js';

/** From this number of streams on a filter is offered. */
const FILTER_FROM = 8;

const $ = (id) => document.getElementById(id);

const onProblem = (error) => {
  setText($('notice'), error.message);
  $('notice').hidden = false;
  setTimeout(() => { $('notice').hidden = true; }, 8000);
};

const detail = new StreamDetail();
const streams = new StreamTable($('streams'), { onProblem, onSelect: (name) => select(name) });
const viewers = new ViewerTable($('viewers'), { onProblem });
const events = new EventsList($('events'), { empty: $('no-events'), kinds: $('event-kinds') });
const rooms = new RoomsList($('rooms-card'), { count: $('room-count'), list: $('rooms') });
const charts = new LoadCharts({ over: $('load'), against: $('scatter') });
const loadTest = new LoadTest(
  { name: $('bench-name'), verdict: $('bench-verdict'), file: $('bench'), remove: $('bench-remove'), line: $('bench-line') },
  { onSteps: (steps) => charts.lay(steps), onProblem },
);
const reloads = new ReloadCard($('reloads-card'), { waiting: $('reloads-waiting'), list: $('reloads'), empty: $('no-reloads'), button: $('reload'), status: $('reload-status') });
const audit = new AuditList($('audit'), $('no-audit'));
const cluster = new ClusterList($('cluster-card'), { name: $('cluster-name'), engine: $('cluster-engine'), list: $('cluster') });
let latest = null;
let seesAudit = false;

/** A stream that was just added, until its row is there to be shown. */
let added = null;

new AddSource($('add-form'), {
  has: (name) => latest?.streams?.[name] !== undefined,
  onAdded: (name) => { added = name; },
});

$('add').addEventListener('toggle', async () => (await import('./onvif.js')).offerCameras($('add-form')), { once: true });

function select(name) {
  detail.show(name);
  streams.select(name);
  if (name !== null && latest) detail.ports(latest.server.ports);
}

const tiles = new Map();

/** A tile with a number and what it counts; it stands out where `isBad`. */
function tile(name, value, isBad = false) {
  if (!tiles.has(name)) {
    const number = html('dd');
    const box = html('div', { class: 'tile' }, html('dt', {}, name), number);
    tiles.set(name, { number, box });
    $('tiles').append(box);
  }
  const { number, box } = tiles.get(name);
  setText(number, value);
  box.classList.toggle('bad', isBad);
}

function showTiles({ server, streams: all, viewers: { count, troubled, relayed }, rooms: calls }) {
  const list = Object.values(all);
  const live = list.filter(({ status }) => status === 'live').length;
  const bad = list.filter(({ status }) => status === 'unreachable' || status === 'hangs').length;
  const watching = Object.values(count).reduce((sum, it) => sum + it, 0);
  tile('streams live', `${live} of ${list.length}`, bad > 0);
  tile('viewers', String(watching));
  tile('in trouble', String(troubled), troubled > 0);
  tile('relayed', String(relayed));
  tile('processor', server.cpu_cores === undefined ? ABSENT : `${server.cpu_cores.toFixed(2)} of ${server.cores}`, server.cpu_cores > 0.9 * server.cores);
  tile('memory', server.memory_mib === undefined ? ABSENT : `${server.memory_mib}\u00a0MiB`);
  tile('descriptors', String(server.descriptors ?? ABSENT));
  tile('voices', calls.rooms ? `${calls.participants} in ${calls.rooms} room${calls.rooms === 1 ? '' : 's'}` : '0');
  const stuck = server.stuck ?? [];
  if (stuck.length > 0 || tiles.has('stuck threads')) tile('stuck threads', stuck.join(', ') || 'none', stuck.length > 0);
  charts.add(server.cpu_cores, watching);
}

function showCertificates(certificates) {
  const rows = Object.entries(certificates ?? {});
  $('certificates-card').hidden = rows.length === 0;
  $('certificates').replaceChildren(...rows.map(([source, { present, days, problem }]) => {
    const isBad = !present || days < 0;
    const state = isBad ? 'down' : problem || days < 7 ? 'hangs' : 'live';
    const words = !present ? 'there is none' : days === undefined ? 'in use' : days < 0 ? 'has expired' : `ends in ${days} days`;
    return html('li', {}, html('span', { class: 'pill', 'data-state': state }, html('strong', {}, source), ` ${words}`), problem ? html('p', { class: 'quiet' }, problem) : '');
  }));
}

function onOverview(tree, patch) {
  latest = tree;
  const all = tree.streams ?? {};
  setText($('version'), `glassline ${tree.server.version}`);
  setText($('uptime'), `up ${duration(tree.server.now_s)}`);
  showTiles(tree);
  if (!patch || patch.streams) {
    streams.update(all, patch ? Object.keys(patch.streams) : null);
    const names = Object.keys(all);
    setText($('stream-count'), names.length ? String(names.length) : '');
    $('no-streams').hidden = names.length > 0;
    $('streams').hidden = names.length === 0;
    $('stream-filter-field').hidden = names.length < FILTER_FROM;
    const isGone = detail.name !== null && !all[detail.name];
    if (isGone || detail.name === null) select(streams.names[0] ?? null);
    if (added !== null && all[added]) {
      select(added);
      added = null;
    }
  }
  streams.refreshThumbnails();
  if (!patch || patch.viewers) {
    const { listed, count } = tree.viewers;
    viewers.update(listed ?? {});
    const watching = Object.values(count).reduce((sum, it) => sum + it, 0);
    const shown = Object.keys(listed ?? {}).length;
    const parts = Object.entries(count).filter(([, it]) => it > 0).map(([name, it]) => `${it} ${name}`);
    setText($('viewer-count'), watching ? `${parts.join(', ')}${shown < watching ? `; the ${shown} in most trouble` : ''}` : '');
    $('no-viewers').hidden = shown > 0;
    $('viewers').hidden = shown === 0;
  }
  if (!patch || patch.certificates) showCertificates(tree.certificates);
  if (!patch || patch.rooms) rooms.update(tree.rooms);
  events.update(tree.events);
  reloads.update(tree.server.reloads);
  loadTest.update(tree.server.load_tests);
  if (detail.name !== null) loadTest.offer(detail.name, tree.server);
  if (seesAudit) audit.refresh();
  if (tree.server.in_cluster) cluster.refresh();
  detail.ports(tree.server.ports);
}

$('stream-filter').addEventListener('input', ({ target }) => streams.filter(target.value));

const WORDS = { live: 'Live', reconnecting: 'Reconnecting' };
const onLink = (state) => {
  $('link').dataset.state = state;
  setText($('link'), WORDS[state]);
};

/** Shows who is here, and what they may do. */
async function showSession() {
  const here = await session();
  if (!here) return;
  cluster.expire();
  seesAudit = here.may('admin');
  $('audit-card').hidden = !seesAudit;
  events.showSignIns(seesAudit);
  document.body.dataset.role = here.role;
  setText($('who'), here.signedIn ? `${here.name}, ${here.role}` : '');
  $('sign-out').hidden = !here.signedIn;
}

$('sign-out').addEventListener('click', () => signOut().catch(onProblem));

showSession();
new Overview({ onOverview, onLink, onRefused: showSession });
