// The player of one stream: joins, shows, measures, reports, and joins again.
//
//   run ── dial ─► connected ─► live ⇄ stalled      the session stays
//    ▲                │
//    └── back-off ◄───┴── ICE or DTLS failed, the server forgot the session,
//                         refused it (404, 503, …) or is not there
//
// The page's address may ask for `?sound` (not muted, where the browser lets it),
// `?lipsync` (video waits for its audio) and carry a `?token=`.
//
// Stalled video is a problem of the source, not of the connection: the server
// keeps the session while a camera restarts, and its timestamps continue. The
// video resumes by itself, and sooner than after a new handshake.

import { Problem, getJson, request, streamUrl, withToken } from './api.js';
import { ServerClock } from './clock.js';
import { FrameLog } from './frames.js';
import { Loudness } from './loudness.js';
import { Panel } from './panel.js';
import { StatsSampler } from './stats.js';
import { Session } from './whep.js';

const BACKOFF_FIRST_MS = 250;
const BACKOFF_MAX_MS = 4000;

/** Pause after a refusal, which stays the same until somebody changes the configuration. */
const REFUSED_MS = 15_000;

/** No frame for this long while connected counts as stalled. */
const STALL_MS = 3000;

const TICK_MS = 1000;

/** Ticks between two reads of the stream's entry in the API while frames arrive. */
const ENTRY_TICKS = 5;

/** Statuses that another try does not change: the request itself is wrong or not allowed. */
const REFUSALS = new Set([400, 401, 403, 406, 415]);

const options = new URLSearchParams(location.search);
/** Advice for the viewer, by the status of a refusal. */
const ADVICE = {
  401: 'Add ?token=TOKEN to the address of this page, with a token that may read this stream.',
  403: 'Use another token: ?token=TOKEN in the address of this page.',
  406: 'Firefox fetches its H.264 decoder only some minutes after its first start.',
};

const name = decodeURIComponent(location.pathname.replace(/^\/+|\/+$/g, ''));
const endpoint = `/${encodeURIComponent(name)}/whep`;
const video = document.getElementById('video');
const panel = new Panel();
const clock = new ServerClock();
const sampler = new StatsSampler();
const loudness = new Loudness();

/**
 * State for tests and the console; the page writes it and does not read it.
 *
 * `state`: connecting, live, stalled, waiting, reconnecting, refused, unsupported.
 * `firstFrameMs`: navigation to first frame; `joinMs`: offer to first frame
 * of the latest session. `fps`, `bitrate` (bit/s), `lossRatio`, `jitterBufferMs`
 * cover the last second; `framesDecoded` and `audioEnergy` (getStats
 * totalAudioEnergy, and while muted what the track itself carries) the session. `stages`, `endToEnd`, `glassToGlass`: the
 * server's latest answer; `accounted`: frames whose stages add up to the
 * measured delay. `sessions`, `reports`: counts since the page was opened. `lastEnd`: why the
 * latest session, or attempt at one, ended.
 */
const seen = {
  stream: name, state: 'connecting', detail: null,
  firstFrameMs: null, joinMs: null, sessions: 0, reports: 0,
  framesRendered: 0, framesDecoded: 0, fps: null, bitrate: null, lossRatio: null,
  codec: null, width: null, height: null, jitterBufferMs: null, audioEnergy: 0, path: null,
  stages: [], endToEnd: null, glassToGlass: null, accounted: null, frames: [],
  clock: null, lastError: null, lastEnd: null,
};
window.glassline = seen;

let session = null;
let joinedAtMs = null;
let connectedAtMs = null;
let decodedBefore = 0;
let decodedAtMs = -Infinity;
let entry = null;
let wake = () => {};

const log = new FrameLog(video, (presentedMs) => {
  seen.framesRendered = log.rendered;
  if (seen.firstFrameMs === null) seen.firstFrameMs = presentedMs;
  if (session && joinedAtMs === null) joined(presentedMs);
  if (seen.state !== 'live') live();
});

function show(state, label, title, detail, mayRetry) {
  seen.state = state;
  seen.detail = detail ?? title ?? null;
  panel.state(state, label, title, detail, mayRetry);
}

const live = () => show('live', 'Live');

function joined(presentedMs) {
  joinedAtMs = presentedMs;
  seen.joinMs = presentedMs - session.startedMs;
  panel.joined(seen.sessions === 1
    ? `first frame ${Math.round(seen.firstFrameMs)} ms after navigation`
    : `rejoined in ${Math.round(seen.joinMs)} ms`);
}

