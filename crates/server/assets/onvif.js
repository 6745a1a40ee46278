// "Find cameras" in the form that adds a camera: the server searches its networks, and one click fills
// the form with the addresses of a camera's main stream and its sub stream.

import { base, change } from './api.js';
import { html, setText } from './dom.js';

const SEARCH_MS = 15_000;
const ASK_MS = 30_000;
const JSON_BODY = { 'content-type': 'application/json' };

/** Adds the button and the list to the form. */
export function offerCameras(form) {
  const button = html('button', { type: 'button', class: 'small' }, 'Find cameras');
  const status = html('span', { role: 'status', class: 'quiet' });
  const list = html('ul', { class: 'cameras', 'aria-label': 'Cameras of the network' });
  form.prepend(html('p', { class: 'buttons' }, button, ' ', status), list);
  button.addEventListener('click', () => find({ form, button, status, list }));
}

async function post(path, body, timeoutMs) {
  const answer = await change(`${base}/api/v1/${path}`, { method: 'POST', headers: JSON_BODY, body: JSON.stringify(body), timeoutMs });
  return answer.json();
}

/** Runs `work` while the button is off, and says what failed. */
async function during(button, status, text, work) {
  button.disabled = true;
  setText(status, text);
  try {
    setText(status, await work());
  } catch (error) {
    setText(status, error.detail ?? error.message);
  } finally {
    button.disabled = false;
  }
}

function find({ form, button, status, list }) {
  return during(button, status, 'Searching for 3 seconds…', async () => {
    const { cameras } = await post('camera-searches', {}, SEARCH_MS);
    list.replaceChildren(...cameras.map((camera) => item(form, camera)));
    return cameras.length > 0 ? '' : 'No camera answered. See whether ONVIF is turned on in the camera.';
  });
}

function item(form, camera) {
  const words = [camera.name, camera.model, camera.location].filter(Boolean).join(', ');
  const button = html('button', { type: 'button', class: 'link' }, [camera.address, words].filter(Boolean).join(' '));
  const status = html('span', { role: 'status', class: 'quiet' });
  const streams = html('span');
  button.addEventListener('click', () => during(button, status, 'Asking the camera…', async () => {
    const { user, password } = form.elements;
    const question = { service: camera.service, user: user.value, password: password.value };
    const { profiles } = await post('camera-profiles', question, ASK_MS);
    const main = profiles.find(({ stream }) => stream === 'main') ?? profiles[0];
    if (!main) return 'The camera names no stream.';
    const pixels = ({ width, height }) => (width ?? 0) * (height ?? 0);
    const sub = profiles.find((it) => it.stream === 'sub' && pixels(it) < pixels(main));
    fill(form, camera, sub ? [main, sub] : [main]);
    const others = profiles.filter((it) => sub || it !== main).map((it) => stream(form, camera, it));
    streams.replaceChildren(...others);
    return sub ? `Filled in: ${wordsOf(main)}; for slow networks ${wordsOf(sub)}. Or one alone:` : `Filled in: ${wordsOf(main)}.`;
  }));
  return html('li', {}, button, ' ', status, ' ', streams);
}

function stream(form, camera, profile) {
  const button = html('button', { type: 'button', class: 'link' }, wordsOf(profile));
  button.addEventListener('click', () => fill(form, camera, [profile]));
  return button;
}

function wordsOf({ stream: kind, name, codec, width, height, frame_rate: rate, ptz, back_channel: talk }) {
  const size = width && height ? `${width}×${height}` : null;
  const words = [kind ?? name, codec ?? 'no video', size, rate && `${rate} frames/s`, ptz && 'PTZ', talk && 'talk'];
  return words.filter(Boolean).join(', ');
}

/** Fills in the addresses, with commas between them, and a name if there is none. */
function fill(form, camera, profiles) {
  const { name, address } = form.elements;
  const told = (camera.name ?? camera.model ?? 'camera').toLowerCase();
  const slug = told.replace(/[^a-z0-9]+/g, '-').replace(/^-+|-+$/g, '').slice(0, 40);
  if (!name.value) name.value = slug || 'camera';
  address.value = profiles.map(({ url }) => url).join(',');
  for (const field of [name, address]) field.dispatchEvent(new Event('input', { bubbles: true }));
}
