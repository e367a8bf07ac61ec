// Writes the generated part of docs/reference/api.md from the route table of the build: node scripts/write-api-page.js
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describeApi } from '../build/entrances/control/routes.js';

const file = new URL('../docs/reference/api.md', import.meta.url);
const mark = '<!-- From here on generated: node scripts/write-api-page.js -->\n';

/** The page as it has to be, given the page as it is: what stands above the mark is written by hand. */
export async function renderPage(page) {
  const { paths, components } = await describeApi();
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ name: `${method.toUpperCase()} ${path}`, operation })),
  );
  const tags = [...new Set(operations.map(({ operation }) => operation.tags[0]))];
  const sections = tags.flatMap((tag) => [
    `## ${capitalize(tag)}`,
    ...operations.filter(({ operation }) => operation.tags[0] === tag).flatMap(renderOperation),
  ]);
  const shapes = Object.entries(components.schemas).flatMap(([name, schema]) => [
    `### ${name}`,
    ...renderShape(schema, false),
  ]);
  const above = page.slice(0, page.indexOf(mark));
  return `${above}${mark}\n${[...sections, '## Types', ...shapes].join('\n\n')}\n`;
}

function renderOperation({ name, operation }) {
  const { summary, description, parameters = [], requestBody, responses, security } = operation;
  const role = security?.length === 0 ? 'Needs no credential.' : `Role: ${operation['x-ambit-role']}.`;
  const rows = parameters.map(({ name: parameter, in: place, required, schema, description: words }) => {
    const note = { query: required ? 'Required.' : '', header: 'Request header.' }[place] ?? '';
    return rowOf(place === 'path' ? `{${parameter}}` : parameter, schema, note, words);
  });
  const body = requestBody?.content['application/json'].schema;
  const answers = Object.entries(responses).filter(([status]) => status !== 'default');
  return [
    `### \`${name}\``,
    [`${summary}.`, description, role].filter(Boolean).join(' '),
    ...(rows.length === 0 ? [] : [tableOf('parameter', rows)]),
    ...(body === undefined ? [] : renderShape(body, true, 'body field')),
    ...answers.flatMap(([status, { description: words, content }]) => {
      const [{ schema }] = Object.values(content);
      const [shape, ...table] = renderShape(schema, false, 'response field');
      const isTable = shape.startsWith('|');
      return [`**${status}** ${words}${isTable ? '.' : `: ${shape}`}`, ...(isTable ? [shape] : table)];
    }),
  ];
}

/** A shape in words, or as a table of its members; parts that have a name of their own are linked. */
function renderShape(schema, isRequest, title = 'field') {
  const named = (schema.allOf ?? []).filter((part) => part.$ref !== undefined).map(typeOf);
  const rows = memberRows(schema, '', isRequest);
  const table = rows.length === 0 ? [] : [tableOf(title, rows)];
  if (named.length > 0)
    return [`${named.join(', ')}${table.length === 0 ? '' : ', with these additional fields:'}`, ...table];
  return table.length === 0 ? [typeOf(schema)] : table;
}

function memberRows(schema, prefix, isRequest) {
  const parts = [...(schema.allOf ?? []), ...(schema.anyOf ?? [])];
  const own = Object.entries(schema.properties ?? {}).flatMap(([name, member]) => {
    const isRequired = (schema.required ?? []).includes(name);
    const note = isRequest ? (isRequired ? 'Required.' : '') : isRequired ? '' : 'Optional.';
    const path = `${prefix}${name}`;
    const inner =
      member.items ?? (typeof member.additionalProperties === 'object' ? member.additionalProperties : member);
    const step = member.items !== undefined ? `${path}[].` : inner === member ? `${path}.` : `${path}.*.`;
    return [rowOf(path, member, note, member.description), ...memberRows(inner, step, isRequest)];
  });
  return [...new Set([...own, ...parts.flatMap((part) => memberRows(part, prefix, isRequest))])];
}

function rowOf(name, schema, note, words) {
  const isBare = words === undefined || words === 'ISO 8601';
  return `| \`${name}\` | ${typeOf(schema)} | ${[note, isBare ? undefined : words].filter(Boolean).join(' ')} |`;
}

function tableOf(title, rows) {
  return [`| ${title} | type | description |`, '|---|---|---|', ...rows].join('\n');
}

function typeOf(schema) {
  if (schema.$ref !== undefined) {
    const name = schema.$ref.split('/').at(-1);
    return `[${name}](#${name.toLowerCase()})`;
  }
  if (schema.enum !== undefined)
    return schema.enum.map((value) => (value === null ? 'null' : `\`${value}\``)).join(', ');
  if (schema.const !== undefined) return `\`${JSON.stringify(schema.const)}\``;
  const parts = schema.anyOf ?? schema.allOf;
  if (parts !== undefined) return [...new Set(parts.map(typeOf))].join(schema.anyOf === undefined ? ' and ' : ' or ');
  const [type, ...others] = [schema.type].flat();
  const orNull = others.includes('null') ? ' or null' : '';
  if (type === 'array') return `list of ${typeOf(schema.items).replace(/^(?:string|object|number)$/, '$&s')}${orNull}`;
  if (type === 'object' && typeof schema.additionalProperties === 'object') return `map${orNull}`;
  return `${wordFor(schema, type)}${boundsOf(schema)}${orNull}`;
}

function wordFor({ format }, type) {
  if (format === 'date-time') return 'timestamp (ISO 8601)';
  return { string: 'string', integer: 'integer' }[type] ?? type ?? 'any JSON value';
}

function boundsOf({ minimum, maximum, default: usual }) {
  const range = minimum === undefined || maximum === undefined ? '' : ` from ${minimum} to ${maximum}`;
  return `${range}${usual === undefined ? '' : `; default ${usual}`}`;
}

function capitalize(word) {
  return word === 'openapi' ? 'OpenAPI' : `${word.slice(0, 1).toUpperCase()}${word.slice(1)}`;
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  writeFileSync(file, await renderPage(readFileSync(file, 'utf8')));