async function run() {
  let delayMs = BACKOFF_FIRST_MS;
  show('connecting', 'Connecting');
  for (;;) {
    const reason = await watch();
    if (joinedAtMs !== null) delayMs = BACKOFF_FIRST_MS;
    seen.lastEnd = reason.message;
    const isExpected = joinedAtMs !== null && reason.atOnce === true;
    delayMs = explain(reason, delayMs);
    await pause(isExpected ? 0 : delayMs);
    delayMs = Math.min(delayMs * 2, BACKOFF_MAX_MS);
  }
}

/** One session from the offer to its end; returns why it ended. */
async function watch() {
  log.clear();
  panel.clear();
  sampler.reset();
  loudness.listen(null);
  [joinedAtMs, connectedAtMs, decodedBefore, decodedAtMs] = [null, null, 0, -Infinity];
  const stream = new MediaStream();
  let dialled;
  try {
    dialled = await Session.dial(endpoint, {
      lipSync: options.has('lipsync'),
      onTrack(track) {
        stream.addTrack(track);
        if (video.srcObject !== stream) video.srcObject = stream;
        if (track.kind === 'audio') loudness.listen(track);
        play();
      },
      onConnected,
    });
  } catch (error) {
    return error;
  }
  session = dialled;
  // The answer may have been quicker than this assignment.
  if (session.connected) onConnected();
  const reason = await session.ended;
  session = null;
  dialled.close();
  return reason;
}

function onConnected() {
  if (connectedAtMs !== null) return;
  connectedAtMs = performance.now();
  seen.sessions += 1;
  log.active = true;
  clock.restart();
  // 404 is the usual answer: a camera draws no code into its frames.
  request(streamUrl(name, '/frame-code')).then(() => { log.coded = true; }, () => { log.coded = false; });
}

/**
 * Starts playback, muted, because browsers allow audio only after a click.
 *
 * `?sound` in the page's address asks for audio at once, for a wall display
 * whose browser allows it. If the browser refuses, the video plays muted.
 */
function play() {
  video.play().catch((error) => {
    if (error.name !== 'NotAllowedError' || video.muted) return;
    video.muted = true;
    video.play().catch(() => { /* a click on the page asks again */ });
  });
}

/** Shows why there is no session, and returns the pause before the next try. */
function explain(reason, delayMs) {
  seen.lastError = reason.message;
  if (!(reason instanceof Problem)) {
    show('reconnecting', 'Reconnecting', 'Reconnecting', reason.message);
    return delayMs;
  }
  if (REFUSALS.has(reason.status)) {
    show('refused', 'Refused', reason.title, [reason.detail, ADVICE[reason.status]].filter(Boolean).join(' · '), true);
    return REFUSED_MS;
  }
  const wait = Math.max(delayMs, (reason.retryAfter ?? 0) * 1000);
  const title = reason.status === 404 || reason.status === 503 ? 'Waiting for the stream' : reason.title;
  const detail = [reason.detail ?? (title === reason.title ? null : reason.title), `Next try in ${wait / 1000} s.`];
  show('waiting', 'Waiting', title, detail.filter(Boolean).join(' · '), wait > 1000);
  return wait;
}

/** Waits; cut short by the button and by the network's return. */
const pause = (ms) => new Promise((resolve) => {
  const timer = setTimeout(resolve, ms);
  wake = () => { clearTimeout(timer); resolve(); };
});

/** Runs once a second: reads the statistics, reports the frames, and checks that video still arrives. */
async function tick(count) {
  const current = session;
  const nowMs = performance.now();
  const estimate = clock.estimate(nowMs);
  seen.clock = estimate;
  panel.clock(estimate);
  if (!current?.connected) {
    panel.reception(null);
    return;
  }
  const sample = await sampler.sample(current.pc);
  noteSample(sample, nowMs);
  const stalled = watchForStall(nowMs);
  // Until the clocks are joined, frames wait in the log.
  if (estimate) await report(current, sample, estimate);
  if (stalled || count % ENTRY_TICKS === 0) await readEntry();
  if (stalled && seen.state === 'stalled') showStalled();
  panel.reception(sample, { viewers: entry?.viewers ?? null, level: loudness.level });
}

function noteSample(sample, nowMs) {
  if (!sample) return;
  const { framesDecoded, fps, bitrate, lossRatio, jitterBufferMs, codec, width, height, path } = sample;
  Object.assign(seen, { framesDecoded, fps, bitrate, lossRatio, jitterBufferMs, codec, width, height, path });
  if (video.muted) loudness.start();
  else loudness.stop();
  seen.audioEnergy = (sample.audio?.energy ?? 0) + loudness.energy;
  if (framesDecoded > decodedBefore) decodedAtMs = nowMs;
  decodedBefore = framesDecoded;
}

