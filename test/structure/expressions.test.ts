import { parseAst } from 'rolldown/parseAst';
import { describe, expect, test } from 'vitest';
import { readSourceFiles } from './source-files.ts';

/**
 * Expressions that look dangerous and are not, with what bounds them. One event loop serves everybody: an expression
 * that takes time by the square of a text which a stranger writes stops all sessions.
 */
const bounded: Readonly<Record<string, string>> = {
  'src/context/for-tools/arguments-digest.ts 0+$': 'changed apart from this check',
  'src/lib/redact/redact-settings.ts ^("[^"]*"|\'[^\']*\'|[^\\s"\']+?)(\\s*:(?=\\s|$)|\\s+)':
    'a line of 4 KB, and no blank is in the run',
  'src/lib/text/line-diff.ts [^\\n]*\\n|[^\\n]+$': 'the other way takes every line but the last',
  'src/lib/text/split-words.ts \\p{Lu}+(?!\\p{Ll})|\\p{Lu}?[\\p{Ll}\\p{Lo}\\p{Lm}\\p{Lt}]+|\\p{N}+':
    'a name of 64 characters',
  'src/workspaces/session-folders/make-folder.ts ^[-.]+|(?:\\.lock|[-.])+$': 'a name of a session, of 100 characters',
  'src/workspaces/session-folders/make-folder.ts (?:\\.lock|[-.])+$': 'a name of a session, of 100 characters',
};

interface Expression {
  readonly path: string;
  readonly pattern: string;
  readonly flags: string;
}

interface Node {
  readonly regex?: { readonly pattern: string; readonly flags: string };
}

function expressionsIn(path: string, text: string): Expression[] {
  const found: Expression[] = [];
  const visit = (node: unknown): void => {
    if (typeof node !== 'object' || node === null) return;
    const { regex } = node as Node;
    if (regex !== undefined) found.push({ path, ...regex });
    else for (const each of Object.values(node)) visit(each);
  };
  visit(parseAst(text, { lang: 'ts' }));
  return found;
}

/** Without what is inside of classes and escapes, so that each sign left means what it means to the engine. */
function outline(pattern: string): string {
  return pattern
    .replace(/\\[pPu]\{[^}]*\}/g, 'x')
    .replace(/\\s/g, '_')
    .replace(/\\[dwDWS]/g, 'c')
    .replace(/\\./g, 'x')
    .replace(/\[(?:\\.|[^\]\\])*\]/g, 'c');
}

const signs = /[()|]/;

/** The alternatives of the whole expression; those inside of groups stay with their groups. */
function alternatives(text: string): string[] {
  const found = [''];
  let depth = 0;
  for (const sign of text) {
    if (sign === '|' && depth === 0) found.push('');
    else found[found.length - 1] += sign;
    if (signs.test(sign)) depth += sign === '(' ? 1 : sign === ')' ? -1 : 0;
  }
  return found;
}

const shapes: readonly { readonly name: string; readonly fits: (text: string, flags: string) => boolean }[] = [
  {
    name: 'a run up to the end that may start at each of its characters: put (?<!x) before x+$',
    fits: (text) => alternatives(text).some((each) => /^(?:[^()^$]|\(.*\))(?:[+*]|\{\d+,\})\$$/.test(each)),
  },
  {
    name: 'all up to the end of a line that may end before the text does: add the flag "s"',
    fits: (text, flags) =>
      !/[ms]/.test(flags) && alternatives(text).some((each) => !each.startsWith('^') && /\.[+*]\$$/.test(each)),
  },
  {
    name: 'blanks at the start of each line, which line ends are too: take [ \\t]* in place of \\s*',
    fits: (text, flags) => flags.includes('m') && /\^_[+*]/.test(text),
  },
  {
    name: 'a run that more must follow, which may start anywhere: start with what is fixed',
    fits: (text, flags) =>
      !flags.includes('y') && alternatives(text).some((each) => /^\(?(?:\?:)?c?[\w.][+*]\??\)?[^)$|?]/.test(each)),
  },
  {
    name: 'a lazy run before blanks: each of its ends reads the blanks again',
    fits: (text) => /[+*]\?\)?"?\??\(?(?:\?:)?_[*+]/.test(text),
  },
  {
    name: 'a run of runs',
    fits: (text) => /\((?:\?:)?\w[+*]\)[+*]/.test(text),
  },
];

function dangersOf({ pattern, flags }: Expression): string[] {
  const text = outline(pattern);
  return shapes.filter(({ fits }) => fits(text, flags)).map(({ name }) => name);
}

const all = readSourceFiles('src').flatMap(({ path, text }) => expressionsIn(path, text));
const keyOf = ({ path, pattern }: Expression) => `${path} ${pattern}`;

describe('S4: no expression takes time by the square of a text', () => {
  test.each([
    '/+$',
    '\\s+$',
    '%.*$',
    '[. ]+$',
    '^-+|-+$',
    '\\s+--hash',
    '[a-z][a-z0-9+.-]*:\\/\\/',
    '^([^=]*?)(\\s*=)',
    '(?:a+)+b',
    '"?(.+?)"?\\s*$',
  ])('the check knows %s', (pattern) => {
    expect(dangersOf({ path: '', pattern, flags: '' })).not.toEqual([]);
  });

  test('the check knows blanks at the start of lines', () => {
    expect(dangersOf({ path: '', pattern: '^\\s*path', flags: 'm' })).not.toEqual([]);
  });

  test('expressions in the source have none of the known shapes, or a reason why their texts are short', () => {
    expect(all.length).toBeGreaterThan(300);
    const dangerous = all.filter((each) => bounded[keyOf(each)] === undefined && dangersOf(each).length > 0);
    expect(dangerous.map((each) => `${keyOf(each)}: ${dangersOf(each)[0]}`)).toEqual([]);
  });
});
