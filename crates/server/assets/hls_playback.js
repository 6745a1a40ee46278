// One playback by HLS with low latency: hls.js over Media Source Extensions, and the browser's own player
// only where there is nothing else. The script of hls.js is loaded with this module, and not before.
//
// Some browsers say that they play HLS and stay black, so their word does not count: the own player of the
// browser is taken only with ManagedMediaSource, which is Apple's.

import { Problem, authorization } from './api.js';

/** The query of a repeated try to load this module, which holds for what it needs as well. */
const tried = new URL(import.meta.url).search;
const [{ default: Hls }, { HlsStages }, { WallClock }] = await Promise.all([
  import(`./hls.min.mjs${tried}`), import(`./hls_stages.js${tried}`), import(`./wall_clock.js${tried}`),
]);

const NATIVE = 'application/vnd.apple.mpegurl';

/** Errors of the media that are repaired before the playback is given up. */
const REPAIRS_MAX = 2;

/** A playback that has ended; the message says why. */
class Ended extends Error {
  constructor(message, title = null) {
    super(message);
    Object.assign(this, { name: 'Ended', title });
  }
}

export class HlsPlayback {
  #over;
  #hls = null;
  #repairs = 0;
  #wall = new WallClock();
  #stages = new HlsStages();
  #isClosed = false;
  #bytes = 0;
  #before = null;
  #offsetMs = null;

