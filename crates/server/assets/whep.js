// One WHEP session (draft-ietf-wish-whep): offer out, answer in, media flows.
//
//   dial() ─ POST offer ─► 201 answer ─► ICE ─► DTLS ─► tracks
//                └ Location: the session's own address: report and DELETE go there
//
// The offer leaves before ICE gathering has begun. The server is ICE-lite and
// learns the browser's address from the connectivity check itself, so candidates
// and trickle are not needed, and each would cost a round trip before the first
// frame. ICE servers, if the operator names any, are asked for before. The caller decides whether and when to dial again.

import { Problem, authorization, request } from './api.js';
import { giveUp, reasonOf, whyEnded } from './failure.js';
import { configuredIceServers } from './ice_servers.js';
import { Lifeline, mediaMs, signsOf } from './lifeline.js';
import { reach } from './reach.js';
import { sleep } from './retry.js';

/** How long ICE and DTLS may take before the session counts as failed. */
const CONNECT_DEADLINE_MS = 8000;

/** How often signs of the server's life are looked for, and how long the server may take to answer then. */
const LOOK_MS = 250;
const LOOK_LEAST_MS = 20;
const ANSWER_MS = 1000;

/** Browsers use loopback only if there is another interface, even to reach 127.0.0.1. */
const NO_NETWORK = 'The browser found no network of its own: WebRTC needs one, even on this machine';

/** A session that has ended, or that failed after the answer. */
export class Lost extends Error {
  /**
   * `title`: the server's reason in a few words, if it told one; the message says more.
   * `atOnce`: the server ended the session so that the page dials again, without a pause.
   * `ended`: the name of the server's reason, if it ended the session.
   * `neverConnected`: ICE or DTLS did not finish; the message is the reason, as the server knows it.
   * `unexplained`: the address of the session, if the server could not be asked for the reason.
   */
  constructor(message, { title = null, atOnce = false, ended = null, neverConnected = false, unexplained = null } = {}) {
    super(message);
    Object.assign(this, { name: 'Lost', title, atOnce, ended, neverConnected, unexplained });
  }
}

export class Session {
  #over;

  /** Whether the server, which closed the session, was asked for its reason. */
  #asks = false;

  /** Resolves with a `Lost` once the connection failed; never rejects. */
  ended = new Promise((resolve) => { this.#over = resolve; });

  /** True once ICE and DTLS are established. */
  connected = false;

  /** Time from the offer to its answer, in ms. */
  answeredMs = 0;

  /**
   * Opens a session at `endpoint`; throws `Problem` when the server refuses.
   *
   * `kinds`: the kinds of tracks to receive; `send`: a track to send, and then none is received.
   * `copies`: use redundant audio (RED, RFC 2198) if the server supports it.
   * `connectMs`: how long ICE and DTLS may take.
   * `lipSync`: hold video back until its audio plays, see `withoutLipSync`.
   * `onTrack(track)`: for each remote track, audio and video.
   * `onAnswer(response)`: once, with the server's answer to the offer.
   * `onConnected()`: once ICE and DTLS are established.
   */
  static async dial(endpoint, options) {
    const session = new Session(options, await configuredIceServers(endpoint));
    try {
      await session.#negotiate(endpoint, options);
    } catch (error) {
      session.close();
      throw error;
    }
    return session;
  }

  constructor({ kinds = ['video', 'audio'], send = null, copies = false, onTrack, onConnected }, iceServers) {
    const pc = new RTCPeerConnection({ iceServers, bundlePolicy: 'max-bundle' });
    this.pc = pc;
    this.resource = null;
    this.startedMs = performance.now();
    this.gathered = 0;
    pc.addEventListener('icecandidate', ({ candidate }) => { if (candidate?.candidate) this.gathered += 1; });
    pc.addEventListener('track', ({ track, receiver }) => {
      preferLowDelay(receiver);
      onTrack(track);
    });
    pc.addEventListener('connectionstatechange', () => {
      if (pc.connectionState === 'connected' && !this.connected) {
        this.connected = true;
        onConnected();
        this.#watchOver();
      }
      // 'disconnected' is not the end: ICE may recover by itself.
      if (pc.connectionState === 'failed') this.#fail('The connection failed');
      if (pc.connectionState === 'closed') this.#closedByServer();
    });
    for (const kind of send ? [send] : kinds) {
      const direction = send ? 'sendonly' : 'recvonly';
      const transceiver = pc.addTransceiver(kind, { direction });
      if (!send) preferLowDelay(transceiver.receiver);
      if (copies) preferCopies(transceiver);
    }
  }

  /** Whether ICE has found a path; DTLS may still be under way. */
  get hasPath() {
    return ['connected', 'completed'].includes(this.pc.iceConnectionState);
  }

  /** Whether the answer promises video; false for a stream of audio alone. */
  get receivesVideo() {
    const receives = ({ receiver, currentDirection }) => receiver.track.kind === 'video' && /recv/.test(currentDirection);
    return this.pc.getTransceivers().some(receives);
  }

  /** How loud the audio is at present, 0 to 1; null before its first packet, or if the browser does not tell. */
  get audioLevel() {
    const receiver = this.pc.getReceivers().find(({ track }) => track.kind === 'audio');
    return receiver?.getSynchronizationSources()[0]?.audioLevel ?? null;
  }

  /** The name of the server of a cluster that has the session; null outside of one. */
  get server() {
    const [name, ...rest] = (this.resource?.split('/').at(-1) ?? '').split('.');
    return rest.length > 0 ? name : null;
  }

  /** Ends the session with a reason, for instance because the server no longer knows it. */
  lose(message, cause) {
    this.#over(new Lost(message, cause));
  }

  /**
   * Ends a session that failed, with the server's reason if it knows one; `message`: what the browser
   * knows by itself.
   */
  async #fail(message) {
    const { resource, pc } = this;
    if (!resource) return this.lose(message);
    if (this.connected) return this.#loseWithReason(message);
    clearTimeout(this.deadline);
    const reason = await giveUp(pc, this.gathered, (options) => request(`${resource}/failure`, options));
    // The server has ended a session whose reason it told.
    if (reason !== null) this.resource = null;
    this.lose(reason ?? message, { neverConnected: true });
  }

  /** Ends the session, which the server has closed. */
  #closedByServer() {
    return this.#loseWithReason('The server closed the connection');
  }

