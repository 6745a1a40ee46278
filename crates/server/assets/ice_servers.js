// STUN and TURN servers that the server names in `Link` headers (RFC 9725 §4.6).

import { request } from './api.js';

/** Whether the server has told the page that there are ICE servers. */
const hasServers = 'iceServers' in document.documentElement.dataset;

/** The ICE servers that an endpoint names, as `RTCPeerConnection` takes them; `options`: of the request. */
export async function iceServersOf(endpoint, options = {}) {
  try {
    const response = await request(endpoint, options);
    return parseLinks(response.headers.get('link') ?? '');
  } catch {
    // The offer will tell what is wrong.
    return [];
  }
}

/** The same for a page that asks only if there are any, since the question takes a round trip. */
export const configuredIceServers = async (endpoint) => (hasServers ? iceServersOf(endpoint) : []);

export function parseLinks(header) {
  const links = [...header.matchAll(/<([^>]+)>((?:\s*;\s*[^=,;]+=(?:"[^"]*"|[^,;]*))*)/g)];
  return links.flatMap(([, url, rest]) => {
    const parameters = Object.fromEntries([...rest.matchAll(/;\s*([^=\s]+)="?([^";]*)"?/g)].map(([, name, value]) => [name, value]));
    if (parameters.rel !== 'ice-server') return [];
    const { username, credential } = parameters;
    return [{ urls: url, ...(username && { username, credential }) }];
  });
}
