// The page on which operators sign in: by a user's name and password, or by a token.

import { base, change, request } from './api.js';
import { setText } from './dom.js';

const form = document.getElementById('form');
const problem = document.getElementById('problem');
const fields = { password: document.getElementById('by-password'), token: document.getElementById('by-token') };

/** The page that was wanted, of this very server; anything else becomes the dashboard. */
function wanted() {
  const to = new URLSearchParams(location.search).get('to') ?? '/';
  const url = URL.canParse(to, location.origin) ? new URL(to, location.origin) : location;
  return url.origin === location.origin && url.pathname !== location.pathname ? url.pathname : `${base}/`;
}

const kind = () => form.elements.kind.value;

function choose() {
  for (const [name, field] of Object.entries(fields)) {
    field.hidden = field.disabled = name !== kind();
  }
  problem.hidden = true;
}

async function signIn() {
  const { user, password, token } = form.elements;
  const shown = kind() === 'token' ? { token: token.value.trim() } : { user: user.value, password: password.value };
  const button = form.querySelector('button');
  button.disabled = true;
  try {
    await change(`${base}/api/v1/session`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(shown),
      timeoutMs: 20_000,
    });
    location.replace(wanted());
  } catch (error) {
    const { status, retryAfter } = error;
    const words = { 401: kind() === 'token' ? 'This token is wrong.' : 'Name or password is wrong.', 429: `Too many wrong attempts. Wait ${retryAfter ?? 'some'} s.` };
    setText(problem, words[status] ?? error.message);
    problem.hidden = false;
    password.value = '';
    (kind() === 'token' ? token : password).focus();
  } finally {
    button.disabled = false;
  }
}

form.addEventListener('change', ({ target }) => { if (target.name === 'kind') choose(); });
form.addEventListener('submit', (event) => {
  event.preventDefault();
  signIn();
});
choose();

// A link on another site leads here although the browser is signed in: its cookie stayed away.
request(`${base}/api/v1/session`).then(() => location.replace(wanted()), () => {});
