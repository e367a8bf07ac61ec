import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { classifyOmission, type MarkerRefusal, mergeExistingCode } from '../../../src/lib/text/existing-code.ts';
import { counts } from '../../proof.ts';

/** Spellings found in public code, prompts and tools of Cursor, Copilot, Lovable, Continue, Cline and others. */
const markers = [
  '// ... existing code ...',
  '  // ...existing code...',
  '# ... existing code ...',
  '        # … existing code …',
  '## ... existing code ...',
  '/* ... existing code ... */',
  '/* …existing code unchanged… */',
  '{/* ... existing code ... */}',
  '<!-- ... existing code ... -->',
  '\t\t<!-- ... Existing code ... -->',
  '-- ... existing code ...',
  '--- ... existing code ...',
  ';; ... existing code ...',
  '% ... existing code',
  "' ... existing code ...",
  'REM ... existing code ...',
  '" ... existing code ...',
  '{{-- ... existing code ... --}}',
  '{# ... existing code ... #}',
  '<%# ... existing code ... %>',
  '(* ... existing code ... *)',
  ' * ... existing code ...',
  '""" ... existing code ... """',
  '... existing code ...',
  '[... existing code ...]',
  '// ... rest of existing code (migration, cleanup)',
  '// ... rest of the existing code ...',
  '# ...rest of the existing code...',
  '# ... (rest of the existing code remains unchanged) ...',
  '    # ... [rest of the existing code remains unchanged]',
  '// Rest of the existing code remains the same...',
  '// ... keep existing code (isLoading and error states)',
  '// ... (existing code unchanged for object type)',
  ';; ... existing code from lines 147-165 ...',
  '// existing code ...',
  '// EXISTING CODE…',
  '//....existing   code....',
  '// 🔽 ... existing code ...',
];

/** Lines that leave out code in other words. Writing them would lose lines of the file. */
const placeholders = [
  '# ... rest of code ...',
  '// ... rest of the file ...',
  '// ... unchanged ...',
  '// ... (remaining code) ...',
  '{/* ... existing routes ... */}',
  '<!-- ... existing head content ... -->',
  '{# ... existing validation logic unchanged ... #}',
  '// ... omitted for brevity ...',
  'function saveProfile() {/* …existing code unchanged… */}',
  'def run(self):  # ... existing code ...',
];

const ordinary = [
  '',
  '...',
  '// ...',
  '/* ... */',
  '# …',
  '// existing code',
  '/* existing code */',
  '  ...args,',
  'return { ...existingCode, code };',
  'const existing_code = [...code];',
  'def stub(self) -> str: ...',
  '"... existing code ...",',
  "const marker = '// ... existing code ...';",
  '  `// ... existing code ...`,',
  '- `// ... existing code ...` keeps the lines of the file',
  '| `# … existing code …` | Python |',
  'echo "# ... existing code ..."',
  "  '...',",
  '// Existing code relies on this order.',
  '// Keep this for existing code that calls it without arguments.',
  '// The existing code remains unchanged when the flag is off.',
  '# Update existing users...',
  '// Loading the rest of the page...',
  '// See the code below ...',
  'Existing code keeps working...',
  'existing code ...',
  '<p>existing code</p>',
  'logger.info("existing code ...")',
  '// 1...10',
];

describe('lines that stand for code left out', () => {
  test.each(markers)('a marker: %s', (line) => expect(classifyOmission(line)).toBe('marker'));
  test.each(placeholders)('a placeholder: %s', (line) => expect(classifyOmission(line)).toBe('placeholder'));
  test.each(ordinary)('an ordinary line: %s', (line) => expect(classifyOmission(line)).toBeUndefined());
});

const file = 'import a\nimport b\n\nfunction one() {\n  return 1\n}\n\nfunction two() {\n  return 2\n}\n';
const mark = '// ... existing code ...';

function merge(text: string, ...lines: string[]): string | MarkerRefusal['kind'] {
  const outcome = mergeExistingCode(text, lines.join('\n'));
  return outcome.kind === 'merged' ? outcome.text : outcome.kind === 'refused' ? outcome.refusal.kind : 'whole';
}

