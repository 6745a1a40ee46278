// Words that several pages share: one state, one codec, one action of an operator has one word everywhere.
// Of a stream without media, "waiting" says that nothing is wrong (nobody publishes it yet, or its camera
// rests until somebody watches), and "unreachable" that its source fails.

/** The word for each status of the API. */
const WORDS = { live: 'Live', hangs: 'Hangs', waiting: 'Waiting', unreachable: 'Unreachable' };

/** The word for a stream's status. */
export const statusWord = (status) => WORDS[status] ?? status;

/** What is known about a stream beside its status; '' for nothing. */
export function statusDetail({ state, status, silent_s: silent, detail: reason }) {
  if (status === 'hangs') return `nothing for ${Math.round(silent)} s`;
  if (state === 'idle') return 'connects when somebody watches';
  return forPeople(reason ?? '');
}

/** Whether a stream needs somebody: its source fails, or is silent. */
export const isBroken = ({ status }) => status === 'unreachable' || status === 'hangs';

/** `1 stream`, `2 streams`. */
export const plural = (number, one) => `${number} ${one}${number === 1 ? '' : 's'}`;

/** A text of the API without what is meant for programs: requests that tell more, and backticks. */
export const forPeople = (text) => text.replace(/[;:.] (?:GET|HEAD|POST|PUT|PATCH|DELETE) \/[^;.]*/g, '').replaceAll('`', '');

/** Names of codecs as people write them; SDP spells some of them in its own way. */
const CODECS = {
  opus: 'Opus',
  'mpeg4-generic': 'AAC',
  'MP4A-LATM': 'AAC',
  PCMU: 'G.711 µ-law',
  PCMA: 'G.711 A-law',
  MPA: 'MPEG audio',
  vorbis: 'Vorbis',
  'MP4V-ES': 'MPEG-4',
  MPV: 'MPEG-1/2',
  MP2T: 'MPEG transport stream',
};

/** The name of a codec. */
export const codecName = (codec) => CODECS[codec] ?? codec;

/** Codecs of video that browsers play; H.265 only where the machine decodes it. */
const PLAYED = ['H264', 'H265', 'VP8', 'VP9', 'AV1'];

/** Why browsers refuse the video among `tracks`, of the dashboard or of the list of streams; '' if they do
 * not. Only the list knows whether the server would encode it again. */
export function refusal(tracks) {
  const video = (tracks ?? []).find(({ kind }) => kind === 'video');
  if (!video) return '';
  const { codec, browser } = video;
  if (codec === 'JPEG') return 'browsers show it as pictures';
  const hindrance = browser ? browser.hindrance : (video.b_frames && 'b_frames') || (!PLAYED.includes(codec) && 'codec');
  if (!hindrance) return codec === 'H265' ? 'not every browser plays H265; viewers can choose Play it anyway' : '';
  const why = {
    b_frames: 'browsers refuse B-frames',
    codec: `browsers do not play ${codecName(codec)}`,
    no_idr_frames: 'browsers do not begin at its keyframes',
  }[hindrance];
  return (browser ? browser.transcode : hindrance === 'b_frames') ? `${why}; viewers can choose Play it anyway` : why;
}

/** What an operator did, by the operation of the API: a word for what was made, one for what was there. */
const ACTIONS = {
  putSource: ['added camera', 'changed camera'],
  deleteSource: ['deleted camera'],
  restartSource: ['restarted the source of'],
  trySource: ['tried a camera'],
  putUser: ['added user', 'changed user'],
  deleteUser: ['deleted user'],
  putToken: ['made token', 'changed token'],
  deleteToken: ['revoked token'],
  disconnectViewer: ['disconnected'],
  excludeViewer: ['kept away'],
  addExclusion: ['kept somebody away'],
  liftExclusion: ['let back in: number'],
  endPublisher: ['disconnected the publisher of'],
  excludePublisher: ['kept away the publisher of'],
  requestKeyframe: ['asked for a keyframe of'],
  putLoadTest: ['kept a load test'],
  deleteLoadTest: ['removed the load test'],
  reload: ['read the configuration again'],
  drain: ['drained this server'],
  resume: ['let this server serve again'],
  exportRecording: ['exported a recording of'],
  deleteCopies: ['deleted copies of recordings'],
  signIn: ['signed in'],
  signOut: ['signed out'],
};

/** Where the name stands in a path, behind the kind of thing that it names. */
const PLACES = { sources: 1, streams: 1, users: 1, tokens: 1, exclusions: 1, viewers: 2 };

/** What an operator did, as a sentence without its subject. `target`: method and path of the request. */
export function actionWords({ action, target, status }) {
  const [made, changed] = ACTIONS[action] ?? [action];
  const [path, query] = (target.split(' ')[1] ?? '').split('?');
  const [, , , kind, ...rest] = path.split('/');
  const name = rest[PLACES[kind] - 1];
  const stream = new URLSearchParams(query).get('stream');
  return [status === 200 ? changed ?? made : made, name && decoded(name), stream && `from ${stream}`].filter(Boolean).join(' ');
}

function decoded(part) {
  try { return decodeURIComponent(part); } catch { return part; }
}
