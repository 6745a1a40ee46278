// Names of streams by patterns, as in `cam*, door`.

/**
 * Returns whether a name fits one of the patterns in `text`; an empty text fits every name. `*` stops at a `/`, `**` does
 * not, as in patterns of rights. */
export function fits(text) {
  const patterns = text.split(/[\s,]+/).filter(Boolean).map((pattern) => {
    const literal = (part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
    const parts = pattern.split('**').map((part) => part.split('*').map(literal).join('[^/]*'));
    return new RegExp(`^${parts.join('.*')}$`);
  });
  return (name) => patterns.length === 0 || patterns.some((pattern) => pattern.test(name));
}