describe('a content with markers', () => {
  test('replaces the lines between the first and the last line of each block', () => {
    const one = ['function one() {', '  // changed', '  return 1'];
    const two = ['function two() {', '  const two = 2', '  return 2'];
    const outcome = mergeExistingCode(file, [mark, ...one, mark, ...two, mark].join('\n'));
    expect(outcome).toEqual({
      kind: 'merged',
      text: file
        .replace('() {\n  return 1', '() {\n  // changed\n  return 1')
        .replace('  return 2', '  const two = 2\n  return 2'),
      lines: [4, 9],
    });
    expect(merge(file, mark, 'import b', 'function two() {', mark)).toBe(
      'import a\nimport b\nfunction two() {\n  return 2\n}\n',
    );
    expect(merge(file, mark, 'import b', mark, '', mark, 'function two() {', mark)).toBe(file);
    expect(merge(file, 'import a', 'import c', 'import b')).toBe('whole');
  });

  test('keeps the blank lines of the file beside markers, and takes those within a block', () => {
    expect(merge(file, mark, '', '', 'import b', '', '', 'function one() {', '', mark, '')).toBe(
      file.replace('import b\n', 'import b\n\n'),
    );
  });

  test('keeps line endings, a missing last line break and blanks at the end of anchors', () => {
    const crlf = `${file.replaceAll('\n', '\r\n')}end`;
    expect(merge(crlf, mark, 'import b', 'x', 'function one() {', mark)).toBe(crlf.replace('b\r\n\r\n', 'b\r\nx\r\n'));
    expect(merge(file, `${mark}\r\nimport b\r\nx\r\nfunction one() {\r\n${mark}`)).toBe(
      file.replace('b\n\n', 'b\nx\n'),
    );
    expect(merge('a  \r\nb\nc\t', mark, 'a', 'x', 'b \t', mark)).toBe('a  \r\nx\r\nb\nc\t');
    expect(merge('a\nb', mark, 'a', 'x', 'b')).toBe('a\nx\nb');
    expect(merge('a\r\nb', mark, 'b', 'x')).toBe('a\r\nb\r\nx');
    expect(merge('b', mark, 'b', 'x')).toBe('b\nx');
    expect(merge('b', 'x', 'b', mark)).toBe('x\nb');
  });

  test('at the start and end of the file needs no marker there, if no line is lost', () => {
    expect(merge(file, 'import a', 'import c', 'import b', mark)).toBe(
      file.replace('b\n', 'c\nimport b\n').replace('c\n', 'c\n'),
    );
    expect(merge(file, '#!/usr/bin/env node', 'import a', mark)).toBe(`#!/usr/bin/env node\n${file}`);
    expect(merge(file, mark, '  return 2', '}', '', 'function three() {', '}')).toBe(
      `${file}\nfunction three() {\n}\n`,
    );
    expect(merge('\n\na\nb\n\n', mark, 'b', 'c', '', '')).toBe('\n\na\nb\nc\n\n');
    expect(merge('\n\na\nb\n\n', '', 'x', 'a', mark)).toBe('\n\nx\na\nb\n\n');
    expect(merge('a\nb\nend\n', mark, 'a', 'end')).toBe('a\nend\n');
  });

  test.each<[MarkerRefusal['kind'], string[]]>([
    ['no-blocks', [mark]],
    ['no-blocks', ['', mark, '', mark]],
    ['anchor-missing', [mark, 'function three() {', '  return 1', mark]],
    ['anchor-missing', [mark, 'import b', 'import c', mark]],
    ['anchor-missing', [mark, 'return 1', mark]],
    ['anchor-missing', [mark, 'function three() {', '}']],
    ['anchor-repeated', [mark, 'function one() {', '  return 3', '}', mark]],
    ['anchor-repeated', [mark, '}', mark]],
    ['anchors-equal', [mark, 'import b', 'x', 'import b', mark]],
    ['out-of-order', [mark, '  return 1', 'x', 'function one() {', mark]],
    ['out-of-order', [mark, '  return 2', mark, 'import b', mark]],
    ['out-of-order', [mark, 'import b', 'x', 'function one() {', mark, 'function one() {', '  return 1', mark]],
    // A marker was forgotten: the lines before or after the block would be lost.
    ['marker-missing', ['function two() {', '  return 2', mark]],
    ['marker-missing', ['import b', 'x', 'function one() {', mark]],
    ['marker-missing', ['import c', 'import b', mark]],
    ['marker-missing', [mark, 'function one() {', '  return 3', '}']],
    ['marker-missing', [mark, 'import b', 'x', 'function one() {']],
    ['marker-missing', [mark, 'import b', 'x']],
    ['placeholder', [mark, 'import b', '// ... rest of code ...', 'function one() {', mark]],
    ['placeholder', ['import a', '// ... rest of code ...']],
  ])('that does not fit is refused: %s %j', (kind, lines) => {
    expect(merge(file, ...lines)).toBe(kind);
    expect(merge(file.replaceAll('\n', '\r\n'), `${lines.join('\r\n')}\r\n`)).toBe(kind);
  });

  test('is refused if the file has a marker too; a placeholder of the file stays', () => {
    expect(merge(`${mark}\n${file}`, mark, 'import b', 'function one() {', mark)).toBe('marker-in-file');
    expect(merge(`  // ...existing code...\nx\n`, 'x', mark)).toBe('marker-in-file');
    expect(merge('a\n// ... rest of code ...\n', 'b', '// ... rest of code ...  ')).toBe('whole');
    expect(merge('a\n// ... rest of code ...\nb\n', mark, 'a', 'x', '// ... rest of code ...', 'b')).toBe(
      'a\nx\n// ... rest of code ...\nb\n',
    );
    expect(merge('', '// ... rest of code ...')).toBe('whole');
    expect(merge('\n', mark, 'a', mark)).toBe('anchor-missing');
  });

  test('reports where a line is, within limits', () => {
    const outcome = mergeExistingCode('x\n'.repeat(500), `${mark}\n\ny\nx\n${mark}`);
    expect(outcome).toMatchObject({ refusal: { kind: 'anchor-missing', line: 3, text: 'y', side: 'start' } });
    const repeated = mergeExistingCode('x\n'.repeat(500), `a\n${mark}\n\nx\ny\n${mark}`);
    expect(repeated).toMatchObject({ refusal: { kind: 'anchor-missing', line: 1, side: 'end' } });
    const many = mergeExistingCode('x\n'.repeat(500), `${mark}\nx\ny\n${mark}`) as { refusal: MarkerRefusal };
    expect(many.refusal).toMatchObject({
      kind: 'anchor-repeated',
      line: 2,
      fileLines: expect.arrayContaining([1, 11]),
    });
    expect(many.refusal.fileLines).toHaveLength(11);
    expect(merge(file, `${mark}\nimport b\n`.repeat(101))).toBe('too-many-blocks');
    expect(merge(file, `${mark}\n`.repeat(100_000))).toBe('too-many-blocks');
  });
});

