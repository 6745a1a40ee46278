// The dark/light switch. Classic, in <head> and without defer, so that a stored
// choice is in force before the first paint; everything else is a module.
(() => {
  'use strict';
  const KEY = 'glassline-theme';
  const root = document.documentElement;
  const system = matchMedia('(prefers-color-scheme: dark)');

  // Storage throws where the site's data is blocked: the choice then lives for the page.
  const read = () => { try { return localStorage.getItem(KEY); } catch { return null; } };
  const write = (value) => { try { localStorage.setItem(KEY, value); } catch { /* see above */ } };

  const current = () => root.dataset.theme ?? (system.matches ? 'dark' : 'light');
  const stored = read();
  if (stored === 'dark' || stored === 'light') root.dataset.theme = stored;

  addEventListener('DOMContentLoaded', () => {
    const button = document.getElementById('theme');
    if (!button) return;
    const label = () => {
      const other = current() === 'dark' ? 'light' : 'dark';
      button.setAttribute('aria-label', `Switch to ${other} theme`);
      button.title = button.getAttribute('aria-label');
    };
    button.addEventListener('click', () => {
      root.dataset.theme = current() === 'dark' ? 'light' : 'dark';
      write(root.dataset.theme);
      label();
    });
    system.addEventListener('change', label);
    label();
  });
})();