/** True while connected without new frames. A hidden page renders nothing: there decoding counts. */
function watchForStall(nowMs) {
  const alive = Math.max(log.lastMs ?? -Infinity, decodedAtMs, connectedAtMs);
  const stalled = nowMs - alive > STALL_MS;
  if (stalled && seen.state !== 'stalled') showStalled();
  if (!stalled && seen.state === 'stalled' && decodedAtMs === nowMs) live();
  return stalled;
}

/** Shows why no frames come: the reason of the source, or what arrives here although the source is live. */
function showStalled() {
  if (entry && entry.state !== 'live') {
    const detail = [entry.state, entry.detail].filter(Boolean).join(': ');
    show('stalled', 'Stalled', 'Stalled, waiting for the source', detail);
    return;
  }
  const detail = seen.bitrate > 0
    ? 'Packets arrive, but no frame that can be shown: waiting for the next keyframe.'
    : 'The connection is open, but no packets of video arrive. The video resumes by itself.';
  show('stalled', 'Stalled', 'Stalled, waiting for the source', detail);
}

async function readEntry() {
  try {
    entry = await getJson(streamUrl(name));
  } catch (error) {
    entry = { state: error.title, detail: error.detail };
  }
}

async function report(current, sample, estimate) {
  if (!current.resource) return;
  const { frames, unmatched } = log.take(sample?.jitterBufferMs ?? null);
  const body = {
    offset_ns: Math.round(estimate.offsetMs * 1e6),
    error_ns: Math.ceil(estimate.errorMs * 1e6),
    frames, unmatched, lost: sample?.framesDroppedDelta ?? 0,
  };
  try {
    const response = await request(`${current.resource}/report`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    const answer = await response.json();
    if (current !== session) return;
    seen.reports += 1;
    seen.accounted = panel.account(answer, performance.now());
    Object.assign(seen, {
      stages: answer.stages ?? [], endToEnd: answer.end_to_end ?? null,
      glassToGlass: answer.glass_to_glass ?? null, frames: answer.frames ?? [],
    });
  } catch (error) {
    seen.lastError = error.message;
    // A restarted server does not know this session and never answers its packets, but
    // ICE takes half a minute to give up. A session that still delivers is left alone.
    const quiet = performance.now() - (log.lastMs ?? 0) > TICK_MS;
    if ((error.status === 404 || error.status === 410) && quiet) {
      current.lose('The server no longer knows this session');
    }
  }
}

async function measure() {
  for (let count = 0; ; count += 1) {
    const startedMs = performance.now();
    try {
      await tick(count);
    } catch (error) {
      seen.lastError = error.message;
    }
    const leftMs = TICK_MS - (performance.now() - startedMs);
    await new Promise((resolve) => { setTimeout(resolve, Math.max(50, leftMs)); });
  }
}

function wireControls() {
  const sound = document.getElementById('sound');
  const labelSound = () => {
    sound.setAttribute('aria-pressed', String(!video.muted));
    sound.querySelector('span').textContent = video.muted ? 'Unmute' : 'Mute';
    sound.title = `${video.muted ? 'Unmute' : 'Mute'} (m)`;
  };
  sound.addEventListener('click', () => {
    video.muted = !video.muted;
    play();
  });
  video.muted = !options.has('sound');
  video.addEventListener('volumechange', labelSound);
  labelSound();

  const picture = document.getElementById('picture');
  const toggleFullscreen = () => {
    if (document.fullscreenElement) document.exitFullscreen();
    else picture.requestFullscreen?.().catch(() => {});
  };
  document.getElementById('fullscreen').addEventListener('click', toggleFullscreen);
  addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (event.key === 'm') sound.click();
    if (event.key === 'f') toggleFullscreen();
  });

  document.getElementById('again').addEventListener('click', () => wake());
  addEventListener('online', () => wake());
  addEventListener('pagehide', () => session?.close());

  const copy = document.getElementById('copy');
  copy.hidden = !navigator.clipboard;
  copy.addEventListener('click', async () => {
    await navigator.clipboard.writeText(JSON.stringify(seen, null, 2));
    copy.textContent = 'Copied';
    setTimeout(() => { copy.textContent = 'Copy as JSON'; }, 1500);
  });
}

function begin() {
  document.title = `${name} · glassline`;
  document.getElementById('name').textContent = name;
  document.getElementById('home').href = withToken('/');
  document.getElementById('api').href = withToken(streamUrl(name, '/latency'));
  wireControls();
  if (!('RTCPeerConnection' in window)) {
    show('unsupported', 'Unsupported', 'This browser has no WebRTC', 'WebRTC is missing, or turned off by a setting or a policy.');
    return;
  }
  run();
  measure();
}

begin();
