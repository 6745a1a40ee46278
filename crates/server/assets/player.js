// The player of one stream: joins, shows, measures, reports, and joins again.
//
//   run ── dial ─► connected ─► live ⇄ stalled      the session stays
//    ▲                │
//    └── back-off ◄───┴── ICE or DTLS failed, the server forgot the session,
//                         refused it (404, 409, …) or is not there
//
// A server that was killed says no goodbye. The session notices it (see lifeline.js), and the page goes
// to its own address again, which a balancer may lead to another server, and then to the servers that
// the cluster named.
//
// The page's address may ask for `?sound` (not muted, where the browser lets it), `?lipsync` (video
// waits for its audio), `?embed` (video alone) and `?transcode`, and carry a `?token=`.
//
// Where ICE comes through neither by UDP nor by TCP, the page plays by HLS (see how.js), and stays with it
// until it is opened again. HLS begins while WebRTC still tries: what plays is `hls`, if that is there.
//
// Stalled video is a problem of the source, not of the connection: the server
// keeps the session while a camera restarts, and its timestamps continue. The
// video resumes by itself, and sooner than after a new handshake.

import { base, getJson, pagePath, pageUrl, request, streamUrl, withToken } from './api.js';
import { AudioView } from './audio_view.js';
import { ServerClock } from './clock.js';
import { Controls } from './controls.js';
import { reasonOf, whyEnded } from './failure.js';
import { FrameLog } from './frames.js';
import { CONNECT_MS, How } from './how.js';
import { openByKey } from './key.js';
import { LipSync } from './lip_sync.js';
import { Loudness } from './loudness.js';
import { Panel } from './panel.js';
import { Pauses } from './pauses.js';
import { PictureView, hasPicturesAlone } from './pictures.js';
import { Quality } from './quality.js';
import { sleep } from './retry.js';
import { Servers, isServersFault } from './servers.js';
import { PAST_ENDED, whyStalled } from './stalls.js';
import { StatsSampler } from './stats.js';
import { Session } from './whep.js';

/** No frame for this long while connected counts as stalled. */
const STALL_MS = 3000;

/** No frame for this long shows that a session, which the server no longer knows, has ended. */
const QUIET_MS = 300;

/** Why HLS plays while WebRTC still tries. */
const STANDS_IN = 'until WebRTC connects';

/** Why an earlier session was lost is shown for this long. */
const LOST_SHOWN_MS = 60_000;

const TICK_MS = 1000;

/** Ticks between two reads of the stream's entry in the API while frames arrive. */
const ENTRY_TICKS = 5;

const options = new URLSearchParams(location.search);

