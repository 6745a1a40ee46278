// Where the milliseconds go when a stream plays by HLS.
//
//   date of a frame (EXT-X-PROGRAM-DATE-TIME) ─ segment ─► its part is complete
//     ─ publish ─► the playlist that lists the part is here ─ network ─► the part is here
//     ─ buffer ─► the decoder has it ─ decode ─► ─ render ─► it is presented
//
// The date is of the server's calendar, and the rest of this page's: `WallClock` joins them, with an error.

/** Samples older than this do not count. */
const WINDOW_MS = 10_000;

/** Parts whose arrival is kept for the frames that come from them. */
const PARTS_MAX = 400;

export const HLS_STAGES = [
  ['segment', 'server', 'From the frame’s date until its part is complete: between nothing and a part’s duration'],
  ['publish', 'server', 'From the part’s end until this page has the playlist that lists it; two clocks meet here'],
  ['network', 'path', 'From the playlist until all of the part is here'],
  ['buffer', 'browser', 'In the buffer of the page, before the decoder'],
  ['decode', 'browser', 'In the decoder, where the browser tells it'],
  ['render', 'browser', 'From handed to the compositor until it is due on the screen'],
];

export class HlsStages {
  #parts = [];
  #samples = new Map();

  /**
   * Notes a part that is here. `startS`, `durationS`: its place in the media; `dateMs`: date of its first frame, on the server's
   * calendar; `listedMs`, `askedMs`, `loadedMs`: on this page's calendar.
   */
  part(part) {
    this.#parts.push(part);
    if (this.#parts.length > PARTS_MAX) this.#parts.shift();
  }

  /**
   * Notes a frame that was presented. `mediaS`: its place in the media; `presentedMs`: on this page's calendar;
   * `offsetMs`: the server's calendar minus this page's; `decodeMs`, `renderMs`: what the browser tells, or null.
   */
  frame({ mediaS, presentedMs, offsetMs, decodeMs = null, renderMs = null }) {
    const part = this.#parts.findLast(({ startS, durationS }) => startS <= mediaS + 0.001 && mediaS < startS + durationS);
    if (!part || !Number.isFinite(part.dateMs)) return null;
    const takenMs = part.dateMs + (mediaS - part.startS) * 1000 - offsetMs;
    const endMs = part.dateMs + part.durationS * 1000 - offsetMs;
    const stages = {
      segment: endMs - takenMs,
      publish: part.listedMs - endMs,
      network: part.loadedMs - part.listedMs,
      buffer: presentedMs - part.loadedMs - (decodeMs ?? 0),
      decode: decodeMs,
      render: renderMs,
      end_to_end: presentedMs - takenMs + (renderMs ?? 0),
    };
    for (const [name, ms] of Object.entries(stages)) if (ms !== null) this.#note(name, ms, presentedMs);
    return stages;
  }

  /** The figures in the form of the server's answer to a report; null before the first frame. `errorMs`: of the joined calendars. */
  answer(nowMs, errorMs) {
    const summary = (name) => {
      const values = (this.#samples.get(name) ?? []).filter(({ atMs }) => nowMs - atMs < WINDOW_MS).map(({ ms }) => ms).sort((a, b) => a - b);
      if (values.length === 0) return null;
      const at = (share) => values[Math.min(values.length - 1, Math.floor(values.length * share))];
      return { count: values.length, p50_ms: at(0.5), p95_ms: at(0.95), max_ms: values.at(-1) };
    };
    const total = summary('end_to_end');
    if (total === null) return null;
    const stages = HLS_STAGES.map(([stage]) => ({ stage, ...summary(stage) })).filter(({ count }) => count > 0);
    return { stages, end_to_end: { ...total, error_ms: errorMs } };
  }

  #note(name, ms, atMs) {
    const all = this.#samples.get(name) ?? [];
    all.push({ ms, atMs });
    while (all.length > 0 && atMs - all[0].atMs > WINDOW_MS) all.shift();
    this.#samples.set(name, all);
  }
}
