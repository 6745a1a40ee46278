// Asks before something is done that its maker may regret.

import { html } from './dom.js';

/** Resolves with whether the operator agrees. `text` says what follows; `action` is the word on the button,
 * red where nobody can take it back. */
export function confirmed({ title, text, action, isFinal = true }) {
  const yes = html('button', { class: isFinal ? 'small danger' : 'small', type: 'button' }, action);
  const no = html('button', { class: 'small', type: 'button', autofocus: '' }, 'Cancel');
  const dialog = html('dialog', { class: 'confirm', 'aria-labelledby': 'confirm-title' },
    html('h2', { id: 'confirm-title' }, title), html('p', {}, text), html('p', { class: 'buttons' }, no, ' ', yes));
  document.body.append(dialog);
  return new Promise((resolve) => {
    yes.addEventListener('click', () => dialog.close('yes'));
    no.addEventListener('click', () => dialog.close());
    dialog.addEventListener('close', () => {
      dialog.remove();
      resolve(dialog.returnValue === 'yes');
    });
    dialog.showModal();
  });
}
