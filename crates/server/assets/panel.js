// Shows the player's state on the page. Decides nothing.

import { Accounts, FrameColumns, Sparkline } from './accounts.js';
import { html, setText } from './dom.js';
import { ABSENT, bitrate, milliseconds, quantity } from './format.js';
import { Waterfall, meanings } from './waterfall.js';

const $ = (id) => document.getElementById(id);

const FACTS = [
  'Video', 'Frame rate', 'Bitrate', 'Smoothness',
  'Audio', 'Jitter buffer', 'Decoder', 'Loss',
  'Path', 'Protection', 'Lip sync', 'Repairs',
];

/** How the stages of HLS are measured. */
const HLS_METHOD = 'The playlist gives the date of each frame, on the server’s calendar. The page notes when a playlist and a part came, and when a frame was presented. The Date headers of the server’s answers join both calendars; ± is the remaining error. Bars are medians, and whiskers reach p95. Medians of stages need not add up; the stages of each frame do.';

export class Panel {
  #facts = new Map();
  #waterfall = new Waterfall($('waterfall'));
  #columns = new FrameColumns($('columns'));
  #sparkline = new Sparkline($('sparkline'));
  #accounts = new Accounts();

  /** The delay in words; null before it is known. */
  #delay = null;

  /** How the stream plays, in words; null before it is known. */
  #how = null;

  /** How the stages of WebRTC are measured, as the page has it. */
  #method = [...$('method-text').childNodes];

  constructor() {
    $('facts').append(...FACTS.map((name) => {
      const [value, note] = [html('span', {}, ABSENT), html('small')];
      this.#facts.set(name, { value, note });
      return html('div', {}, html('dt', {}, name), html('dd', {}, value, ' ', note));
    }));
    $('meanings').append(...meanings());
    this.account(null, performance.now());
  }

  /**
   * Shows a word in the header, and a message over the video while there is none to see. `operator`:
   * what is for whoever runs the server, or null.
   */
  state(state, label, title = null, detail = null, { mayRetry = false, operator = null, needsKey = false } = {}) {
    const pill = $('state');
    pill.dataset.state = state;
    setText(pill, label);
    $('message').hidden = title === null;
    setText($('message-title'), title ?? '');
    setText($('message-detail'), detail ?? '');
    $('again').hidden = !mayRetry;
    $('key-form').hidden = !needsKey;
    $('operator').hidden = operator === null;
    setText($('operator-detail'), operator ?? '');
  }

  /** Shows the way to the page that publishes, while the stream has no publisher. */
  publishable(href) {
    $('publish').hidden = href === null;
    if (href !== null) $('publish').href = href;
  }

  /** Shows the way to all streams, where no stream has this name. */
  unknown(isUnknown) {
    $('all').hidden = !isUnknown;
  }

  /** Offers to let the server encode the video again, which this browser then shows. */
  anyway(mayEncodeAgain) {
    $('anyway').hidden = !mayEncodeAgain;
  }

  /** Shows why nobody talks to the camera; null for no reason. */
  talkNote(text) {
    $('talk-note').hidden = text === null;
    setText($('talk-note'), text ?? '');
  }

  /** Shows what is missing of audio and video; null shows nothing. */
  audioNote(text) {
    $('audio-note').hidden = text === null;
    setText($('audio-note'), text ?? '');
  }

  /** Shows how long the viewer waited for the first frame. */
  joined(text) {
    setText($('joined'), text);
  }

  /**
   * Shows how the stream plays. `text`: for the line below the video; `more`: why, for whoever asks, or null.
   */
  how(text, more = null) {
    this.#how = text;
    $('line').title = more ?? '';
  }

