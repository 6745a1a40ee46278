// Reads the frame number that is drawn into the frames of the demo clip.
//
// A strip along the bottom edge, 32 of 720 lines high, holds 20 cells of equal
// width: white and black for reference, 16 bits with the most significant first
// (white is one), and two parity cells, the exclusive or of the bits at even
// and at odd positions. Because the number is part of the frame, it tells
// which frame was seen without relying on any timestamp on the way.

export const CELLS = 20;
const BITS = 16;
const STRIP = 32 / 720;

/** Least difference between white and black for a valid strip. */
const CONTRAST = 40;

/**
 * The number in 20 brightness levels (0–255), or null where it cannot be read.
 */
export function decodeLevels(levels) {
  const [white, black] = levels;
  if (!(white - black >= CONTRAST)) return null;
  const middle = (white + black) / 2;
  const bits = levels.slice(2, CELLS).map((level) => Number(level > middle));
  let value = 0;
  const parity = [0, 0];
  for (let i = 0; i < BITS; i += 1) {
    value = value * 2 + bits[i];
    parity[i % 2] ^= bits[i];
  }
  return parity[0] === bits[BITS] && parity[1] === bits[BITS + 1] ? value : null;
}

export class FrameCodeReader {
  #canvas = null;

  /**
   * The number of the frame that `metadata` describes, or null.
   *
   * Call it within the frame's own requestVideoFrameCallback. The compositor
   * runs on and may show the next frame at any moment, so where WebCodecs
   * exists the frame is held fast first and its media time compared: a number
   * read from the neighbour would be wrong by a whole frame time. Of the held
   * frame only two lines of brightness are copied, without a color conversion.
   */
  async read(video, metadata) {
    if (!('VideoFrame' in globalThis)) return this.#fromCanvas(video);
    let frame;
    try {
      frame = new VideoFrame(video);
      if (Math.abs(frame.timestamp / 1e6 - metadata.mediaTime) > 1e-3) return null;
      if (/^(I4\d\dA?|NV12A?)$/.test(frame.format)) return await fromLuma(frame);
      return this.#fromCanvas(frame);
    } catch {
      return null;
    } finally {
      // Decoders have few buffers: one that is kept here is a frame that the viewer misses.
      frame?.close();
    }
  }

  /** Scales the middle of the strip to 80 × 4 pixels and looks at those. */
  #fromCanvas(source) {
    const [width, height] = [source.videoWidth ?? source.displayWidth, source.videoHeight ?? source.displayHeight];
    if (!width || !height) return null;
    if (!this.#canvas) {
      const canvas = document.createElement('canvas');
      canvas.width = CELLS * 4;
      canvas.height = 4;
      // Without the hint the strip would go to the GPU and wait to come back.
      this.#canvas = canvas.getContext('2d', { willReadFrequently: true, alpha: false });
    }
    const context = this.#canvas;
    context.drawImage(source, 0, height * (1 - STRIP * 0.75), width, height * STRIP * 0.5, 0, 0, CELLS * 4, 4);
    const { data } = context.getImageData(0, 0, CELLS * 4, 4);
    const levels = Array.from({ length: CELLS }, (_, cell) => {
      let sum = 0;
      for (const y of [1, 2]) {
        for (const x of [4 * cell + 1, 4 * cell + 2]) {
          const at = 4 * (y * CELLS * 4 + x);
          sum += 0.299 * data[at] + 0.587 * data[at + 1] + 0.114 * data[at + 2];
        }
      }
      return sum / 4;
    });
    return decodeLevels(levels);
  }
}

/** Reads two lines in the middle of the strip from the brightness plane. */
async function fromLuma(frame) {
  const { x, y, width, height } = frame.visibleRect;
  // Planes with halved color can only be cut at even positions.
  const line = y + 2 * Math.floor((height * (1 - STRIP / 2)) / 2);
  const rect = { x, y: line, width: width - (width % 2), height: 2 };
  const bytes = new Uint8Array(frame.allocationSize({ rect }));
  const [{ offset, stride }] = await frame.copyTo(bytes, { rect });
  const cell = width / CELLS;
  const levels = Array.from({ length: CELLS }, (_, index) => {
    // The middle half of the cell: its edges carry the neighbour's ringing.
    const [from, to] = [Math.ceil((index + 0.25) * cell), Math.floor((index + 0.75) * cell)];
    let sum = 0;
    for (let column = from; column <= to; column += 1) {
      sum += bytes[offset + column] + bytes[offset + stride + column];
    }
    return sum / (2 * (to - from + 1));
  });
  return decodeLevels(levels);
}
