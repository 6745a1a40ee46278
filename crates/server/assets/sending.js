// Once a second: what getStats() says about sending, as figures of that second.

const byType = (stats, type, accept = () => true) => {
  let found = null;
  stats.forEach((report) => { if (report.type === type && accept(report)) found = report; });
  return found;
};

const ratio = (part, whole) => (part === null || !(whole > 0) ? null : part / whole);

export class SendSampler {
  #before = null;

  reset() {
    this.#before = null;
  }

  /** Figures since the last call; null before anything was sent. */
  async sample(pc) {
    const stats = await pc.getStats();
    const video = byType(stats, 'outbound-rtp', ({ kind }) => kind === 'video');
    const audio = byType(stats, 'outbound-rtp', ({ kind }) => kind === 'audio');
    const before = this.#before;
    this.#before = { video, audio };
    if (!video && !audio) return null;
    const main = video ?? audio;
    const seconds = before ? (main.timestamp - (before.video ?? before.audio).timestamp) / 1000 : null;
    const grown = (name, now = video, then = before?.video) => {
      const delta = (now?.[name] ?? NaN) - (then?.[name] ?? 0);
      return delta >= 0 ? delta : null;
    };
    const mean = (total, count) => {
      const value = ratio(grown(total), grown(count));
      return value === null ? null : value * 1000;
    };
    const remote = stats.get(main.remoteId) ?? byType(stats, 'remote-inbound-rtp', ({ kind }) => kind === main.kind);
    const transport = byType(stats, 'transport');
    const pair = stats.get(transport?.selectedCandidatePairId)
      ?? byType(stats, 'candidate-pair', (it) => it.nominated && it.state === 'succeeded');
    const bytes = [grown('bytesSent'), grown('bytesSent', audio, before?.audio)];
    return {
      width: video?.frameWidth ?? null,
      height: video?.frameHeight ?? null,
      fps: ratio(grown('framesEncoded'), seconds),
      bitrate: ratio(((bytes[0] ?? 0) + (bytes[1] ?? 0)) * 8, seconds),
      encodeMs: mean('totalEncodeTime', 'framesEncoded'),
      paceMs: mean('totalPacketSendDelay', 'packetsSent'),
      encoder: video?.encoderImplementation ?? null,
      limited: video?.qualityLimitationReason ?? null,
      keyframes: video?.keyFramesEncoded ?? null,
      codec: stats.get(video?.codecId)?.mimeType?.replace(/^video\//i, '') ?? null,
      availableBps: pair?.availableOutgoingBitrate ?? null,
      rttMs: pair?.currentRoundTripTime === undefined ? null : pair.currentRoundTripTime * 1000,
      lossRatio: remote?.fractionLost ?? null,
    };
  }
}
