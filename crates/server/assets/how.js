// How a stream plays: by WebRTC, over UDP or TCP, or by HLS where no connection comes about.
//
//   automatic ── WebRTC ── no connection within 6 s ─► HLS, until the page is opened again
//   WebRTC, HLS: as the viewer chose, which the browser keeps
//
// ICE tries UDP and TCP at the same time, so one deadline is for both. A page that went over to HLS stays
// with it: a network that blocked WebRTC once would interrupt the viewer again and again.

const KEY = 'glassline-how';

/** Time that ICE and DTLS have if HLS is there. Chromium needs four seconds to come through by TCP where UDP is dropped. */
export const CONNECT_MS = 6000;

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

  /** What plays, for the line below the video; `path`: the address that WebRTC uses, or null. */
  text(path) {
    if (this.isHls) return `HLS, ${this.why}`;
    const [transport] = (path ?? '').split(' ');
    return transport ? `WebRTC over ${transport.toUpperCase()}` : null;
  }
}
