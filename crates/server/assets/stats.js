// getStats once a second, as differences: rates and means of the last second
// instead of totals since the beginning.

/** The reports of one `getStats` by type, and by id. */
const byType = (stats, type, test = () => true) => {
  for (const report of stats.values()) if (report.type === type && test(report)) return report;
  return null;
};

export class StatsSampler {
  #before = null;

  /** A new connection counts from zero. */
  reset() {
    this.#before = null;
  }

  /**
   * Reads the connection once; null while it has received no video.
   *
   * Rates and means cover the time since the last call; totals say so.
   * A value that the browser does not report is null.
   */
  async sample(pc) {
    const stats = await pc.getStats();
    const inbound = (kind) => byType(stats, 'inbound-rtp', (report) => report.kind === kind);
    const [video, audio, playout] = [inbound('video'), inbound('audio'), byType(stats, 'media-playout')];
    const before = this.#before;
    this.#before = { video, audio, playout };
    if (!video && !audio) return null;
    return {
      ...frames(video, before?.video),
      ...arrivals(video, audio, before),
      audio: audioStats(stats, { audio, playout }, before),
      path: path(stats),
      codec: codecName(stats.get(video?.codecId)),
    };
  }
}

/** The growth of a counter, from zero on a new connection; null if it is not reported or shrank. */
function grown(now, before, name) {
  const delta = (now?.[name] ?? NaN) - (before?.[name] ?? 0);
  return delta >= 0 ? delta : null;
}

const ratio = (part, whole) => (part === null || !(whole > 0) ? null : part / whole);

/** Milliseconds of a total of seconds that grew, for each of a count. */
function meanOf(now, before, total, count) {
  const value = ratio(grown(now, before, total), grown(now, before, count));
  return value === null ? null : value * 1000;
}

function frames(video, before) {
  const seconds = before ? (video?.timestamp - before.timestamp) / 1000 : null;
  const decoded = grown(video, before, 'framesDecoded');
  const mean = (total, count) => meanOf(video, before, total, count);
  return {
    width: video?.frameWidth ?? null,
    height: video?.frameHeight ?? null,
    fps: ratio(decoded, seconds),
    framesDecoded: video?.framesDecoded ?? 0,
    framesDropped: video?.framesDropped ?? null,
    framesDroppedDelta: grown(video, before, 'framesDropped') ?? 0,
    freezes: video?.freezeCount ?? null,
    jitterBufferMs: mean('jitterBufferDelay', 'jitterBufferEmittedCount'),
    decodeMs: mean('totalDecodeTime', 'framesDecoded'),
    decoder: video?.decoderImplementation ?? null,
    nacks: video?.nackCount ?? null,
    plis: video?.pliCount ?? null,
  };
}

function arrivals(video, audio, before) {
  const seconds = before ? ((video ?? audio).timestamp - (before.video ?? before.audio)?.timestamp) / 1000 : null;
  const sum = (name) => {
    const parts = [grown(video, before?.video, name), grown(audio, before?.audio, name)];
    return parts.every((part) => part === null) ? null : (parts[0] ?? 0) + (parts[1] ?? 0);
  };
  const bytes = sum('bytesReceived');
  const [lost, received] = [sum('packetsLost') ?? 0, sum('packetsReceived')];
  return {
    bitrate: bytes === null ? null : ratio(bytes * 8, seconds),
    lossRatio: received === null ? null : (ratio(lost, lost + received) ?? 0),
    packetsLost: (video?.packetsLost ?? 0) + (audio?.packetsLost ?? 0),
    aheadRatio: ahead(video, before?.video),
  };
}

/** FEC packets as a part of the other bytes of the video, which count them, too. */
function ahead(video, before) {
  const [fec, bytes] = [grown(video, before, 'fecBytesReceived'), grown(video, before, 'bytesReceived')];
  return ratio(fec, bytes - fec);
}

function audioStats(stats, { audio, playout }, before) {
  if (!audio) return null;
  return {
    energy: audio.totalAudioEnergy ?? 0,
    packets: audio.packetsReceived ?? 0,
    level: audio.audioLevel ?? null,
    jitterBufferMs: meanOf(audio, before?.audio, 'jitterBufferDelay', 'jitterBufferEmittedCount'),
    deviceMs: meanOf(playout, before?.playout, 'totalPlayoutDelay', 'totalSamplesCount'),
    codec: codecName(stats.get(audio.codecId)),
  };
}

/** `H264 42e01f`, `opus 48 kHz`: the name and what tells variants apart. */
function codecName(codec) {
  if (!codec?.mimeType) return null;
  const name = codec.mimeType.replace(/^\w+\//, '');
  const profile = /profile-level-id=([0-9a-f]{6})/i.exec(codec.sdpFmtpLine ?? '')?.[1];
  if (profile) return `${name} ${profile}`;
  return codec.mimeType.startsWith('audio/') ? `${name} ${codec.clockRate / 1000} kHz` : name;
}

/** Where the packets come from and how they are protected. */
function path(stats) {
  const transport = byType(stats, 'transport');
  const pair =
    stats.get(transport?.selectedCandidatePairId) ??
    byType(stats, 'candidate-pair', (report) => report.nominated && report.state === 'succeeded');
  const remote = stats.get(pair?.remoteCandidateId);
  return {
    remote: remote?.address ? `${remote.protocol} ${socketAddress(remote)}` : null,
    rttMs: pair?.currentRoundTripTime === undefined ? null : pair.currentRoundTripTime * 1000,
    srtp: transport?.srtpCipher ?? null,
  };
}

const socketAddress = ({ address, port }) => (address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`);
