// Words for the states of streams: one state has one word on every page. Of a stream without media,
// "waiting" says that nothing is wrong (nobody publishes it yet, or its camera rests until somebody
// watches), and "unreachable" that its source fails.

/** The word for each status of the API. */
const WORDS = { live: 'Live', hangs: 'Hangs', waiting: 'Waiting', unreachable: 'Unreachable' };

/** The word for a stream's status. */
export const statusWord = (status) => WORDS[status] ?? status;

/** What is known about a stream beside its status; '' for nothing. */
export function statusDetail({ state, status, silent_s: silent, detail: reason }) {
  if (status === 'hangs') return `nothing for ${Math.round(silent)} s`;
  if (state === 'idle') return 'connects when somebody watches';
  return reason ?? '';
}
