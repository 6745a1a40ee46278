// Shows the OpenAPI document: its operations by group, then its schemas.

import { html } from './dom.js';

const DOCUMENT = '/openapi.json';
const anchor = (name) => `schema-${name}`;

/** The name of the schema that a reference leads to. */
const named = (reference) => reference.split('/').pop();

/** The kind of a value as nodes: names of schemas are links. */
const kind = (schema) => {
  if (schema === true || schema === undefined) return ['anything'];
  if (schema.$ref) {
    const name = named(schema.$ref);
    return [html('a', { href: `#${anchor(name)}` }, name)];
  }
  const several = schema.anyOf ?? schema.oneOf;
  if (several) return several.flatMap((one, at) => (at > 0 ? [' or ', ...kind(one)] : kind(one)));
  if (schema.allOf) return schema.allOf.flatMap((one, at) => (at > 0 ? [' and ', ...kind(one)] : kind(one)));
  if (schema.enum) return [schema.enum.map((it) => JSON.stringify(it)).join(' or ')];
  if (schema.const !== undefined) return [JSON.stringify(schema.const)];
  if (schema.type === 'array') return ['list of ', ...kind(schema.items)];
  const types = [schema.type ?? 'anything'].flat().join(' or ');
  return [types + bounds(schema)];
};

const bounds = ({ minimum, maximum }) => {
  if (minimum !== undefined && maximum !== undefined) return ` from ${minimum} to ${maximum}`;
  if (minimum !== undefined && minimum !== 0) return ` from ${minimum}`;
  return '';
};

const row = (name, schema, text) =>
  html('tr', {},
    html('th', { scope: 'row' }, html('code', {}, name)),
    html('td', {}, ...kind(schema)),
    html('td', {}, text ?? ''));

const table = (rows) => html('div', { class: 'rows' }, html('table', {}, html('tbody', {}, ...rows)));

const section = (title, ...content) => [html('h3', {}, title), ...content];

/** A line for a shell that sends the operation. */
const command = (method, path, operation) => {
  const url = `${location.origin}${path}`;
  const verb = method === 'get' ? '' : ` -X ${method.toUpperCase()}`;
  const body = operation.requestBody ? " -H 'Content-Type: application/json' -d '{…}'" : '';
  return html('pre', {}, html('code', {}, `curl -s${verb} '${url}'${body}`));
};

const answers = (responses) => {
  const rows = Object.entries(responses).flatMap(([status, { description, content = {} }]) => {
    const forms = Object.entries(content);
    if (forms.length === 0) return [row(status, {}, description)];
    return forms.map(([type, { schema }]) =>
      row(status, type.endsWith('json') ? schema : { type }, description));
  });
  return table(rows);
};

const operationView = ({ method, path, operation }) => {
  const parameters = operation.parameters.map(({ name, required, schema, description }) =>
    row(required ? name : `${name}?`, schema, description));
  const body = operation.requestBody?.content['application/json'].schema;
  return html('details', { id: operation.operationId },
    html('summary', {},
      html('span', { class: 'method', 'data-method': method }, method.toUpperCase()),
      html('code', {}, path),
      html('span', { class: 'what' }, operation.summary)),
    command(method, path, operation),
    ...(parameters.length > 0 ? section('Parameters', table(parameters)) : []),
    ...(body ? section('Body', table([row('JSON', body, '')])) : []),
    ...section('Answers', answers(operation.responses)));
};

/** The members of a schema, also of those that it is made of. */
const members = (schema) => {
  const own = Object.entries(schema.properties ?? {}).map(([name, value]) => {
    const isRequired = schema.required?.includes(name);
    return row(isRequired ? name : `${name}?`, value, value.description);
  });
  const parts = [...(schema.allOf ?? []), ...(schema.anyOf ?? []), ...(schema.oneOf ?? [])];
  return own.concat(parts.map((part) => row('…', part, part.description)));
};

const schemaView = ([name, schema]) => {
  const rows = members(schema);
  return html('details', { id: anchor(name) },
    html('summary', {}, html('code', {}, name), html('span', { class: 'what' }, schema.description ?? '')),
    rows.length > 0 ? table(rows) : html('p', {}, ...kind(schema)));
};

/** Shows only what has the words that are looked for. */
const find = (text) => {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const entry of document.querySelectorAll('.api details')) {
    const content = entry.textContent.toLowerCase();
    entry.hidden = !words.every((word) => content.includes(word));
    shown += entry.hidden ? 0 : 1;
  }
  for (const group of document.querySelectorAll('#operations section')) {
    group.hidden = !group.querySelector('details:not([hidden])');
  }
  document.getElementById('found').textContent = words.length > 0 ? `${shown} found` : '';
};

/** Opens what the address names, such as the schema of a link. */
const openNamed = () => {
  const entry = document.getElementById(location.hash.slice(1));
  if (entry?.tagName !== 'DETAILS') return;
  entry.hidden = false;
  entry.open = true;
  entry.scrollIntoView({ block: 'nearest' });
};

const show = (described) => {
  document.getElementById('version').textContent = described.info.version;
  document.getElementById('about').textContent = described.info.description;
  const groups = new Map();
  for (const [path, methods] of Object.entries(described.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const [tag] = operation.tags;
      groups.set(tag, (groups.get(tag) ?? []).concat({ method, path, operation }));
    }
  }
  const views = [...groups].sort(([a], [b]) => a.localeCompare(b)).map(([tag, operations]) =>
    html('section', { class: 'card' }, html('h2', {}, tag), ...operations.map(operationView)));
  document.getElementById('operations').append(...views);
  const schemas = Object.entries(described.components.schemas).sort(([a], [b]) => a.localeCompare(b));
  document.getElementById('schemas').append(...schemas.map(schemaView));
  document.getElementById('find').addEventListener('input', ({ target }) => find(target.value));
  addEventListener('hashchange', openNamed);
  openNamed();
};

try {
  const response = await fetch(DOCUMENT);
  if (!response.ok) throw new Error(`status ${response.status}`);
  show(await response.json());
} catch (error) {
  document.getElementById('about').textContent = `The document did not come: ${error.message}. Reload the page.`;
}
