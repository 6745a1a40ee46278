// Numbers as people read them. Whatever is absent is a dash, never a zero.

import { codecName } from './words.js';

export const ABSENT = '–';

const finite = (value) => typeof value === 'number' && Number.isFinite(value);

/** Milliseconds: two decimals below 1 ms, one above. Without the unit. */
export function milliseconds(value) {
  if (!finite(value)) return ABSENT;
  const text = value.toFixed(Math.abs(value) < 1 ? 2 : 1);
  return text.replace('-', '−').replace(/^−(0\.0+)$/, '$1');
}

/** `value` with `unit` behind a no-break space, or a dash. */
export const quantity = (value, digits, unit) =>
  finite(value) ? `${value.toFixed(digits)}\u00a0${unit}` : ABSENT;

/** Bits per second in the unit that leaves one to three digits before the point. */
export function bitrate(bps) {
  if (!finite(bps)) return ABSENT;
  if (bps >= 1e6) return quantity(bps / 1e6, 2, 'Mbit/s');
  if (bps >= 1e3) return quantity(bps / 1e3, 0, 'kbit/s');
  return quantity(bps, 0, 'bit/s');
}

/** Names of protocols as people write them. */
export const PROTOCOLS = { webrtc: 'WebRTC', rtsp: 'RTSP', moq: 'MoQ', quic: 'QUIC', whip: 'WHIP' };

/** Where the media of a stream comes from, by the name that the API has for its way. */
const SOURCES = { camera: 'from a camera', file: 'from a file', pipe: 'from a pipe', program: 'from a program', pull: 'from another server' };

/** `from a camera`, `by WHIP`: the way of a stream's media. */
export const way = (source) => SOURCES[source] ?? `by ${PROTOCOLS[source] ?? source}`;

/** Processor time as a share of one core, `34 % of a core`. */
export const coresOf = (cores) => `${Math.max(1, Math.round(cores * 100))}\u00a0% of a core`;

/** Seconds as `3 d 4 h`, `4 h 05 min`, `5 min 06 s` or `7 s`. */
export function duration(seconds) {
  if (!finite(seconds)) return ABSENT;
  const s = Math.floor(seconds);
  const two = (n) => String(n).padStart(2, '0');
  if (s >= 86400) return `${Math.floor(s / 86400)} d ${Math.floor(s / 3600) % 24} h`;
  if (s >= 3600) return `${Math.floor(s / 3600)} h ${two(Math.floor(s / 60) % 60)} min`;
  if (s >= 60) return `${Math.floor(s / 60)} min ${two(s % 60)} s`;
  return `${s} s`;
}

/** A time as `2026-11-29 14:05:33`, in the zone of the browser: no reader takes the month for the day. */
export function when(time) {
  const date = new Date(time);
  const two = (n) => String(n).padStart(2, '0');
  const day = [date.getFullYear(), two(date.getMonth() + 1), two(date.getDate())].join('-');
  return `${day} ${[date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(':')}`;
}

/** `H264 1280×720`, `Opus stereo` from one entry of a stream's `tracks`. */
export function track({ kind, codec, width, height, channels }) {
  if (kind === 'audio') {
    const layout = { 1: ' mono', 2: ' stereo' }[channels] ?? (channels ? ` ${channels} ch` : '');
    return `${codecName(codec) ?? 'audio'}${layout}`;
  }
  return `${codecName(codec) ?? 'video'}${width && height ? ` ${width}×${height}` : ''}`;
}

/** A time as fields for times have it, in the zone of the browser. */
export const fieldOf = (ms) => when(ms).replace(' ', 'T');
