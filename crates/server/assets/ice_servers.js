// STUN and TURN servers that the server names in `Link` headers (RFC 9725 §4.6).

import { request } from './api.js';
import { linksOf } from './links.js';

/** Whether the server has told the page that there are ICE servers. */
const hasServers = 'iceServers' in document.documentElement.dataset;

/** The ICE servers that an endpoint names, as `RTCPeerConnection` takes them; `options`: of the request. */
export async function iceServersOf(endpoint, options = {}) {
  try {
    const response = await request(endpoint, options);
    const links = linksOf(response.headers.get('link'), 'ice-server');
    return links.map(({ url, username, credential }) => ({ urls: url, ...(username && { username, credential }) }));
  } catch {
    // The offer will tell what is wrong.
    return [];
  }
}

/** The same for a page that asks only if there are any, since the question takes a round trip. */
export const configuredIceServers = async (endpoint) => (hasServers ? iceServersOf(endpoint) : []);
