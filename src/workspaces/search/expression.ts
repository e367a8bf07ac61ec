import { RE2JS } from 're2js';
import { AmbitError } from '../../errors.ts';

/** Line ends. No class contains them, so that both engines agree. */
const lineEnds = '\\n\\r';

/** Classes as ASCII ranges, so that they do not depend on language. */
const perlClasses: Readonly<Record<string, string>> = {
  d: '0-9',
  D: '\\x{0}-\\x{9}\\x{B}\\x{C}\\x{E}-\\x{2F}\\x{3A}-\\x{10FFFF}',
  w: '0-9A-Z_a-z',
  W: '\\x{0}-\\x{9}\\x{B}\\x{C}\\x{E}-\\x{2F}\\x{3A}-\\x{40}\\x{5B}-\\x{5E}\\x{60}\\x{7B}-\\x{10FFFF}',
  s: '\\x{9}\\x{B}\\x{C}\\x{20}',
  S: '\\x{0}-\\x{8}\\x{E}-\\x{1F}\\x{21}-\\x{10FFFF}',
};

const posixClasses: ReadonlySet<string> = new Set(
  'alnum alpha ascii blank cntrl digit graph lower print punct space upper word xdigit'.split(' '),
);

const controls: Readonly<Record<string, number>> = { t: 9, v: 11, f: 12, r: 13, a: 7 };

/**
 * A regular expression for lines, in the syntax that RE2 and ripgrep share. It is parsed and written again, so that
 * both engines agree: classes such as `\w` are ASCII, no class contains a line end, and `$` matches before "\r\n" as
 * before "\n". Syntax without bounded time, such as lookahead, is refused with its position.
 */
export interface Expression {
  /** Returns the start of the first match in UTF-16 units, or -1. */
  find(line: string): number;
  readonly rust: string;
  /** A text that every matching line contains. */
  readonly requiredText: string | undefined;
  /** The number of characters and classes with repetitions expanded: the cost of one character of a line. */
  readonly size: number;
}

const maxLength = 1000;
/** The largest size with repetitions expanded. */
const maxSize = 2000;
const maxRepeats = 1000;

interface ParsedPart {
  readonly text: string;
  readonly size: number;
}

