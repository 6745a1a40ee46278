// The page that publishes a stream: opens a source, sends it by WHIP, shows what arrives, and sends it
// again after an interruption.
//
//   idle ── Start ─► open the source ─► POST ─► connected ─► live
//     ▲                                  ▲ │ 401, 403: asks for the key
//     │                                  │ │ 409: somebody publishes, offers to take over
//     └── Stop, refused, replaced        └─┴ lost, or the server is not there: again, with pauses
//
// The key is kept in this tab alone and travels in `Authorization`.

import { Problem, base, pagePath, pageUrl, request, streamUrl, withToken } from './api.js';
import { ServerClock } from './clock.js';
import { setText } from './dom.js';
import { asSentence } from './failure.js';
import { Publication, sendable } from './publication.js';
import { PublishingPanel } from './publishing.js';
import { Retry, sleep } from './retry.js';
import { SendSampler } from './sending.js';
import { isServersFault } from './servers.js';
import { INSECURE, Unavailable, devices, hasDevices, open } from './sources.js';

const TICK_MS = 1000;
/** How often the page looks what is published while it publishes nothing itself. */
const LOOK_TICKS = 2;
/** Longest pause between tries to reach the server. */
const RETRY_MAX_MS = 2000;
/** How long the server may hold the place of this page's former session. */
const FORMER_MS = 10_000;
/** Reports one after the other without an answer, or that a proxy answers, after which the server is lost. */
const UNANSWERED_MAX = 2;