  /**
   * Ends a session that was connected, with the server's reason if it tells one; `message`: what the
   * browser knows by itself.
   */
  async #loseWithReason(message) {
    // The connection and its transport both tell of the end.
    if (this.#asks) return;
    this.#asks = true;
    const { resource } = this;
    this.resource = null;
    if (!resource) return this.lose(message);
    const why = await whyEnded(resource);
    if (why === undefined) {
      this.lose(`${message}, and the server does not answer: the network is away, or the server restarts`, { unexplained: resource });
    } else if (why === null) {
      this.lose(message);
    } else {
      this.lose(why.reason, { title: why.title, atOnce: why.ended !== 'dismissed', ended: why.ended });
    }
  }

  /**
   * Ends the session here and at the server.
   *
   * The DELETE is `keepalive`, so that it outlives a page that is being left.
   */
  close() {
    clearTimeout(this.deadline);
    this.pc.close();
    this.lose('This page closed the connection');
    if (this.resource) {
      const options = { method: 'DELETE', headers: authorization, keepalive: true };
      reach(this.resource, options).catch(() => { /* a dead server needs no goodbye */ });
      this.resource = null;
    }
  }

  /** Notices the loss of the server, of which neither ICE nor DTLS tells for long. */
  async #watchOver() {
    const { pc, resource } = this;
    const lifeline = new Lifeline(performance.now());
    while (resource && this.resource === resource && pc.connectionState !== 'closed') {
      await sleep(Math.min(LOOK_MS, Math.max(LOOK_LEAST_MS, lifeline.leftMs(performance.now()))));
      lifeline.heard(mediaMs(pc));
      if (lifeline.isRecent(performance.now())) continue;
      lifeline.count(signsOf(await pc.getStats()), performance.now());
      if (!lifeline.isSilent(performance.now())) continue;
      try {
        await request(resource, { timeoutMs: ANSWER_MS });
        lifeline.heard(performance.now());
      } catch (problem) {
        if (this.resource !== resource) return;
        // A server alone that stands still has the session when it goes on, and there is no other one.
        if (problem.late && this.server === null) continue;
        this.#loseServer(problem);
        return;
      }
    }
  }

  /** Ends a session whose server sends nothing any more; `problem`: of the request for the session. */
  #loseServer(problem) {
    const isTold = problem.status === 410;
    const unexplained = isTold || problem.status === 404 ? null : this.resource;
    // Nobody is there to say goodbye to.
    this.resource = null;
    const why = isTold ? reasonOf(problem) : `The server sends nothing, and the session is not found: ${problem.message}`;
    const atOnce = isTold && problem.ended !== 'dismissed' && problem.ended !== 'lost';
    this.lose(why, { title: isTold ? problem.title : null, ended: problem.ended, atOnce, unexplained });
  }

  async #negotiate(endpoint, { lipSync = true, connectMs = CONNECT_DEADLINE_MS, onAnswer = () => {} }) {
    const offer = await this.pc.createOffer();
    // A session without video carries a voice, which is mono.
    const sdp = /^m=video/m.test(offer.sdp) ? withStereo(offer.sdp) : offer.sdp;
    try {
      await this.pc.setLocalDescription({ type: 'offer', sdp });
    } catch {
      await this.pc.setLocalDescription(offer);
    }
    const post = (url) => request(url, {
      method: 'POST',
      headers: { 'content-type': 'application/sdp', accept: 'application/sdp' },
      body: this.pc.localDescription.sdp,
      timeoutMs: 10000,
    });
    const askedMs = performance.now();
    const response = await post(endpoint).catch((problem) => {
      // The server may have named another one of its cluster that this page cannot reach.
      if (problem.status !== 0) throw problem;
      return post(`${endpoint}${endpoint.includes('?') ? '&' : '?'}noredirect`);
    });
    this.answeredMs = performance.now() - askedMs;
    onAnswer(response);
    const location = response.headers.get('location');
    if (location) this.resource = new URL(location, response.url).href;
    const answer = await response.text();
    try {
      const sdp = lipSync ? answer : withoutLipSync(answer);
      await this.pc.setRemoteDescription({ type: 'answer', sdp });
    } catch (error) {
      throw new Problem(response.status, 'The browser refuses the answer', error.message);
    }
    this.#watchTransport();
    this.deadline = setTimeout(() => {
      if (!this.connected) this.#fail(this.gathered ? unreachable(answer, connectMs) : NO_NETWORK);
    }, connectMs);
  }

  /** The server's close_notify shows on the DTLS transport first, in some browsers only there. */
  #watchTransport() {
    const transport = this.pc.getReceivers()[0]?.transport;
    transport?.addEventListener('statechange', () => {
      if (transport.state === 'closed') this.#closedByServer();
      if (transport.state === 'failed') this.#fail('The DTLS handshake failed');
    });
  }
}

