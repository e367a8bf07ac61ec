import { isDeepStrictEqual } from 'node:util';
import { parse } from 'smol-toml';
import { isMap } from '../../config/schema/schema-parts.ts';
import { isAmbitError } from '../../errors.ts';
import type { ClientFormat } from './clients.ts';
import { createEditError } from './json-format.ts';

type Table = Record<string, unknown>;

/**
 * TOML, as Codex uses it. An edit replaces the lines of one table and its sub-tables. A file that writes the entry in
 * another way, such as an inline table, is not edited.
 */
export const tomlFormat: ClientFormat = {
  readEntry: (text, path) => readPath(parseToml(text), path),
  setEntry(text, path, value) {
    const lineEnd = text.includes('\r\n') ? '\r\n' : '\n';
    const block = value === undefined ? '' : tomlFormat.renderSnippet(path, value).replaceAll('\n', lineEnd);
    const before = parseToml(text);
    const own = findTables(text).filter(({ keys }) => path.every((key, i) => keys[i] === key));
    const after = own.length === 0 ? appendBlock(text, block, lineEnd) : replaceRanges(text, own, block);
    if (!isOnlyChanged(before, after, path, value)) {
      throw createEditError(`it does not write "${path.join('.')}" as a table of its own`);
    }
    return after;
  },
  renderSnippet(path, value) {
    const lines = Object.entries(value).map(([key, each]) => `${key} = ${renderToml(each)}\n`);
    return `[${path.join('.')}]\n${lines.join('')}`;
  },
  maskText,
};

function parseToml(text: string): Table {
  try {
    return parse(text.replace(/^\uFEFF/, ''), { integersAsBigInt: true }) as Table;
  } catch (error) {
    const { line } = error as { readonly line?: number };
    throw createEditError(`it is not valid TOML${line === undefined ? '' : `: see line ${line}`}`);
  }
}

/** Reads the new text: everything but the entry must be equal. */
function isOnlyChanged(before: Table, after: string, path: readonly string[], value: unknown): boolean {
  try {
    const changed = parseToml(after);
    const isWritten = isDeepStrictEqual(toPlain(readPath(changed, path)), toPlain(value));
    return isWritten && isDeepStrictEqual(withoutPath(before, path), withoutPath(changed, path));
  } catch (error) {
    if (isAmbitError(error)) return false;
    throw error;
  }
}