/** Whether a text has these lines in this order, whatever is between them. Blank lines do not count. */
function containsLines(text: string, lines: readonly string[]): boolean {
  const rest = text.split('\n').map((line) => line.trim());
  return lines
    .map((line) => line.trim())
    .filter((line) => line !== '')
    .every((line) => {
      const at = rest.indexOf(line);
      rest.splice(0, at + 1);
      return at !== -1;
    });
}

describe('any file and any blocks', () => {
  const newLine = fc.constantFrom('', '}', 'new', '  new', 'x', 'line 1', 'line 3', 'new  ');
  const random = fc.record({
    // Lines by number are unique; the others often are not.
    lines: fc.array(fc.constantFrom('unique', 'unique', '', '}', 'x', ' '), { minLength: 1, maxLength: 12 }),
    ending: fc.constantFrom('\n', '\r\n'),
    endsInBreak: fc.boolean(),
    cuts: fc.uniqueArray(fc.nat(11), { minLength: 2, maxLength: 6 }),
    inner: fc.array(fc.array(newLine, { maxLength: 3 }), { minLength: 3, maxLength: 3 }),
    marker: fc.constantFrom(...markers),
    blanks: fc.constantFrom('', '\n', ' \n\n'),
    without: fc.constantFrom('none', 'none', 'first', 'last'),
  });

  test('give exactly the intended text, or a refusal', () => {
    const seen = { merged: 0, refused: 0 };
    fc.assert(
      fc.property(random, ({ lines, ending, endsInBreak, cuts, inner, marker, blanks, without }) => {
        const old = lines.map((line, i) => (line === 'unique' ? `line ${i}` : line));
        const solid = old.flatMap((line, i) => (line.trim() === '' ? [] : [i]));
        fc.pre(solid.length > 0);
        const places = cuts.map((cut) => solid[cut % solid.length] as number).sort((a, b) => a - b);
        const blocks = inner.flatMap((between, i) => {
          const [from, to] = [places[2 * i], places[2 * i + 1]];
          return from === undefined || to === undefined ? [] : [{ from, to, between: from === to ? [] : between }];
        });
        const given = blocks.map(({ from, to, between }) => [
          old[from] as string,
          ...(from === to ? [] : [...between, old[to] as string]),
        ]);
        const parts = [marker, ...given.flatMap((block) => [blanks + block.join('\n') + blanks, marker])];
        const content = parts.slice(without === 'first' ? 1 : 0, without === 'last' ? -1 : undefined).join('\n');

        const next = [...old];
        for (const { from, to, between } of [...blocks].reverse())
          if (from !== to) next.splice(from + 1, to - from - 1, ...between);
        const write = (all: string[]) => all.join(ending) + (endsInBreak ? ending : '');
        const outcome = mergeExistingCode(write(old), content);

        const anchors = blocks.flatMap(({ from, to }) => (from === to ? [from] : [from, to]));
        const isUnique = (at: number) => old.filter((line) => line.trimEnd() === old[at]?.trimEnd()).length === 1;
        const isClear = anchors.every(isUnique) && new Set(anchors).size === anchors.length;
        expect(outcome.kind).not.toBe('whole');
        // A block with no marker on one side may also be one that only adds lines.
        const others = without === 'first' ? blocks.slice(1) : blocks.slice(0, -1);
        const kept = old.filter((_, i) => !others.some(({ from, to }) => from < i && i < to));
        if (outcome.kind === 'merged' && (without === 'none' || !containsLines(outcome.text, kept)))
          expect(outcome.text).toBe(write(next));
        if (without === 'none') expect(outcome.kind).toBe(isClear ? 'merged' : 'refused');
        seen[outcome.kind === 'merged' ? 'merged' : 'refused']++;
      }),
      { numRuns: counts(200, 20_000) },
    );
    expect(Math.min(seen.merged, seen.refused)).toBeGreaterThan(20);
  });

  test('never lose a line of the file that no block covers, whatever the texts', () => {
    const line = fc.constantFrom(
      'a',
      'b',
      'c',
      'd',
      '',
      ' ',
      '}',
      'a ',
      '\ta',
      mark,
      '# … existing code …',
      '// ...',
      '\u2028',
      '\r',
    );
    const text = fc.array(line, { maxLength: 8 }).map((lines) => lines.join('\n'));
    fc.assert(
      fc.property(text, text, (before, content) => {
        const outcome = mergeExistingCode(before, content);
        if (outcome.kind !== 'merged') return;
        const cut = (each: string) => each.replace(/[ \t\r]+$/, '');
        const result = outcome.text.split('\n').map(cut);
        expect(result.some((each) => classifyOmission(each) === 'marker')).toBe(false);
        const blocks = content
          .split('\n')
          .map(cut)
          .join('\n')
          .split(/^(?:\/\/ \.\.\. existing code \.\.\.|# … existing code …)$/m)
          .map((block) => block.replace(/^\n+|\n+$/g, ''))
          .filter((block) => block !== '');
        expect(outcome.lines).toHaveLength(blocks.length);
        const kept = result.join('\n');
        for (const block of blocks) expect(kept).toContain(block);
      }),
      { numRuns: counts(200, 20_000) },
    );
  });
});