  /** Resolves with why it ended: a `Problem` of a request, or another error. */
  ended = new Promise((resolve) => { this.#over = resolve; });

  startedMs = performance.now();

  /** Whether there is video; a stream of audio alone has none. */
  receivesVideo = true;

  /** `video`: the element that plays; `url`: the multivariant playlist; `play()`: starts the element. */
  constructor(video, url, play) {
    this.video = video;
    this.#wall.start();
    if (Hls.isSupported()) this.#byScript(url, play);
    else if ('ManagedMediaSource' in globalThis && video.canPlayType(NATIVE)) this.#byBrowser(url, play);
    else this.#end(new Ended('This browser has no Media Source Extensions, which HLS needs', 'HLS does not play here'));
    this.#follow();
  }

  /** Ends the playback. */
  close() {
    this.#end(new Ended('This page ended the playback'));
    this.#isClosed = true;
    this.#wall.stop();
    this.#hls?.destroy();
    this.video.removeAttribute('src');
    this.video.load();
  }

  /** The figures of the last second, as `StatsSampler` gives those of WebRTC. */
  sample() {
    const { video } = this;
    const quality = video.getVideoPlaybackQuality?.() ?? {};
    const now = { atMs: performance.now(), frames: quality.totalVideoFrames ?? 0, bytes: this.#bytes };
    const before = this.#before;
    this.#before = now;
    const seconds = before ? (now.atMs - before.atMs) / 1000 : null;
    const level = this.#hls?.levels?.[this.#hls.currentLevel] ?? null;
    const end = video.buffered.length > 0 ? video.buffered.end(video.buffered.length - 1) : null;
    return {
      width: video.videoWidth || null, height: video.videoHeight || null,
      fps: seconds ? (now.frames - before.frames) / seconds : null,
      framesDecoded: now.frames, framesDropped: quality.droppedVideoFrames ?? null,
      bitrate: seconds ? ((now.bytes - before.bytes) * 8) / seconds : null,
      lossRatio: null, decodeMs: null,
      jitterBufferMs: end === null ? null : Math.max(0, end - video.currentTime) * 1000,
      codec: level?.videoCodec ?? null, path: null, audio: null,
    };
  }

  /** The delay by stage, as the server's answers to reports of WebRTC; null before it is known. */
  account() {
    const estimate = this.#wall.estimate();
    this.#offsetMs = estimate?.offsetMs ?? null;
    return estimate ? this.#stages.answer(Date.now(), estimate.errorMs) : null;
  }

  #byScript(url, play) {
    const hls = new Hls({
      lowLatencyMode: true,
      // The policy of this page lets no script run from a blob, and fragments of MP4 need no work.
      enableWorker: false,
      backBufferLength: 10,
      maxLiveSyncPlaybackRate: 1.1,
      xhrSetup(xhr) {
        for (const [name, value] of Object.entries(authorization)) xhr.setRequestHeader(name, value);
      },
    });
    this.#hls = hls;
    hls.on(Hls.Events.ERROR, (_, data) => this.#failed(data));
    hls.on(Hls.Events.MANIFEST_PARSED, (_, { video = true }) => {
      this.receivesVideo = video;
      play();
    });
    hls.on(Hls.Events.LEVEL_UPDATED, (_, { details }) => this.#listed(details));
    hls.on(Hls.Events.FRAG_LOADED, (_, data) => this.#loaded(data));
    hls.loadSource(url);
    hls.attachMedia(this.video);
    this.video.addEventListener('ended', () => this.#end(new Ended('The stream has ended')), { once: true });
  }

  #byBrowser(url, play) {
    const { video } = this;
    video.src = url;
    video.addEventListener('error', () => this.#end(new Ended(`The browser's own player: ${video.error?.message || 'unknown error'}`)), { once: true });
    play();
  }

  /** When each part was listed first. */
  #listedMs = new Map();

  #listed(details) {
    const nowMs = Date.now();
    for (const part of details.partList ?? []) this.#listedAt(part.url, nowMs);
    for (const fragment of details.fragments.slice(-3)) this.#listedAt(fragment.url, nowMs);
  }

  #listedAt(url, nowMs) {
    if (this.#listedMs.has(url)) return;
    this.#listedMs.set(url, nowMs);
    if (this.#listedMs.size > 1000) this.#listedMs.delete(this.#listedMs.keys().next().value);
  }

  #loaded({ frag, part }) {
    const { stats } = part ?? frag;
    this.#bytes += stats.total || stats.loaded || 0;
    if (frag.type !== 'main' || frag.sn === 'initSegment') return;
    // The times of loading are on performance.now().
    const atMs = (ms) => performance.timeOrigin + ms;
    const startS = part ? part.start : frag.start;
    const dateMs = frag.programDateTime === null ? NaN : frag.programDateTime + (startS - frag.start) * 1000;
    const askedMs = atMs(stats.loading.start);
    const listedMs = this.#listedMs.get(part ? part.url : frag.url) ?? askedMs;
    const durationS = part ? part.duration : frag.duration;
    this.#stages.part({ startS, durationS, dateMs, listedMs, loadedMs: atMs(stats.loading.end) });
  }

  #failed({ fatal, type, details, response, error, reason }) {
    if (!fatal) return;
    const status = response?.code ?? 0;
    if (type === Hls.ErrorTypes.MEDIA_ERROR && this.#repairs < REPAIRS_MAX) {
      this.#repairs += 1;
      this.#hls.recoverMediaError();
      return;
    }
    const text = error?.message ?? reason ?? details;
    if (type === Hls.ErrorTypes.NETWORK_ERROR) this.#end(new Problem(status, status ? `The server answers ${status}` : 'The server cannot be reached', text));
    else this.#end(new Ended(`HLS stopped: ${text}`));
  }

  /** Follows the frames that are presented. */
  #follow() {
    const { video } = this;
    if (!('requestVideoFrameCallback' in video)) return;
    const next = (now, metadata) => {
      if (this.#isClosed) return;
      video.requestVideoFrameCallback(next);
      if (this.#offsetMs === null) return;
      this.#stages.frame({
        mediaS: metadata.mediaTime,
        presentedMs: performance.timeOrigin + metadata.presentationTime,
        offsetMs: this.#offsetMs,
        decodeMs: metadata.processingDuration === undefined ? null : metadata.processingDuration * 1000,
        renderMs: Math.max(0, metadata.expectedDisplayTime - metadata.presentationTime),
      });
    };
    video.requestVideoFrameCallback(next);
  }

  #end(reason) {
    this.#over(reason);
  }
}
