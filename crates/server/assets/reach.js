// Which servers of the cluster a page may send requests to. Its policy (Content-Security-Policy) names
// those that there were when the page was made. Requests to one that has come since go through a frame:
// an empty page of the page's own server, which is made later and whose policy names it.
//
//   a server that the policy lacks is named, or a redirect leads to it ─► frame ─► requests from there

const FRAME = new URL('reach.html', import.meta.url);

/** Time that the frame has to come. */
const LOAD_MS = 5000;

/** Time that requests have which a frame began before another one took its place. */
const REPLACED_MS = 30_000;

/** Time from one frame to the next: a server that is named may be unknown to the page's own one. */
const AGAIN_MS = 10_000;

/** The origins that a document may connect to; null if its server is in no cluster. */
function originsOf(document) {
  const { servers } = document.documentElement.dataset;
  return servers === undefined ? null : new Set([location.origin, ...servers.split(' ')]);
}

let origins = originsOf(document);
let frame = null;
let loading = null;
let begunMs = -Infinity;
let refusals = 0;

function countRefusals(of) {
  of.addEventListener('securitypolicyviolation', ({ effectiveDirective }) => {
    if (effectiveDirective === 'connect-src') refusals += 1;
  });
}
countRefusals(document);

/** An address without the name and the password that the page's own may have: `fetch` refuses them. */
function withoutLogin(url) {
  const here = new URL(document.baseURI);
  here.username = '';
  here.password = '';
  return new URL(url, here);
}

/** `fetch` as the newest policy allows it. */
export const reach = (url, options) => (frame?.contentWindow ?? window).fetch(withoutLogin(url), options);

/** As `reach`, once more with a newer policy if a redirect leads to a server that the present one lacks. */
export async function reachAll(url, options) {
  const before = refusals;
  try {
    return await reach(url, options);
  } catch (error) {
    // The browser tells of a refusal in a task of its own.
    await new Promise((resolve) => { setTimeout(resolve, 0); });
    if (refusals === before || !await renew()) throw error;
    return reach(url, options);
  }
}

/** Prepares requests to the servers that the cluster named. */
export function expect(urls) {
  if (urls.some((url) => !origins?.has(new URL(url).origin))) renew();
}

/** Gets the newest policy of the page's own server; resolves with false if that is not to be had. */
function renew() {
  if (origins === null || performance.now() - begunMs < AGAIN_MS) return loading ?? false;
  begunMs = performance.now();
  loading = load().finally(() => { loading = null; });
  return loading;
}

async function load() {
  const next = document.createElement('iframe');
  next.hidden = true;
  next.src = FRAME;
  const loaded = new Promise((resolve) => {
    next.addEventListener('load', resolve);
    setTimeout(resolve, LOAD_MS);
  });
  document.body.append(next);
  await loaded;
  // A page that says why there is none is of no origin, and its document is hidden.
  const allowed = next.contentDocument && originsOf(next.contentDocument);
  if (!allowed) {
    next.remove();
    return false;
  }
  countRefusals(next.contentDocument);
  const replaced = frame;
  setTimeout(() => replaced?.remove(), REPLACED_MS);
  [frame, origins] = [next, allowed];
  return true;
}
