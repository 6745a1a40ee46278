// Notices a server that is lost. A server that was killed says no goodbye, and ICE takes a quarter of a
// minute to notice its death.
//
//   media or RTCP arrives, STUN is answered ─► alive
//   nothing of these for 2 s ─► a request for the session ─┬► answered: the stream is at rest
//                                                          └► no answer, or refused: the session is lost
//
// A server alone, in no cluster, is waited for while it does not answer: it may stand still.

/** No sign of life for this long makes the page ask for the session. */
export const SILENCE_MS = 2000;

/** Media that is older than this makes the page look for other signs, which costs more. */
const RECENT_MS = 750;

export class Lifeline {
  #signs = null;
  #heardMs;

  constructor(nowMs) {
    this.#heardMs = nowMs;
  }

  /** Something of the server arrived at `atMs`. */
  heard(atMs) {
    this.#heardMs = Math.max(this.#heardMs, atMs);
  }

  /** `signs`: the count of everything that has arrived; more of it than before is a sign of life. */
  count(signs, nowMs) {
    if (this.#signs !== null && signs > this.#signs) this.heard(nowMs);
    this.#signs = signs;
  }

  /** Whether media arrived so lately that no other signs are needed. */
  isRecent(nowMs) {
    return nowMs - this.#heardMs < RECENT_MS;
  }

  isSilent(nowMs) {
    return this.leftMs(nowMs) <= 0;
  }

  /** Time until it is silent if nothing more arrives. */
  leftMs(nowMs) {
    return this.#heardMs + SILENCE_MS - nowMs;
  }
}

/** What has arrived on a connection: packets of media and RTCP, answers to checks, and checks. */
export function signsOf(stats) {
  let signs = 0;
  for (const report of stats.values()) {
    if (report.type === 'transport') signs += report.packetsReceived ?? report.bytesReceived ?? 0;
    if (report.type === 'candidate-pair') signs += (report.responsesReceived ?? 0) + (report.requestsReceived ?? 0);
    if (report.type === 'inbound-rtp') signs += report.packetsReceived ?? 0;
    if (report.type === 'remote-inbound-rtp') signs += report.roundTripTimeMeasurements ?? 0;
    if (report.type === 'remote-outbound-rtp') signs += report.reportsSent ?? 0;
  }
  return signs;
}

/** When media last arrived at a connection's receivers, by performance.now(); -Infinity if none has. */
export function mediaMs(pc) {
  const sources = pc.getReceivers().flatMap((receiver) => receiver.getSynchronizationSources?.() ?? []);
  return Math.max(-Infinity, ...sources.map(({ timestamp }) => {
    // Chromium counts from the page's beginning, the standard from 1970.
    const sinceStart = timestamp > performance.timeOrigin / 2 ? timestamp - performance.timeOrigin : timestamp;
    return Math.min(sinceStart, performance.now());
  }));
}
