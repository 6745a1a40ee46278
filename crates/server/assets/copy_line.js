// A line to copy into a terminal, with its button.

import { html, setText } from './dom.js';

/** The line with a button that copies it. */
export function copyLine(line) {
  const code = html('code', { tabindex: 0 }, line);
  const button = html('button', { class: 'small', type: 'button' }, 'Copy');
  button.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(line);
      setText(button, 'Copied');
    } catch {
      // Plain HTTP of another host has no clipboard.
      getSelection().selectAllChildren(code);
      setText(button, 'Press Ctrl+C');
    }
    setTimeout(() => setText(button, 'Copy'), 2000);
  });
  return html('div', { class: 'copy-line' }, code, button);
}
