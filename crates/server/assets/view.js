// Which parts of the player are shown: video alone (`?embed`), video first, or the instruments too.
// Classic, in <head> and without defer, so that the choice is in force before the first paint.
(() => {
  'use strict';
  const KEY = 'glassline-details';
  const root = document.documentElement;

  // Storage throws where the site's data is blocked: the choice then lives for the page.
  const stored = () => { try { return localStorage.getItem(KEY) === 'open'; } catch { return false; } };

  if (new URLSearchParams(location.search).has('embed')) root.dataset.view = 'embed';
  else root.dataset.view = stored() ? 'details' : 'video';
})();
