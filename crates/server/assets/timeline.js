// The timeline of a stream: what was recorded, and its picture at any second.
//
//   …/list ─► spans ─┬─► strip of time ─ chosen second ─► Recorded ─► video
//   …/marks ─► marks ┘        ├─ below a pointer: …/thumbnail
//                            └─ …/stages of the day ─► delays by stage
//
// The address keeps the second (`?at=`), so that a link leads to it.

import { authorization, base, getJson, pagePath, pageUrl, request, streamUrl, withToken } from './api.js';
import { html, setText } from './dom.js';
import { ExportDialog } from './export_dialog.js';
import { duration, when } from './format.js';
import { hasKey, openByKey } from './key.js';
import { MarkDialog } from './mark_dialog.js';
import { Recorded } from './recorded.js';
import { StageStrip } from './stage_strip.js';
import { TimeStrip, clockOf } from './time_strip.js';

const DAY_MS = 86_400_000;

/** Time between two looks for what was recorded meanwhile. */
const REFRESH_MS = 10_000;

/** Time after which the address is given the second that is shown. */
const ADDRESS_EACH_MS = 2000;

const $ = (id) => document.getElementById(id);
const name = decodeURIComponent(pagePath.replace(/^\//, '').replace(/\/timeline\/?$/, ''));
const video = $('video');
const token = new URLSearchParams(location.search).get('token');

/** An address of playback: `what` of the stream, with `query`. */
function playback(what, query = {}) {
  return `${base}/-/playback/${what}?${new URLSearchParams({ path: name, ...query })}`;
}

const iso = (ms) => new Date(ms).toISOString();

const recorded = new Recorded(video, {
  url: (ms, seconds) => playback('get', { start: iso(ms), duration: seconds, gaps: 'cut' }),
  onTrouble: (problem) => (problem ? tell(problem.title ?? 'No picture', problem.detail ?? problem.message) : hush()),
});
const strip = new TimeStrip($('strip'), {
  onSeek: seek,
  picture: (ms) => playback('thumbnail', { at: iso(ms), width: 320 }),
  onDrawn: () => stages.draw(),
});
const stages = new StageStrip($('stages'), $('stages-said'), strip);
const exporting = new ExportDialog({
  url: (ms, seconds, isExact) => {
    const query = new URLSearchParams({ start: iso(ms), duration: seconds });
    if (isExact) query.set('cut', 'exact');
    // A link carries no headers.
    if (token) query.set('token', token);
    return `${streamUrl(name, '/export')}?${query}`;
  },
});
const marking = new MarkDialog({ url: streamUrl(name, '/recording'), onMarked: () => refresh().catch(() => {}) });

let spans = [];
let marks = [];
let days = [];
let addressAt = 0;

const dayOf = (ms) => new Date(ms).setHours(0, 0, 0, 0);
/** The beginning of the next day: one may have 23 or 25 hours. */
const dayAfter = (ms) => { const date = new Date(ms); return new Date(date.getFullYear(), date.getMonth(), date.getDate() + 1).getTime(); };

function tell(title, detail = '') {
  setText($('message-title'), title);
  setText($('message-detail'), detail ?? '');
  $('message').hidden = false;
}

function hush() { $('message').hidden = true; }

function seek(ms) {
  recorded.seek(ms);
  showDay(dayOf(ms), false);
}

/** Days of which something is recorded, the oldest first. */
function daysOf(list) {
  const found = new Set();
  for (const { from, to } of list) {
    for (let day = dayOf(from); day < to; day = dayAfter(day)) found.add(day);
  }
  return [...found].sort((one, other) => one - other);
}

function showDay(day, goes) {
  const select = $('day');
  if (Number(select.value) !== day || strip.from === 0) {
    if (days.includes(day)) select.value = day;
    if (strip.length === DAY_MS || strip.from === 0) strip.showDay(day);
    showLists();
    showStages();
  }
  if (goes) recorded.seek(spans.find((it) => it.to > day)?.from > day ? spans.find((it) => it.to > day).from : day);
}

/** Shows the delays of the chosen day; a server that has none of them yet shows none. */
async function showStages() {
  const day = Number($('day').value);
  if (!day) return;
  const list = await getJson(playback('stages', { start: iso(day), end: iso(dayAfter(day)) }), 20_000).catch(() => null);
  if (!list || Number($('day').value) !== day) return;
  stages.fill(list.map(({ start, p95_ms: p95 }) => ({ at: Date.parse(start), p95 })));
}

/** Lists marks and gaps of the chosen day. */
function showLists() {
  const [from, to] = [Number($('day').value), dayAfter(Number($('day').value))];
  const isOfDay = (it) => it.to > from && it.from < to;
  const gaps = spans.slice(1).map((it, index) => ({ from: spans[index].to, to: it.from, why: it.loss }))
    .filter((it) => it.to - it.from > 500 && isOfDay(it));
  const row = (at, text) => {
    const button = html('button', { type: 'button' }, clockOf(at));
    button.addEventListener('click', () => seek(at));
    return html('li', {}, button, html('span', {}, text));
  };
  const shown = marks.filter(isOfDay);
  $('marks').replaceChildren(...shown.map((it) => row(it.from, it.label || 'marked')));
  $('gaps').replaceChildren(...gaps.map((it) => row(it.to, [duration((it.to - it.from) / 1000), it.why].filter(Boolean).join(': '))));
  $('no-marks').hidden = shown.length > 0;
  $('no-gaps').hidden = gaps.length > 0;
}

function showDays() {
  const next = daysOf(spans);
  if (next.join() === days.join()) return;
  days = next;
  const chosen = $('day').value;
  $('day').replaceChildren(...days.map((it) => html('option', { value: it }, when(it).slice(0, 10))));
  if (days.includes(Number(chosen))) $('day').value = chosen;
}

async function refresh() {
  const answer = await request(playback('list'), { timeoutMs: 20_000 });
  const missing = answer.headers.get('glassline-missing');
  setText($('missing'), missing ? `Another server of the cluster may have more, and does not answer: ${missing}` : '');
  $('missing').hidden = !missing;
  const list = await answer.json();
  spans = list.map(({ start, duration: seconds, loss }) => ({ from: Date.parse(start), to: Date.parse(start) + seconds * 1000, loss }));
  marks = (await getJson(playback('marks'), 20_000)).map(({ start, end, label }) => ({ from: Date.parse(start), to: Date.parse(end), label }));
  recorded.spans = spans;
  showDays();
  strip.fill({ spans, marks });
  if ($('day').value) showLists();
  // Only today's delays grow.
  if (Number($('day').value) === dayOf(Date.now())) showStages();
  const seconds = spans.reduce((sum, { from, to }) => sum + (to - from) / 1000, 0);
  setText($('state'), `${duration(seconds)} recorded`);
  setText($('extent'), spans.length ? `since ${when(spans[0].from)}` : '');
}

function draw() {
  const { now } = recorded;
  if (now === null) return;
  setText($('clock'), `${when(now)}.${Math.floor((now % 1000) / 100)}`);
  $('clock').dateTime = iso(now);
  strip.moveTo(now);
  stages.moveTo(now);
  if (performance.now() < addressAt) return;
  addressAt = performance.now() + ADDRESS_EACH_MS;
  const address = new URL(location.href);
  address.searchParams.set('at', iso(now));
  history.replaceState(null, '', address);
}

function play() {
  if (video.paused) video.play().catch(() => {});
  else video.pause();
}

function moveDay(steps) {
  const at = days.indexOf(Number($('day').value)) + steps;
  if (at >= 0 && at < days.length) showDay(days[at], true);
}

const KEYS = {
  ' ': play,
  j: () => seek(recorded.now - 10_000),
  l: () => seek(recorded.now + 10_000),
  ',': () => recorded.step(-1),
  '.': () => recorded.step(1),
  b: () => $('mark-open').click(),
  m: () => $('sound').click(),
  f: () => $('fullscreen').click(),
  '+': () => strip.zoom(1),
  '-': () => strip.zoom(-1),
};

function wire() {
  setText($('name'), name);
  document.title = `${name} · recordings · glassline`;
  $('home').href = withToken(`${base}/`);
  $('live').href = withToken(pageUrl(name));
  setText($('zone'), Intl.DateTimeFormat().resolvedOptions().timeZone ?? '');
  $('play').addEventListener('click', play);
  for (const [id, key] of [['back', 'j'], ['ahead', 'l'], ['frame-back', ','], ['frame-ahead', '.'], ['closer', '+'], ['wider', '-']]) {
    $(id).addEventListener('click', () => KEYS[key]());
  }
  $('speed').addEventListener('change', () => {
    video.defaultPlaybackRate = Number($('speed').value);
    video.playbackRate = Number($('speed').value);
  });
  $('sound').addEventListener('click', () => { video.muted = !video.muted; });
  video.addEventListener('volumechange', () => $('sound').setAttribute('aria-pressed', String(!video.muted)));
  for (const event of ['play', 'pause']) video.addEventListener(event, () => setText($('play'), video.paused ? 'Play' : 'Pause'));
  for (const event of ['timeupdate', 'seeked']) video.addEventListener(event, draw);
  $('fullscreen').addEventListener('click', () => {
    if (document.fullscreenElement) document.exitFullscreen();
    else $('picture').requestFullscreen?.().catch(() => {});
  });
  $('save').addEventListener('click', () => exporting.open(recorded.now ?? spans.at(-1)?.from ?? Date.now()));
  $('mark-open').addEventListener('click', () => marking.open(recorded.now ?? Date.now()));
  $('day').addEventListener('change', () => showDay(Number($('day').value), true));
  $('day-before').addEventListener('click', () => moveDay(-1));
  $('day-after').addEventListener('click', () => moveDay(1));
  addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.('input, select, dialog')) return;
    // A button has its own space bar.
    if (event.key === ' ' && event.target.closest?.('button, a')) return;
    const act = KEYS[event.key];
    if (!act) return;
    event.preventDefault();
    if (recorded.now !== null || event.key === ' ') act();
  });
  openByKey($('key-form'));
}

