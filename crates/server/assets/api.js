// The server's HTTP API as the pages use it: same origin, bearer token taken
// from the page's own address, problems (RFC 9457) turned into one error type.

import { inPath } from './names.js';
import { reachAll } from './reach.js';

/**
 * Path below which a proxy offers the server, without a slash at its end: this file is BASE/-/api.js.
 */
export const base = new URL('..', import.meta.url).pathname.replace(/\/$/, '');

/** The path of the page below the base. */
export const pagePath = location.pathname.slice(base.length);

const token = new URLSearchParams(location.search).get('token');

/** Headers that every request carries; the token never goes into a request's URL. */
export const authorization = token ? { authorization: `Bearer ${token}` } : {};

/** A page address that keeps the read token. */
export const withToken = (path) => (token ? `${path}?token=${encodeURIComponent(token)}` : path);

/** The address of a stream's page, or of something below it. */
export const pageUrl = (name, below = '') => `${base}/${inPath(name)}${below}`;

/** The API address of a stream, or of something below it. */
export const streamUrl = (name, below = '') =>
  `${base}/api/v1/streams/${inPath(name)}${below}`;

/**
 * The server refused a request, or could not be reached.
 *
 * `status`: the HTTP status; 0 if no answer came. `late`: the time for the answer was over.
 * `retryAfter`: seconds the server asks for, or null. `remedy`: what to change, or null.
 * `ended`: the name of the reason for which the server ended a session, or null.
 * `transcode`: whether the server would encode the video again for this browser; `hindrance` and
 * `codec`: why the browser cannot show the video, and its codec, or null. `wanted`: a codec that the
 * browser did not offer, with its parameters, or null.
 * `configured`: whether a camera or file of the server has the name.
 * `streamStatus`: what viewers can expect of the stream, or null.
 */
export class Problem extends Error {
  constructor(status, title, detail, {
    retryAfter = null, remedy = null, ended = null, transcode = false, hindrance = null, codec = null, wanted = null,
    configured = false, late = false, streamStatus = null,
  } = {}) {
    super(detail ? `${title}: ${detail}` : title);
    Object.assign(this, {
      name: 'Problem', status, title, detail,
      retryAfter, remedy, ended, transcode, hindrance, codec, wanted, configured, late, streamStatus,
    });
  }

  /** Reads a problem+json answer; a plain body serves as the detail. */
  static async from(response) {
    const text = (await response.text().catch(() => '')).slice(0, 4000);
    let body = {};
    try { body = JSON.parse(text); } catch { body.detail = text.trim().slice(0, 300); }
    const seconds = Number(response.headers.get('retry-after') ?? NaN);
    return new Problem(
      response.status,
      body?.title || response.statusText || `HTTP ${response.status}`,
      body?.detail || null,
      {
        retryAfter: seconds >= 0 ? seconds : null,
        remedy: body?.remedy || null,
        ended: body?.ended || null,
        transcode: body?.transcode === true,
        configured: body?.configured === true,
        streamStatus: body?.stream_status || null,
        hindrance: body?.hindrance || null,
        codec: body?.codec || null,
        wanted: body?.wanted || null,
      },
    );
  }
}

/** `fetch` with the token, a deadline and a `Problem` for anything but success. */
export async function request(url, { timeoutMs = 5000, headers = {}, ...options } = {}) {
  let response;
  try {
    response = await reachAll(url, {
      cache: 'no-store',
      signal: AbortSignal.timeout(timeoutMs),
      ...options,
      headers: { ...authorization, ...headers },
    });
  } catch (error) {
    const late = error.name === 'TimeoutError';
    throw new Problem(0, late ? 'The server does not answer' : 'The server cannot be reached', null, { late });
  }
  if (!response.ok) throw await Problem.from(response);
  return response;
}

/** A request by which an operator changes something: it has the header that changes by cookie need,
 * which no page of another origin can send unasked. */
export function change(url, { headers = {}, ...options }) {
  return request(url, { ...options, headers: { ...headers, 'x-glassline-request': '1' } });
}

/** The JSON body of a GET. */
export const getJson = async (url, timeoutMs = 5000) => (await request(url, { timeoutMs })).json();