/** Strings, lists of strings and booleans: entries have nothing else. */
function renderToml(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(renderToml).join(', ')}]`;
  return JSON.stringify(value).replaceAll('\u007f', '\\u007f');
}

const readPath = (table: Table, path: readonly string[]): unknown =>
  path.reduce<unknown>((inner, key) => (isMap(inner) ? inner[key] : undefined), table);

const toPlain = (value: unknown): unknown => (value === undefined ? value : JSON.parse(JSON.stringify(value)));

/** The same without the value at the path, and without tables that it leaves empty. */
function withoutPath(table: Table, [key = '', ...rest]: readonly string[]): Table {
  const { [key]: inner, ...others } = table;
  const left = rest.length > 0 && isMap(inner) ? withoutPath(inner, rest) : {};
  return Object.keys(left).length === 0 ? others : { ...others, [key]: left };
}

function appendBlock(text: string, block: string, lineEnd: string): string {
  if (block === '' || text.trim() === '') return text.trim() === '' ? block : text;
  return `${text}${text.endsWith('\n') ? '' : lineEnd}${lineEnd}${block}`;
}

function replaceRanges(text: string, ranges: readonly TableRange[], block: string): string {
  let after = '';
  let from = 0;
  for (const [i, { start, end }] of ranges.entries()) {
    const between = text.slice(from, start);
    after += i === 0 ? `${between}${block}` : between.trim() === '' ? '' : between;
    from = end;
  }
  return after + text.slice(from);
}

interface TableRange {
  readonly keys: readonly string[];
  /** The start of the line with the name. */
  readonly start: number;
  /** The end of the last line with a value. Comments below it belong to the next table. */
  readonly end: number;
}

/** Finds the tables by their lines; brackets inside strings and lists are no tables. */
function findTables(text: string): TableRange[] {
  const tables: { keys: readonly string[]; start: number; end: number }[] = [];
  for (let at = 0; at < text.length; ) {
    const lineStart = at;
    const [blanks = ''] = /^[ \t\uFEFF]*/.exec(text.slice(at, at + 1000)) ?? [];
    at += blanks.length;
    const first = text[at];
    const end = endOfStatement(text, at);
    if (first === '[') tables.push({ keys: readTableName(text.slice(at, end)), start: lineStart, end });
    else if (first !== '#' && first !== '\n' && first !== '\r' && first !== undefined) {
      const table = tables.at(-1);
      if (table !== undefined) table.end = end;
    }
    at = end;
  }
  return tables;
}

/** Reads `[a."b.c"]` and `[[a]]` with the parser itself. */
function readTableName(line: string): string[] {
  const keys: string[] = [];
  for (let inner: unknown = parseToml(line); ; ) {
    if (Array.isArray(inner)) inner = inner[0];
    const [key] = isMap(inner) ? Object.keys(inner) : [];
    if (key === undefined) return keys;
    keys.push(key);
    inner = (inner as Table)[key];
  }
}

/** The offset behind the line end of a key, a table name, a comment or an empty line. Values may have several lines. */
function endOfStatement(text: string, start: number): number {
  let depth = 0;
  for (let at = start; at < text.length; at++) {
    const character = text[at] as string;
    if (character === '#') at = endOfLine(text, at) - 1;
    else if (character === '"' || character === "'") at = endOfString(text, at);
    else if (character === '[' || character === '{') depth++;
    else if (character === ']' || character === '}') depth--;
    else if (character === '\n' && depth <= 0) return at + 1;
  }
  return text.length;
}

function endOfLine(text: string, at: number): number {
  const end = text.indexOf('\n', at);
  return end === -1 ? text.length : end;
}

/** The offset of the last quote of a string. */
function endOfString(text: string, start: number): number {
  const quote = text[start] as string;
  const close = text.startsWith(quote.repeat(3), start) ? quote.repeat(3) : quote;
  for (let at = start + close.length; at < text.length; at++) {
    if (text[at] === '\\' && quote === '"') at++;
    else if (text.startsWith(close, at)) {
      let last = at + close.length - 1;
      // A string in three quotes may end with up to two more.
      if (close.length === 3) for (let more = 0; more < 2 && text[last + 1] === quote; more++) last++;
      return last;
    }
  }
  return text.length;
}

/** Hides values of other tables, and comments. Lines stay lines. */
function maskText(text: string, shown: ReadonlySet<string>): string {
  const visible = new Set([...shown].map((each) => JSON.stringify(each)));
  let masked = '';
  for (let at = 0; at < text.length; ) {
    const end = endOfStatement(text, at);
    const [first = '', ...more] = text.slice(at, end).split('\n');
    // The other lines of a value are hidden whole: any of them may look like a key.
    const hidden = more.map((line, i) => (i === more.length - 1 && line === '' ? '' : '…'));
    masked += [maskLine(first, visible), ...hidden].join('\n');
    at = end;
  }
  return masked;
}

/** Masks the first line of a table name, a key, a comment or an empty line. */
function maskLine(line: string, visible: ReadonlySet<string>): string {
  if (line.trim() === '') return line;
  if (/^[ \t\uFEFF]*\[/.test(line)) return line.replace(/#.*/, '…');
  const [, key, value = ''] = /^(\s*[\w."'-]+\s*=\s*)(.*)$/.exec(line) ?? [];
  if (key === undefined) return '…';
  const strings = value.match(quotedString) ?? [];
  const rest = value.replaceAll(quotedString, '').trim();
  const isKnown = strings.length > 0 && strings.every((each) => visible.has(each)) && /^[[\], ]*$/.test(rest);
  return isKnown ? line : `${key}…`;
}

const quotedString = /"(?:[^"\\]|\\.)*"/g;