/**
 * Asks for the smallest jitter buffer that the network allows.
 *
 * The browser treats 0 ms as a hint: it still waits for as long as the
 * measured jitter, retransmissions and lip sync need, but adds no margin of its
 * own for smoothness. `playoutDelayHint` (seconds) is the older name.
 */
function preferLowDelay(receiver) {
  try {
    if ('jitterBufferTarget' in receiver) receiver.jitterBufferTarget = 0;
    else if ('playoutDelayHint' in receiver) receiver.playoutDelayHint = 0;
  } catch { /* playback works without the hint */ }
}

/**
 * Puts RED before Opus in the offer. Browsers list RED last, which means that they do not use it.
 */
function preferCopies(transceiver) {
  const { codecs } = RTCRtpReceiver.getCapabilities('audio') ?? { codecs: [] };
  const isRed = ({ mimeType }) => mimeType.toLowerCase() === 'audio/red';
  if (!transceiver.setCodecPreferences || !codecs.some(isRed)) return;
  transceiver.setCodecPreferences([...codecs].sort((a, b) => isRed(b) - isRed(a)));
}

/**
 * Says in the offer that stereo Opus may be decoded as stereo.
 *
 * RFC 7587 §7.1: without `stereo=1` from the receiver a sender should assume
 * mono, and Chromium then decodes mono even where two channels arrive.
 */
export function withStereo(sdp) {
  const payloadType = /^a=rtpmap:(\d+) opus\/48000\/2\r?$/im.exec(sdp)?.[1];
  if (!payloadType) return sdp;
  const line = new RegExp(`^(a=fmtp:${payloadType} )(?!.*\\bstereo=1)(.*?)(\\r?)$`, 'm');
  return sdp.replace(line, '$1$2;stereo=1$3');
}

/**
 * Gives audio a media stream of its own, so that video does not wait for it.
 *
 * Browsers synchronize the tracks of one media stream (RFC 8830) by delaying
 * the earlier one. Audio is always later: its jitter buffer and the audio
 * device hold 40 to 100 ms, and a frame that arrived after 20 ms would be held
 * back as long. Audio up to 125 ms behind its video is not noticed (ITU-R
 * BT.1359), so video is shown when it is there.
 */
export function withoutLipSync(sdp) {
  return sdp.replace(/^m=audio[^]*?(?=^m=|(?![^]))/gm, (section) =>
    section.replace(/^(a=msid:|a=ssrc:\d+ msid:)(\S+)/gm, '$1$2-sound'));
}

/** The likely cause when no connectivity check was answered, with the address tried. */
function unreachable(answer, connectMs) {
  const tried = [...answer.matchAll(/^a=candidate:\S+ \d+ (\w+) \d+ (\S+) (\d+)/gm)]
    .map(([, protocol, address, port]) => `${protocol.toLowerCase()} ${address}:${port}`);
  const where = tried.length ? [...new Set(tried)].slice(0, 3).join(', ') : 'the server';
  return `No answer from ${where} within ${connectMs / 1000} s: a firewall may block it`;
}
