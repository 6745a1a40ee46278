// Where viewers find a stream: on the port for viewers, at the host by which the operator reached the page,
// or at the server of the cluster that has the stream.

import { inPath } from './names.js';

/** Scheme, host and port of the listener for viewers, whose `ports` the overview tells. */
export function viewerOrigin(ports) {
  const { hostname } = location;
  return ports.https ? `https://${hostname}:${ports.https}` : `http://${hostname}:${ports.http}`;
}

/** The address of the player of stream `name`; `owner`: the server that has it, as the overview tells. */
export const watchUrl = (ports, name, owner) =>
  `${(owner?.http ?? viewerOrigin(ports)).replace(/\/$/, '')}/${inPath(name)}`;
