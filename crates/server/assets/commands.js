// Lines to copy for encoders outside the browser, with this server's address in them.

import { inPath } from './names.js';

/** Stands for the key wherever a line is shown; a copied line has the key itself. */
const KEY = 'KEY';

/** Single quotes where a shell would read more than a word. */
const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text}'`);

/**
 * The lines, as `[{program, note, fields}|{program, note, line}]`.
 *
 * `origin`: scheme, host and port as the page was reached; `base`: path of the server below it;
 * `name`: the stream; `rtspPort`, `rtspsPort`: ports, or null; `key`: whether a key is needed.
 */
export function commands({ origin, base, name, rtspPort, rtspsPort, key }) {
  const host = new URL(origin).hostname;
  const whip = `${origin}${base}/${inPath(name)}/whip`;
  const token = key ? `?token=${KEY}` : '';
  const rtsp = rtspPort ? `rtsp://${host}:${rtspPort}/${inPath(name)}${token}`
    : rtspsPort ? `rtsps://${host}:${rtspsPort}/${inPath(name)}${token}` : null;
  const x264 = '-c:v libx264 -preset veryfast -tune zerolatency -bf 0 -g 60 -pix_fmt yuv420p';
  const test = '-re -f lavfi -i testsrc2=size=1280x720:rate=30 -f lavfi -i sine=frequency=440:sample_rate=48000';
  const opus = '-c:a libopus -ar 48000 -ac 2';
  const gst = 'gst-launch-1.0 videotestsrc is-live=true ! video/x-raw,width=1280,height=720,framerate=30/1'
    + ' ! x264enc bframes=0 key-int-max=60 tune=zerolatency speed-preset=veryfast ! h264parse';
  const lines = [
    {
      program: 'OBS',
      note: 'Settings → Stream, version 30 and later. Output: Keyframe Interval 2 s, B-frames 0.',
      fields: [['Service', 'WHIP'], ['Server', `${origin}${base}/whip`], ['Bearer token', key ? `${name}:${KEY}` : name]],
    },
    {
      program: 'FFmpeg',
      note: 'WHIP, version 8.0 and later',
      line: `ffmpeg ${test} ${x264} ${opus} -f whip${key ? ` -authorization ${KEY}` : ''} ${quoted(whip)}`,
    },
    {
      program: 'GStreamer',
      note: 'WHIP, version 1.28 and later, with gst-plugins-rs',
      line: `gst-launch-1.0 videotestsrc is-live=true ! video/x-raw,width=1280,height=720,framerate=30/1 ! whipclientsink signaller::whip-endpoint=${quoted(whip)}${key ? ` signaller::auth-token=${KEY}` : ''}`,
    },
  ];
  if (rtsp) {
    lines.splice(2, 0, {
      program: 'FFmpeg',
      note: 'RTSP, any version',
      line: `ffmpeg ${test} ${x264} ${opus} -f rtsp -rtsp_transport tcp ${quoted(rtsp)}`,
    });
    lines.push({
      program: 'GStreamer',
      note: 'RTSP',
      line: `${gst} ! rtspclientsink protocols=tcp location=${quoted(rtsp)}`,
    });
  }
  return lines;
}

/** A text of `commands` with the key in it. */
export const withKey = (text, key) => (key ? text.replaceAll(new RegExp(`\\b${KEY}\\b`, 'g'), () => key) : text);
