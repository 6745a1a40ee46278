// Who uses the admin port, and with which role: asked once, and again when the connection breaks.

import { Problem, base, change, getJson } from './api.js';

const ROLES = ['viewer', 'operator', 'admin'];

/** Leads to the sign-in page, which leads back here. */
export function toSignIn() {
  location.replace(`${base}/sign-in?to=${encodeURIComponent(location.pathname)}`);
}

/**
 * Who is here, as `{name, role, signedIn, may(role)}`. A browser that is not signed in is led to the
 * sign-in page, and a server that does not answer gives `null`.
 */
export async function session() {
  try {
    const { name, role, signed_in: signedIn } = await getJson(`${base}/api/v1/session`);
    const rank = ROLES.indexOf(role);
    return { name, role, signedIn, may: (needed) => rank >= ROLES.indexOf(needed) };
  } catch (error) {
    if (error instanceof Problem && error.status === 401) toSignIn();
    return null;
  }
}

/** Signs this browser out, and leads to the sign-in page. */
export async function signOut() {
  try {
    await change(`${base}/api/v1/session`, { method: 'DELETE' });
  } catch (error) {
    // Whoever is not known any more is out already.
    if (error.status !== 401) throw error;
  }
  toSignIn();
}
