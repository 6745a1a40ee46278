// Audio on the page of a call: its loudness, and how it arrives.

/** Levels below this, in dB under full scale, are silence to a meter. */
export const SILENCE_DB = -60;

/**
 * How loud a stream is, to be asked again and again: dB under full scale.
 *
 * The analyser only measures the stream; it plays nothing.
 */
export function level(context, stream) {
  const analyser = context.createAnalyser();
  analyser.fftSize = 1024;
  context.createMediaStreamSource(stream).connect(analyser);
  const samples = new Float32Array(analyser.fftSize);
  return () => {
    analyser.getFloatTimeDomainData(samples);
    const power = samples.reduce((sum, it) => sum + it * it, 0) / samples.length;
    return Math.max(SILENCE_DB, 10 * Math.log10(power + 1e-12));
  };
}

/** The browser's statistics of the audio received on a connection; null before any arrived. */
export async function arrival(pc, before) {
  const stats = await pc.getStats();
  let now = null;
  stats.forEach((it) => {
    if (it.type === 'inbound-rtp' && it.kind === 'audio') now = it;
  });
  if (!now) return null;
  const since = (name) => (now[name] ?? 0) - (before?.[name] ?? 0);
  const emitted = since('jitterBufferEmittedCount');
  const packets = (now.packetsReceived ?? 0) + (now.packetsLost ?? 0);
  return {
    raw: now,
    bufferMs: emitted > 0 ? (since('jitterBufferDelay') / emitted) * 1e3 : null,
    concealed: now.totalSamplesReceived > 0 ? now.concealedSamples / now.totalSamplesReceived : null,
    lost: packets > 0 ? now.packetsLost / packets : null,
  };
}

/** One line of text with these figures. */
export function describe({ bufferMs, concealed, lost }) {
  const percent = (share) => `${(share * 100).toFixed(share < 0.1 ? 2 : 0)} %`;
  return [
    bufferMs === null ? null : `jitter buffer ${bufferMs.toFixed(0)} ms`,
    concealed === null ? null : `concealed ${percent(concealed)}`,
    lost === null ? null : `lost ${percent(lost)}`,
  ].filter(Boolean).join(' · ');
}
