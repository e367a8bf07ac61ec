import { expect, test } from 'vitest';
import { escapeControls, toPlainLine } from '../../../src/lib/text/escape-controls.ts';

/** Characters that nobody sees, by what makes them so. */
const hidden = {
  selectors: '\ufe00\ufe0e\ufe0f\u{e0100}\u{e01ef}\u180b\u180d\u180f',
  joiners: '\u034f\u200d\u2060\u180e',
  fillers: '\u115f\u1160\u3164\uffa0\u17b4\u17b5',
  blanks: '\u2800\u{1d159}\u{16fe4}',
  reserved: '\u2065\ufff0\ufff8\u{e0000}\u{e0002}\u{e0fff}',
  formats: '\u00ad\u061c\u200b\u202e\u2066\ufeff\ufff9\u{e0041}\u{13430}',
  controls: '\u0000\u001b\u007f\u0085\u009b\u2028\u2029\n\t',
};

test.each(Object.entries(hidden))('%s are escaped', (_, characters) => {
  for (const character of characters) {
    const code = (character.codePointAt(0) as number).toString(16);
    const escaped = code.length > 4 ? `\\u{${code}}` : `\\u${code.padStart(4, '0')}`;
    expect(escapeControls(`a${character}b`)).toBe(`a${escaped}b`);
    // In a row and after an emoji too.
    expect(escapeControls(`😀${character}${character}`)).toBe(`😀${escaped}${escaped}`);
  }
});

test('every character that Unicode lets a reader ignore is escaped', () => {
  const passed: string[] = [];
  for (let code = 0x80; code <= 0x10ffff; code++) {
    const character = String.fromCodePoint(code);
    if (/\p{Default_Ignorable_Code_Point}/u.test(character) && escapeControls(character) === character)
      passed.push(code.toString(16));
  }
  expect(passed.slice(0, 9)).toEqual([]);
});

test('what people see stays, with one selector where it turns a sign into an emoji', () => {
  for (const text of ['Zoë', 'ก็', 'é', '한글', '😀', '❤️ ⚠️!', '☺️', '\u00a0', '中文', '𝄞', ''])
    expect(escapeControls(text)).toBe(text);
  expect(escapeControls('❤\ufe0f\ufe0f\ufe0e')).toBe('❤\ufe0f\\ufe0f\\ufe0e');
  expect(escapeControls('1\ufe0f')).toBe('1\\ufe0f');
  expect(toPlainLine('\u001b[31m❤\ufe0f\u001b[0m\ta\ufe01')).toBe('❤\ufe0f    a\\ufe01');
});
