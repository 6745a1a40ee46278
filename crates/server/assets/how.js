// How a stream plays: by WebRTC, over UDP or TCP, or by HLS where no connection comes about.
//
//   automatic ── WebRTC ─┬─ ICE has a path soon ──────────────────────────────► WebRTC, and nothing of HLS
//                        └─ none yet: HLS begins beside it ─┬─ connected ─────► WebRTC, and HLS ends
//                                                           └─ 6 s are over ──► HLS, until the page is opened again
//   WebRTC, HLS: as the viewer chose, which the browser keeps
//
// The second way begins before the first one has failed, as for addresses of two families (RFC 8305). ICE
// tries UDP and TCP at the same time, so one deadline is for both. A page that stayed with HLS stays
// with it: a network that blocked WebRTC once would interrupt the viewer again and again.

const KEY = 'glassline-how';

/** Time that ICE and DTLS have if HLS is there. Chromium needs four seconds to come through by TCP where UDP is dropped. */
export const CONNECT_MS = 6000;

/**
 * Time that ICE has before HLS begins beside it, in ms, and the same in round trips: a check needs one, and
 * browsers space their checks. The server begins its segments with the first request, so a path on which
 * WebRTC works must not come to one.
 */
const PATIENCE_MS = 500;
const PATIENCE_ROUND_TRIPS = 3;
const PATIENCE_MS_MAX = 2000;

/** What a browser must decode by Media Source Extensions to play a codec by HLS. */
const DECODED = { H264: 'avc1.42E01E', H265: 'hvc1.1.6.L93.B0', VP9: 'vp09.00.10.08', AV1: 'av01.0.04M.08' };

// Storage throws where the site's data is blocked: the choice then lives for the page.
const read = () => { try { return localStorage.getItem(KEY); } catch { return null; } };
const write = (value) => { try { localStorage.setItem(KEY, value); } catch { /* see above */ } };

export class How {
  /** The viewer's choice: `webrtc` or `hls`; null for the page's own. */
  pinned;

  /** Why the page plays by HLS, in a few words; null while it plays by WebRTC. */
  why = null;

  /** Whether the server may offer HLS. */
  #isOffered = true;

  /** `menu`: a `<select>` with both ways. A choice begins the page anew. */
  constructor(menu) {
    const kept = read();
    this.pinned = ['webrtc', 'hls'].includes(kept) ? kept : null;
    menu.value = this.pinned ?? '';
    menu.addEventListener('change', () => {
      write(menu.value);
      location.reload();
    });
    if (this.pinned === 'hls') this.why = 'as you chose';
  }

  /** Whether HLS plays. */
  get isHls() {
    return this.why !== null;
  }

  /** Whether HLS may follow a session whose connection does not come about. */
  get mayFall() {
    return this.pinned === null && !this.isHls && this.#isOffered;
  }

  /** Notes that the server offers no HLS: sessions have all the time that they need. */
  stay() {
    this.#isOffered = false;
  }

  /** Goes over to HLS. */
  fall(why) {
    this.why = why;
  }

  /** Time that ICE has before HLS begins beside it; `answeredMs`: how long the answer to the offer took. */
  static patienceMs(answeredMs) {
    return Math.min(PATIENCE_MS_MAX, Math.max(PATIENCE_MS, PATIENCE_ROUND_TRIPS * answeredMs));
  }

  /** Why HLS plays what WebRTC does not, for the refusal of an offer; null if it plays no more than WebRTC. */
  static whyNotRefused({ status, hindrance, codec, wanted }) {
    const name = hindrance === 'viewer' ? codec : wanted?.split(' ')[0];
    const source = globalThis.ManagedMediaSource ?? globalThis.MediaSource;
    const isDecoded = status === 422 && name in DECODED && source?.isTypeSupported(`video/mp4; codecs="${DECODED[name]}"`);
    return isDecoded ? `this browser has no ${name.replace('H26', 'H.26')} in WebRTC` : null;
  }

  /** What plays, for the line below the video; `path`: the address that WebRTC uses, or null. */
  text(path) {
    if (this.isHls) return `HLS, ${this.why}`;
    const [transport] = (path ?? '').split(' ');
    return transport ? `WebRTC over ${transport.toUpperCase()}` : null;
  }
}
