import { copyText } from '../../lib/text/copy-text.ts';

/** A part of a file that can be found: a definition with its comment, or some lines that belong together. */
export interface Passage {
  /** The first and the last line, from 1. */
  readonly startLine: number;
  readonly endLine: number;
  readonly text: string;
  /** The names that are defined in it, and its headings. */
  readonly names: readonly string[];
  /** The name of the definition that it is a part of. */
  readonly scope: string;
}

/** A passage ends before a new definition at the margin, if it has this many lines, and before any if it has more. */
const minLines = 5;
const usualLines = 20;
const maxLines = 45;
/** Longer lines are not written by people. Only their beginning is searched. */
const maxLineLength = 600;
const maxDefinitionLength = 300;
const maxPassages = 4000;
const maxFileLines = 100_000;

const definitions: readonly RegExp[] = [
  /\b(?:function|class|interface|enum|struct|trait|impl|def|fn|module|namespace|protocol|macro_rules!|table|view)[ *]+([\p{L}_$][\w$]*)/u,
  /^\s*(?:export |pub |public |declare )*(?:type|record|union|object|package) ([\p{L}_$][\w$]*)/u,
  /^(?:export |declare |pub |default )*(?:const|let|var|val|static) (?:mut )?([\p{L}_$][\w$]*)/u,
  /^\s*func (?:\([^)]{0,80}\) ?)?([\p{L}_][\w]*)/u,
  // Methods of classes and objects.
  /^\s+(?:(?:async|static|public|private|protected|override|get|set|readonly) )*\*?(?!if\b|for\b|while\b|switch\b|catch\b|return\b)([\p{L}_$#][\w$]*)(?:<[^>]{0,80}>)?\([^;]{0,200}\{$/u,
  /^\s{0,4}([\p{L}_$][\w$]*)\??: (?:async )?(?:\([^;]{0,120}=>|function\b)/u,
  /^(?:module\.)?(?:exports|[A-Z][\w$]*(?:\.prototype)?)\.([\p{L}_$][\w$]*) = /u,
  // Functions of C and its relatives.
  /^[\w:*&<>, ]{1,80}[ *&]([\w:~]+)\([^;]{0,200}$/,
  // Headings, sections, and titles of tests.
  /^#{1,6} (.{1,120})/,
  /^\[([\w.-]{1,80})\]$/,
  /^\s*(?:describe|it|test)(?:\.\w+)?\(\s*['"`](.{1,160}?)['"`],/,
];

/** Splits a text into passages. Each line belongs to one of them. */
export function splitPassages(text: string): Passage[] {
  return [...eachPassage(splitLines(text))];
}

/** Splits lines into passages one by one: a large file takes too long to be split at once beside other work. */
export function* eachPassage(lines: readonly string[]): Generator<Passage> {
  let count = 0;
  let scope = '';
  let start = 0;
  let nextScope = '';

  function* finishPassage(end: number): Generator<Passage> {
    const passage = takePassage(lines, start + 1, end, scope);
    start = end;
    scope = nextScope;
    if (passage.text.trim() === '') return;
    count++;
    yield passage;
  }

  for (let at = 0; at < lines.length && count < maxPassages; at++) {
    if (at > start && isBoundary(lines, start, at)) yield* finishPassage(at);
    const line = lines[at] as string;
    if (isAtMargin(line)) nextScope = findDefinedNames(line)[0] ?? nextScope;
    if (at === start) scope = isAtMargin(line) ? '' : nextScope;
  }
  if (count < maxPassages) yield* finishPassage(lines.length);
}

/** Returns the lines of a text, without an empty one at the end. */
export function splitLines(text: string): string[] {
  const lines = text.split('\n', maxFileLines);
  if (lines.at(-1) === '') lines.pop();
  return lines;
}

/** Returns the passage between two lines, from 1. */
export function takePassage(lines: readonly string[], startLine: number, endLine: number, scope: string): Passage {
  const own = lines.slice(startLine - 1, endLine).map((line) => line.slice(0, maxLineLength));
  const names = own.flatMap(findDefinedNames).map(copyText);
  return { startLine, endLine, text: own.join('\n'), names, scope: copyText(scope) };
}

function isBoundary(lines: readonly string[], start: number, at: number): boolean {
  const [line, before] = [lines[at] as string, lines[at - 1] as string];
  const length = at - start;
  if (length >= maxLines) return true;
  if (line.trim() === '' || length < minLines) return false;
  const isAfterGap = before.trim() === '' || /^\s*[\])}]+[;,]?\s*$/.test(before);
  if (!isAfterGap) return false;
  return length >= usualLines || (isAtMargin(line) && !/^[\])}]/.test(line));
}

function isAtMargin(line: string): boolean {
  return /^\S/.test(line);
}

function findDefinedNames(line: string): string[] {
  const text = line.slice(0, maxDefinitionLength);
  if (text.trim() === '' || /^\s*(?:\/\/|\*)/.test(text)) return [];
  for (const definition of definitions) {
    const name = definition.exec(text)?.[1];
    if (name !== undefined) return [name];
  }
  return [];
}
