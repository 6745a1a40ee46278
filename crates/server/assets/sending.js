// Once a second: what getStats() says about sending, as figures of that second.

const allOf = (stats, type) => [...stats.values()].filter((it) => it.type === type);

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
    const sent = allOf(stats, 'outbound-rtp');
    const before = this.#before;
    this.#before = new Map(sent.map((it) => [it.id, it]));
    const grown = (name, now = video) => {
      const delta = (now?.[name] ?? NaN) - (before?.get(now.id)?.[name] ?? 0);
      return delta >= 0 ? delta : null;
    };
    // Of several layers, the largest one that is sent stands for the video.
    const videos = sent.filter(({ kind }) => kind === 'video');
    const rank = (it) => (grown('framesEncoded', it) > 0 ? it.frameHeight ?? 0 : -1);
    const video = videos.sort((a, b) => rank(b) - rank(a))[0] ?? null;
    const main = video ?? sent[0];
    if (!main) return null;
    const since = before?.get(main.id)?.timestamp;
    const seconds = since === undefined ? null : (main.timestamp - since) / 1000;
    const mean = (total, count) => {
      const value = ratio(grown(total), grown(count));
      return value === null ? null : value * 1000;
    };
    const remote = stats.get(main.remoteId) ?? byType(stats, 'remote-inbound-rtp', ({ kind }) => kind === main.kind);
    const transport = byType(stats, 'transport');
    const pair = stats.get(transport?.selectedCandidatePairId)
      ?? byType(stats, 'candidate-pair', (it) => it.nominated && it.state === 'succeeded');
    const bitrate = (list) => ratio(list.reduce((sum, it) => sum + (grown('bytesSent', it) ?? 0), 0) * 8, seconds);
    return {
      width: video?.frameWidth ?? null,
      height: video?.frameHeight ?? null,
      fps: ratio(grown('framesEncoded'), seconds),
      bitrate: bitrate(sent),
      layers: videos.length < 2 ? [] : videos.map((it) => ({ rid: it.rid, bitrate: bitrate([it]) })),
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
