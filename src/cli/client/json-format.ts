import { isDeepStrictEqual } from 'node:util';
import { applyEdits, type Edit, modify, type Node, type ParseError, parse, parseTree, visit } from 'jsonc-parser';
import { isMap } from '../../config/schema/schema-parts.ts';
import { AmbitError, isAmbitError } from '../../errors.ts';
import type { ClientEntry, ClientFormat } from './clients.ts';

/**
 * JSON with comments and trailing commas, as editors write it. An edit touches one entry: comments, order and formatting of
 * the rest stay.
 */
export const jsonFormat: ClientFormat = {
  readEntry(text, path) {
    const { node } = findNode(parseJson(text), path);
    return node === undefined ? undefined : parseValue(text.slice(node.offset, node.offset + node.length));
  },
  setEntry(text, path, value) {
    const mark = text.startsWith(byteOrderMark) ? byteOrderMark : '';
    const body = text.slice(mark.length);
    const after = value === undefined ? removeEntry(body, path) : putEntry(body, path, value);
    assertOnlyChanged(body, after, path, value);
    return `${mark}${after}`;
  },
  renderSnippet: (path, value) => `${JSON.stringify(nestValue(path, value), undefined, 2)}\n`,
  maskText,
};

const byteOrderMark = '\uFEFF';
const parseOptions = { allowTrailingComma: true, allowEmptyContent: true } as const;

const nestValue = (path: readonly string[], value: unknown): unknown =>
  path.reduceRight((inner, key) => ({ [key]: inner }), value);

const parseValue = (text: string): unknown => parse(text, [], parseOptions);

/** Parses the text; undefined when it is empty. */
function parseJson(text: string): Node | undefined {
  const errors: ParseError[] = [];
  const body = text.startsWith(byteOrderMark) ? ` ${text.slice(1)}` : text;
  const root = parseTree(body, errors, parseOptions);
  const [first] = errors;
  if (first !== undefined) {
    throw createEditError(`it is not valid JSON: see line ${body.slice(0, first.offset).split('\n').length}`);
  }
  if (root !== undefined && root.type !== 'object') throw createEditError('it is not a JSON object');
  return root;
}

/** Says why a file of a client cannot be edited. */
export function createEditError(reason: string): AmbitError {
  return new AmbitError('CONFIG_INVALID', { what: reason });
}

interface FoundNode {
  /** The value at the path; undefined where there is none. */
  readonly node: Node | undefined;
  /** The innermost object on the path. */
  readonly parent: Node | undefined;
  /** The number of keys of the path that exist. */
  readonly depth: number;
}

function findNode(root: Node | undefined, path: readonly string[]): FoundNode {
  let parent = root;
  for (const [depth, key] of path.entries()) {
    if (parent === undefined) return { node: undefined, parent, depth };
    if (parent.type !== 'object') throw createEditError(`"${path.slice(0, depth).join('.')}" in it is not an object`);
    const properties: readonly Node[] = (parent.children ?? []).filter(({ children }) => children?.[0]?.value === key);
    if (properties.length > 1) throw createEditError(`"${path.slice(0, depth + 1).join('.')}" is in it more than once`);
    const value = properties[0]?.children?.[1];
    if (value === undefined) return { node: undefined, parent, depth };
    if (depth === path.length - 1) return { node: value, parent, depth: path.length };
    parent = value;
  }
  return { node: undefined, parent, depth: path.length };
}

function putEntry(text: string, path: readonly string[], value: ClientEntry | readonly unknown[]): string {
  const root = parseJson(text);
  if (root === undefined) return jsonFormat.renderSnippet(path, value);
  const { node, parent = root, depth } = findNode(root, path);
  const style = readStyle(text);
  if (node !== undefined) {
    const content = renderValue(value, style, indentAt(text, node.offset));
    return applyEdits(text, [{ offset: node.offset, length: node.length, content }]);
  }
  const key = JSON.stringify(path[depth]);
  const inner = nestValue(path.slice(depth + 1), value);
  return applyEdits(
    text,
    insertMember(text, parent, style, (indent) => `${key}: ${renderValue(inner, style, indent)}`),
  );
}

interface TextStyle {
  /** The indentation of one level; empty for a file in one line. */
  readonly unit: string;
  readonly lineEnd: string;
}

