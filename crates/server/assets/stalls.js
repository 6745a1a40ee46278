// Why no frames come although the connection is open.

import { statusWord } from './words.js';

const SOURCE = 'Stalled, waiting for the source';

/** The end of what was recorded. */
export const PAST_ENDED = { title: 'Nothing more is recorded here', detail: 'Go to another time, or back to live.' };

/** What ends long waits for a keyframe. */
const KEYFRAME_ADVICE = 'Set a shorter keyframe interval (or no "smart codec") at the camera or encoder; or a larger limits.ring_mib at the server, which keeps the latest keyframe for those who come late.';

/**
 * Why a live stream stalls, as `{title, detail, operator, mayEncodeAgain}`. `entry`: the stream in the API, or null;
 * `isNew`: whether the viewer has had no frame yet; `arrives`: whether packets do; `isEncodedAgain`: whether the viewer
 * asked the server to encode the video again.
 */
export function whyStalled(entry, { isNew, arrives, isEncodedAgain }) {
  if (entry && entry.state !== 'live') {
    return { title: SOURCE, detail: [statusWord(entry.status), entry.detail].filter(Boolean).join(': ') };
  }
  if (entry?.status === 'hangs') {
    return { title: SOURCE, detail: `The source is connected and has sent nothing for ${Math.round(entry.silent_s)} s` };
  }
  const wait = isNew ? keyframeWait(entry, isEncodedAgain) : null;
  if (wait) return { title: 'Waiting for a keyframe', ...wait };
  return {
    title: SOURCE,
    detail: arrives
      ? 'Packets arrive, but no frame that can be shown: waiting for the next keyframe.'
      : 'The connection is open, but no packets arrive. The stream resumes by itself.',
  };
}

/**
 * Why a viewer of live video who just came has no picture, and what the operator can do; null if it is not for want of a keyframe. The
 * server keeps the latest keyframe with what follows, unless that is too much.
 */
function keyframeWait(entry, isEncodedAgain) {
  const track = entry?.tracks?.find((it) => it.kind === 'video');
  const sinceS = track?.since_keyframe_s ?? null;
  if (sinceS === null || entry.silent_s > 2) return null;
  if (track.begins_in_browsers === false) {
    return isEncodedAgain || track.browser.codec
      ? { detail: 'The server encodes the video again, from the first picture on that is right.' }
      : {
        detail: 'This video has no picture that a browser can begin with.',
        operator: track.browser.note,
        mayEncodeAgain: /[?]transcode behind/.test(track.browser.note ?? ''),
      };
  }
  const intervalS = track.keyframe_interval_s;
  const dueS = intervalS - sinceS;
  const due = intervalS !== null && dueS > 0
    ? `Keyframes are ${Math.round(intervalS)} s apart: the next one is due in ${Math.ceil(dueS)} s.`
    : `The last keyframe was ${Math.round(sinceS)} s ago.`;
  return { detail: `A picture begins with a keyframe. ${due}`, operator: KEYFRAME_ADVICE };
}
