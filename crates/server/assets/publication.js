// One WHIP session (RFC 9725): offer out, answer in, media flows to the server.
//
//   open() ─ OPTIONS ─► ICE servers ─ POST offer ─► 201 answer ─► ICE ─► DTLS ─► media
//                                        └ Location: PATCH candidates, PATCH restart, DELETE
//
// The key goes into `Authorization`, never into a URL. The caller decides whether and when to open
// another session.

import { Problem, request } from './api.js';
import { giveUp } from './failure.js';
import { iceServersOf } from './ice_servers.js';
import { followLayerOrders } from './layer_orders.js';
import { reach } from './reach.js';

/** How long ICE and DTLS may take before the session counts as failed. */
const CONNECT_DEADLINE_MS = 8000;

/** How long a path may be interrupted before ICE is restarted, and then before the session is given up. */
const INTERRUPTED_MS = 1500;
const RESTARTED_MS = 6000;

/** Candidates are collected for this long, so that a PATCH carries several. */
const TRICKLE_MS = 60;

/** RIDs of layers, the largest first. Each has half the height and a quarter of the bits of the one before. */
const RIDS = ['h', 'm', 'l'];

const FRAGMENT = { 'content-type': 'application/trickle-ice-sdpfrag' };
const CAPTURE_TIME = 'http://www.webrtc.org/experiments/rtp-hdrext/abs-capture-time';

/** A session that has ended, or that failed after the answer. */
export class Ended extends Error {
  /** `byServer`: the server ended the session and told this reason. */
  constructor(message, byServer = false) {
    super(message);
    Object.assign(this, { name: 'Ended', byServer });
  }
}

export class Publication {
  #over;
  #key;
  #etag = '*';
  #waiting = [];
  #timers = {};
  #asks = false;
  #restarts = false;

