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
import type { ConfigProblem, KeyPath, Locator } from '../explain/problem.ts';

/** Limit of all values that aliases stand for: enough to share settings, too few to exhaust memory. */
const maxAliasedValues = 10_000;

type YamlEntry = Pair<unknown, Node | null>;

interface YamlValue {
  readonly value: unknown;
  readonly problems: readonly ConfigProblem[];
  /** True when the value is incomplete, so that further checks would mislead. */
  readonly broken: boolean;
  readonly entries: ReadonlyMap<unknown, ReadonlyMap<string, YamlEntry>>;
  readonly targets: ReadonlyMap<unknown, Node>;
}

interface AnchoredValue {
  readonly node: Node;
  readonly value: unknown;
  readonly size: number;
}

const findOffset = (node: unknown): number => (node as Node | null | undefined)?.range?.[0] ?? 0;

/** Messages by error code. Those of the parser quote the source, which may contain secrets. */
const messageByCode: Readonly<Record<ErrorCode, string>> = {
  ALIAS_PROPS: 'an alias takes neither anchor nor tag',
  BAD_ALIAS: 'an anchor or alias without a usable name',
  BAD_COLLECTION_TYPE: 'this tag is not allowed here',
  BAD_DIRECTIVE: 'unknown % directive',
  BAD_DQ_ESCAPE: 'unknown escape in double quotes; write \\\\ for a backslash',
  BAD_INDENT: 'wrong indentation, or a closing } or ] is missing',
  BAD_PROP_ORDER: 'anchors and tags must come after the indicator',
  BAD_SCALAR_START: 'a value that starts with this character needs quotes',
  BLOCK_AS_IMPLICIT_KEY: 'a second ": " or "- " on the same line; quote a value that contains one',
  BLOCK_IN_FLOW: 'an indented block is not allowed inside { } or [ ]',
  DUPLICATE_KEY: 'duplicate key',
  IMPOSSIBLE: 'this is not valid YAML',
  KEY_OVER_1024_CHARS: 'a key longer than 1024 characters',
  MISSING_CHAR: 'a character is missing here: a quote, bracket, comma, colon or space',
  MULTILINE_IMPLICIT_KEY: 'a key must be on one line, or a ":" is missing',
  MULTIPLE_ANCHORS: 'only one anchor is allowed',
  MULTIPLE_DOCS: 'only one document is allowed',
  MULTIPLE_TAGS: 'only one tag is allowed',
  NON_STRING_KEY: 'a key must be plain text',
  RESOURCE_EXHAUSTION: 'nested too deeply',
  TAB_AS_INDENT: 'tabs cannot be used for indentation; use spaces',
  TAG_RESOLVE_FAILED: 'unknown tag; only plain values are supported',
  UNEXPECTED_TOKEN: 'unexpected text',
};

const messageByStart: readonly (readonly [RegExp, string])[] = [
  [/^Missing closing/, 'a closing quote is missing'],
  [/^Missing , (?:or : )?between/, 'a comma or a colon is missing between the entries'],
  [/^Implicit map keys need/, 'a ":" is missing after the key'],
];

/** Limit of nesting. The parser recurses, and a few thousand brackets would end the process. */
const maxDepth = 64;

interface YamlSource {
  readonly value: unknown;
  readonly problems: readonly ConfigProblem[];
  /** True when the text could not be read completely, so that further checks would mislead. */
  readonly broken: boolean;
  readonly locate: Locator;
}

const problemAt = (offset: number, message: string): ConfigProblem => ({ path: [], at: 'value', message, offset });

function tokenizeYaml(text: string, lines: LineCounter): { tokens: CST.Token[]; tooDeepAt?: number } {
  const parser = new Parser(lines.addNewLine);
  const tokens: CST.Token[] = [];
  lines.addNewLine(0);
  for (const lexeme of new Lexer().lex(text)) {
    tokens.push(...parser.next(lexeme));
    if (parser.stack.length > maxDepth) return { tokens, tooDeepAt: parser.offset };
  }
  tokens.push(...parser.end());
  return { tokens };
}

