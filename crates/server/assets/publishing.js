// Shows what is published, on the publishing page. Decides nothing.

import { Sparkline } from './accounts.js';
import { commands, withKey } from './commands.js';
import { html, setText } from './dom.js';
import { ABSENT, bitrate, duration, milliseconds, quantity } from './format.js';
import { Waterfall, meanings } from './waterfall.js';

const $ = (id) => document.getElementById(id);

const ARRIVES = ['Video', 'Frame rate', 'Bitrate', 'Keyframes', 'Audio', 'Loss', 'Repaired', 'Jitter'];
const SENT = ['Sent', 'Encoder', 'Path carries', 'Round trip'];

const PROTOCOLS = {
  whip: 'WHIP', rtsp: 'RTSP', camera: 'a camera that the server dials', moq: 'MoQ', file: 'a file of the server',
};

const unit = (value) => (Number.isFinite(value) ? `${milliseconds(value)}\u00a0ms` : ABSENT);
const percent = (ratio) => (Number.isFinite(ratio) ? quantity(ratio * 100, ratio < 0.1 ? 2 : 1, '%') : ABSENT);

export class PublishingPanel {
  #facts = new Map();
  #waterfall = new Waterfall($('waterfall'));
  #sparkline = new Sparkline($('sparkline'));
  #before = null;
  #errorMs;
  #lines = '';
  #advice = '';
  #leftOut = '';

  constructor() {
    this.#addFacts($('arrives'), ARRIVES);
    this.#addFacts($('sent'), SENT);
    $('meanings').append(...meanings());
    this.arrives(null, 0);
    this.sends(null);
  }

  state(state, label) {
    $('state').dataset.state = state;
    setText($('state'), label);
  }

  /** Shows a message over the preview, with a button if `action` names one; null hides it. */
  message(title, detail = '', action = null) {
    $('message').hidden = title === null;
    setText($('message-title'), title ?? '');
    setText($('message-detail'), detail ?? '');
    $('act').hidden = action === null;
    setText($('act'), action ?? '');
  }

