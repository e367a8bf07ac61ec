import fc from 'fast-check';
import { expect, test } from 'vitest';
import { scanObject } from '../../../src/protocol/json/scan.ts';
import { composeLine, toSingleLine } from '../../../src/protocol/lines/single-line.ts';
import { objectText } from '../json/json-texts.ts';

test('gives the same JSON on one line, with every byte at its position', () => {
  fc.assert(
    fc.property(objectText, ({ text }) => {
      const bytes = Buffer.from(text);
      const line = toSingleLine(bytes);
      expect(line.length).toBe(bytes.length);
      expect(/[\r\n]/.test(line.toString())).toBe(false);
      expect(scanObject(line)).toEqual(scanObject(bytes));
      expect(JSON.stringify(JSON.parse(line.toString()))).toBe(JSON.stringify(JSON.parse(text)));
      const changed = [...line.entries()].filter(([at, byte]) => byte !== bytes[at]);
      expect(changed.filter(([at]) => bytes[at] !== 0x0a && bytes[at] !== 0x0d)).toEqual([]);
    }),
    { numRuns: 500 },
  );
});

test('a single line is not copied', () => {
  const bytes = Buffer.from('{"a":"\u2028\\n"}');
  expect(toSingleLine(bytes)).toBe(bytes);
});

test('S3: the line of a message is one line for every reader, and the same JSON', () => {
  fc.assert(
    fc.property(objectText, fc.constantFrom('', '\n'), ({ text }, end) => {
      const line = composeLine(Buffer.from(text + end)).toString();
      expect(line.slice(0, -1)).not.toMatch(/[\r\n]/);
      expect(line.at(-1)).toBe('\n');
      expect(JSON.parse(line)).toEqual(JSON.parse(text));
    }),
    { numRuns: 300 },
  );
  const plain = Buffer.from('{"a":1}\n');
  expect(composeLine(plain)).toBe(plain);
});