function composeDocuments(tokens: CST.Token[], text: string): Document.Parsed[] {
  // Duplicate keys are found in readYamlValue, since the parser compares each with each. YAML 1.1 would turn `off` into
  // false.
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

function createLocator(root: Node | null, read: YamlValue, lines: LineCounter): Locator {
  const resolveAlias = (node: unknown): unknown => read.targets.get(node) ?? node;
  return ({ path, at, offset }) => {
    if (offset !== undefined) return lines.linePos(offset);
    let node: unknown = root;
    let key: unknown;
    for (const segment of path) {
      const parent = resolveAlias(node);
      if (isSeq(parent) && parent.items[Number(segment)] !== undefined) {
        node = key = parent.items[Number(segment)];
        continue;
      }
      const entry = isMap(parent) ? read.entries.get(parent)?.get(String(segment)) : undefined;
      // A missing value is reported at the key that should contain it.
      if (entry === undefined) return lines.linePos(findOffset(key));
      key = entry.key;
      node = entry.value;
    }
    const written = isScalar(node) && node.value !== null;
    return lines.linePos(findOffset(at === 'value' && written ? node : key));
  };
}

/** Reads YAML, and thereby JSON, and keeps the position of each value. */
export function readYaml(text: string): YamlSource {
  const lines = new LineCounter();
  const locateByOffset: Locator = ({ offset }) => lines.linePos(offset ?? 0);
  const { tokens, tooDeepAt } = tokenizeYaml(text, lines);
  if (tooDeepAt !== undefined) {
    const problem = problemAt(tooDeepAt, `nested more than ${maxDepth} levels deep`);
    return { value: undefined, problems: [problem], broken: true, locate: locateByOffset };
  }
  const [document, second] = composeDocuments(tokens, text);
  const syntax = (document?.errors ?? []).map(({ pos, code, message }) =>
    problemAt(pos[0], describeYamlError(code, message)),
  );
  const warned = (document?.warnings ?? []).map(({ pos, code, message }) =>
    problemAt(pos[0], describeYamlError(code, message)),
  );
  if (second !== undefined) syntax.push(problemAt(second.range[0], 'a second document; a file can hold only one'));
  if (syntax.length > 0) {
    return { value: undefined, problems: [...syntax, ...warned], broken: true, locate: locateByOffset };
  }
  const root = document?.contents ?? null;
  const read = readYamlValue(root, (offset) => lines.linePos(offset).line);
  return {
    value: read.value,
    problems: [...warned, ...read.problems],
    broken: read.broken,
    locate: createLocator(root, read, lines),
  };
}

function describeYamlError(code: ErrorCode, message: string): string {
  const words = messageByStart.find(([start]) => start.test(message))?.[1] ?? messageByCode[code];
  return `not valid YAML: ${words}`;
}

/**
 * Converts a document into plain values and reports YAML features that a configuration must not use. Maps have no
 * prototype. Aliases share one value, so nothing is expanded.
 */
function readYamlValue(root: Node | null, lineAt: (offset: number) => number): YamlValue {
  const problems: ConfigProblem[] = [];
  const anchors = new Map<string, AnchoredValue>();
  const entries = new Map<unknown, Map<string, YamlEntry>>();
  const targets = new Map<unknown, Node>();
  let size = 0;
  let aliased = 0;
  let broken = false;

  const addProblem = (path: KeyPath, node: unknown, message: string): void => {
    problems.push({ path, at: 'key', message, offset: findOffset(node) });
  };

  function readAlias(alias: Alias, path: KeyPath): unknown {
    const found = anchors.get(alias.source);
    if (found === undefined) {
      broken = true;
      addProblem(path, alias, 'this alias has no anchor before it, or is inside its own anchor');
      return undefined;
    }
    size += found.size;
    aliased += found.size;
    if (aliased > maxAliasedValues) {
      if (!broken) addProblem(path, alias, `the aliases of this file expand to more than ${maxAliasedValues} values`);
      broken = true;
      return undefined;
    }
    targets.set(alias, found.node);
    return found.value;
  }

  function readKey(key: unknown, path: KeyPath): string | undefined {
    const scalar = isAlias(key) ? anchors.get(key.source)?.node : key;
    if (!isScalar(scalar)) {
      addProblem(path, key, 'a key must be plain text');
      return undefined;
    }
    if (scalar.anchor && scalar === key) anchors.set(scalar.anchor, { node: scalar, value: scalar.value, size: 1 });
    // As it was written: `010` stays `010`.
    return typeof scalar.value === 'string' ? scalar.value : (scalar.source ?? String(scalar.value));
  }

  function readMap(map: YAMLMap, path: KeyPath): unknown {
    const value: Record<string, unknown> = Object.create(null);
    const known = new Map<string, YamlEntry>();
    entries.set(map, known);
    for (const pair of map.items as YamlEntry[]) {
      const key = readKey(pair.key, path);
      const here = key === undefined ? path : [...path, key];
      const inner = pair.value === null ? null : readNode(pair.value, here);
      if (key === undefined) continue;
      const first = known.get(key);
      if (key === '__proto__') addProblem(here, pair.key, 'this key is not allowed');
      else if (first !== undefined) {
        addProblem(here, pair.key, `duplicate key; it is already on line ${lineAt(findOffset(first.key))}`);
      } else {
        known.set(key, pair);
        value[key] = inner;
      }
    }
    return value;
  }

  function readNode(node: Node, path: KeyPath): unknown {
    if (isAlias(node)) return readAlias(node, path);
    const before = size++;
    const value = isMap(node)
      ? readMap(node, path)
      : isSeq(node)
        ? node.items.map((item, index) => readNode(item as Node, [...path, index]))
        : (node as Scalar).value;
    const { anchor } = node as Scalar;
    if (anchor) anchors.set(anchor, { node, value, size: size - before });
    return value;
  }

  const value = root === null ? null : readNode(root, []);
  return { value, problems, broken, entries, targets };
}