  /**
   * Shows the server's answer, null while there is none. `own`: whether this page publishes.
   * Returns the figures of the last second, as `seen.arrives` has them.
   */
  arrives(answer, nowMs, own = false) {
    const video = answer?.tracks.find(({ kind }) => kind === 'video') ?? null;
    const audio = answer?.tracks.find(({ kind }) => kind === 'audio') ?? null;
    const whip = this.#since(answer?.whip ?? null);
    const size = video?.width ? `${video.width}×${video.height}` : '';
    const live = answer?.state === 'live';
    const shown = (value) => (live ? value : ABSENT);
    const layers = (video?.layers ?? []).map(({ rid, height, state }) =>
      `${height ? `${height}p` : rid}${state === 'live' ? '' : ` ${state}`}`);
    this.#fact('Video', shown(video?.codec ?? ABSENT), live ? layers.join(', ') || size : '');
    this.#fact('Audio', shown(audio ? audio.codec.replace('opus', 'Opus') : ABSENT), live && audio ? bitrate(audio.bitrate_bps) : '');
    this.#fact('Frame rate', shown(quantity(video?.frame_rate, 1, 'fps')));
    this.#fact('Bitrate', shown(bitrate(video?.bitrate_bps ?? audio?.bitrate_bps)));
    const interval = video?.keyframe_interval_s ?? null;
    const since = Number.isFinite(video?.since_keyframe_s) ? `${duration(video.since_keyframe_s)} ago` : '';
    const asked = answer?.whip?.keyframes_on_request;
    const every = interval === null ? ABSENT : `every ${quantity(interval, 1, 's')}`;
    this.#fact('Keyframes', shown(asked === true ? 'on request' : every),
      live ? [since, asked === false ? 'not on request' : ''].filter(Boolean).join(', ') : '');
    this.#fact('Loss', shown(percent(whip?.lossRatio)), whip ? `${whip.lost} packets` : '');
    this.#fact('Repaired', shown(whip ? String(whip.repaired) : ABSENT), whip ? `${whip.requested} requested` : '');
    this.#fact('Jitter', shown(unit(whip?.jitterMs)), whip ? 'at arrival' : '');
    this.#source(answer, own);
    this.#showAdvice(live ? answer.advice : []);
    this.#showDelays(answer?.latency ?? null, nowMs);
    setText($('viewers'), live ? `${answer.viewers} ${answer.viewers === 1 ? 'viewer' : 'viewers'}` : '');
    setText($('uptime'), live ? `live for ${duration(answer.uptime_s)}` : '');
    return {
      codec: video?.codec ?? null, width: video?.width ?? null, height: video?.height ?? null,
      fps: video?.frame_rate ?? null, bitrate: video?.bitrate_bps ?? null, keyframeIntervalS: interval, whip,
    };
  }

  /** Shows what the browser says about sending, null while nothing is sent. */
  sends(sample) {
    this.#fact('Sent', bitrate(sample?.bitrate), sample?.width ? `${sample.width}×${sample.height}, ${quantity(sample.fps, 0, 'fps')}` : '');
    this.#fact('Encoder', unit(sample?.encodeMs), sample?.encoder ?? '');
    const limited = { cpu: 'limited by this computer', bandwidth: 'limited by the path' }[sample?.limited];
    this.#fact('Path carries', bitrate(sample?.availableBps), limited ?? (sample ? 'estimate (TWCC)' : ''));
    this.#fact('Round trip', unit(sample?.rttMs), Number.isFinite(sample?.lossRatio) ? `${percent(sample.lossRatio)} lost` : '');
  }

  /** Shows the error of the joined clocks. */
  clock(estimate) {
    this.#errorMs = estimate?.errorMs;
    setText($('clock'), estimate ? `clocks joined within ± ${milliseconds(estimate.errorMs)} ms` : '');
  }

  /** Shows the lines to copy; `secret()` returns the key that a copied line gets. */
  lines(place, secret) {
    const text = JSON.stringify(place);
    if (text === this.#lines) return;
    this.#lines = text;
    $('lines').replaceChildren(...commands(place).map(({ program, note, line, fields }) => html('div', { class: 'line', 'data-program': program },
      html('p', { class: 'program' }, html('strong', {}, program), ' ', html('small', {}, note)),
      line ? copyable(line, secret, 'pre') : html('dl', { class: 'fields' }, ...fields.flatMap(([name, value]) =>
        [html('dt', {}, name), html('dd', {}, copyable(value, secret, 'span'))])))));
  }

  #source(answer, own) {
    const note = $('source-note');
    const live = answer?.state === 'live' && !own;
    note.hidden = !live;
    if (live) setText(note, `Published now by ${PROTOCOLS[answer.source?.protocol] ?? 'another source'}, not by this page.`);
    const leftOut = answer?.state === 'live' ? (answer.source?.left_out ?? []) : [];
    if (leftOut.join('\n') === this.#leftOut) return;
    this.#leftOut = leftOut.join('\n');
    $('left-out').hidden = !leftOut.length;
    $('left-out-list').replaceChildren(...leftOut.map((text) => html('li', {}, text)));
  }

  #showAdvice(advice) {
    const text = JSON.stringify(advice);
    if (text === this.#advice) return;
    this.#advice = text;
    $('advice').hidden = !advice.length;
    $('advice-list').replaceChildren(...advice.map(({ problem, detail, settings }) => html('section', { 'data-problem': problem },
      html('p', {}, detail),
      html('dl', { class: 'settings' }, ...settings.flatMap(({ program, setting }) => [
        html('dt', {}, program), html('dd', {}, html('code', {}, setting))])))));
  }

  #showDelays(latency, nowMs) {
    this.#waterfall.update(latency);
    const glass = latency?.glass_to_glass ?? null;
    const whole = glass ?? latency?.end_to_end ?? null;
    const before = (latency?.stages ?? []).filter(({ stage }) => ['capture', 'encode', 'uplink', 'ingest'].includes(stage));
    const captured = before.some(({ stage }) => stage === 'capture');
    const toServer = captured ? before.reduce((sum, { p50_ms: ms }) => sum + ms, 0) : null;
    setText($('headline-label'), glass ? 'glass to glass, p50' : whole ? 'end to end, p50' : 'capture to server, p50');
    setText($('headline'), milliseconds(whole?.p50_ms ?? toServer));
    const errorMs = whole?.error_ms ?? (toServer === null ? null : this.#errorMs);
    setText($('headline-error'), Number.isFinite(errorMs) ? `± ${milliseconds(errorMs)}` : '');
    setText($('headline-more'), whole ? `p95 ${unit(whole.p95_ms)}` : captured ? 'open the player to measure up to the screen' : '');
    const range = this.#sparkline.push(whole?.p50_ms ?? toServer);
    setText($('sparkline-range'), range ? `${milliseconds(range.low)} to ${milliseconds(range.high)} ms` : ABSENT);
  }

  /** Growth of the counters since the last answer, and the totals. */
  #since(whip) {
    if (!whip) {
      this.#before = null;
      return null;
    }
    const sum = (of, name) => of.lines.reduce((total, line) => total + line[name], 0);
    const now = { packets: sum(whip, 'packets'), lost: sum(whip, 'lost'), publisher: whip.publisher };
    const before = this.#before?.publisher === now.publisher ? this.#before : null;
    this.#before = now;
    const lost = before ? Math.max(0, now.lost - before.lost) : null;
    const packets = before ? now.packets - before.packets : null;
    const video = whip.lines.find(({ kind }) => kind === 'video') ?? whip.lines[0];
    return {
      lossRatio: lost === null ? null : lost / Math.max(1, lost + packets),
      lost: now.lost, repaired: sum(whip, 'repaired'), requested: whip.packets_requested,
      packets: now.packets, jitterMs: video?.jitter_ms ?? null,
    };
  }

  #addFacts(list, names) {
    list.append(...names.map((name) => {
      const [value, note] = [html('span', {}, ABSENT), html('small')];
      this.#facts.set(name, { value, note });
      return html('div', {}, html('dt', {}, name), html('dd', {}, value, ' ', note));
    }));
  }

  #fact(name, value, note = '') {
    const fact = this.#facts.get(name);
    setText(fact.value, value);
    setText(fact.note, note);
  }
}

/** A text with a button that copies it, with the key in it. */
function copyable(text, secret, tag) {
  const button = html('button', { type: 'button', class: 'copy', 'aria-label': 'Copy' }, 'Copy');
  button.hidden = !navigator.clipboard;
  button.addEventListener('click', async () => {
    await navigator.clipboard.writeText(withKey(text, secret()));
    setText(button, 'Copied');
    setTimeout(() => setText(button, 'Copy'), 1500);
  });
  return html(tag === 'pre' ? 'div' : 'span', { class: 'copyable' }, html(tag === 'pre' ? 'pre' : 'code', {}, tag === 'pre' ? html('code', {}, text) : text), button);
}
