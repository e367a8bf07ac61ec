import { isAbsolute } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { Document, isMap, isScalar, isSeq, type Pair, parseDocument } from 'yaml';
import { AmbitError } from '../../errors.ts';

/** A server to be added to the configuration, in the form it has there. */
export interface Addition {
  readonly name: string;
  /** The origin, for people: a client, a file, the registry or the control API. Empty for the operator's own. */
  readonly origin: string;
  readonly entry: Readonly<Record<string, unknown>>;
}

/** Members that may hold keys, tokens and passwords; an address may have one in its path. */
const secretFields = ['env', 'headers', 'args', 'url'];

export function mayHoldSecrets({ entry }: Addition): boolean {
  return secretFields.some((key) => entry[key] !== undefined);
}

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
  const lines = renderEntries(additions);
  if (servers === undefined) return `${ensureLineEnd(text)}servers:\n${indentLines(lines, 2)}`;
  if (!isMap(servers)) return undefined;
  if (servers.items.length === 0) return replaceEmptyMap(text, servers, lines);
  const last = servers.items.at(-1);
  const start = findRange(servers.items[0]?.key)?.[0];
  if (servers.flow === true || last === undefined || start === undefined) return undefined;
  const column = start - startOfLine(text, start);
  const end = endOfEntry(text, last, column);
  return `${ensureLineEnd(text.slice(0, end))}${indentLines(lines, column)}${text.slice(end)}`;
}

/** Renders servers as they stand under `servers`. Short lists of arguments without paths stand on one line. */
export function renderEntries(additions: readonly Addition[]): string {
  const document = new Document(Object.fromEntries(additions.map(({ name, entry }) => [name, entry])));
  for (const { name, entry } of additions) {
    const args = document.getIn([name, 'args'], true);
    const words = Array.isArray(entry['args']) ? entry['args'].map(String) : [];
    const isShort = words.join(', ').length <= maxFlowLength && !words.some((word) => isAbsolute(word));
    if (isSeq(args) && isShort) args.flow = true;
  }
  return document.toString({ lineWidth: 0, flowCollectionPadding: false });
}

/** Longer lists would be broken into lines. */
const maxFlowLength = 50;

/** Replaces `{}` by a block. */
function replaceEmptyMap(text: string, servers: unknown, lines: string): string | undefined {
  const [start, end] = findRange(servers) ?? [0, 0];
  if (text.slice(start, end) !== '{}') return undefined;
  const lineEnd = endOfLine(text, end);
  const head = `${text.slice(0, start).trimEnd()}${ensureLineEnd(text.slice(end, lineEnd))}`;
  return `${head}${indentLines(lines, 2)}${text.slice(lineEnd)}`;
}

type NodeRange = readonly [start: number, valueEnd: number, nodeEnd: number];

/** The offsets of a node in the text; undefined for a node that has none. */
const findRange = (node: unknown): NodeRange | undefined =>
  (node as { readonly range?: NodeRange } | null | undefined)?.range;
const startOfLine = (text: string, at: number): number => text.lastIndexOf('\n', at - 1) + 1;
const ensureLineEnd = (text: string): string => (text.endsWith('\n') ? text : `${text}\n`);

/** Indents lines. Only a line feed ends one: to `^` and `.` the line separators that a value may hold are ends too. */
export function indentLines(lines: string, by: number): string {
  const indented = lines.split('\n').map((line) => (line === '' ? line : `${' '.repeat(by)}${line}`));
  return indented.join('\n');
}

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
  const file = parseJson(text);
  if (file === undefined) {
    throw new AmbitError('CONFIG_INVALID', {
      what: 'The configuration is neither block YAML nor plain JSON, so servers cannot be added to it.',
      hint: 'Write it as one of the two, or add the servers by hand.',
    });
  }
  const added = Object.fromEntries(additions.map(({ name, entry }) => [name, entry]));
  return `${JSON.stringify({ ...file, servers: { ...file.servers, ...added } }, undefined, 2)}\n`;
}