const $ = (id) => document.getElementById(id);
const name = decodeURIComponent(pagePath.replace(/^\//, '').replace(/\/publish$/, ''));
const endpoint = pageUrl(name, '/whip');
const KEY = `glassline-key:${endpoint}`;

const panel = new PublishingPanel();
const clock = new ServerClock();
const sampler = new SendSampler();

/**
 * State for tests and the console; the page writes it and does not read it.
 *
 * `state`: idle, connecting, live, reconnecting, refused, taken. `error`: the latest one.
 * `sessions`: connected so far; `restarts`: of ICE. `arrives`: what the server gets, `sends`: what
 * the browser sends, of the last second. `answer`: the server's latest answer.
 */
const seen = {
  stream: name, state: 'idle', error: null, detail: null, sessions: 0, restarts: 0, reports: 0,
  arrives: null, sends: null, answer: null, clock: null, keyAsked: false,
};
window.publishing = seen;

let source = null;
let publication = null;
let wanted = false;
let wake = () => {};
let accepts = { video: ['H264', 'VP8', 'VP9', 'AV1', 'H265'], rtsp_port: null, rtsps_port: null };
let needsKey = false;
/** `Authorization` that the server refused; it is not sent again before the user presses Start. */
let refused = null;

const stored = () => { try { return sessionStorage.getItem(KEY) ?? ''; } catch { return ''; } };
const keep = (value) => { try { sessionStorage.setItem(KEY, value); } catch { /* then for this page alone */ } };

/** `Authorization` of the key in its field: a token, or `NAME:PASSWORD` of a user. */
function authorization() {
  const key = $('key').value.trim();
  if (!key) return null;
  return key.includes(':') ? `Basic ${btoa(unescape(encodeURIComponent(key)))}` : `Bearer ${key}`;
}

/** Credentials for looking what is published. A refused key that is sent again and again would lock this address out. */
const headers = () => (authorization() && authorization() !== refused ? { authorization: authorization() } : {});

function show(state, label, title = null, detail = '', action = null) {
  Object.assign(seen, { state, error: title, detail: detail || null });
  panel.state({ idle: 'idle', taken: 'refused' }[state] ?? state, label);
  panel.message(title, detail, action);
}

/** What the form asks for. */
function choices() {
  const [width, height] = $('size').value.split('x').map(Number);
  return {
    kind: document.querySelector('input[name="source"]:checked').value,
    camera: $('camera').value || null,
    microphone: $('microphone').value === 'none' ? '' : $('microphone').value || null,
    width, height,
    frameRate: Number($('rate').value),
    codec: $('codec').value || null,
    layers: Number($('layers').value),
    encoding: { maxBitrate: Math.round(Number($('bitrate').value) * 1e6), maxFramerate: Number($('rate').value) },
  };
}

async function openSource() {
  closeSource();
  const wish = choices();
  const opened = await open(wish.kind, { ...wish, name, serverMs });
  source = { ...opened, kind: wish.kind };
  for (const track of opened.stream.getTracks()) {
    // The user may end the sharing of a screen outside the page, or pull out a camera.
    track.addEventListener('ended', () => { if (source?.stream === opened.stream && track.kind === 'video') stop('The source ended.'); });
  }
  $('preview').srcObject = opened.stream;
  $('preview').play().catch(() => { /* the picture is sent all the same */ });
  await listDevices();
  labelSource();
}

function closeSource() {
  source?.stop();
  source = null;
  $('preview').srcObject = null;
}

/** The server's clock now in ms; null before it is known. */
function serverMs() {
  const nowMs = performance.now();
  const estimate = clock.estimate(nowMs);
  return estimate ? nowMs + estimate.offsetMs : null;
}

async function start(takesOver = false) {
  if (wanted) return;
  wanted = true;
  labelStart();
  show('connecting', 'Opening the source');
  try {
    await Promise.race([clock.restart(), sleep(1500)]);
    await openSource();
  } catch (error) {
    wanted = false;
    labelStart();
    closeSource();
    const [title, detail] = error instanceof Unavailable ? [error.title, error.detail] : ['The source does not open', error.message];
    show('refused', 'Not publishing', title, detail);
    return;
  }
  await run(takesOver);
}

function stop(why = null) {
  wanted = false;
  publication?.close();
  publication = null;
  closeSource();
  wake();
  labelStart();
  panel.sends(null);
  show('idle', 'Not publishing', why);
}

/** Sessions one after the other, until the user stops or the server refuses for good. */
async function run(takesOver) {
  const retry = new Retry(RETRY_MAX_MS);
  let formerMs = -Infinity;
  while (wanted) {
    let reason;
    try {
      show(seen.sessions ? 'reconnecting' : 'connecting', seen.sessions ? 'Reconnecting' : 'Connecting');
      const wish = choices();
      const connected = () => {
        retry.reset();
        seen.sessions += 1;
        sampler.reset();
        clock.restart();
        show('live', 'Live');
      };
      const opened = await Publication.open(endpoint, {
        ...wish, stream: source.stream, key: authorization(), takesOver, accepted: accepts.video, onConnected: connected,
      });
      if (!wanted) return void opened.close();
      publication = opened;
      clock.follow(opened);
      keep($('key').value.trim());
      takesOver = false;
      reason = await opened.ended;
      if (opened.connected) formerMs = performance.now();
      await Promise.race([opened.close(), sleep(1000)]);
      publication = null;
      seen.restarts += opened.restarts;
    } catch (error) {
      reason = error;
    }
    if (!wanted) return;
    if (ends(reason, performance.now() - formerMs < FORMER_MS)) return;
    show('reconnecting', 'Reconnecting', 'Reconnecting', reason.message);
    await pause(retry.next());
  }
}

/** Whether `reason` ends publishing until the user does something; shows it then. */
function ends(reason, wasLive) {
  const { status, byServer } = reason;
  let shown = null;
  if (status === 401 || status === 403) {
    refused = authorization();
    askKey(true);
    const wrong = $('key').value !== '';
    const title = status === 403 ? 'Not allowed' : wrong ? 'This key is wrong' : 'This server asks for a key';
    shown = ['refused', 'Refused', title, status === 403 && !wrong
      ? 'Without a key only the server’s own machine may publish.'
      : 'Enter the publish token, or NAME:PASSWORD of a user, below and start again.'];
  } else if (status === 409 && reason.configured) {
    shown = ['refused', 'Refused', reason.title, asSentence(reason.detail)];
  } else if (status === 409 && !wasLive) {
    shown = ['taken', 'Taken', 'Somebody publishes here already', 'Taking over ends what they publish.', 'Take over'];
  } else if (byServer) {
    shown = ['taken', 'Ended', 'The server ended the session', reason.message, 'Publish again'];
  } else if (reason instanceof Problem && [400, 404, 405, 415, 422].includes(status)) {
    shown = ['refused', 'Refused', reason.title, reason.detail];
  } else if (!(reason instanceof Problem) && reason.name !== 'Ended') {
    shown = ['refused', 'Failed', 'The browser cannot publish', reason.message];
  }
  if (!shown) return false;
  wanted = false;
  labelStart();
  closeSource();
  show(...shown);
  return true;
}

function askKey(asked) {
  needsKey ||= asked;
  seen.keyAsked = needsKey;
  $('key-field').hidden = !needsKey && !$('key').value;
  if (asked) $('key').focus();
}

const pause = (ms) => new Promise((resolve) => {
  const timer = setTimeout(resolve, ms);
  wake = () => { clearTimeout(timer); resolve(); };
});

/** Once a second: reports this page's clock and encoder, or looks what others publish. */
async function tick(count) {
  const current = publication;
  const nowMs = performance.now();
  const estimate = clock.estimate(nowMs);
  seen.clock = estimate;
  panel.clock(current ? estimate : null);
  if (current?.connected) {
    const sample = await sampler.sample(current.pc);
    seen.sends = sample;
    panel.sends(sample);
    if (estimate && sample) await report(current, sample, estimate);
    return;
  }
  if (count % LOOK_TICKS === 0 && !document.hidden) await look();
}

async function report(current, sample, estimate) {
  // The browser states capture times by a calendar clock that it read once; the system may have set its clock since.
  const shiftMs = Math.abs(Date.now() - (performance.timeOrigin + performance.now()));
  const body = {
    clock_offset_ms: estimate.offsetMs - performance.timeOrigin,
    clock_error_ms: estimate.errorMs + shiftMs,
    encode_ms: sample.encodeMs ?? 0,
    uplink_ms: (sample.paceMs ?? 0) + (sample.rttMs ?? 0) / 2,
    drawn_ms: source?.drawnMs?.() ?? null,
  };
  try {
    const response = await current.request('/report', {
      method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body),
    });
    take(await response.json(), true);
    current.unanswered = 0;
    seen.reports += 1;
  } catch (error) {
    if (current !== publication) return;
    if (error.status === 404 || error.status === 410) current.lose(error.title, error.status === 410);
    if (isServersFault(error)) {
      current.unanswered = (current.unanswered ?? 0) + 1;
      if (current.unanswered >= UNANSWERED_MAX) current.lose('The server does not answer');
    }
  }
}

/** Looks what is published while this page publishes nothing. */
async function look() {
  try {
    take(await (await request(streamUrl(name, '/publishing'), { headers: headers() })).json(), false);
    if (seen.error === 'The server cannot be reached') show('idle', 'Not publishing');
    if (seen.answer.configured) refuseName('The name has a source', seen.answer.configured);
  } catch (error) {
    if (error.status === 400) refuseName('No stream can have this name', error.detail);
    if (error.status === 401 || error.status === 403) {
      if (authorization()) refused = authorization();
      askKey(error.status === 401 && !needsKey);
    }
    panel.arrives(null, performance.now());
    if (error.status === 0 && seen.state === 'idle') show('idle', 'Not publishing', error.title);
  }
}

/** Shows at once why nobody can publish under this name. */
function refuseName(title, why) {
  if (wanted) return;
  $('start').disabled = true;
  show('refused', 'Refused', title, asSentence(why ?? ''));
}

function take(answer, own) {
  seen.answer = answer;
  seen.arrives = panel.arrives(answer, performance.now(), own);
  if (JSON.stringify(answer.accepts) !== JSON.stringify(accepts)) {
    accepts = answer.accepts;
    listCodecs();
  }
  showLines();
}

function showLines() {
  const place = {
    origin: location.origin, base, name,
    rtspPort: accepts.rtsp_port, rtspsPort: accepts.rtsps_port, key: needsKey || $('key').value !== '',
  };
  panel.lines(place, () => $('key').value.trim());
}

function listCodecs() {
  const chosen = $('codec').value;
  const names = { H264: 'H.264', H265: 'H.265' };
  const options = 'RTCPeerConnection' in window ? sendable(accepts.video) : [];
  $('codec').replaceChildren(new Option('Automatic', ''), ...options.map((it) => new Option(names[it] ?? it, it)));
  $('codec').value = options.includes(chosen) ? chosen : '';
}

async function listDevices() {
  const { cameras, microphones } = await devices();
  const fill = (select, list, word, first) => {
    const chosen = select.value;
    select.replaceChildren(...first, ...list.filter(({ id }) => id).map(({ id, label }, i) => new Option(label || `${word} ${i + 1}`, id)));
    select.value = [...select.options].some(({ value }) => value === chosen) ? chosen : '';
  };
  fill($('camera'), cameras, 'Camera', [new Option('Default', '')]);
  fill($('microphone'), microphones, 'Microphone', [new Option('Default', ''), new Option('None', 'none')]);
}

function labelStart() {
  const button = $('start');
  setText(button, wanted ? 'Stop' : 'Start');
  button.classList.toggle('live', wanted);
  for (const id of ['codec', 'layers']) $(id).disabled = wanted;
  for (const radio of document.querySelectorAll('input[name="source"]')) radio.disabled = wanted;
}

function labelSource() {
  const { kind } = choices();
  $('camera-field').hidden = kind !== 'camera';
  setText($('microphone-label'), kind === 'test' ? 'Tone' : 'Microphone');
  const [first, none] = $('microphone').options;
  [first.text, none.text] = kind === 'test' ? ['On', 'Off'] : ['Default', 'None'];
  for (const option of [...$('microphone').options].slice(2)) option.hidden = kind === 'test';
  // It says why the page began with the test picture, too.
  $('insecure').hidden = hasDevices();
  setText($('insecure'), hasDevices() ? '' : INSECURE);
}

/** A change of the form takes effect while the page publishes, where the browser lets it. */
async function changed({ target }) {
  labelSource();
  if (!wanted || !publication?.connected || !source) return;
  const wish = choices();
  await publication.bound(wish.encoding).catch(() => {});
  if (!['camera', 'microphone', 'size', 'rate'].includes(target.id) || source.kind === 'screen') return;
  try {
    await openSource();
    for (const track of source.stream.getTracks()) await publication?.replace(track);
  } catch (error) {
    stop(error.detail ?? error.message);
  }
}

function wire() {
  $('form').addEventListener('submit', (event) => {
    event.preventDefault();
    if (wanted) stop();
    else start();
  });
  $('form').addEventListener('change', changed);
  $('key').addEventListener('input', showLines);
  $('act').addEventListener('click', () => start(true));
  addEventListener('online', () => { publication?.restart(); wake(); });
  navigator.connection?.addEventListener?.('change', () => publication?.restart());
  navigator.mediaDevices?.addEventListener?.('devicechange', listDevices);
  addEventListener('pagehide', () => publication?.close());
}

async function measure() {
  for (let count = 0; ; count += 1) {
    const startedMs = performance.now();
    try {
      await tick(count);
    } catch (error) {
      seen.error = error.message;
    }
    await sleep(Math.max(50, TICK_MS - (performance.now() - startedMs)));
  }
}

function begin() {
  document.title = `Publish ${name} · glassline`;
  setText($('name'), name);
  $('home').href = withToken(`${base}/`);
  $('watch').href = withToken(pageUrl(name));
  $('api').href = withToken(streamUrl(name, '/publishing'));
  $('key').value = stored();
  askKey(false);
  wire();
  listCodecs();
  listDevices();
  if (!hasDevices()) document.querySelector('input[name="source"][value="test"]').checked = true;
  labelSource();
  labelStart();
  showLines();
  clock.restart();
  if (!('RTCPeerConnection' in window)) {
    $('start').disabled = true;
    show('refused', 'Unsupported', 'This browser has no WebRTC', 'WebRTC is missing, or turned off by a setting or a policy. Use one of the programs below.');
  } else {
    show('idle', 'Not publishing');
  }
  measure();
}

// For tests and the console.
Object.assign(window, { startPublishing: start, stopPublishing: stop, restartIce: () => publication?.restart(), publishedRestarts: () => publication?.restarts ?? 0 });
begin();