/** Says what the present source sends that no file has. */
async function tellLeftOut() {
  const stream = await getJson(streamUrl(name)).catch(() => null);
  const leftOut = stream?.recording?.left_out ?? [];
  setText($('left-out'), leftOut.length ? `Not recorded, because MP4 files have no place for it: ${leftOut.join(', ')}.` : '');
  $('left-out').hidden = leftOut.length === 0;
}

/** Shows why there is no timeline. */
function refuse(problem) {
  const needsKey = problem.status === 401 && !authorization.authorization;
  $('key-form').hidden = !needsKey || hasKey;
  setText($('state'), problem.status === 404 ? 'Nothing recorded' : 'No access');
  tell(problem.title ?? 'No recordings', problem.detail ?? problem.message);
}

async function begin() {
  wire();
  if (!Recorded.isSupported) return tell('Not playable here', 'This browser has no Media Source Extensions: save a part, and open it in a player.');
  await Promise.all([tellLeftOut(), refresh()]);
  if (!spans.length) return refuse({ status: 404, title: 'Nothing recorded', detail: `There is no recording of ${name}.` });
  const asked = Date.parse(new URLSearchParams(location.search).get('at') ?? '');
  const at = Number.isFinite(asked) ? asked : Math.max(spans.at(-1).from, spans.at(-1).to - 60_000);
  seek(at);
  // Of a recording that has just begun, a day shows nothing.
  strip.fit(1.2 * (spans.at(-1).to - Math.max(spans[0].from, dayOf(at))), at);
  video.play().catch(() => {});
  for (;;) {
    await new Promise((resolve) => { setTimeout(resolve, REFRESH_MS); });
    // A hidden page does not ask; what is away comes back.
    if (!document.hidden) await Promise.all([tellLeftOut(), refresh()]).catch(() => {});
  }
}

begin().catch(refuse);
