// What a stream of audio alone shows in place of its video: how loud it was in the last seconds.

/** Time of one bar. */
const BAR_MS = 100;

/** Number of bars: twelve seconds. */
const BARS = 120;

/** Level at which a bar has no height, in dBFS. */
const FLOOR_DB = -60;

export class AudioView {
  #canvas;
  #figure;
  #read;
  #levels = [];
  #timer = null;

  /**
   * `figure`: the element that holds video and canvas; `read`: returns the present level, 0 to 1,
   * or null if the browser does not tell.
   */
  constructor(figure, read) {
    this.#figure = figure;
    this.#canvas = figure.querySelector('canvas');
    this.#read = read;
  }

  /** The level of the latest bar, 0 to 1; null if it is not known. */
  get level() {
    return this.#levels.at(-1) ?? null;
  }

  /** Shows the view, or hides it where there is video. */
  set shown(shown) {
    if (shown === (this.#timer !== null)) return;
    this.#canvas.hidden = !shown;
    document.body.dataset.media = shown ? 'audio' : 'video';
    if (!shown) {
      clearInterval(this.#timer);
      this.#timer = null;
      return;
    }
    this.#levels = [];
    this.#timer = setInterval(() => this.#step(), BAR_MS);
  }

  #step() {
    this.#levels.push(this.#read());
    if (this.#levels.length > BARS) this.#levels.shift();
    if (!document.hidden) this.#draw();
  }

  #draw() {
    const scale = devicePixelRatio || 1;
    const [width, height] = [this.#canvas.clientWidth * scale, this.#canvas.clientHeight * scale];
    if (this.#canvas.width !== Math.round(width)) this.#canvas.width = width;
    if (this.#canvas.height !== Math.round(height)) this.#canvas.height = height;
    const context = this.#canvas.getContext('2d');
    context.clearRect(0, 0, width, height);
    context.fillStyle = getComputedStyle(this.#figure).getPropertyValue('--meter');
    const step = width / BARS;
    const first = BARS - this.#levels.length;
    this.#levels.forEach((level, index) => {
      const part = level > 0 ? 1 - Math.max(FLOOR_DB, 20 * Math.log10(level)) / FLOOR_DB : 0;
      // Silence is a thin line, and a level that is not known is a gap.
      const tall = level === null ? 0 : Math.max(2 * scale, part * height);
      context.fillRect((first + index) * step, (height - tall) / 2, Math.max(1, step * 0.6), tall);
    });
  }
}
