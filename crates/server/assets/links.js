// `Link` headers of answers (RFC 8288): ICE servers (RFC 9725 §4.6), and other servers of the cluster.

/** The links of a header with the relation `rel`, as `{url, …parameters}`. */
export function linksOf(header, rel) {
  const links = [...(header ?? '').matchAll(/<([^>]+)>((?:\s*;\s*[^=,;]+=(?:"[^"]*"|[^,;]*))*)/g)];
  return links
    .map(([, url, rest]) => {
      const parameters = [...rest.matchAll(/;\s*([^=\s]+)="?([^";]*)"?/g)].map(([, name, value]) => [name, value]);
      return { url, ...Object.fromEntries(parameters) };
    })
    .filter((link) => link.rel === rel);
}
