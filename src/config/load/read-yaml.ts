import {
  type Alias,
  Composer,
  type CST,
  type Document,
  type ErrorCode,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  Lexer,
  LineCounter,
  type Node,
  type Pair,
  Parser,
  type Scalar,
  type YAMLMap,
} from 'yaml';
import type { KeyPath, Locate, Problem } from '../explain/problem.ts';

/** Most values that aliases may stand for in all: enough to share settings, too little to blow up. */
const mostAliased = 10_000;

type Entry = Pair<unknown, Node | null>;

interface YamlValue {
  readonly value: unknown;
  readonly problems: readonly Problem[];
  /** True when the value is not whole, so that checking it further would mislead. */
  readonly broken: boolean;
  readonly entries: ReadonlyMap<unknown, ReadonlyMap<string, Entry>>;
  readonly targets: ReadonlyMap<unknown, Node>;
}

interface Anchored {
  readonly node: Node;
  readonly value: unknown;
  readonly size: number;
}

const offsetOf = (node: unknown): number => (node as Node | null | undefined)?.range?.[0] ?? 0;

/** The parser's own sentences quote the source, which may hold secrets; these do not. */
const byCode: Readonly<Record<ErrorCode, string>> = {
  ALIAS_PROPS: 'an alias takes neither anchor nor tag',
  BAD_ALIAS: 'an anchor or alias without a usable name',
  BAD_COLLECTION_TYPE: 'this tag does not fit here',
  BAD_DIRECTIVE: 'this % directive is not understood',
  BAD_DQ_ESCAPE: 'unknown escape in double quotes; write \\\\ for a backslash',
  BAD_INDENT: 'the indentation does not fit the lines before, or a closing } or ] is missing',
  BAD_PROP_ORDER: 'anchors and tags stand after the indicator',
  BAD_SCALAR_START: 'a value that starts with this character needs quotes',
  BLOCK_AS_IMPLICIT_KEY: 'a second ": " or "- " on the same line; a value that holds one needs quotes',
  BLOCK_IN_FLOW: 'an indented block cannot stand inside { } or [ ]',
  DUPLICATE_KEY: 'duplicate key',
  IMPOSSIBLE: 'this cannot be read',
  KEY_OVER_1024_CHARS: 'a key longer than 1024 characters',
  MISSING_CHAR: 'a character is missing here: a quote, bracket, comma, colon or blank',
  MULTILINE_IMPLICIT_KEY: 'a key must stand on one line, or a ":" is missing',
  MULTIPLE_ANCHORS: 'at most one anchor',
  MULTIPLE_DOCS: 'one document only',
  MULTIPLE_TAGS: 'at most one tag',
  NON_STRING_KEY: 'a key must be plain text',
  RESOURCE_EXHAUSTION: 'nested too deeply',
  TAB_AS_INDENT: 'tabs cannot indent; use blanks',
  TAG_RESOLVE_FAILED: 'this tag is not known; only plain values are read',
  UNEXPECTED_TOKEN: 'this does not belong here',
};

const byStart: readonly (readonly [RegExp, string])[] = [
  [/^Missing closing/, 'a closing quote is missing'],
  [/^Missing , (?:or : )?between/, 'a comma or a colon is missing between the entries'],
  [/^Implicit map keys need/, 'a ":" is missing after the key'],
];

/** The parser recurses, and a few thousand brackets end the process; no configuration is this deep. */
const deepest = 64;

export interface YamlSource {
  readonly value: unknown;
  readonly problems: readonly Problem[];
  /** True when the text could not be read whole, so that checking the value further would mislead. */
  readonly broken: boolean;
  readonly locate: Locate;
}

const atOffset = (offset: number, message: string): Problem => ({ path: [], at: 'value', message, offset });

function tokenize(text: string, lines: LineCounter): { tokens: CST.Token[]; tooDeepAt?: number } {
  const parser = new Parser(lines.addNewLine);
  const tokens: CST.Token[] = [];
  lines.addNewLine(0);
  for (const lexeme of new Lexer().lex(text)) {
    tokens.push(...parser.next(lexeme));
    if (parser.stack.length > deepest) return { tokens, tooDeepAt: parser.offset };
  }
  tokens.push(...parser.end());
  return { tokens };
}

function compose(tokens: CST.Token[], text: string): Document.Parsed[] {
  // Keys are compared in yaml-value.ts: the parser compares each with each. YAML 1.1 would turn `off` into false.
  const composer = new Composer({
    uniqueKeys: false,
    prettyErrors: false,
    version: '1.2',
    schema: 'core',
    merge: false,
    resolveKnownTags: false,
  });
  return [...composer.compose(tokens, true, text.length)];
}

function finder(root: Node | null, read: YamlValue, lines: LineCounter): Locate {
  const follow = (node: unknown): unknown => read.targets.get(node) ?? node;
  return ({ path, at, offset }) => {
    if (offset !== undefined) return lines.linePos(offset);
    let node: unknown = root;
    let key: unknown;
    for (const segment of path) {
      const parent = follow(node);
      if (isSeq(parent) && parent.items[Number(segment)] !== undefined) {
        node = key = parent.items[Number(segment)];
        continue;
      }
      const entry = isMap(parent) ? read.entries.get(parent)?.get(String(segment)) : undefined;
      // What is missing is shown at the key that should hold it.
      if (entry === undefined) return lines.linePos(offsetOf(key));
      key = entry.key;
      node = entry.value;
    }
    const written = isScalar(node) && node.value !== null;
    return lines.linePos(offsetOf(at === 'value' && written ? node : key));
  };
}