function readStyle(text: string): TextStyle {
  const body = text.trim();
  const [, unit = '  '] = /\n([ \t]+)["/]/.exec(body) ?? [];
  return { unit: body.includes('\n') || body === '{}' ? unit : '', lineEnd: text.includes('\r\n') ? '\r\n' : '\n' };
}

function renderValue(value: unknown, { unit, lineEnd }: TextStyle, indent: string): string {
  if (unit === '') return JSON.stringify(value);
  return JSON.stringify(value, undefined, unit).replaceAll('\n', `${lineEnd}${indent}`);
}

/** The blanks at the start of the line of an offset. */
function indentAt(text: string, offset: number): string {
  const line = text.slice(text.lastIndexOf('\n', offset - 1) + 1, offset);
  return /^[ \t]*/.exec(line)?.[0] ?? '';
}

/** Adds a member at the end of an object or list, below a comment that belongs to the last one. */
function insertMember(
  text: string,
  { offset, length, children = [] }: Node,
  style: TextStyle,
  render: (indent: string) => string,
): Edit[] {
  const end = offset + length - 1;
  const base = indentAt(text, offset);
  const last = children.at(-1);
  if (last === undefined) {
    const indent = `${base}${style.unit}`;
    const inside = text.slice(offset + 1, end).trimEnd();
    const [open, close] = style.unit === '' ? ['', ''] : [`${style.lineEnd}${indent}`, `${style.lineEnd}${base}`];
    return [{ offset: offset + 1, length: end - offset - 1, content: `${inside}${open}${render(indent)}${close}` }];
  }
  const lastEnd = last.offset + last.length;
  const { comma, sameLineEnd, endsLine } = readTail(text, lastEnd, end);
  const isOwnLine = text.slice(0, last.offset).trimEnd().length < text.lastIndexOf('\n', last.offset - 1) + 1;
  const indent = isOwnLine ? indentAt(text, last.offset) : base;
  // Behind "//" everything in the line would be part of the comment.
  const separator = isOwnLine || endsLine ? `${style.lineEnd}${indent}` : ' ';
  const added = `${separator}${render(indent)}${comma === undefined ? '' : ','}`;
  if (comma !== undefined || sameLineEnd === lastEnd) {
    const at = Math.max(sameLineEnd, (comma ?? -1) + 1);
    return [{ offset: at, length: 0, content: comma === undefined ? `,${added}` : added }];
  }
  return [
    { offset: lastEnd, length: 0, content: ',' },
    { offset: sameLineEnd, length: 0, content: added },
  ];
}

interface MemberTail {
  /** The offset of the trailing comma after the last member. */
  readonly comma: number | undefined;
  /** The end of the comments in its line. */
  readonly sameLineEnd: number;
  /** Whether the last of these comments takes the rest of the line. */
  readonly endsLine: boolean;
}

function readTail(text: string, start: number, end: number): MemberTail {
  let comma: number | undefined;
  let sameLineEnd = start;
  let endsLine = false;
  visit(
    text,
    {
      onSeparator(character, offset) {
        if (character === ',' && offset >= start && offset < end) comma = offset;
      },
      onComment(offset, length) {
        const between = text.slice(start, offset);
        if (offset < start || offset >= end || between.includes('\n')) return;
        sameLineEnd = offset + length;
        endsLine = text.startsWith('//', offset);
      },
    },
    parseOptions,
  );
  return { comma, sameLineEnd, endsLine };
}

function removeEntry(text: string, path: readonly string[]): string {
  const { node } = findNode(parseJson(text), path);
  return node === undefined ? text : applyEdits(text, modify(text, [...path], undefined, {}));
}

/** Reads both texts again: everything but the entry must be equal. */
function assertOnlyChanged(before: string, after: string, path: readonly string[], value: unknown): void {
  const expected = parseValue(before) ?? {};
  let parent = expected as Record<string, unknown>;
  const last = path.at(-1) as string;
  for (const key of path.slice(0, -1)) {
    const next = parent[key];
    if (!isMap(next) && value === undefined) return;
    parent[key] = next ?? {};
    parent = parent[key] as Record<string, unknown>;
  }
  if (value === undefined) delete parent[last];
  else parent[last] = value;
  parseJson(after);
  if (!isDeepStrictEqual(parseValue(after), expected))
    throw createEditError('the edited file would not read as expected');
}

/** Hides strings that may be secrets of other servers, and comments. Lines stay lines. */
function maskText(text: string, shown: ReadonlySet<string>): string {
  const edits: Edit[] = [];
  visit(
    text,
    {
      onLiteralValue(value: unknown, offset, length) {
        if (typeof value === 'string' && !shown.has(value)) edits.push({ offset, length, content: '"…"' });
      },
      onComment(offset, length) {
        const comment = text.slice(offset, offset + length);
        const lines = '\n'.repeat(comment.split('\n').length - 1);
        edits.push({ offset, length, content: comment.startsWith('//') ? '// …' : `/* …${lines} */` });
      },
    },
    parseOptions,
  );
  // `applyEdits` copies the whole text for each edit. A file of 5 MB would take minutes.
  let masked = '';
  let from = 0;
  for (const { offset, length, content } of edits) {
    masked += text.slice(from, offset) + content;
    from = offset + length;
  }
  return masked + text.slice(from);
}

interface ListItem {
  readonly id: string;
}

const hasId = (id: string) => (item: unknown) => isMap(item) && item['id'] === id;

/** Adds an item to a list at the top of the file, unless it has one with this id. */
export function addListItem(text: string, key: string, item: ListItem): string {
  const list = jsonFormat.readEntry(text, [key]);
  if (list === undefined) return jsonFormat.setEntry(text, [key], [item]);
  if (!Array.isArray(list)) throw createEditError(`"${key}" in it is not a list`);
  if (list.some(hasId(item.id))) return text;
  const { node } = findNode(parseJson(text), [key]);
  const style = readStyle(text);
  const edits = insertMember(text, node as Node, style, (indent) => renderValue(item, style, indent));
  return editList(text, key, edits, [...list, item]);
}

export function removeListItem(text: string, key: string, id: string): string {
  const list = jsonFormat.readEntry(text, [key]);
  const index = Array.isArray(list) ? list.findIndex(hasId(id)) : -1;
  if (!Array.isArray(list) || index === -1) return text;
  return editList(text, key, modify(text, [key, index], undefined, {}), list.toSpliced(index, 1));
}

/** Edits a list. Where the edits would change anything else, such as with comments between, the whole list is written. */
function editList(text: string, key: string, edits: Edit[], list: readonly unknown[]): string {
  try {
    const edited = applyEdits(text, edits);
    assertOnlyChanged(text, edited, [key], list);
    return edited;
  } catch (error) {
    if (!isAmbitError(error)) throw error;
    return jsonFormat.setEntry(text, [key], list);
  }
}
