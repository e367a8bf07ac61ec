import { expect, test } from 'vitest';
import { findLookAlikes, mayContainLookAlike } from '../../../src/context/for-models/find-look-alikes.ts';

const header = 'SESSION CONTEXT (auto-injected)';

// Each of these took minutes when every place was followed to the end of the text.
test.each(['\u{1d7ce}', '\u24b6', '\u{1f1e6}', '&#', '&#32;', '<!--', 'j<!--', 'j ', '](', 'j&#', '&#106;'])(
  'many characters of "%s" are looked at once',
  (unit) => {
    const text = `${unit.repeat(200_000 / unit.length)} `;
    expect(mayContainLookAlike(text, true)).toBe(false);
    expect(mayContainLookAlike(`${text}${header}`, false)).toBe(true);
    expect(findLookAlikes(`${text}${header}`, 10)).toEqual([text.length]);
  },
);

test.each(['inj0ected', 'inǌected', 'in&#106;ec<!-- x -->ted', 'inj3c7ed'])(
  'the end of the phrase may be "%s"',
  (end) => {
    expect(mayContainLookAlike(`session context auto ${end}`, false)).toBe(true);
  },
);
