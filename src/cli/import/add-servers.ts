import { isDeepStrictEqual } from 'node:util';
import { type Document, isMap, isScalar, parseDocument, stringify, type YAMLMap } from 'yaml';
import { AmbitError } from '../../errors.ts';
import type { Addition } from './plan-import.ts';

const parseOptions = { schema: 'core', version: '1.2' } as const;

/** Adds servers to the text of a configuration. Its comments and present servers stay. */
export function addServers(text: string, additions: readonly Addition[]): string {
  if (text.trimStart().startsWith('{')) return addToJson(text, additions);
  const before = text.trim() === '' ? 'version: 1\n' : text;
  const document = parseDocument(before, parseOptions);
  const inserted = insertLines(before, document, additions);
  const rendered = renderDocument(document, additions);
  // Rendering the whole document would touch unrelated lines, so it is used only where inserting does not work.
  const expected = document.toJS() as unknown;
  const fits = inserted !== undefined && isDeepStrictEqual(parseDocument(inserted, parseOptions).toJS(), expected);
  return fits ? inserted : rendered;
}

/** Inserts lines after the last server with its indentation; undefined where `servers` is no plain block. */
function insertLines(text: string, document: Document, additions: readonly Addition[]): string | undefined {
  const servers = document.get('servers', true);
  const lines = stringify(Object.fromEntries(additions.map(({ name, entry }) => [name, entry])), { lineWidth: 0 });
  if (servers === undefined) return `${ensureLineEnd(text)}servers:\n${indentLines(lines, 2)}`;
  if (!isMap(servers) || servers.flow === true) return undefined;
  const last = servers.items.at(-1) as YAMLMap['items'][number] | undefined;
  const first = servers.items[0]?.key as { range?: [number, number, number] } | undefined;
  const end = (last?.value as { range?: [number, number, number] } | null)?.range?.[2];
  if (end === undefined || first?.range === undefined) return undefined;
  const column = first.range[0] - (text.lastIndexOf('\n', first.range[0] - 1) + 1);
  return `${ensureLineEnd(text.slice(0, end))}${indentLines(lines, column)}${text.slice(end)}`;
}

const ensureLineEnd = (text: string): string => (text.endsWith('\n') ? text : `${text}\n`);
const indentLines = (lines: string, by: number): string => lines.replace(/^(?=.)/gm, ' '.repeat(by));

function renderDocument(document: Document, additions: readonly Addition[]): string {
  const servers = document.get('servers', true);
  if (servers === undefined || (isScalar(servers) && servers.value === null)) {
    document.set('servers', document.createNode({}));
  }
  const map = document.get('servers', true);
  if (document.errors.length > 0 || !isMap(map)) {
    throw new AmbitError('CONFIG_INVALID', { what: '"servers" of the configuration cannot be added to.' });
  }
  if (map.items.length === 0) map.flow = false;
  for (const { name, entry } of additions) map.add(document.createPair(name, entry));
  return document.toString({ lineWidth: 0 });
}

function addToJson(text: string, additions: readonly Addition[]): string {
  let file: { servers?: Record<string, unknown> };
  try {
    file = JSON.parse(text) as typeof file;
  } catch {
    throw new AmbitError('CONFIG_INVALID', {
      what: 'The configuration is neither block YAML nor plain JSON, so servers cannot be added to it.',
      hint: 'Write it as one of the two, or add the servers by hand.',
    });
  }
  const added = Object.fromEntries(additions.map(({ name, entry }) => [name, entry]));
  return `${JSON.stringify({ ...file, servers: { ...file.servers, ...added } }, undefined, 2)}\n`;
}
