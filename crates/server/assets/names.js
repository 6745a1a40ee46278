// Names of streams in addresses.

/** A name as a part of a path: its slashes stay, and divide folders. */
export const inPath = (name) => name.split('/').map(encodeURIComponent).join('/');
