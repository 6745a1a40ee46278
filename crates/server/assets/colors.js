// Colours of the style sheets for drawing on a canvas, which knows neither variables
// nor light-dark().

/** The colour that the variable `name` has within `element` now, as `rgb(…)`. */
export function resolved(name, element = document.body) {
  const probe = document.createElement('span');
  probe.style.color = `var(${name})`;
  element.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

/** Calls `redraw` when the colours change: by the system, or by the page's switch. */
export function onTheme(redraw) {
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
  new MutationObserver(redraw).observe(document.documentElement, { attributeFilter: ['data-theme'] });
}