/**
 * Removes a server from the text of a configuration. The comments directly above it are removed with it. All other lines
 * stay.
 */
export function removeServer(text: string, name: string): string {
  const json = parseJson(text);
  if (json !== undefined) {
    const { [name]: _, ...rest } = json.servers ?? {};
    return `${JSON.stringify({ ...json, servers: rest }, undefined, 2)}\n`;
  }
  const document = parseDocument(text, parseOptions);
  const lines = removeLines(text, document, name);
  let expected: unknown;
  try {
    document.deleteIn(['servers', name]);
    expected = document.toJS();
  } catch {
    throw new AmbitError('CONFIG_INVALID', {
      what: `"${name}" cannot be removed: another entry refers to it with a YAML alias ("*").`,
      hint: 'Edit the configuration by hand.',
    });
  }
  const fits = lines !== undefined && isDeepStrictEqual(parseDocument(lines, parseOptions).toJS(), expected);
  return fits ? lines : document.toString({ lineWidth: 0 });
}

function parseJson(text: string): { servers?: Record<string, unknown> } | undefined {
  if (!text.trimStart().startsWith('{')) return undefined;
  try {
    return JSON.parse(text) as { servers?: Record<string, unknown> };
  } catch {
    return undefined;
  }
}

/** Removes the lines of a server; undefined where `servers` is no plain block. */
function removeLines(text: string, document: Document, name: string): string | undefined {
  const servers = document.get('servers', true);
  if (!isMap(servers) || servers.flow === true) return undefined;
  const pair = servers.items.find(({ key }) => isScalar(key) && key.value === name);
  const key = findRange(pair?.key);
  if (pair === undefined || key === undefined) return undefined;
  const start = startOfLine(text, key[0]);
  const column = key[0] - start;
  if (text.slice(start, key[0]).trim() !== '') return undefined;
  const first = startOfComments(text, start, column);
  const end = endOfEntry(text, pair, column);
  const rest = `${text.slice(0, first)}${text.slice(end)}`;
  if (servers.items.length > 1) return rest;
  // A key without a value would be null, which is no map of servers.
  const parent = document.contents;
  const own = isMap(parent)
    ? parent.items.find(({ key: each }) => isScalar(each) && each.value === 'servers')
    : undefined;
  const keyEnd = findRange(own?.key)?.[1];
  if (keyEnd === undefined || text[keyEnd] !== ':') return undefined;
  return `${rest.slice(0, keyEnd + 1)} {}${rest.slice(keyEnd + 1)}`;
}

/** The start of the comment lines directly above a line that have its indentation. */
function startOfComments(text: string, start: number, column: number): number {
  let first = start;
  while (first > 0) {
    const above = startOfLine(text, first - 1);
    const line = text.slice(above, first);
    if (!line.trimStart().startsWith('#') || line.length - line.trimStart().length !== column) break;
    first = above;
  }
  return first;
}

/** The end of the last line of an entry, with the comments below it that are indented further than its key. */
function endOfEntry(text: string, pair: Pair, column: number): number {
  const valueEnd = findRange(pair.value)?.[1] ?? findRange(pair.key)?.[1] ?? 0;
  // A value may end with other white space, such as a line separator, which is a part of it.
  let end = endOfLine(text, text.slice(0, valueEnd).replace(/(?<![ \r\n])[ \r\n]+$/, '').length);
  for (;;) {
    const next = endOfLine(text, end);
    const line = text.slice(end, next);
    if (!line.trimStart().startsWith('#') || line.length - line.trimStart().length <= column) return end;
    end = next;
  }
}

function endOfLine(text: string, at: number): number {
  const found = text.indexOf('\n', at);
  return found === -1 ? text.length : found + 1;
}

/** The entry of a server as it is written in the configuration. */
export function readServerEntry(text: string, name: string): unknown {
  const value = parseDocument(text, parseOptions).toJS() as { servers?: Record<string, unknown> } | null;
  return value?.servers?.[name];
}
