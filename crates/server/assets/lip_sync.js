// Whether video waits for its audio.
//
// Audio plays later than its video: its jitter buffer and the audio device hold it. Browsers let the video
// of one media stream wait for as long, whatever that costs; here the two have streams of their own (see
// `withoutLipSync`), and the page lets the video wait only where that costs little:
//
//   audio   jitter buffer + device ─────────────────────► heard
//   video   jitter buffer + decoder ──► shown · cost ····► shown with its audio
//
// Audio that is less than 125 ms behind its video is not noticed (ITU-R BT.1359).

/** Video waits for its audio as long as that costs less. */
const COST_MAX_MS = 20;

/** What one second weighs in the mean: jitter comes and goes. */
const NEWEST = 0.3;

export class LipSync {
  #receiver = null;

  /** How long the audio is behind a video that does not wait, a mean; null while that is not known. */
  #costMs = null;

  /** How long the video waits now. */
  #heldMs = 0;

  /** A new session: nothing waits. */
  follow(pc) {
    const receivers = pc.getReceivers();
    this.#receiver = receivers.find(({ track }) => track.kind === 'video') ?? null;
    [this.#costMs, this.#heldMs] = [null, 0];
  }

  /**
   * Takes the statistics of the last second; `isHeard`: whether the audio is played. Returns
   * `{costMs, isOn}`, null without video and audio that this browser measures.
   */
  update(sample, isHeard) {
    const behindMs = behind(sample);
    if (!this.#receiver || !('jitterBufferTarget' in this.#receiver) || behindMs === null) return null;
    // What the video waits already is no part of its own delay.
    const costMs = behindMs + this.#heldMs;
    this.#costMs = this.#costMs === null ? costMs : this.#costMs + NEWEST * (costMs - this.#costMs);
    const isOn = isHeard && this.#costMs > 0 && this.#costMs < COST_MAX_MS;
    this.#hold(isOn ? this.#costMs : 0, sample.jitterBufferMs);
    return { costMs: Math.max(0, this.#costMs), isOn };
  }

  #hold(ms, bufferMs) {
    if (ms === 0 && this.#heldMs === 0) return;
    // The target is a least time in the buffer, of which the network needs a part.
    const needed = Math.max(0, bufferMs - this.#heldMs);
    this.#receiver.jitterBufferTarget = ms === 0 ? 0 : Math.round(needed + ms);
    this.#heldMs = ms;
  }
}

/** How long the audio of the last second was behind the video; null where that is not known. */
function behind(sample) {
  const parts = [sample?.audio?.jitterBufferMs, sample?.audio?.deviceMs, sample?.jitterBufferMs, sample?.decodeMs];
  if (!parts.every(Number.isFinite)) return null;
  const [buffer, device, video, decoder] = parts;
  return buffer + device - video - decoder;
}
