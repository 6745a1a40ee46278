// Measures the loudness of a muted stream.
//
// A page may begin to play only without audio, and Chromium measures the energy
// and level in getStats behind the volume: muted, both are zero, and a stream
// with a dead microphone looks like any other. The track itself still carries
// its samples, so they are measured there while the element is muted.

/** One chunk (10 ms) of this many is measured: loudness changes slowly. */
const EVERY = 5;

export class Loudness {
  #track = null;
  #reader = null;

  /** As getStats' totalAudioEnergy: squared samples times seconds, since `listen`. */
  energy = 0;

  /** Root mean square of the latest chunk, 0 to 1; null while not listening. */
  level = null;

  /** Measures `track` from now on; null stops that. */
  listen(track) {
    this.stop();
    this.#track = track;
    this.energy = 0;
  }

  /** Starts or continues to read the samples, if the browser allows it. */
  start() {
    if (this.#reader || !this.#track || !('MediaStreamTrackProcessor' in globalThis)) return;
    try {
      const processor = new MediaStreamTrackProcessor({ track: this.#track });
      this.#reader = processor.readable.getReader();
    } catch {
      return;
    }
    this.#follow(this.#reader);
  }

  /** Stops reading, for instance because getStats has the level. */
  stop() {
    this.#reader?.cancel().catch(() => { /* the track has ended */ });
    this.#reader = null;
    this.level = null;
  }

  async #follow(reader) {
    for (let count = 0; ; count += 1) {
      const { value: chunk, done } = await reader.read().catch(() => ({ done: true }));
      if (done) return;
      if (count % EVERY === 0 && reader === this.#reader) this.#weigh(chunk);
      chunk.close();
    }
  }

  #weigh(chunk) {
    const samples = new Float32Array(chunk.numberOfFrames);
    chunk.copyTo(samples, { planeIndex: 0, format: 'f32-planar' });
    let sum = 0;
    for (const sample of samples) sum += sample * sample;
    const meanSquare = sum / samples.length;
    this.level = Math.sqrt(meanSquare);
    this.energy += meanSquare * EVERY * (samples.length / chunk.sampleRate);
  }
}
