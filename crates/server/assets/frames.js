// What the browser says about each frame it shows, collected for the report.
//
// requestVideoFrameCallback names for a frame of a WebRTC track:
//   rtpTimestamp        joins it with the server's stamps
//   receiveTime         its last packet left the socket
//   processingDuration  in the decoder
//   presentationTime    handed to the compositor
//   expectedDisplayTime the next refresh of the screen, as foreseen then
//
// "Presented" here is presentationTime. expectedDisplayTime would be closer to
// the glass but is a forecast, absent a screen (headless) a guess, and in some
// browsers equal to presentationTime; a measurement is preferred to a forecast.
// The compositor's and the screen's own scan-out come on top and are invisible
// to every page.
//
// The way from received to presented is divided so that the parts add up
// exactly: decode is measured per frame, the jitter buffer is the browser's
// mean of the last second (getStats has no finer one) but never more than what
// is left, and render is the rest.

import { FrameCodeReader } from './framecode.js';

/** Frames kept for a report: more than a second at 240 frames/s, a bound when reports fail. */
const LIMIT = 300;

/** Frames with which a report is due before its time: the server keeps its stamps of 256. */
const MANY = 200;

/** Reports are due so much before their time, since the page looks once a second. */
const EARLY_MS = 500;

export class FrameLog {
  #video;
  #reader = new FrameCodeReader();
  #frames = [];
  #presented = null;

  /** Set while media flows: an element that loses its track shows a black frame, which is not of the stream. */
  active = false;

  /** Set if the stream's frames carry a frame code. */
  coded = false;

  /** Frames shown since the page was opened. */
  rendered = 0;

  /** When the latest frame was presented, performance.now(); null before the first. */
  lastMs = null;

  /** Frames since the last `take` that the callback missed or that lack an RTP timestamp. */
  unmatched = 0;

  /** Frames since the last `take` that were dropped before they were presented. */
  #lost = 0;

  #dueMs = -Infinity;

  /** `onFrame(presentedMs)` is called for each frame. */
  constructor(video, onFrame) {
    this.#video = video;
    this.onFrame = onFrame;
    if (!('requestVideoFrameCallback' in video)) return;
    const next = (now, metadata) => {
      video.requestVideoFrameCallback(next);
      if (this.active) this.#collect(metadata);
    };
    video.requestVideoFrameCallback(next);
  }

  /** Drops the frames of an ended session, which mean nothing to the next one. */
  clear() {
    this.#frames = [];
    this.#presented = null;
    this.unmatched = 0;
    this.#lost = 0;
    this.#dueMs = -Infinity;
    this.active = false;
  }

  /** Takes the statistics of the time since the last call, null where unknown: they are of the frames since then. */
  settle(sample) {
    this.#lost += sample?.framesDroppedDelta ?? 0;
    for (const entry of this.#frames) {
      if (!entry.isSettled) entry.report = divided(entry.report, sample?.jitterBufferMs ?? null);
      entry.isSettled = true;
    }
  }

  /** Whether the server wants a report by now. */
  isDue(nowMs) {
    return nowMs >= this.#dueMs || this.#frames.length >= MANY;
  }

  /** The next report is due `seconds` after the one of `nowMs`. */
  wait(nowMs, seconds) {
    this.#dueMs = nowMs + seconds * 1000 - EARLY_MS;
  }

  /** The report's frames since the last call, in columns, with the counts of those that are not in it. */
  take() {
    const ready = this.#frames.filter(({ pending }) => !pending);
    this.#frames = this.#frames.filter(({ pending }) => pending);
    const [unmatched, lost] = [this.unmatched, this.#lost];
    [this.unmatched, this.#lost] = [0, 0];
    return { frames: columns(ready.map(({ report }) => report)), unmatched, lost };
  }

  #collect(metadata) {
    this.rendered += 1;
    this.lastMs = metadata.presentationTime;
    // The counter begins anew with each source of the element.
    const missed = this.#presented === null ? 0 : metadata.presentedFrames - this.#presented - 1;
    if (missed > 0) this.unmatched += missed;
    this.#presented = metadata.presentedFrames;

    if (metadata.rtpTimestamp === undefined) {
      this.unmatched += 1;
    } else {
      const entry = {
        pending: this.coded,
        isSettled: false,
        report: {
          rtp_timestamp: metadata.rtpTimestamp,
          received_ms: metadata.receiveTime ?? null,
          presented_ms: metadata.presentationTime,
          decode_ms: metadata.processingDuration === undefined ? null : metadata.processingDuration * 1000,
          jitter_buffer_ms: null,
          code: null,
        },
      };
      this.#frames.push(entry);
      if (this.#frames.length > LIMIT) {
        this.#frames.shift();
        this.unmatched += 1;
      }
      if (this.coded) {
        this.#reader.read(this.#video, metadata).then((code) => {
          entry.report.code = code;
          entry.pending = false;
        });
      }
    }
    this.onFrame(metadata.presentationTime);
  }
}

/** Gives the jitter buffer its share of the time between received and presented. */
function divided(report, jitterBufferMs) {
  if (report.received_ms === null || jitterBufferMs === null) return report;
  const left = report.presented_ms - report.received_ms - (report.decode_ms ?? 0);
  return { ...report, jitter_buffer_ms: Math.max(0, Math.min(jitterBufferMs, left)) };
}

/** Frames in columns of whole numbers, times in µs: each is the difference to the last one known. */
function columns(reports) {
  const column = (key, unit) => {
    let before = 0;
    const steps = reports.map(({ [key]: value }) => {
      if (value === null) return null;
      const step = Math.round(value * unit) - before;
      before += step;
      return step;
    });
    return steps.some((step) => step !== null) ? steps : [];
  };
  return {
    rtp_timestamp: column('rtp_timestamp', 1),
    received_us: column('received_ms', 1000),
    presented_us: column('presented_ms', 1000),
    decode_us: column('decode_ms', 1000),
    jitter_buffer_us: column('jitter_buffer_ms', 1000),
    code: column('code', 1),
  };
}