  /** Resolves with an `Ended` once the session is over; never rejects. */
  ended = new Promise((resolve) => { this.#over = resolve; });

  connected = false;
  resource = null;
  restarts = 0;

  /**
   * Opens a session that sends `stream` to `endpoint`; throws `Problem` when the server refuses.
   *
   * `key`: value of `Authorization`, or null. `takesOver`: replace the present publisher.
   * `codec`: name of the preferred video codec, or null; `accepted`: names that the server takes.
   * `encoding`: bounds of the video, `{maxBitrate, maxFramerate}`; `layers`: number of its layers.
   * `onConnected()`: media flows.
   */
  static async open(endpoint, options) {
    const headers = options.key ? { authorization: options.key } : {};
    const iceServers = await iceServersOf(endpoint, { method: 'OPTIONS', headers });
    const publication = new Publication(iceServers, options);
    try {
      await publication.#negotiate(endpoint, options);
    } catch (error) {
      publication.close();
      throw error;
    }
    return publication;
  }

  constructor(iceServers, { stream, key, codec, accepted, encoding, layers, onConnected }) {
    this.#key = key;
    const pc = new RTCPeerConnection({ iceServers, bundlePolicy: 'max-bundle' });
    this.pc = pc;
    pc.addEventListener('icecandidate', ({ candidate }) => this.#trickle(candidate));
    pc.addEventListener('connectionstatechange', () => this.#onState(onConnected));
    for (const track of stream.getTracks()) {
      const init = { direction: 'sendonly', streams: [stream] };
      if (track.kind === 'video') init.sendEncodings = encodings(encoding, layers);
      const transceiver = pc.addTransceiver(track, init);
      if (track.kind === 'video') {
        this.video = transceiver.sender;
        prefer(transceiver, codec, accepted);
        tellCaptureTimes(transceiver);
      } else {
        this.audio = transceiver.sender;
      }
    }
  }

  /** Changes the bounds of the video while it is sent. */
  async bound(bounds) {
    const parameters = this.video?.getParameters();
    if (!parameters?.encodings?.length) return;
    for (const encoding of parameters.encodings) Object.assign(encoding, boundsOf(bounds, encoding.rid));
    await this.video.setParameters(parameters);
  }

  /** The name of the server of a cluster that has the session; null outside of one. */
  get server() {
    const [name, ...rest] = (this.resource?.split('/').at(-1) ?? '').split('.');
    return rest.length > 0 ? name : null;
  }

  /** Sends another track of the same kind from now on. */
  async replace(track) {
    await (track.kind === 'video' ? this.video : this.audio)?.replaceTrack(track);
  }

  /** Sends a request below the session's own address. */
  request(below, options) {
    return request(`${this.resource}${below}`, { ...options, headers: { ...this.authorization, ...options.headers } });
  }

  lose(message, byServer = false) {
    this.#over(new Ended(message, byServer));
  }

  /** Ends a session that does not connect, with the server's reason if it knows one. */
  async #fail(message) {
    if (this.connected || !this.resource) return this.lose(message);
    const reason = await giveUp(this.pc, null, (options) => this.request('/failure', options));
    // The server has ended a session whose reason it told.
    if (reason !== null) this.resource = null;
    this.lose(reason ?? message);
  }

  /** Ends the session here and at the server. The DELETE outlives a page that is being left. */
  close() {
    for (const timer of Object.values(this.#timers)) clearTimeout(timer);
    this.pc.close();
    this.lose('This page closed the connection');
    if (this.resource) {
      const options = { method: 'DELETE', headers: this.authorization, keepalive: true };
      const left = reach(this.resource, options).catch(() => { /* a dead server needs no goodbye */ });
      this.resource = null;
      return left;
    }
    return Promise.resolve();
  }

  /** Restarts ICE, because the path to the server changed: the session and its media stay. */
  async restart() {
    if (this.#restarts || !this.resource || !this.connected) return;
    this.#restarts = true;
    try {
      const offer = await this.pc.createOffer({ iceRestart: true });
      await this.pc.setLocalDescription(offer);
      const before = this.pc.currentRemoteDescription.sdp;
      const options = { method: 'PATCH', headers: { ...FRAGMENT, 'if-match': this.#etag }, body: fragment(offer.sdp, []) };
      const response = await this.request('', options);
      this.#etag = response.headers.get('etag') ?? '*';
      const sdp = withCredentials(before, await response.text());
      await this.pc.setRemoteDescription({ type: 'answer', sdp });
      this.restarts += 1;
    } catch (error) {
      // An unreachable server may be back before the session is given up.
      if (error.status === 404 || error.status === 410) this.lose('The server no longer knows this session');
      if (this.pc.signalingState === 'have-local-offer') await this.pc.setLocalDescription({ type: 'rollback' }).catch(() => {});
    } finally {
      this.#restarts = false;
    }
  }

  /** Headers that show the key. */
  get authorization() {
    return this.#key ? { authorization: this.#key } : {};
  }

  #onState(onConnected) {
    const { connectionState: state } = this.pc;
    if (state === 'connected') {
      clearTimeout(this.#timers.interrupted);
      clearTimeout(this.#timers.restarted);
      if (!this.connected) {
        this.connected = true;
        followLayerOrders(this);
        onConnected();
      }
    }
    if (state === 'disconnected' || (state === 'failed' && this.connected && this.restarts < 3)) {
      const afterMs = state === 'failed' ? 0 : INTERRUPTED_MS;
      clearTimeout(this.#timers.interrupted);
      clearTimeout(this.#timers.restarted);
      this.#timers.interrupted = setTimeout(() => this.restart(), afterMs);
      this.#timers.restarted = setTimeout(() => this.lose('The connection failed'), afterMs + RESTARTED_MS);
    } else if (state === 'failed') {
      this.#fail('The connection failed');
    }
    if (state === 'closed') this.#closedByServer();
  }

  async #closedByServer() {
    if (this.#asks) return;
    this.#asks = true;
    const { resource } = this;
    let message = 'The server closed the connection';
    let told = false;
    if (resource) {
      try {
        await this.request('', { method: 'DELETE', timeoutMs: 2000 });
      } catch (problem) {
        told = problem.status === 410;
        if (told) message = [problem.title, problem.detail].filter(Boolean).join(': ');
      }
      this.resource = null;
    }
    this.lose(message, told);
  }

  async #negotiate(endpoint, { takesOver, encoding }) {
    await this.pc.setLocalDescription(await this.pc.createOffer());
    const response = await request(takesOver ? `${endpoint}?override` : endpoint, {
      method: 'POST',
      headers: { 'content-type': 'application/sdp', accept: 'application/sdp', ...this.authorization },
      body: this.pc.localDescription.sdp,
      timeoutMs: 10_000,
    });
    const location = response.headers.get('location');
    if (location) this.resource = new URL(location, response.url).href;
    this.#etag = response.headers.get('etag') ?? '*';
    const answer = await response.text();
    try {
      const sdp = withStartBitrate(answer, encoding.maxBitrate);
      await this.pc.setRemoteDescription({ type: 'answer', sdp });
    } catch (error) {
      throw new Problem(response.status, 'The browser refuses the answer', error.message);
    }
    const { transport } = this.pc.getSenders()[0] ?? {};
    transport?.addEventListener('statechange', () => {
      if (transport.state === 'closed') this.#closedByServer();
      if (transport.state === 'failed') this.#fail('The DTLS handshake failed');
    });
    this.#flush();
    this.#timers.connect = setTimeout(() => {
      if (!this.connected) this.#fail(unreachable(answer));
    }, CONNECT_DEADLINE_MS);
  }

  /** Sends candidates that came since the last time; null is the end of candidates. */
  #trickle(candidate) {
    this.#waiting.push(candidate?.candidate ? candidate : null);
    if (this.resource && !this.#timers.trickle) this.#flush();
  }

  #flush() {
    this.#timers.trickle = setTimeout(() => {
      this.#timers.trickle = null;
      const candidates = this.#waiting.splice(0);
      const local = this.pc.localDescription;
      if (!candidates.length || !local || !this.resource) return;
      const body = fragment(local.sdp, candidates);
      // The server learns the browser's address from its checks: without the PATCH, it connects as well.
      this.request('', { method: 'PATCH', headers: FRAGMENT, body }).catch(() => {});
    }, TRICKLE_MS);
  }
}

/** The encodings of a video in so many layers, the smallest first, as Chromium gives out its bits. */
function encodings(bounds, layers) {
  if (layers < 2) return [{ ...bounds }];
  const all = RIDS.slice(0, layers).map((rid, step) => ({ rid, scaleResolutionDownBy: 2 ** step, ...boundsOf(bounds, rid) }));
  return all.reverse();
}

/** The bounds of one layer; of the whole video if it has a single one. */
function boundsOf({ maxBitrate, maxFramerate }, rid) {
  const step = Math.max(0, RIDS.indexOf(rid));
  return { maxBitrate: Math.round(maxBitrate / 4 ** step), maxFramerate };
}

/** Puts the wanted codec first, and leaves out those that the server does not take. */
function prefer(transceiver, wanted, accepted) {
  const all = codecs();
  if (!transceiver.setCodecPreferences || !all.length) return;
  const is = (names) => ({ mimeType }) => names.includes(mimeType.replace(/^video\//i, '').toUpperCase());
  const isHelper = is(['RTX', 'RED', 'ULPFEC', 'FLEXFEC-03']);
  const taken = all.filter((it) => isHelper(it) || is(accepted)(it));
  // Browsers play H.264 without B-frames in every profile; Constrained Baseline is encoded fastest.
  const rank = (it) => (wanted && is([wanted])(it) ? 0 : 1) + (/profile-level-id=42e0/i.test(it.sdpFmtpLine ?? '') ? 0 : 0.1);
  const sorted = [...taken.filter((it) => !isHelper(it)).sort((a, b) => rank(a) - rank(b)), ...taken.filter(isHelper)];
  try { transceiver.setCodecPreferences(sorted); } catch { /* the browser's own order works, too */ }
}

const codecs = () => RTCRtpSender.getCapabilities?.('video')?.codecs ?? [];

/** Names of the video codecs that this browser encodes, among those that the server takes. */
export function sendable(accepted) {
  const own = new Set(codecs().map(({ mimeType }) => mimeType.replace(/^video\//i, '').toUpperCase()));
  return accepted.filter((name) => own.has(name));
}

/** Asks the browser to send the capture time of frames, where it can. */
function tellCaptureTimes(transceiver) {
  try {
    const extensions = transceiver.getHeaderExtensionsToNegotiate();
    const extension = extensions.find(({ uri }) => uri === CAPTURE_TIME);
    if (!extension) return;
    extension.direction = 'sendrecv';
    transceiver.setHeaderExtensionsToNegotiate(extensions);
  } catch { /* sender reports tell it as well */ }
}

/** The SDP fragment of a PATCH (RFC 8840 §9). */
function fragment(sdp, candidates) {
  const line = (name) => new RegExp(`^a=${name}:.*$`, 'm').exec(sdp)?.[0].trim();
  const media = /^m=.*$/m.exec(sdp)?.[0].trim();
  const lines = [line('ice-ufrag'), line('ice-pwd'), media, line('mid'),
    ...candidates.map((it) => (it ? `a=${it.candidate}` : 'a=end-of-candidates'))];
  return `${lines.filter(Boolean).join('\r\n')}\r\n`;
}

/** The answer with the ICE credentials of the server's new generation. */
function withCredentials(answer, told) {
  const of = (name) => new RegExp(`^a=${name}:.*$`, 'm').exec(told)?.[0].trim();
  return ['ice-ufrag', 'ice-pwd'].reduce((sdp, name) => {
    const line = of(name);
    return line ? sdp.replace(new RegExp(`^a=${name}:.*$`, 'gm'), line) : sdp;
  }, answer);
}

/** Chromium begins with 300 kbit/s, which takes seconds to grow, unless the answer says otherwise. */
function withStartBitrate(sdp, bitrate) {
  const kbits = Math.round(Math.min(bitrate, 2_000_000) / 1000);
  const parameter = `x-google-start-bitrate=${kbits}`;
  return sdp.replace(/^m=video \d+ \S+ (\d+)[^]*?(?=^m=|(?![^]))/gm, (section, type) => {
    const existing = new RegExp(`^(a=fmtp:${type} .*?)(\\r?)$`, 'm');
    if (existing.test(section)) return section.replace(existing, `$1;${parameter}$2`);
    const map = new RegExp(`^(a=rtpmap:${type} .*?)\\r?$`, 'm');
    return section.replace(map, `$1\r\na=fmtp:${type} ${parameter}`);
  });
}

/** The likely cause when no connectivity check was answered, with the address tried. */
function unreachable(answer) {
  const tried = [...answer.matchAll(/^a=candidate:\S+ \d+ (\w+) \d+ (\S+) (\d+)/gm)]
    .map(([, protocol, address, port]) => `${protocol.toLowerCase()} ${address}:${port}`);
  const where = tried.length ? [...new Set(tried)].slice(0, 3).join(', ') : 'the server';
  return `No answer from ${where} within ${CONNECT_DEADLINE_MS / 1000} s: a firewall may block it`;
}
