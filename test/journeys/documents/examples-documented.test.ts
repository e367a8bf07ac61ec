import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { repository } from '../../structure/source-files.ts';

const page = readFileSync(join(repository, 'docs/explanation/example-servers.md'), 'utf8');
const shown = [...page.matchAll(/^`(examples\/[\w-]+\/server\.js)`:\n\n```js\n([\s\S]*?)^```$/gm)];

test('the page shows four example servers', () => {
  expect(shown.map(([, file]) => file)).toHaveLength(4);
});

test.each(shown.map(([, file = '', code = '']) => [file, code]))(
  '%s is shown as it is, in at most 80 lines',
  (file, code) => {
    const text = readFileSync(join(repository, file), 'utf8');
    expect(code).toBe(text);
    expect(text.trimEnd().split('\n').length).toBeLessThanOrEqual(80);
  },
);
