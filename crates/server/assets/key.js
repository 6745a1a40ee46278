// The field for a key, on pages of a server that asks for one. A key that was entered goes into the page's
// address, as in the links that people share.

/** Whether the page's address has a key. */
export const hasKey = new URLSearchParams(location.search).has('token');

/** Opens the page again with the key that is entered into `form`. */
export function openByKey(form) {
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const address = new URL(location.href);
    address.searchParams.set('token', form.elements.key.value.trim());
    location.assign(address);
  });
}
