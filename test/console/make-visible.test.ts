import { expect, test } from 'vitest';
import { makeVisible } from '../../console/parts/make-visible.ts';

test('every character that Unicode lets a reader ignore is shown, and signs without ink too', () => {
  const passed: string[] = [];
  for (let code = 0x80; code <= 0x10ffff; code++) {
    const character = String.fromCodePoint(code);
    const isIgnorable = /[\p{Default_Ignorable_Code_Point}\u2800\u{1d159}\u{16fe4}]/u.test(character);
    if (isIgnorable && makeVisible(character) === character) passed.push(code.toString(16));
  }
  expect(passed.slice(0, 9)).toEqual([]);
});

test('a sentence of selectors or of tags is shown, and so is each of its changes', () => {
  const spell = (first: number) => [...'hide'].map((each) => String.fromCodePoint(first + each.charCodeAt(0))).join('');
  expect(makeVisible(`Reads${spell(0xe0000)}.`)).toBe('Reads⟨E0068⟩⟨E0069⟩⟨E0064⟩⟨E0065⟩.');
  expect(makeVisible(`Reads${spell(0xe0100)}.`)).toBe('Reads⟨E0168⟩⟨E0169⟩⟨E0164⟩⟨E0165⟩.');
  // Many in a row are no heap of marks, in which a change would not be seen.
  const long = (last: string) => makeVisible(`a${'\ufe00'.repeat(20)}${last}`);
  expect(long('\ufe01')).toBe(`a${'⟨FE00⟩'.repeat(20)}⟨FE01⟩`);
  expect(long('\ufe01')).not.toBe(long('\ufe02'));
});

test('what people see stays, with one selector where it turns a sign into an emoji', () => {
  for (const text of ['Zoë', 'ก็', '한글', '😀', '❤️ ⚠️!', '\u00a0', '中文', '']) expect(makeVisible(text)).toBe(text);
  expect(makeVisible('❤\ufe0f\ufe0f\ufe0e')).toBe('❤\ufe0f⟨FE0F⟩⟨FE0E⟩');
  expect(makeVisible('1\ufe0f😀\ufe0f')).toBe('1⟨FE0F⟩😀⟨FE0F⟩');
  expect(makeVisible(`Z${'\u0335'.repeat(60)}`)).toBe(`Z${'\u0335'.repeat(6)}⟨…⟩`);
  expect(makeVisible('a\n\tb\u200b', '\n\t')).toBe('a\n\tb⟨200B⟩');
});
