import { Composer, type CST, type Document, isMap, isScalar, isSeq, Lexer, LineCounter, type Node, Parser } from 'yaml';
import type { Locate, Problem } from '../explain/problem.ts';
import { offsetOf, readYamlValue, type YamlValue } from './yaml-value.ts';
import { yamlWords } from './yaml-words.ts';

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
