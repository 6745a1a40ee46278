// Building elements without markup in strings: text stays text, whatever a
// stream is called, and the content security policy needs no exception.

const SVG = 'http://www.w3.org/2000/svg';

const fill = (node, attributes, children) => {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
};

/** An HTML element; null, undefined and false attributes are left out. */
export const html = (tag, attributes = {}, ...children) =>
  fill(document.createElement(tag), attributes, children);

/** An SVG element, likewise. */
export const svg = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

/** Sets the text only where it changed, so that a selection survives the refresh. */
export const setText = (node, text) => {
  if (node.textContent !== text) node.textContent = text;
};
