// The test picture: moving bars, a clock, and the server's time as a frame code; and its tone.
//
// The frame code (see framecode.js) is the server's clock in milliseconds, modulo 65 536. A player
// that reads the code knows when the frame was drawn, and so measures from glass to glass.

import { CELLS } from './framecode.js';

const BITS = 16;

/** Height of the frame code as a share of the picture's height. */
const STRIP = 32 / 720;

const BARS = ['#c9ced3', '#c7c23a', '#2fb7c1', '#35a957', '#b04bb5', '#c0453b', '#3450b4'];

/** Colors of the logo. */
const [BLUE, AMBER, VIOLET] = ['#36a5bc', '#e0a63a', '#a585ee'];

/** The cells of a frame code: white and black for reference, 16 bits, two parity bits. */
export function codeCells(value) {
  const bits = Array.from({ length: BITS }, (_, i) => (value >> (BITS - 1 - i)) & 1);
  const parity = [0, 0];
  bits.forEach((bit, i) => { parity[i % 2] ^= bit; });
  return [1, 0, ...bits, ...parity];
}

/** Draws a frame code along the bottom edge. */
export function drawCode(context, value, width, height) {
  const top = Math.floor(height * (1 - STRIP));
  const cell = width / CELLS;
  codeCells(value).forEach((bit, i) => {
    context.fillStyle = bit ? '#fff' : '#000';
    context.fillRect(Math.floor(i * cell), top, Math.ceil(cell) + 1, height - top);
  });
}

export class TestPicture {
  #canvas = document.createElement('canvas');
  #context;
  #audio = null;
  #running = true;
  #frame = 0;

  /** Time between two refreshes of the screen: the browser captures a frame at the one after its drawing. */
  refreshMs = 1000 / 60;

  /**
   * `serverMs()`: the server's clock now in ms, or null while it is not known. `name`: what the
   * picture is called. `tone`: whether it has sound.
   */
  constructor({ width, height, frameRate, name, serverMs, tone }) {
    Object.assign(this.#canvas, { width, height });
    this.#context = this.#canvas.getContext('2d', { alpha: false });
    this.name = name;
    this.serverMs = serverMs;
    this.intervalMs = 1000 / frameRate;
    this.#draw();
    this.stream = this.#canvas.captureStream(frameRate);
    if (tone) this.#startTone();
    let dueMs = performance.now();
    let beforeMs = dueMs;
    const step = (nowMs) => {
      if (!this.#running) return;
      requestAnimationFrame(step);
      this.refreshMs += ((nowMs - beforeMs) - this.refreshMs) / 30;
      beforeMs = nowMs;
      // Half a refresh early is better than half a refresh late.
      if (nowMs < dueMs - 4) return;
      dueMs = Math.max(dueMs + this.intervalMs, nowMs - this.intervalMs);
      this.#draw();
    };
    requestAnimationFrame(step);
  }

  stop() {
    this.#running = false;
    this.#audio?.close();
    for (const track of this.stream.getTracks()) track.stop();
  }

  /** Half a second of a tone in each second, one octave higher in every tenth. */
  #startTone() {
    const audio = new AudioContext();
    const [tone, volume] = [audio.createOscillator(), audio.createGain()];
    const out = audio.createMediaStreamDestination();
    volume.gain.value = 0;
    for (let second = 0; second < 3600; second += 1) {
      tone.frequency.setValueAtTime(second % 10 ? 440 : 880, second);
      volume.gain.setTargetAtTime(0.12, second, 0.01);
      volume.gain.setTargetAtTime(0, second + 0.5, 0.01);
    }
    tone.connect(volume).connect(out);
    tone.start();
    audio.resume();
    this.#audio = audio;
    for (const track of out.stream.getAudioTracks()) this.stream.addTrack(track);
  }

  #draw() {
    const { width, height } = this.#canvas;
    const context = this.#context;
    this.#frame += 1;
    const nowMs = performance.now();
    const bar = width / BARS.length;
    BARS.forEach((color, i) => {
      context.fillStyle = color;
      context.fillRect(Math.floor(i * bar), 0, Math.ceil(bar), height * 0.62);
    });
    context.fillStyle = '#10161d';
    context.fillRect(0, height * 0.62, width, height * 0.38);
    this.#drawMotion(nowMs);
    this.#drawText();
    const serverMs = this.serverMs();
    if (serverMs !== null) drawCode(context, Math.floor(serverMs) & 0xffff, width, height);
  }

  /** A disc with a hand that turns once a second, and a ball that crosses the picture in four. */
  #drawMotion(nowMs) {
    const { width, height } = this.#canvas;
    const context = this.#context;
    const [x, y, radius] = [width * 0.5, height * 0.33, height * 0.22];
    context.fillStyle = 'rgb(11 15 20 / 0.9)';
    context.beginPath();
    context.arc(x, y, radius * 1.1, 0, 2 * Math.PI);
    context.fill();
    const turn = ((nowMs % 1000) / 1000) * 2 * Math.PI - Math.PI / 2;
    context.fillStyle = BLUE;
    context.beginPath();
    context.moveTo(x, y);
    context.arc(x, y, radius, -Math.PI / 2, turn);
    context.fill();
    const phase = (nowMs % 4000) / 4000;
    context.fillStyle = AMBER;
    context.beginPath();
    const across = width * (0.04 + 0.92 * (phase < 0.5 ? 2 * phase : 2 - 2 * phase));
    context.arc(across, height * 0.68, height * 0.03, 0, 2 * Math.PI);
    context.fill();
  }

  #drawText() {
    const { width, height } = this.#canvas;
    const context = this.#context;
    const time = new Date().toISOString().slice(11, 23);
    context.textAlign = 'center';
    context.fillStyle = '#fff';
    context.font = `600 ${Math.round(height * 0.11)}px ui-monospace, "DejaVu Sans Mono", monospace`;
    context.fillText(time, width / 2, height * 0.83);
    context.fillStyle = VIOLET;
    context.font = `500 ${Math.round(height * 0.045)}px system-ui, "DejaVu Sans", sans-serif`;
    context.fillText(`${this.name} · frame ${this.#frame}`, width / 2, height * 0.91);
  }
}
