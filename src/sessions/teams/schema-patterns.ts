import { RE2JS } from 're2js';
import type { SchemaPattern } from './check-result.ts';

const maxLength = 1000;
const maxProgramSize = 2000;
/** Limits of all patterns in one schema. Each is compiled when the schema is read. */
const maxLengthOfAll = 4000;
const maxSizeOfAll = 4000;
/** The size of a program up to which RE2 remembers all its states, so that a character is one look-up. */
const maxRememberedSize = 12;

/** Characters that `\s` of JSON Schema matches, which RE2's does not. */
const blanks =
  '\\x{9}-\\x{D} \\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}\\x{FEFF}';
const notBlanks =
  '\\x{0}-\\x{8}\\x{E}-\\x{1F}!-\\x{9F}\\x{A1}-\\x{167F}\\x{1681}-\\x{1FFF}\\x{200B}-\\x{2027}\\x{202A}-\\x{202E}\\x{2030}-\\x{205E}\\x{2060}-\\x{2FFF}\\x{3001}-\\x{FEFE}\\x{FF00}-\\x{10FFFF}';
const lineEnds = '\\n\\r\\x{2028}\\x{2029}';

/** The patterns of one schema. */
export interface SchemaPatterns {
  /** Compiles a pattern, or says why it cannot be used. */
  compile(source: string): SchemaPattern | { readonly problem: string };
}

export function createSchemaPatterns(): SchemaPatterns {
  const compiled = new Map<string, SchemaPattern>();
  let [lengthOfAll, sizeOfAll] = [0, 0];
  return {
    compile(source) {
      const known = compiled.get(source);
      if (known !== undefined) return known;
      lengthOfAll += source.length;
      if (source.length > maxLength) return { problem: `a pattern has at most ${maxLength} characters` };
      if (lengthOfAll > maxLengthOfAll)
        return { problem: `all patterns together have at most ${maxLengthOfAll} characters` };
      const translated = translatePattern(source);
      if ('problem' in translated) return translated;
      const program = compileProgram(translated.text);
      if ('problem' in program) return program;
      const size = program.programSize();
      sizeOfAll += size;
      if (size > maxProgramSize || sizeOfAll > maxSizeOfAll) return { problem: 'it has too many repetitions' };
      const cost = size <= maxRememberedSize ? 2 : (size + 20) / 2;
      const pattern = { cost, test: (text: string) => program.test(text) };
      compiled.set(source, pattern);
      return pattern;
    },
  };
}

function compileProgram(text: string): RE2JS | { readonly problem: string } {
  try {
    return RE2JS.compile(text);
  } catch (error) {
    const why = (error as Error).message.replace(/^error parsing regexp: /, '').slice(0, 100);
    return { problem: /\\p\{/i.test(why) ? `${why}; write classes like \\p{L}, \\p{Nd} or \\p{Greek}` : why };
  }
}

/** The signs of a pattern that RE2 reads in another way than JavaScript, or not at all. */
const signs =
  /\\u\{[0-9A-Fa-f]{1,6}\}|\\u[dD][89abAB][0-9A-Fa-f]{2}\\u[dD][c-fC-F][0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}|\\x[0-9A-Fa-f]{2}|\\c[A-Za-z]|\\[pP]\{[A-Za-z_]+\}|\\.|\\$|\[\^?\]?|\]|\.|\(\?/gsu;

/** Writes a pattern of JSON Schema, which has the syntax of JavaScript, for RE2. */
function translatePattern(source: string): { readonly text: string } | { readonly problem: string } {
  let inClass = false;
  let problem: string | undefined;
  const text = source.replace(signs, (sign, at: number) => {
    if (sign.startsWith('\\')) {
      const translated = translateEscape(sign, inClass);
      if (translated === undefined) problem ??= explainEscape(sign);
      return translated ?? '';
    }
    if (inClass) {
      inClass = !sign.endsWith(']');
      return sign.startsWith('[') ? `\\${sign}` : sign;
    }
    if (sign === '[]') return '[^\\x{0}-\\x{10FFFF}]';
    if (sign === '[^]') return '[\\x{0}-\\x{10FFFF}]';
    if (sign.startsWith('[')) inClass = true;
    if (sign === '.') return `[^${lineEnds}]`;
    if (sign === '(?') problem ??= explainGroup(source.slice(at + 2, at + 4));
    return sign;
  });
  return problem === undefined ? { text } : { problem };
}

function explainGroup(kind: string): string | undefined {
  if (/^<?[=!]/.test(kind)) return 'lookahead and lookbehind are not supported';
  return /^[:<]/.test(kind) ? undefined : 'only the groups "(…)", "(?:…)" and "(?<name>…)" are supported';
}

/** Translates one escape; undefined if it is not supported. */
function translateEscape(sign: string, inClass: boolean): string | undefined {
  const letter = sign[1] ?? '';
  const hex = sign.slice(2).replace(/[{}]/g, '');
  if (/^\\[ux]./s.test(sign)) {
    const codes = hex.split('\\u').map((each) => Number.parseInt(each, 16));
    const character = codes.length === 2 ? String.fromCharCode(...codes) : undefined;
    return writeCode(character?.codePointAt(0) ?? codes[0]!);
  }
  if (/^\\c./s.test(sign)) return writeCode(sign.charCodeAt(2) % 32);
  if (/^\\[pP]./s.test(sign)) return sign;
  if (letter === 's') return inClass ? blanks : `[${blanks}]`;
  if (letter === 'S') return inClass ? notBlanks : `[${notBlanks}]`;
  if (letter === '0') return writeCode(0);
  if (letter === 'b' && inClass) return writeCode(8);
  if (/^[dDwWbBtnvfr]$/.test(letter)) return sign;
  return /^(?:[0-9A-Za-z]|)$/.test(letter) ? undefined : writeCode(sign.codePointAt(1)!);
}

function writeCode(code: number): string {
  return `\\x{${code.toString(16)}}`;
}

function explainEscape(sign: string): string {
  if (/^\\[1-9k]/.test(sign)) return 'back references such as \\1 are not supported';
  if (/^\\[AzZ]/.test(sign)) return `"${sign}" is not supported; use "^" and "$"`;
  return `"${sign}" is not a complete or known escape`;
}
