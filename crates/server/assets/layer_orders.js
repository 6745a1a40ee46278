// Pauses the layers of the published video that nobody watches, as the server orders.
//
//   GET …/layers ─ event `layers`: {"layers": [{"rid": "h", "active": false}, …]} ─► RTCRtpSender.setParameters
//
// Without the server's word every layer is sent.

import { sleep } from './retry.js';

/** Without a sign of life for this long, the connection is gone. */
const SILENCE_MS = 12_000;

/** Pauses between two connections. */
const AGAIN_MS = 1000;
const AGAIN_MAX_MS = 60_000;

/** Follows the orders for the video of `publication` until it ends. */
export async function followLayerOrders(publication) {
  const { video } = publication;
  if ((video?.getParameters().encodings.length ?? 0) < 2) return;
  let isOver = false;
  publication.ended.then(() => { isOver = true; });
  for (let pauseMs = AGAIN_MS; !isOver; pauseMs = Math.min(2 * pauseMs, AGAIN_MAX_MS)) {
    try {
      for await (const { layers } of orders(publication)) {
        pauseMs = AGAIN_MS;
        await obey(video, layers);
      }
    } catch { /* the session's own requests tell what is wrong */ }
    if (isOver) return;
    await obey(video, []).catch(() => {});
    await Promise.race([publication.ended, sleep(pauseMs)]);
  }
}

/** Sends the layers that are not among `layers` as inactive ones. */
async function obey(video, layers) {
  const parameters = video.getParameters();
  const isPaused = (rid) => layers.some((it) => it.rid === rid && !it.active);
  for (const encoding of parameters.encodings) encoding.active = !isPaused(encoding.rid);
  await video.setParameters(parameters);
}

/** The orders of one connection, until it ends. */
async function* orders(publication) {
  const connection = new AbortController();
  const end = () => connection.abort();
  publication.ended.then(end);
  let timer = setTimeout(end, SILENCE_MS);
  try {
    const headers = { accept: 'text/event-stream' };
    const response = await publication.request('/layers', { headers, signal: connection.signal });
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let text = ''; ;) {
      const { value, done } = await reader.read();
      if (done) return;
      clearTimeout(timer);
      timer = setTimeout(end, SILENCE_MS);
      const events = (text + value).split('\n\n');
      text = events.pop();
      for (const event of events) {
        const data = event.split('\n').find((line) => line.startsWith('data:'));
        if (data) yield JSON.parse(data.slice(5));
      }
    }
  } finally {
    clearTimeout(timer);
    end();
  }
}
