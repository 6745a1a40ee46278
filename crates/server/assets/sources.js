// What can be published: camera and microphone, the screen, the test picture. Every failure becomes a
// sentence that says what to do.

import { TestPicture } from './pattern.js';

/** A source that cannot be opened. */
export class Unavailable extends Error {
  constructor(title, detail) {
    super(detail);
    Object.assign(this, { name: 'Unavailable', title, detail });
  }
}

/** Whether the browser gives cameras, microphones and the screen to this page. */
export const hasDevices = () => Boolean(navigator.mediaDevices?.getUserMedia);

export const INSECURE = 'Browsers give camera, microphone and screen only to pages from https:// or '
  + 'localhost. Open this page by HTTPS, or on the machine itself by http://localhost. '
  + 'The test picture works here, too.';

const ADVICE = {
  NotAllowedError: ['Not allowed', 'The browser, or the system, does not let this page use it. Allow it by the symbol beside the address, then start again.'],
  NotFoundError: ['Not found', 'There is no such device. Connect one, or choose the test picture.'],
  NotReadableError: ['In use', 'Another program uses the device, or it does not answer. Close that program, or choose another device.'],
  OverconstrainedError: ['Not possible', 'The chosen device is gone, or does not do this. Choose another one.'],
  AbortError: ['Interrupted', 'The device did not start. Try again.'],
};

async function opened(what, open) {
  if (!hasDevices()) throw new Unavailable(`No ${what} here`, INSECURE);
  try {
    return await open();
  } catch (error) {
    const [title, detail] = ADVICE[error.name] ?? ['Failed', error.message];
    throw new Unavailable(`${what[0].toUpperCase()}${what.slice(1)}: ${title.toLowerCase()}`, detail);
  }
}

const microphoneOf = (id) => ({ ...(id && { deviceId: { exact: id } }), echoCancellation: false, noiseSuppression: false });

/**
 * Opens a source and returns it as `{stream, stop(), drawnMs()}`. `drawnMs`: how long before its capture a
 * frame may have been drawn, for a source that draws the server's time into its frames.
 *
 * `kind`: camera, screen or test. `camera`, `microphone`: ids of devices; null is the default,
 * and `microphone: ''` none. `width`, `height`, `frameRate`: what is wanted.
 */
export async function open(kind, { camera, microphone, width, height, frameRate, name, serverMs }) {
  if (kind === 'test') {
    const picture = new TestPicture({ width, height, frameRate, name, serverMs, tone: microphone !== '' });
    return { stream: picture.stream, stop: () => picture.stop(), drawnMs: () => picture.refreshMs };
  }
  const size = { width: { ideal: width }, height: { ideal: height }, frameRate: { ideal: frameRate } };
  const audio = microphone === '' ? false : microphoneOf(microphone);
  let stream;
  if (kind === 'screen') {
    stream = await opened('screen', () => navigator.mediaDevices.getDisplayMedia({ video: size, audio: true }));
    if (audio && !stream.getAudioTracks().length) {
      const voice = await opened('microphone', () => navigator.mediaDevices.getUserMedia({ audio })).catch(() => null);
      for (const track of voice?.getTracks() ?? []) stream.addTrack(track);
    }
  } else {
    const video = { ...size, ...(camera && { deviceId: { exact: camera } }) };
    stream = await opened(audio ? 'camera or microphone' : 'camera', () => navigator.mediaDevices.getUserMedia({ video, audio }));
  }
  const [picture] = stream.getVideoTracks();
  // Text must stay sharp; movement must stay smooth.
  if (picture && 'contentHint' in picture) picture.contentHint = kind === 'screen' ? 'detail' : 'motion';
  return {
    stream,
    stop: () => { for (const track of stream.getTracks()) track.stop(); },
  };
}

/** Cameras and microphones with their names, which browsers tell once one was allowed. */
export async function devices() {
  if (!hasDevices()) return { cameras: [], microphones: [] };
  const all = await navigator.mediaDevices.enumerateDevices();
  const of = (kind) => all
    .filter((it) => it.kind === kind && it.deviceId && it.deviceId !== 'default')
    .map(({ deviceId, label }) => ({ id: deviceId, label }));
  return { cameras: of('videoinput'), microphones: of('audioinput') };
}
