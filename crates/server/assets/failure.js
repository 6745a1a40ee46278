// A connection that did not come about: the server learns what the browser has
// seen of it, ends the session, and answers with the reason that it knows.
//
// A session that the server ended is asked for its reason at its own address, which keeps it for an
// hour.
//
// The server sees which checks arrived and which of its datagrams got no answer.
// Only the browser knows which checks it has sent in vain.

import { request } from './api.js';
import { forPeople } from './words.js';

/** Most pairs of candidates that are told. */
const PAIRS_MAX = 16;

/** The candidate pairs of a connection: where checks went, and how many were answered. */
async function seen(pc, gathered) {
  const pairs = [];
  try {
    const stats = await pc.getStats();
    for (const entry of stats.values()) {
      if (entry.type !== 'candidate-pair') continue;
      const remote = stats.get(entry.remoteCandidateId);
      pairs.push({
        address: remote?.address ?? remote?.ip ?? null,
        port: remote?.port ?? 0,
        sent: entry.requestsSent ?? 0,
        answered: entry.responsesReceived ?? 0,
      });
    }
  } catch { /* the server has seen its own side */ }
  return { host: location.hostname, gathered, pairs: pairs.slice(0, PAIRS_MAX) };
}

/**
 * Gives a session up, and resolves with the server's reason as a sentence; null if it has none.
 *
 * `gathered`: the number of addresses that the browser found. `post(options)` sends a request to
 * the address of the session's failure.
 */
export async function giveUp(pc, gathered, post) {
  const body = JSON.stringify(await seen(pc, gathered));
  try {
    await post({ method: 'POST', headers: { 'content-type': 'application/json' }, body, timeoutMs: 3000 });
  } catch (problem) {
    return problem.status === 410 ? reasonOf(problem) : null;
  }
  return null;
}

/**
 * Asks a session's own address why the session ended, and ends it if it has not. Resolves with
 * `{title, reason, ended}`; with null if the server has no reason to tell, and with undefined if it
 * does not answer. `ended`: the name of the server's reason if the server ended the session.
 */
export async function whyEnded(resource) {
  try {
    await request(resource, { method: 'DELETE', timeoutMs: 2000 });
  } catch (problem) {
    if (problem.status === 0) return undefined;
    if (problem.status === 410) return { title: problem.title, reason: reasonOf(problem), ended: problem.ended };
  }
  return null;
}

/** The reason and the remedy of a session that has ended, as one sentence or two. */
export function reasonOf(problem) {
  return asSentence([problem.detail ?? problem.title, problem.remedy].filter(Boolean).join('. To do: '));
}

/** `text` for people, with a capital at its beginning: reasons are written to follow other words in the log. */
export function asSentence(text) {
  const told = forPeople(text);
  return told.charAt(0).toUpperCase() + told.slice(1);
}
