// Names of streams by patterns, as in `cam*, door`.

/** Returns whether a name fits one of the patterns in `text`; an empty text fits every name. `*` stands for any characters. */
export function fits(text) {
  const patterns = text.split(/[\s,]+/).filter(Boolean).map((pattern) => {
    const literal = (part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
    return new RegExp(`^${pattern.split('*').map(literal).join('.*')}$`);
  });
  return (name) => patterns.length === 0 || patterns.some((pattern) => pattern.test(name));
}