/** Reads YAML, and JSON with it, so that each value can be found again in the text. */
export function readYaml(text: string): YamlSource {
  const lines = new LineCounter();
  const nowhere: Locate = ({ offset }) => lines.linePos(offset ?? 0);
  const { tokens, tooDeepAt } = tokenize(text, lines);
  if (tooDeepAt !== undefined) {
    const problem = atOffset(tooDeepAt, `nested more than ${deepest} levels deep`);
    return { value: undefined, problems: [problem], broken: true, locate: nowhere };
  }
  const [document, second] = compose(tokens, text);
  const syntax = (document?.errors ?? []).map(({ pos, code, message }) => atOffset(pos[0], yamlWords(code, message)));
  const warned = (document?.warnings ?? []).map(({ pos, code, message }) => atOffset(pos[0], yamlWords(code, message)));
  if (second !== undefined) syntax.push(atOffset(second.range[0], 'a second document; one file holds one'));
  if (syntax.length > 0) {
    return { value: undefined, problems: [...syntax, ...warned], broken: true, locate: nowhere };
  }
  const root = document?.contents ?? null;
  const read = readYamlValue(root, (offset) => lines.linePos(offset).line);
  return {
    value: read.value,
    problems: [...warned, ...read.problems],
    broken: read.broken,
    locate: finder(root, read, lines),
  };
}

function yamlWords(code: ErrorCode, message: string): string {
  const words = byStart.find(([start]) => start.test(message))?.[1] ?? byCode[code];
  return `not valid YAML: ${words}`;
}

/** The text of a key as it was written: `010` stays `010`. */
function keyText(key: Scalar): string {
  return typeof key.value === 'string' ? key.value : (key.source ?? String(key.value));
}

/**
 * The plain value of a document, with all that YAML allows and a configuration should not have refused on the way.
 * Maps have no prototype. Aliases share the value they stand for, so nothing is ever expanded.
 */
function readYamlValue(root: Node | null, lineAt: (offset: number) => number): YamlValue {
  const problems: Problem[] = [];
  const anchors = new Map<string, Anchored>();
  const entries = new Map<unknown, Map<string, Entry>>();
  const targets = new Map<unknown, Node>();
  let size = 0;
  let aliased = 0;
  let broken = false;

  const complain = (path: KeyPath, node: unknown, message: string): void => {
    problems.push({ path, at: 'key', message, offset: offsetOf(node) });
  };

  function readAlias(alias: Alias, path: KeyPath): unknown {
    const found = anchors.get(alias.source);
    if (found === undefined) {
      broken = true;
      complain(path, alias, 'this alias has no anchor before it, or stands inside it');
      return undefined;
    }
    size += found.size;
    aliased += found.size;
    if (aliased > mostAliased) {
      if (!broken) complain(path, alias, `the aliases of this file stand for more than ${mostAliased} values`);
      broken = true;
      return undefined;
    }
    targets.set(alias, found.node);
    return found.value;
  }

  function readKey(key: unknown, path: KeyPath): string | undefined {
    const scalar = isAlias(key) ? anchors.get(key.source)?.node : key;
    if (!isScalar(scalar)) {
      complain(path, key, 'a key must be plain text');
      return undefined;
    }
    if (scalar.anchor && scalar === key) anchors.set(scalar.anchor, { node: scalar, value: scalar.value, size: 1 });
    return keyText(scalar);
  }

  function readMap(map: YAMLMap, path: KeyPath): unknown {
    const value: Record<string, unknown> = Object.create(null);
    const known = new Map<string, Entry>();
    entries.set(map, known);
    for (const pair of map.items as Entry[]) {
      const key = readKey(pair.key, path);
      const here = key === undefined ? path : [...path, key];
      const inner = pair.value === null ? null : read(pair.value, here);
      if (key === undefined) continue;
      const first = known.get(key);
      if (key === '__proto__') complain(here, pair.key, 'this key is not allowed');
      else if (first !== undefined) {
        complain(here, pair.key, `duplicate key; it stands on line ${lineAt(offsetOf(first.key))} already`);
      } else {
        known.set(key, pair);
        value[key] = inner;
      }
    }
    return value;
  }

  function read(node: Node, path: KeyPath): unknown {
    if (isAlias(node)) return readAlias(node, path);
    const before = size++;
    const value = isMap(node)
      ? readMap(node, path)
      : isSeq(node)
        ? node.items.map((item, index) => read(item as Node, [...path, index]))
        : (node as Scalar).value;
    const { anchor } = node as Scalar;
    if (anchor) anchors.set(anchor, { node, value, size: size - before });
    return value;
  }

  const value = root === null ? null : read(root, []);
  return { value, problems, broken, entries, targets };
}
