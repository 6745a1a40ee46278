// The wall: many streams at once, as pictures that are renewed; one click plays a stream.
//
//   streams of the API ─► tiles that fit `?streams=cam*` ─► snapshots of those that are seen
//                              └─ click ─► the player, embedded
//
// A picture costs the server one decoded keyframe, which all who look share, and a phone some kilobytes.
// The more tiles are seen, the slower each is renewed, so that a wall of any size asks for about the
// same number of pictures.

import { base, getJson, pageUrl, withToken } from './api.js';
import { html, setText } from './dom.js';
import { fits } from './pattern_list.js';
import { Thumbnail } from './thumbnail.js';
import { statusDetail, statusWord } from './words.js';

const REFRESH_MS = 1000;

/** Shortest age at which a picture is renewed, and the time that each seen tile adds. */
const RENEW_LEAST_MS = 1000;
const RENEW_EACH_MS = 200;

/** Narrowest tile in CSS pixels. */
const TILE_LEAST_PX = 170;

const $ = (id) => document.getElementById(id);
const tiles = new Map();
const seen = new Set();
const chosen = new URLSearchParams(location.search).get('streams') ?? '';
const isChosen = fits(chosen);
let shown = null;

const observer = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (isIntersecting) seen.add(target);
    else seen.delete(target);
  }
});

function tile(name) {
  const parts = {
    thumbnail: new Thumbnail(pageUrl(name, '/snapshot.jpg'), { width: 640, height: 360 }),
    pill: html('span', { class: 'pill' }),
    detail: html('span', { class: 'detail' }),
  };
  parts.button = html('button', { class: 'tile', type: 'button' },
    parts.thumbnail.image,
    html('span', { class: 'caption' }, html('span', { class: 'name' }, name), parts.pill, parts.detail));
  parts.button.addEventListener('click', () => enlarge(name));
  parts.item = html('li', {}, parts.button);
  observer.observe(parts.button);
  return parts;
}

function show(streams) {
  const byName = new Map(streams.filter(({ name }) => isChosen(name)).map((stream) => [stream.name, stream]));
  const names = [...byName.keys()].sort((a, b) => a.localeCompare(b, 'en', { numeric: true }));
  for (const [name, parts] of tiles) {
    if (byName.has(name)) continue;
    observer.unobserve(parts.button);
    seen.delete(parts.button);
    parts.item.remove();
    parts.thumbnail.remove();
    tiles.delete(name);
  }
  names.forEach((name, index) => {
    if (!tiles.has(name)) tiles.set(name, tile(name));
    const parts = tiles.get(name);
    fill(parts, byName.get(name));
    const place = $('tiles').children[index];
    if (place !== parts.item) $('tiles').insertBefore(parts.item, place ?? null);
  });
  arrange(names.length);
  const live = [...byName.values()].filter(({ status }) => status === 'live').length;
  setText($('status'), names.length ? `${live} of ${names.length} live` : '');
  $('none').hidden = names.length > 0;
  setText($('none'), chosen ? `No stream fits “${chosen}”.` : 'No streams yet.');
  if (shown) label(byName.get(shown));
}

function fill(parts, stream) {
  const state = stream.status;
  parts.button.dataset.state = state;
  parts.pill.dataset.state = state;
  setText(parts.pill, statusWord(state));
  setText(parts.detail, statusDetail(stream) || (parts.thumbnail.isWithout ? 'no picture of this codec' : ''));
  if (!seen.has(parts.button)) return;
  parts.thumbnail.renewMs = Math.max(RENEW_LEAST_MS, seen.size * RENEW_EACH_MS);
  parts.thumbnail.update(stream);
}

/** As many columns as make the tiles largest within the window. */
function arrange(count) {
  const { innerWidth: width, innerHeight: height } = window;
  const most = Math.max(1, Math.floor(width / TILE_LEAST_PX));
  let best = 1;
  for (let columns = 1; columns <= Math.min(most, Math.max(1, count)); columns += 1) {
    best = columns;
    const rows = Math.ceil(count / columns);
    if (rows * (width / columns) * (9 / 16) <= height - 60) break;
  }
  $('tiles').style.setProperty('--columns', best);
}

function enlarge(name) {
  shown = name;
  setText($('large-name'), name);
  $('large-page').href = withToken(pageUrl(name));
  const address = new URL(withToken(pageUrl(name)), location.href);
  address.searchParams.set('embed', '');
  $('frame').src = address;
  if (!$('large').open) $('large').showModal();
}

function label(stream) {
  $('large-state').dataset.state = stream?.status ?? 'waiting';
  setText($('large-state'), stream ? statusWord(stream.status) : 'Gone');
}

/** Shows the tile `steps` behind the present one. */
function move(steps) {
  const names = [...$('tiles').querySelectorAll('.name')].map((node) => node.textContent);
  const at = names.indexOf(shown);
  if (names.length > 0) enlarge(names[(at + steps + names.length) % names.length]);
}

function wire() {
  $('home').href = withToken(`${base}/`);
  $('streams').value = chosen;
  $('choice').addEventListener('submit', (event) => {
    event.preventDefault();
    const address = new URL(location.href);
    address.searchParams.set('streams', $('streams').value.trim());
    location.href = address;
  });
  $('close').addEventListener('click', () => $('large').close());
  $('previous').addEventListener('click', () => move(-1));
  $('next').addEventListener('click', () => move(1));
  $('large').addEventListener('click', (event) => { if (event.target === $('large')) $('large').close(); });
  $('large').addEventListener('close', () => {
    // Without its page the player leaves the server.
    $('frame').src = 'about:blank';
    tiles.get(shown)?.button.focus();
    shown = null;
  });
  $('large').addEventListener('keydown', ({ key }) => {
    if (key === 'ArrowLeft') move(-1);
    if (key === 'ArrowRight') move(1);
  });
  addEventListener('resize', () => arrange(tiles.size));
}

async function refresh() {
  try {
    const { streams } = await getJson(`${base}/api/v1/streams`);
    $('trouble').hidden = true;
    show(streams ?? []);
  } catch (error) {
    setText($('trouble'), `${error.message}. Trying again.`);
    $('trouble').hidden = false;
  }
}

wire();
for (;;) {
  // A hidden page does not ask.
  if (!document.hidden) await refresh();
  await new Promise((resolve) => { setTimeout(resolve, REFRESH_MS); });
}