  /** Shows the stages of HLS, whose frames have no accounts of the server; without `stages`, those of WebRTC again. */
  stages(stages) {
    $('frames').hidden = stages !== undefined;
    this.#waterfall = new Waterfall($('waterfall'), stages);
    $('meanings').replaceChildren(...meanings(stages));
    if (stages) $('method-text').replaceChildren(HLS_METHOD);
    else $('method-text').replaceChildren(...this.#method);
    this.account(null, performance.now());
  }

  /**
   * `sample`: from `StatsSampler`, null while nothing arrives; `viewers`: a count
   * or null; `level`: how loud a muted track is, 0 to 1, or null; `lipSync`: from `LipSync`, or null.
   */
  reception(sample, { viewers = null, level = null, lipSync = null } = {}) {
    const { audio = null, path = null } = sample ?? {};
    const size = sample?.width ? `${sample.width}×${sample.height}` : '';
    this.#fact('Video', sample?.codec ?? ABSENT, size);
    this.#fact('Frame rate', quantity(sample?.fps, 1, 'fps'));
    this.#fact('Bitrate', bitrate(sample?.bitrate));
    this.#fact('Loss', quantity(sample?.lossRatio === null ? null : sample?.lossRatio * 100, 2, '%'), some(sample?.packetsLost, 'packets'));
    this.#fact('Jitter buffer', unit(sample?.jitterBufferMs), Number.isFinite(sample?.jitterBufferMs) ? 'mean' : '');
    this.#fact('Decoder', unit(sample?.decodeMs), sample?.decoder ?? '');
    this.#fact('Path', breakable(path?.remote), Number.isFinite(path?.rttMs) ? `RTT ${unit(path.rttMs)}` : '');
    this.#fact('Lip sync', ...lipSyncWords(lipSync));
    this.#fact('Repairs', some(sample?.nacks, 'NACK') || ABSENT, repairs(sample));
    this.#fact('Audio', audio?.codec ?? ABSENT, decibels(level ?? audio?.level));
    this.#fact('Protection', breakable(path?.srtp?.replace(/^SRTP_/, '')));
    this.#fact('Smoothness', some(sample?.freezes, sample?.freezes === 1 ? 'freeze' : 'freezes') || ABSENT, some(sample?.framesDropped, 'drops'));
    const picture = sample?.width ? `${sample.width}×${sample.height}` : null;
    const parts = [this.#delay, picture, sample && Number.isFinite(sample.fps) ? `${Math.round(sample.fps)} fps` : null, sample?.bitrate ? bitrate(sample.bitrate) : null, sample ? this.#how : null];
    setText($('line'), parts.filter(Boolean).join(' · '));
    setText($('viewers'), viewers === null ? '' : `${viewers} ${viewers === 1 ? 'viewer' : 'viewers'}`);
  }

  /**
   * Shows the server's answer to a report, null while there is none; returns the
   * balance of frames as `Accounts.balance` does.
   */
  account(answer, nowMs) {
    this.#waterfall.update(answer);
    this.#accounts.add(answer?.frames, nowMs);
    const glass = answer?.glass_to_glass ?? null;
    const total = glass ?? answer?.end_to_end ?? null;
    const name = glass ? 'glass to glass' : 'end to end';
    this.#delay = Number.isFinite(total?.p50_ms) ? `Delay ${Math.round(total.p50_ms)}\u00a0ms` : null;
    setText($('headline-label'), `${name}, p50`);
    setText($('headline'), milliseconds(total?.p50_ms));
    setText($('headline-error'), total?.error_ms === undefined ? '' : `± ${milliseconds(total.error_ms)}`);
    setText($('headline-more'), `p95 ${unit(total?.p95_ms)}`);
    const range = this.#sparkline.push(latest(answer, total));
    setText($('sparkline-range'), range ? `${milliseconds(range.low)} to ${milliseconds(range.high)} ms` : ABSENT);
    const top = this.#columns.update(this.#accounts.recent());
    const balance = this.#accounts.balance(answer?.accounted);
    const legend = balance.total ? '; line: the frame code’s measure' : '';
    setText($('frames-top'), top === null ? '' : `the latest of each second, ${milliseconds(top)} ms high${legend}`);
    this.#balance(balance, answer);
    return balance;
  }

  /** The error of the joined clocks: `estimate` from `ServerClock`, or null. */
  clock(estimate) {
    setText($('clock'), estimate
      ? `clocks joined within ± ${milliseconds(estimate.errorMs)} ms (RTT ${milliseconds(estimate.rttMs)} ms)`
      : 'clocks not joined yet');
  }

  /** Frames of a new session are not compared with those of the last one. */
  clear() {
    this.#accounts.clear();
  }

  #fact(name, value, note = '') {
    const fact = this.#facts.get(name);
    setText(fact.value, value);
    setText(fact.note, note);
  }

  #balance({ within, total, errorMs, worstMs }, answer) {
    const node = $('balance');
    if (!total) {
      node.dataset.verdict = 'open';
      setText(node, answer
        ? 'This source carries no frame code: stages are summed, glass to glass is not measured.'
        : 'Waiting for the first frames.');
      return;
    }
    node.dataset.verdict = within === total ? 'good' : 'off';
    const worst = within === total || !(worstMs > errorMs) ? '' : `, worst ${milliseconds(worstMs)} ms off`;
    setText(node, `accounted for: ${within} of ${total} frames within ± ${milliseconds(errorMs)} ms${worst}`);
  }
}

/** Whether the video waits for its audio, and what that costs. */
/** Requests for keyframes, and the repairs that come before any request. */
function repairs(sample) {
  const ahead = sample?.aheadRatio > 0 ? `repairs ahead: ${Math.round(sample.aheadRatio * 100)} %` : '';
  return [some(sample?.plis, 'PLI'), ahead].filter(Boolean).join(', ');
}

function lipSyncWords(lipSync) {
  if (lipSync === null) return [ABSENT];
  const cost = `${lipSync.costMs.toFixed(0)}\u00a0ms`;
  return lipSync.isOn ? ['on', `costs ${cost}`] : ['off', `would cost ${cost}`];
}

const unit = (value) => (Number.isFinite(value) ? `${milliseconds(value)}\u00a0ms` : ABSENT);

/** Names of parts may be broken behind each part, not in its middle. */
const breakable = (text) => text?.replace(/[_:]+/g, '$&\u200b') ?? ABSENT;

const some = (count, what) => (Number.isFinite(count) ? `${count} ${what}` : '');

/** Loudness of the last moment, 0 dB being full scale. */
function decibels(linear) {
  if (!(linear > 0)) return linear === 0 ? 'silent' : '';
  return `${Math.round(20 * Math.log10(linear))} dBFS`.replace('-', '−');
}

/** The median of the frames in this answer; without frames, the median of the window. */
function latest(answer, total) {
  const known = (answer?.frames ?? [])
    .map((frame) => (answer.glass_to_glass ? frame.glass_to_glass_ms : frame.sum_ms))
    .filter(Number.isFinite)
    .sort((a, b) => a - b);
  return known.length ? known[Math.floor(known.length / 2)] : total?.p50_ms;
}
