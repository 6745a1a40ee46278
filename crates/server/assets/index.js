// The index: the list of streams, refreshed every two seconds.

import { base, getJson, pageUrl, withToken } from './api.js';
import { html, setText } from './dom.js';
import { bitrate, duration, track } from './format.js';
import { hasKey, openByKey } from './key.js';
import { Thumbnail } from './thumbnail.js';
import { refusal, statusDetail, statusWord } from './words.js';

const REFRESH_MS = 2000;

const $ = (id) => document.getElementById(id);
const rows = new Map();
let listed = '[]';
/** Ports of other protocols, as the server tells them. */
let ports = null;

function row(name) {
  const cell = (label) => html('td', { class: 'number', 'data-label': label });
  const parts = {
    thumbnail: new Thumbnail(pageUrl(name, '/snapshot.jpg')),
    publish: html('a', { class: 'publish', href: withToken(pageUrl(name, '/publish')), hidden: '' }, 'Publish'),
    pill: html('span', { class: 'pill' }),
    detail: html('span', { class: 'detail' }),
    tracks: html('td', { class: 'tracks' }),
    viewers: cell('viewers'),
    bitrate: cell('bitrate'),
    uptime: cell('up'),
  };
  const link = html('a', { href: withToken(pageUrl(name)) }, name);
  parts.row = html('tr', {},
    html('td', { class: 'picture' }, parts.thumbnail.image),
    html('th', { scope: 'row' }, link),
    html('td', { class: 'state' }, parts.pill, parts.detail, parts.publish),
    parts.tracks, parts.viewers, parts.bitrate, parts.uptime);
  return parts;
}

/** Updates rows in place, so that focus and selection outlive the refresh. */
function show(streams) {
  const names = streams.map(({ name }) => name).sort((a, b) => a.localeCompare(b, 'en', { numeric: true }));
  const byName = new Map(streams.map((stream) => [stream.name, stream]));
  for (const [name, parts] of rows) {
    if (!byName.has(name)) {
      parts.row.remove();
      parts.thumbnail.remove();
      rows.delete(name);
    }
  }
  names.forEach((name, index) => {
    if (!rows.has(name)) rows.set(name, row(name));
    const parts = rows.get(name);
    fill(parts, byName.get(name));
    const place = $('rows').children[index];
    if (place !== parts.row) $('rows').insertBefore(parts.row, place ?? null);
  });
  $('streams').hidden = names.length === 0;
  $('empty').hidden = names.length > 0;
  const live = streams.filter(({ status }) => status === 'live').length;
  setText($('status'), names.length ? `${live} of ${names.length} live` : '');
}

function fill(parts, stream) {
  parts.thumbnail.update(stream);
  parts.pill.dataset.state = stream.status;
  setText(parts.pill, statusWord(stream.status));
  setText(parts.detail, statusDetail(stream));
  parts.publish.hidden = stream.state !== 'down' || !stream.takes_publishers || !['whip', 'rtsp', 'moq'].includes(stream.source?.protocol);
  const tracks = (stream.tracks ?? []).map(track);
  const refused = refusal(stream.tracks);
  if (parts.tracks.textContent !== [...tracks, refused].join('')) {
    parts.tracks.replaceChildren(...tracks.map((text) => html('span', {}, text)), ...(refused ? [html('span', { class: 'warned' }, refused)] : []));
  }
  setText(parts.viewers, String(stream.viewers ?? 0));
  setText(parts.bitrate, bitrate(stream.bitrate_bps));
  setText(parts.uptime, duration(stream.uptime_s));
}

/** The URL of a file for players; '' if the server does not tell its port. */
function rtspUrl(name) {
  return ports?.rtsp ? `: rtsp://${location.hostname}:${ports.rtsp}/${name.split('/').map(encodeURIComponent).join('/')}` : '';
}

/** Shows the ways to a first stream that this server has. */
async function showWays() {
  ({ ports } = await getJson(`${base}/api/v1/server`).catch(() => ({ ports: null })));
  $('obs').textContent = `${location.origin}${base}/NAME/whip`;
  $('try').href = withToken(`${base}/test/publish`);
  // Below a base path there is a proxy, which does not have the operators' port.
  if (!ports?.admin || base !== '') return;
  $('add').href = `http://${location.hostname}:${ports.admin}/#add-name`;
  $('add').hidden = false;
  $('add-hint').hidden = true;
}

/** A file that is played, or one with the reason why not. */
function fileItem({ name, page, refused }) {
  if (refused) return html('li', { class: 'refused' }, html('span', {}, name), html('small', {}, refused));
  return html('li', {}, page
    ? html('a', { href: withToken(pageUrl(name)) }, name)
    : html('span', {}, name, html('small', {}, ` by RTSP only, as its folder is called like a path of the server${rtspUrl(name)}`)));
}

/** Lists the files of the media folder that are no stream at present. */
function showFiles({ files, more }) {
  const idle = files.filter(({ name }) => !rows.has(name));
  const text = JSON.stringify(idle);
  if (text === listed) return;
  listed = text;
  $('file-list').replaceChildren(...idle.map(fileItem));
  $('files').hidden = idle.length === 0;
  $('more-files').hidden = !more;
}

async function refresh() {
  try {
    const { streams } = await getJson(`${base}/api/v1/streams`);
    $('trouble').hidden = true;
    $('key-form').hidden = true;
    show(streams ?? []);
    const files = await getJson(`${base}/api/v1/files`);
    showFiles(files);
    if (files.files.length > 0) $('empty').hidden = true;
  } catch (error) {
    const needsKey = error.status === 401 || error.status === 403;
    setText($('trouble'), needsKey
      ? (hasKey ? 'This key is wrong. Enter another one.' : 'This server asks for a key.')
      : `${error.message}. Trying again every ${REFRESH_MS / 1000} s.`);
    $('trouble').hidden = false;
    $('key-form').hidden = !needsKey;
    // A wrong key that is shown again and again would lock this address out.
    isRefused = needsKey;
  }
}

let isRefused = false;
openByKey($('key-form'));
showWays();
$('publish-form').hidden = false;
$('publish-form').addEventListener('submit', (event) => {
  event.preventDefault();
  location.href = withToken(pageUrl($('publish-name').value, '/publish'));
});
$('calls').href = withToken(`${base}/call`);
$('wall').href = withToken(`${base}/-/wall`);

for (;;) {
  // A hidden page does not ask.
  if (!document.hidden && !isRefused) await refresh();
  await new Promise((resolve) => { setTimeout(resolve, REFRESH_MS); });
}
