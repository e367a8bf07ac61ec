import { expect, test } from 'vitest';
import { findRedaction, redactBytes, redactedMark } from '../../src/lib/redact/redact-settings.ts';
import { proof } from '../proof.ts';

const names = [['.npmrc'], ['.yarnrc.yml'], ['.git', 'config'], ['.hg', 'hgrc'], ['.flaskenv'], ['.bundle', 'config']];
/** Texts that scans of lines retry from each character, and texts that they search for, with the end missing. */
const pieces = ['a', ' ', '=', '#', '//user:', '?token', 'x-', '\\'];
const more = ['\t', '- ', 'a://', 'a://b:', '&a', 'x-key ', 'token: "', '[', '["', '["\\', "'", '"', 'authorization '];
const evenMore = ['a =', 'sk-', '@', '#"', ': ', 'password:  '];
const attacks = [...pieces, ...(proof ? [...more, ...evenMore] : [])].map((piece) => [piece] as const);

const redactSettings = (path: string[], text: string): string => {
  const redact = findRedaction(path);
  return redact === undefined ? text : redactBytes(Buffer.from(text), redact).toString();
};
const repeatPiece = (piece: string, length: number): string =>
  piece.repeat(Math.ceil(length / piece.length)).slice(0, length);

// A scan whose time grows with the square of a line would run for hours.
test.each(attacks)('S4: a line of 1 MiB of %j in settings holds nobody up, and none of it is shown', (piece) => {
  for (const path of names) {
    const line = `z${repeatPiece(piece, 2 ** 20 - 2)}z`;
    expect(redactSettings(path, line)).toBe(redactedMark);
    // Right below the limit each line is searched; a secret in the next one is still found.
    const lines = `[a]\n${`z${repeatPiece(piece, 4094)}z\n`.repeat(20)}`;
    expect(redactSettings(path, `${lines}u = https://me:SECRET@host/plain\n`)).not.toContain('SECRET');
  }
});

// A string or a remark without an end is a line of any length, and may lie in one.
test.each(attacks)(
  'S4: settings in JSON, TOML or XML that repeat %j are read once, and their credentials are not shown',
  (piece) => {
    for (const path of [['.mcp.json'], ['mise.toml'], ['NuGet.Config']]) {
      const isXml = path[0] === 'NuGet.Config';
      const starts = isXml ? ['', '<', "<a b='", '<!--'] : ['', '"', '/*', '#', '{"env":{"a":', '[env]\na = "'];
      for (const start of starts) {
        redactSettings(path, start + repeatPiece(piece, proof ? 2 ** 20 - 20 : 2 ** 16));
        const lines = `${start}${`z${repeatPiece(piece, 4000)}z\n`.repeat(2)}`;
        expect(redactSettings(path, `${lines}u = https://me:SECRET@host/plain\n`)).not.toContain('SECRET');
      }
    }
  },
);

test('S4: text that continues after a line that is too long is not shown either', () => {
  const long = 'a'.repeat(5000);
  expect(redactSettings(['.yarnrc.yml'], `b: 1\n  x${long}: >-\n    SECRET\nc: plain\n`)).toBe(
    `b: 1\n${redactedMark}\n    ${redactedMark}\nc: plain\n`,
  );
  expect(redactSettings(['.git', 'config'], `[a]\n b = ${long}\\\nSECRET\n c = plain\n`)).toBe(
    `[a]\n${redactedMark}\n${redactedMark}\n c = plain\n`,
  );
  expect(redactSettings(['.npmrc'], `${long}\nsave=plain\n`)).toBe(`${redactedMark}\nsave=plain\n`);
});