export function parseExpression(pattern: string, caseSensitive: boolean): Expression {
  if (pattern.length > maxLength) throw patternError(pattern, undefined, `it is longer than ${maxLength} characters`);
  const { text, size } = new ExpressionParser(pattern).parse();
  if (size > maxSize) throw patternError(pattern, undefined, 'it has too many repetitions');
  const whole = caseSensitive ? text : `(?i:${text})`;
  const compiled = compile(whole.replaceAll(boundary, '\\b').replaceAll(noBoundary, '\\B'), pattern);
  return {
    size: Math.max(1, size),
    find(line) {
      if (!compiled.test(line)) return -1;
      const matcher = compiled.matcher(line);
      return matcher.find() ? matcher.start() : -1;
    },
    rust: whole.replaceAll(boundary, '(?-u:\\b)').replaceAll(noBoundary, '(?-u:\\B)'),
    requiredText: caseSensitive && /^[\w \-/"'#=,;:<>@!%&~`]+$/.test(pattern) ? pattern : undefined,
  };
}

/** Placeholders that differ per engine; patterns contain no line breaks. */
const boundary = '\n<b>';
const noBoundary = '\n<B>';

function compile(text: string, pattern: string): RE2JS {
  try {
    return RE2JS.compile(text);
  } catch (error) {
    const why = error instanceof Error ? error.message.replace(/^error parsing regexp: /, '') : 'it is not valid';
    throw patternError(pattern, undefined, why.slice(0, 100));
  }
}

class ExpressionParser {
  readonly #pattern: string;
  #at = 0;
  #depth = 0;

  constructor(pattern: string) {
    this.#pattern = pattern;
  }

  parse(): ParsedPart {
    const read = this.#readAlternatives();
    if (this.#at < this.#pattern.length) this.#fail('")" has no "(" before it');
    return read;
  }

  #fail(why: string, where = this.#at): never {
    throw patternError(this.#pattern, where, why);
  }

  #peek(offset = 0): string {
    return this.#pattern[this.#at + offset] ?? '';
  }

  #takeCode(): number {
    const code = this.#pattern.codePointAt(this.#at) ?? this.#fail('it is incomplete at its end');
    if (code >= 0xd800 && code <= 0xdfff) this.#fail('half a character');
    if (code === 10) this.#fail('a pattern cannot match a line break');
    this.#at += code > 0xffff ? 2 : 1;
    return code;
  }

  #readAlternatives(): ParsedPart {
    const all = [this.#readSequence()];
    while (this.#peek() === '|') {
      this.#at++;
      all.push(this.#readSequence());
    }
    return { text: all.map(({ text }) => text).join('|'), size: all.reduce((sum, { size }) => sum + size, 0) };
  }

  #readSequence(): ParsedPart {
    let text = '';
    let size = 0;
    while (this.#at < this.#pattern.length && this.#peek() !== '|' && !(this.#peek() === ')' && this.#depth > 0)) {
      const start = this.#at;
      const atom = this.#readAtom();
      const times = this.#readRepetition();
      if (times !== undefined && atom.size === 0) this.#fail('there is nothing to repeat', start);
      text += times === undefined ? atom.text : atom.text + times.text;
      size += atom.size * (times?.maxTimes ?? 1);
      if (size > maxSize) this.#fail('it has too many repetitions', start);
    }
    return { text, size };
  }

  #readAtom(): ParsedPart {
    const character = this.#peek();
    if (character === '(') return this.#readGroup();
    if (character === '[') return this.#readBrackets();
    if (character === '\\') return this.#readEscape();
    if (/[*+?]/.test(character)) this.#fail(`there is nothing to repeat before "${character}"`);
    if (character === ')') this.#fail('")" has no "(" before it');
    const code = this.#takeCode();
    if (character === '.') return { text: `[^${lineEnds}]`, size: 1 };
    if (character === '^') return { text: '^', size: 0 };
    if (character === '$') return { text: '(?:\\r?$)', size: 0 };
    return { text: toLiteral(code), size: 1 };
  }

  #readRepetition(): { readonly text: string; readonly maxTimes: number } | undefined {
    const counted = /^\{(\d+)(,(\d*))?\}/.exec(this.#pattern.slice(this.#at, this.#at + 16));
    const sign = counted?.[0] ?? (/^[*+?]/.test(this.#peek()) ? this.#peek() : undefined);
    if (sign === undefined) return undefined;
    const minTimes = Number(counted?.[1] ?? 0);
    const maxTimes = Number(counted?.[3] || minTimes);
    if (maxTimes > maxRepeats || minTimes > maxTimes)
      this.#fail(`"${sign}" repeats from 0 to ${maxRepeats} times, the lesser number first`);
    this.#at += sign.length;
    const lazy = this.#peek() === '?' ? '?' : '';
    this.#at += lazy.length;
    if (/^(?:[*+?]|\{\d+(?:,\d*)?\})/.test(this.#pattern.slice(this.#at, this.#at + 16)))
      this.#fail('a repetition is repeated; put it in "(?:…)"');
    return { text: sign + lazy, maxTimes: Math.max(1, maxTimes) };
  }

  #readGroup(): ParsedPart {
    const start = this.#at++;
    let opening = '(?:';
    if (this.#peek() === '?') {
      const [head, flags, end] =
        /^\?([imsU]*(?:-[iU]+)?)([:)])/.exec(this.#pattern.slice(this.#at, this.#at + 12)) ?? [];
      const [named] = /^\?P?<[A-Za-z_]\w*>/.exec(this.#pattern.slice(this.#at)) ?? [];
      if (head !== undefined && flags !== undefined) {
        this.#at += head.length;
        // Flags for lines and "." have no effect on a single line.
        const kept = flags.replace(/[ms]/g, '');
        if (end === ')') return kept === '' ? { text: '', size: 0 } : { text: `(?${kept})`, size: 0 };
        opening = `(?${kept}:`;
      } else if (named !== undefined) this.#at += named.length;
      else if (/^\?<?[=!]/.test(this.#pattern.slice(this.#at)))
        this.#fail('lookahead and lookbehind are not supported', start);
      else this.#fail('unknown kind of group', start);
    }
    if (++this.#depth > 100) this.#fail('groups are nested too deeply');
    const inside = this.#readAlternatives();
    this.#depth--;
    if (this.#peek() !== ')') this.#fail('"(" has no ")" after it', start);
    this.#at++;
    return { text: `${opening}${inside.text})`, size: Math.max(1, inside.size) };
  }

  #readEscape(): ParsedPart {
    const start = this.#at++;
    const letter = this.#peek();
    const perl = Object.hasOwn(perlClasses, letter) ? perlClasses[letter] : undefined;
    if (perl !== undefined) {
      this.#at++;
      return { text: `[${perl}]`, size: 1 };
    }
    if (letter === 'b' || letter === 'B') {
      this.#at++;
      return { text: letter === 'b' ? boundary : noBoundary, size: 0 };
    }
    if (letter === 'p' || letter === 'P') return { text: this.#readProperty(), size: 1 };
    return { text: toLiteral(this.#readEscapedCharacter(start)), size: 1 };
  }

  /** Reads a class such as `\pL` or `\p{Greek}`. */
  #readProperty(): string {
    const [name] =
      /^[pP](?:[A-Z]|\{[A-Z][A-Za-z_]*\})/.exec(this.#pattern.slice(this.#at)) ??
      this.#fail('the name of a class is missing');
    this.#at += name.length;
    return name.startsWith('P') ? `[^\\p${name.slice(1)}${lineEnds}]` : `\\${name}`;
  }

  #readEscapedCharacter(start: number): number {
    const letter = this.#peek();
    if (letter === 'n') this.#fail('a pattern cannot match a line break; search for each line separately', start);
    if (letter === 'x') {
      const [written, short, long] =
        /^x(?:([0-9A-Fa-f]{2})|\{([0-9A-Fa-f]{1,6})\})/.exec(this.#pattern.slice(this.#at)) ?? [];
      const code = Number.parseInt(short ?? long ?? '', 16);
      if (written === undefined || code > 0x10ffff || code === 10 || (code >= 0xd800 && code <= 0xdfff))
        this.#fail('"\\x" needs the number of a character, such as \\x41 or \\x{1F600}', start);
      this.#at += (written as string).length;
      return code;
    }
    const control = Object.hasOwn(controls, letter) ? controls[letter] : undefined;
    if (control !== undefined) {
      this.#at++;
      return control;
    }
    if (/[1-9k]/.test(letter)) this.#fail('backreferences are not supported', start);
    if (/[AzZG]/.test(letter)) this.#fail('the search works line by line; use "^" and "$"', start);
    if (!/[!-/:-@[-`{-~ ]/.test(letter)) this.#fail('unknown escape', start);
    return this.#takeCode();
  }

  #readBrackets(): ParsedPart {
    const start = this.#at++;
    const negated = this.#peek() === '^';
    if (negated) this.#at++;
    let text = '';
    for (let first = true; first || this.#peek() !== ']'; first = false) {
      if (this.#at >= this.#pattern.length) this.#fail('"[" has no "]" after it', start);
      text += this.#readClassItem();
    }
    this.#at++;
    return { text: negated ? `[^${text}${lineEnds}]` : `[${text}]`, size: 1 };
  }

  #readClassItem(): string {
    const start = this.#at;
    const [posix, name] = /^\[:\^?(\w+):\]/.exec(this.#pattern.slice(this.#at)) ?? [];
    if (posix !== undefined && name !== undefined) {
      if (!posixClasses.has(name)) this.#fail(`there is no class "${name}"`);
      this.#at += posix.length;
      return posix;
    }
    if (this.#peek() === '\\') {
      const perl = Object.hasOwn(perlClasses, this.#peek(1)) ? perlClasses[this.#peek(1)] : undefined;
      if (perl !== undefined) {
        this.#at += 2;
        return perl;
      }
      if (this.#peek(1) === 'p') {
        this.#at++;
        return this.#readProperty();
      }
    }
    const from = this.#readClassCharacter();
    if (this.#peek() !== '-' || this.#peek(1) === ']' || this.#peek(1) === '') return toLiteral(from);
    this.#at++;
    const to = this.#readClassCharacter();
    if (to < from) this.#fail('a range must go from the lower to the higher character', start);
    return `${toLiteral(from)}-${toLiteral(to)}`;
  }

  #readClassCharacter(): number {
    if (this.#peek() !== '\\') return this.#takeCode();
    const start = this.#at++;
    return this.#readEscapedCharacter(start);
  }
}

function patternError(pattern: string, at: number | undefined, why: string): AmbitError {
  const where = at === undefined ? '' : `, at character ${at + 1} (${JSON.stringify(pattern.slice(at, at + 12))})`;
  return new AmbitError('REQUEST_INVALID', {
    what: `The pattern is not valid${where}: ${why}.`,
    hint: 'Correct it. Put a backslash before a special character to match it literally. Lookahead, lookbehind and \\1 are not supported.',
  });
}

/** Escapes a character that an engine could take for syntax. */
function toLiteral(code: number): string {
  const character = String.fromCodePoint(code);
  return /^[A-Za-z0-9_]$/.test(character) || code > 0x7f ? character : `\\x{${code.toString(16).toUpperCase()}}`;
}