const name = decodeURIComponent(pagePath.replace(/^\//, ''));
/** With `?transcode` the server encodes video again that browsers cannot show. */
const again = options.has('transcode') ? 'transcode' : '';
const servers = new Servers(pageUrl(name, '/whep'), again);
const video = document.getElementById('video');
const panel = new Panel();
const clock = new ServerClock();
const sampler = new StatsSampler();
const lipSync = new LipSync();
const loudness = new Loudness();
const quality = new Quality(document.getElementById('quality'), video);
const how = new How(document.getElementById('how'));
const audioView = new AudioView(document.getElementById('picture'), () => loudness.level ?? session?.audioLevel ?? null);

const pictures = new PictureView(document.getElementById('picture'),
  pageUrl(name, '/pictures'), (rate) => {
    seen.pictures = rate;
    show('live', 'Live, pictures');
    panel.joined(`pictures, ${rate} a second`);
  });

/**
 * State for tests and the console; the page writes it and does not read it.
 *
 * `state`: connecting, live, stalled, waiting, reconnecting, refused, unsupported.
 * `firstFrameMs`: navigation to first frame; `joinMs`: offer to first frame
 * of the latest session. `fps`, `bitrate` (bit/s), `lossRatio`, `jitterBufferMs`
 * cover the last second; `framesDecoded` and `audioEnergy` (getStats
 * totalAudioEnergy, and while muted what the track itself carries) the session. `stages`, `endToEnd`, `glassToGlass`: the
 * server's latest answer; `accounted`: frames whose stages add up to the
 * measured delay. `audioNote`: why there is no audio, or what is missing of it; null if nothing
 * is. `server`: the server of the cluster that plays, null outside of one. `audioLevel`: how loud a stream of audio alone is, 0 to 1. `videoNote`: why video may not be shown. `lipSync`: whether video waits for its audio, and what that costs; null where that is not known. `transcoding`: what it costs that the server encodes the video again; null if it does not. `operator`: what is for whoever runs the server. `talk`: state of the talk to a camera, and why there is none; null for other streams. `pictures`: pictures of the last second, of a stream that has only those. `layer`: the layer that arrives, of a stream with several, and `layerNote`: why it is not the best. `sessions`, `reports`: counts since the page was opened. `lastEnd`: why the
 * latest session, or attempt at one, ended. `pastMs`: when what is shown was recorded, null while it is live. `how`: webrtc or hls, and `howWhy`: why it is HLS, or until when.
 */
const seen = {
  stream: name, state: 'connecting', detail: null, server: null,
  firstFrameMs: null, joinMs: null, sessions: 0, reports: 0,
  framesRendered: 0, framesDecoded: 0, fps: null, bitrate: null, lossRatio: null,
  codec: null, width: null, height: null, jitterBufferMs: null, audioEnergy: 0, path: null,
  stages: [], endToEnd: null, glassToGlass: null, accounted: null, frames: [],
  clock: null, lastError: null, lastEnd: null, audioLevel: null, audioNote: null, videoNote: null, transcoding: null, lipSync: null, talk: null, operator: null,
  pictures: null, layer: null, layerNote: null, how: how.isHls ? 'hls' : 'webrtc', howWhy: how.why, pastMs: null,
};
window.glassline = seen;

let session = null;
/** The session that has taken the place of what played before. */
let followed = null;
/** The tracks of the session, for the element that shows them. */
let received = null;
/** The playback by HLS, in the place of a session or while that has no path yet. */
let hls = null;
/** Whether the server has just said that it has the stream by HLS. */
let isHlsThere = false;
let joinedAtMs = null;
let connectedAtMs = null;
// Frames that were decoded, or packets of audio where there is no video.
let arrivedBefore = 0;
let arrivedAtMs = -Infinity;
let entry = null;
let wake = () => {};
// The address of a session that was lost while the server could not be asked why, and what it told since.
let unexplained = null;
let lost = null;
/** When a session that worked was lost. */
let lostMs = -Infinity;
const pauses = new Pauses();
/** The way into recordings, for viewers who may; null for others. */
let past = null;
/** Whether this viewer may talk to the camera, as the server said in this session. */
const talk = { isAsked: false, isOffered: false, button: null };

const log = new FrameLog(video, (presentedMs) => {
  seen.framesRendered = log.rendered;
  if (seen.firstFrameMs === null) seen.firstFrameMs = presentedMs;
  if ((hls ?? session) && joinedAtMs === null) joined(presentedMs);
  // Frames that were decoded before the end may be shown after it, and must not hide the reason.
  if ((hls ?? session) && seen.state !== playing().state) live();
});

function show(state, label, title, detail, more) {
  seen.state = state;
  seen.detail = detail ?? title ?? null;
  seen.operator = more?.operator ?? null;
  panel.state(state, label, title, detail, more);
  panel.publishable(null);
  panel.unknown(false);
  panel.anyway(false);
}

/** The state while frames arrive, and its word. */
function playing() {
  if (isPast()) return { state: 'past', label: 'Recorded' };
  if (entry?.stand_in) return { state: 'away', label: 'Source away' };
  return { state: 'live', label: (hls ?? session)?.receivesVideo === false ? 'Live, audio only' : 'Live' };
}

function live() {
  const { state, label } = playing();
  show(state, label);
}

/** Whether the session shows recordings. */
const isPast = () => session !== null && hls === null && (past?.shownMs ?? null) !== null;

function joined(presentedMs) {
  joinedAtMs = presentedMs;
  seen.joinMs = presentedMs - (hls ?? session).startedMs;
  panel.joined(seen.sessions <= 1
    ? `first frame ${Math.round(seen.firstFrameMs)} ms after navigation`
    : `rejoined in ${Math.round(seen.joinMs)} ms`);
}

async function run() {
  show('connecting', 'Connecting');
  for (;;) {
    let reason = how.isHls ? await watchHls() : await watch();
    if (await goesOverToHls(reason)) continue;
    if (joinedAtMs === null && reason.status >= 400) {
      await readEntry();
      if (hasPicturesAlone(entry.tracks)) reason = await pictures.play();
    }
    if (joinedAtMs !== null) {
      pauses.reset();
      servers.reset();
      lostMs = performance.now();
    }
    seen.lastEnd = (reason.ended && reason.title) || reason.message;
    unexplained = reason.unexplained ?? unexplained;
    const isExpected = joinedAtMs !== null && reason.atOnce === true;
    await pause(isExpected ? 0 : pauseAfter(reason));
  }
}

/** Shows why there is no session, and returns the pause before the next try. */
function pauseAfter(reason) {
  // A server that another one named refuses what has become invalid meanwhile: the own address decides.
  const isToGoOn = joinedAtMs === null && (isServersFault(reason) || !servers.isOwn());
  const nextMs = isToGoOn ? servers.next() : null;
  const delayMs = explain(reason, performance.now() - lostMs);
  return nextMs ?? delayMs;
}

/** The address of the stream's playlist. */
const hlsUrl = () => withToken(pageUrl(name, '/hls/index.m3u8'));

/** Goes over to HLS if WebRTC brings nothing here, and the server offers HLS. */
async function goesOverToHls(reason) {
  if (!how.mayFall) return false;
  const why = reason.neverConnected ? (reason.title ?? 'WebRTC did not connect') : How.whyNotRefused(reason);
  if (why === null) return false;
  // A failure is told when HLS is to begin.
  if (!hls) hlsScripts().catch(() => {});
  const refusal = hls ? null : await request(hlsUrl(), { timeoutMs: CONNECT_MS }).then(() => null, (error) => error);
  isHlsThere = !hls && refusal === null;
  if (refusal === null) fall(why, reason.message);
  else noteNoHls(refusal);
  return refusal === null;
}

/** Notes that the server offers no HLS, if that is what it said. */
function noteNoHls({ status }) {
  if (status >= 400 && status < 500) how.stay();
}

/** Goes over to HLS; `more`: what the browser or the server says of it. */
function fall(why, more) {
  how.fall(why);
  seen.lastError = more;
  noteHow(more);
  if (hls) seen.sessions += 1;
  else show('connecting', 'Connecting');
}

/** Shows how the stream plays; `more`: why, for whoever asks, or null. */
function noteHow(more = null) {
  const isStandingIn = hls !== null && !how.isHls;
  Object.assign(seen, { how: hls || how.isHls ? 'hls' : 'webrtc', howWhy: isStandingIn ? STANDS_IN : how.why });
  panel.how(isStandingIn ? `HLS ${STANDS_IN}` : how.text(null), more);
}

/** Failed tries to load the scripts of HLS. */
let scriptTries = 0;

/** Loads the scripts of HLS. Firefox keeps the failure of a script, and loads it again under another name. */
async function hlsScripts() {
  const tried = scriptTries === 0 ? '' : `?try=${scriptTries}`;
  try {
    return await Promise.all([import(`./hls_playback.js${tried}`), import(`./hls_stages.js${tried}`)]);
  } catch (error) {
    scriptTries += 1;
    throw Object.assign(error, { title: 'The scripts of HLS did not load, trying again' });
  }
}

/** Begins a playback by HLS, unless `isNeeded()` is false by the time that the server has one. */
async function beginHls(isNeeded = () => true) {
  const scripts = hlsScripts();
  // The stream may not be there: the server says why, as for WebRTC, unless it was asked just now.
  const asked = isHlsThere || request(hlsUrl(), { timeoutMs: CONNECT_MS });
  isHlsThere = false;
  const [[{ HlsPlayback }, { HLS_STAGES }]] = await Promise.all([scripts, asked]);
  if (!isNeeded()) return;
  quality.menu.hidden = true;
  panel.stages(HLS_STAGES);
  video.srcObject = null;
  hls = new HlsPlayback(video, hlsUrl(), play);
  connectedAtMs = performance.now();
  log.active = true;
  noteHow(seen.lastError);
  readEntry();
}

/** Ends the playback by HLS. */
function endHls() {
  hls?.close();
  hls = null;
  connectedAtMs = null;
  log.clear();
}

/** Begins HLS beside a session for which ICE has no path yet: the viewer gets what has a frame first. */
async function standBy(dialled) {
  if (!how.mayFall) return;
  const waits = () => dialled === session && !dialled.hasPath && !dialled.connected;
  const patienceMs = How.patienceMs(dialled.answeredMs);
  await sleep(patienceMs / 2);
  if (!waits()) return;
  try {
    // Scripts cost the server no segments.
    await Promise.all([hlsScripts(), sleep(patienceMs / 2)]);
    if (waits()) await beginHls(waits);
  } catch (error) {
    noteNoHls(error);
    return;
  }
  const playback = hls;
  if (!playback) return;
  await playback.ended;
  // WebRTC goes on trying.
  if (hls !== playback || how.isHls) return;
  endHls();
  noteHow();
  show('connecting', 'Connecting');
}

/** One playback by HLS, from its begin, or as it plays already, to its end; returns why it ended. */
async function watchHls() {
  if (!hls) {
    log.clear();
    panel.clear();
    [joinedAtMs, arrivedBefore, arrivedAtMs] = [null, 0, -Infinity];
    try {
      await beginHls();
    } catch (error) {
      return error;
    }
    seen.sessions += 1;
  }
  const reason = await hls.ended;
  endHls();
  return reason;
}

/**
 * Shows the tracks of a session that has connected after HLS began. What HLS shows stays until there is a
 * frame of the session. Returns false if none comes.
 */
async function takeOver(dialled) {
  const cover = joinedAtMs === null ? null : video.cloneNode();
  if (cover) {
    Object.assign(cover, { id: '', className: 'cover', muted: true, srcObject: received });
    video.after(cover);
    if (!await hasFrame(cover, dialled)) {
      cover.remove();
      dialled.lose('The connection came about, and no frame by it', { title: 'WebRTC brought no frame', neverConnected: true });
      return false;
    }
    cover.classList.add('shown');
  }
  const isShown = hasFrame(video, dialled);
  endHls();
  panel.stages();
  noteHow();
  video.srcObject = received;
  play();
  if (cover) isShown.then(() => cover.remove());
  return true;
}

/** Resolves with whether an element has a frame in time, and before the session ends. */
const hasFrame = (element, dialled) => Promise.race([
  new Promise((resolve) => { element.addEventListener('loadeddata', () => resolve(true), { once: true }); }),
  Promise.race([dialled.ended, sleep(CONNECT_MS)]).then(() => false),
]);

/** One session from the offer to its end; returns why it ended. */
async function watch() {
  log.clear();
  panel.clear();
  sampler.reset();
  loudness.listen(null);
  [joinedAtMs, connectedAtMs, arrivedBefore, arrivedAtMs] = [null, null, 0, -Infinity];
  const stream = new MediaStream();
  received = stream;
  let dialled;
  try {
    dialled = await Session.dial(servers.present(), {
      lipSync: options.has('lipsync'),
      connectMs: how.mayFall ? CONNECT_MS : undefined,
      onTrack(track) {
        stream.addTrack(track);
        if (video.srcObject !== stream) video.srcObject = stream;
        if (track.kind === 'audio') loudness.listen(track);
        play();
      },
      onAnswer: (response) => servers.note(response),
      onConnected,
    });
  } catch (error) {
    return error;
  }
  session = dialled;
  seen.server = dialled.server;
  clock.follow(dialled);
  standBy(dialled);
  // The answer may have been quicker than this assignment.
  if (session.connected) onConnected();
  const reason = await session.ended;
  session = null;
  past?.follow(null);
  dialled.close();
  if (hls && !reason.neverConnected) endHls();
  return reason;
}

async function onConnected() {
  const dialled = session;
  if (dialled === null || followed === dialled) return;
  followed = dialled;
  if (hls && !await takeOver(dialled)) return;
  if (dialled !== session) return;
  connectedAtMs = performance.now();
  [arrivedBefore, arrivedAtMs] = [0, connectedAtMs];
  seen.sessions += 1;
  audioView.shown = !session.receivesVideo;
  log.active = true;
  talk.isAsked = false;
  quality.follow(session);
  past?.follow(session);
  lipSync.follow(session.pc);
  clock.restart();
  readEntry();
  if (unexplained !== null) explainLate(unexplained);
}

/** Shows why an earlier session was lost, which could not be asked then. */
async function explainLate(resource) {
  unexplained = null;
  const why = await whyEnded(resource);
  if (!why) return;
  seen.lastEnd = why.reason;
  lost = { text: `Lost before: ${why.title}`, untilMs: performance.now() + LOST_SHOWN_MS };
  await readEntry();
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

/** Shows why there is no session, and returns the pause; `sinceLostMs`: since a session was lost. */
function explain(reason, sinceLostMs) {
  seen.lastError = reason.message;
  const { state, label, title, detail, mayPublish, mayEncodeAgain, waitMs, ...more } = pauses.explain(reason, sinceLostMs);
  show(state, label, title, detail, more);
  panel.anyway(mayEncodeAgain === true);
  panel.unknown(reason.status === 404 || reason.status === 400);
  if (mayPublish) offerPublishing(reason.status === 404);
  return waitMs;
}

/** Offers to publish from this browser where clients may: not in place of a camera or file. */
async function offerPublishing(isUnknown) {
  const takes = isUnknown || await getJson(streamUrl(name)).then((it) => it.takes_publishers, () => false);
  if (takes && seen.state === 'waiting') panel.publishable(withToken(pageUrl(name, '/publish')));
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
  if (hls) return tickHls(hls, count, nowMs);
  const estimate = clock.estimate(nowMs);
  seen.clock = estimate;
  panel.clock(estimate);
  if (!current?.connected) {
    panel.reception(null);
    return;
  }
  const sample = await sampler.sample(current.pc);
  noteSample(current, sample, nowMs);
  if (!current.receivesVideo && arrivedAtMs === nowMs && seen.state !== playing().state) heard(nowMs);
  const stalled = watchForStall(nowMs);
  log.settle(sample);
  past?.show();
  seen.pastMs = past?.shownMs ?? null;
  // Frames that were recorded have no delay. Others wait in the log until the clocks are joined.
  if (isPast()) log.take();
  else if (estimate && log.isDue(nowMs)) await report(current, estimate, nowMs);
  if (stalled || count % ENTRY_TICKS === 0) await readEntry();
  if (stalled && seen.state === 'stalled') showStalled();
  panel.how(how.text(sample?.path?.remote));
  // With `?lipsync` the browser holds the video itself.
  seen.lipSync = options.has('lipsync') ? null : lipSync.update(sample, !video.muted);
  panel.reception(sample, { viewers: isPast() ? null : (entry?.viewers ?? null), level: loudness.level, lipSync: seen.lipSync });
}

/** The same for a playback by HLS, whose frames are not reported. */
async function tickHls(current, count, nowMs) {
  const sample = current.sample();
  const { framesDecoded, fps, bitrate, jitterBufferMs, codec, width, height } = sample;
  Object.assign(seen, { framesDecoded, fps, bitrate, lossRatio: null, jitterBufferMs, codec, width, height, path: null });
  audioView.shown = !current.receivesVideo;
  const arrived = current.receivesVideo ? framesDecoded : Math.round(video.currentTime * 1000);
  if (arrived > arrivedBefore) arrivedAtMs = nowMs;
  arrivedBefore = arrived;
  if (!current.receivesVideo && arrivedAtMs === nowMs && seen.state !== playing().state) heard(nowMs);
  // Before its first frame, what the page says is of WebRTC, which still tries.
  const stalled = (how.isHls || joinedAtMs !== null) && watchForStall(nowMs);
  const answer = current.account();
  panel.account(answer, nowMs);
  Object.assign(seen, { stages: answer?.stages ?? [], endToEnd: answer?.end_to_end ?? null });
  if (stalled || count % ENTRY_TICKS === 0) await readEntry();
  // hls.js may ask for other playlists of the stream for long, which are as little there.
  if (stalled && entry?.isGone) current.close();
  else if (stalled && seen.state === 'stalled') showStalled();
  panel.reception(sample, { viewers: entry?.viewers ?? null });
}

/** A stream without video is live when its audio arrives. */
function heard(nowMs) {
  if (joinedAtMs === null) {
    joinedAtMs = nowMs;
    panel.joined('');
  }
  live();
}

function noteSample(current, sample, nowMs) {
  if (!sample) return;
  const { framesDecoded, fps, bitrate, lossRatio, jitterBufferMs, codec, width, height, path } = sample;
  Object.assign(seen, { framesDecoded, fps, bitrate, lossRatio, jitterBufferMs, codec, width, height, path });
  if (video.muted) loudness.start();
  else loudness.stop();
  seen.audioLevel = audioView.level;
  seen.audioEnergy = (sample.audio?.energy ?? 0) + loudness.energy;
  const arrived = current.receivesVideo ? framesDecoded : (sample.audio?.packets ?? 0);
  if (arrived > arrivedBefore) arrivedAtMs = nowMs;
  arrivedBefore = arrived;
}

/** True while connected without new frames, or audio if there is no video. A hidden page renders nothing: there decoding counts. */
function watchForStall(nowMs) {
  const alive = Math.max(log.lastMs ?? -Infinity, arrivedAtMs, connectedAtMs);
  const stalled = nowMs - alive > STALL_MS;
  if (stalled && seen.state !== 'stalled') showStalled();
  if (!stalled && seen.state === 'stalled' && arrivedAtMs === nowMs) live();
  return stalled;
}

/** Shows why no frames come: the reason of the source, or what arrives here although the source is live. */
function showStalled() {
  const why = isPast() ? PAST_ENDED : whyStalled(entry, {
    isNew: joinedAtMs === null, arrives: seen.bitrate > 0, isEncodedAgain: again !== '',
  });
  show('stalled', 'Stalled', why.title, why.detail, { operator: why.operator ?? null });
  panel.anyway(why.mayEncodeAgain === true);
}

async function readEntry() {
  try {
    entry = await getJson(streamUrl(name));
    // A page that begins to publish draws a code only once it knows the server's clock.
    log.coded = entry.frame_code;
  } catch (error) {
    entry = { state: error.title, detail: error.detail, isGone: error.status === 404 };
  }
  noteTracks(entry.tracks ?? []);
  // Beside sound by WebRTC; without any, the pictures are all there is.
  if (session !== null && hasPicturesAlone(entry.tracks) && !pictures.shown) pictures.play();
  const isAway = Boolean(entry.stand_in);
  if (seen.state === (isAway ? 'live' : 'away')) live();
  if (entry.recording) offerPast();
  const isCamera = entry.source?.protocol === 'camera';
  await Promise.all([
    offerTalk(isCamera && entry.state === 'live' && !isAway),
    isCamera ? offerPtz() : null,
  ]);
}

/** Offers what was recorded, once, to those who may watch it. */
async function offerPast() {
  const link = document.getElementById('recordings');
  if (link.dataset.asked) return;
  link.dataset.asked = 'yes';
  // What is asked for is little, and needs the right.
  const asked = `${base}/-/playback/marks?${new URLSearchParams({ path: name, start: 0, end: 1 })}`;
  const mayWatch = await request(asked).then(() => true, () => false);
  if (!mayWatch) return;
  link.hidden = false;
  const { Past } = await import('./past.js');
  past = new Past(() => {
    log.take();
    panel.clear();
    panel.account(null, performance.now());
    Object.assign(seen, { stages: [], endToEnd: null, glassToGlass: null, pastMs: past.shownMs });
    if (isPast()) quality.menu.hidden = true;
    if (seen.state !== 'connecting') live();
  });
  past.follow(hls ? null : session);
}

/** Offers to move a camera, once, to those who may. */
async function offerPtz() {
  const box = document.getElementById('ptz');
  if (box.dataset.asked) return;
  box.dataset.asked = 'yes';
  const { Ptz } = await import('./ptz.js');
  const note = document.getElementById('ptz-note');
  Ptz.offer(box, streamUrl(name, '/ptz'), (problem) => {
    note.hidden = !problem;
    note.textContent = problem ?? '';
  });
}

/**
 * Offers to talk to a camera that takes a voice, if this viewer may: the server tells both. It is asked
 * once in each session. Other streams do not load the script.
 */
async function offerTalk(isPresent) {
  const button = document.getElementById('talk');
  if (isPresent && !talk.isAsked) {
    talk.isAsked = true;
    const endpoint = pageUrl(name, '/talk');
    const refusal = await request(endpoint).then(() => null, (error) => error);
    talk.isOffered = refusal === null;
    if (refusal) seen.talk = { state: 'none', problem: refusal.detail ?? refusal.message };
    if (talk.isOffered && !talk.button) {
      const { Talk } = await import('./talk.js');
      talk.button = new Talk(button, endpoint, (state, problem) => {
        seen.talk = { state, problem };
        panel.talkNote(problem);
      });
    }
  }
  button.hidden = !(isPresent && talk.isOffered);
}

/**
 * Says why the stream's audio is not heard, or what is missing of audio or video. What plays whole
 * needs no word, and what is refused is named in the message.
 */
function noteTracks(tracks) {
  const audio = tracks.filter(({ kind }) => kind === 'audio').map(({ browser }) => browser);
  const played = audio.find(({ codec }) => codec !== null);
  const { note = null } = played ?? audio[0] ?? {};
  const prefix = played ? 'Audio' : 'No audio';
  seen.audioNote = note === null ? null : `${prefix}: ${note}`;
  const video = tracks.find(({ kind, browser }) => kind === 'video' && browser.codec !== null);
  seen.videoNote = video?.browser.note ? `Video: ${video.browser.note}` : null;
  const cost = tracks.find(({ kind }) => kind === 'video')?.browser.transcoding ?? null;
  const isTranscoded = cost !== null && (seen.codec?.startsWith(cost.to) ?? false);
  seen.transcoding = isTranscoded ? costOf(cost) : null;
  if (lost !== null && performance.now() > lost.untilMs) lost = null;
  const notes = [lost?.text ?? null, seen.videoNote, seen.layerNote, seen.transcoding, seen.audioNote].filter((it) => it !== null);
  panel.audioNote(notes.length > 0 ? notes.join('. ') : null);
}

/** What it costs that the server encodes the video again. */
function costOf({ from, to, viewers, cpu_ratio: ratio }) {
  const whom = viewers === 1 ? '1 viewer' : `${viewers} viewers`;
  const cores = ratio > 0 ? `${Math.max(1, Math.round(ratio * 100))} % of a core` : 'just begun';
  return `The server encodes this video again (${from} to ${to}) for ${whom}: ${cores}`;
}

async function report(current, estimate, nowMs) {
  if (!current.resource) return;
  const body = {
    offset_ns: Math.round(estimate.offsetMs * 1e6),
    error_ns: Math.ceil(estimate.errorMs * 1e6),
    details: Controls.showsDetails,
    ...log.take(),
  };
  try {
    const response = await post(current, body);
    const answer = await response.json();
    if (current !== session) return;
    servers.note(response);
    const everyS = answer.report_every_s ?? 1;
    log.wait(nowMs, everyS);
    clock.intervalMs = everyS * 1000;
    seen.reports += 1;
    seen.accounted = panel.account(answer, performance.now());
    seen.layer = answer.layer ?? null;
    quality.offer(answer.layers ?? []);
    seen.layerNote = quality.show(seen.layer);
    Object.assign(seen, {
      stages: answer.stages ?? [], endToEnd: answer.end_to_end ?? null,
      glassToGlass: answer.glass_to_glass ?? null, frames: answer.frames ?? [],
    });
  } catch (error) {
    seen.lastError = error.message;
    if (error.status === 404 || error.status === 410) await forgotten(current, error);
  }
}

/**
 * Ends a session that the server does not know, as after a restart.
 *
 * A session whose frames still come is left alone: another process of the server has it.
 */
async function forgotten(current, problem) {
  const lastMs = log.lastMs;
  await sleep(QUIET_MS);
  if (log.lastMs !== lastMs) return;
  const { status, title, ended } = problem;
  if (status === 404) current.lose('The server no longer knows this session: it may have been started again');
  else current.lose(reasonOf(problem), { title, ended, atOnce: ended !== 'dismissed' });
}

/** Posts a report of a session's frames. */
const post = (current, body) => request(`${current.resource}/report`, {
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify(body),
});

async function measure() {
  for (let count = 0; ; count += 1) {
    const startedMs = performance.now();
    try {
      await tick(count);
    } catch (error) {
      seen.lastError = error.message;
    }
    const leftMs = TICK_MS - (performance.now() - startedMs);
    await sleep(Math.max(50, leftMs));
  }
}

function wirePage() {
  video.muted = !options.has('sound');
  new Controls(video, play);
  openByKey(document.getElementById('key-form'));
  const again = document.getElementById('again');
  again.addEventListener('click', () => wake());
  // The same page, whose address asks the server to encode the video again.
  document.getElementById('anyway').addEventListener('click', () => {
    options.set('transcode', '');
    location.search = options.toString().replace(/=(?=&|$)/g, '');
  });
  addEventListener('online', () => wake());
  addEventListener('pagehide', () => {
    session?.close();
    hls?.close();
  });

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
  document.getElementById('home').href = withToken(`${base}/`);
  document.getElementById('all').href = withToken(`${base}/`);
  document.getElementById('recordings').href = withToken(pageUrl(name, '/timeline'));
  document.getElementById('api').href = withToken(streamUrl(name, '/latency'));
  wirePage();
  if (!('RTCPeerConnection' in window) && how.mayFall) fall('this browser has no WebRTC', null);
  if (!('RTCPeerConnection' in window) && !how.isHls) {
    show('unsupported', 'Unsupported', 'This browser has no WebRTC', 'WebRTC is missing, or turned off by a setting or a policy.');
    return;
  }
  run();
  measure();
}

begin();
