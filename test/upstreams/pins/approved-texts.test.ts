import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { ServerDefinition } from '../../../src/upstreams/definition.ts';
import { createToolDiffs } from '../../../src/upstreams/pins/approved-texts.ts';
import { createToolPins, createToolTexts, mergeToolPins } from '../../../src/upstreams/pins/pinned-tools.ts';
import { createProject, type Project } from './project.ts';

const read = { name: 'read', description: 'Reads.', inputSchema: { type: 'object' } };
const secret = 'correct "horse" battery';

let project: Project;
let server: ServerDefinition;
beforeEach(async () => {
  project = createProject();
  server = await project.server({ command: 'node', args: ['-v'], env: { API_TOKEN: secret } });
  await project.approvals.approve(server);
});
afterEach(() => project.remove());

const file = () => join(project.dataDir, 'approved-texts', 'x.json');

async function approve(...lists: unknown[][]): Promise<void> {
  const texts = createToolTexts(lists);
  await project.approvals.pinTools(server, mergeToolPins(lists.map(createToolPins)), { replace: true, texts });
}

function review(tools: unknown[], options: { readonly maxCharacters?: number } = {}) {
  const now = createToolPins(tools);
  const { approvals } = project;
  const describe = createToolDiffs({
    ...{ approved: approvals.find('x')?.tools ?? {}, approvedTexts: approvals.texts.read('x') },
    ...{ now, nowTexts: createToolTexts([tools]), ...options },
  });
  return approvals.toolsChanged(server, now).flatMap((change) => describe(change));
}

test('texts are kept in a private file, and each change is shown with them', async () => {
  await approve([read]);
  expect(statSync(file()).mode & 0o777).toBe(0o600);
  expect(statSync(join(file(), '..')).mode & 0o777).toBe(0o700);
  const annotations = { readOnlyHint: true };
  expect(review([{ ...read, annotations, inputSchema: { type: 'object', a: 1 } }])).toEqual([
    {
      ...{ part: 'inputSchema', before: '{\n  "type": "object"\n}', after: '{\n  "a": 1,\n  "type": "object"\n}' },
      ...{ diff: '@@ -1,3 +1,4 @@\n {\n+  "a": 1,\n   "type": "object"\n }\n', note: null },
    },
    {
      ...{ part: 'annotations', before: null, after: '{\n  "readOnlyHint": true\n}', note: null },
      diff: '@@ -0,0 +1,3 @@\n+{\n+  "readOnlyHint": true\n+}\n',
    },
  ]);
  expect(review([]).map(({ part, before, after }) => [part, before, after])).toEqual([
    ['description', 'Reads.', null],
    ['inputSchema', '{\n  "type": "object"\n}', null],
  ]);
  await project.approvals.revoke('x');
  expect(existsSync(file())).toBe(false);
});

test('S2: a text that is not the approved one is never shown as approved', async () => {
  await approve([read]);
  const stored = readFileSync(file(), 'utf8');
  const lost = [{ part: 'description', before: null, after: 'Sends.', note: expect.any(String) }];
  const changed = [{ ...read, description: 'Sends.' }];
  writeFileSync(file(), stored.replace('Reads.', 'Sends.'));
  expect(review(changed)).toMatchObject(lost);
  for (const broken of ['', '{"version":1,"texts":{"a":1}}', '{"version":2,"texts":{}}', '[]']) {
    writeFileSync(file(), broken);
    expect(review(changed)).toMatchObject(lost);
  }
  rmSync(file());
  writeFileSync(join(project.dataDir, 'elsewhere'), stored);
  symlinkSync(join(project.dataDir, 'elsewhere'), file());
  expect(review(changed)).toMatchObject(lost);
  rmSync(file());
  mkdirSync(file());
  expect(review(changed)).toMatchObject(lost);
});

test('tools that were approved without texts are compared by their hashes', async () => {
  await project.approvals.pinTools(server, createToolPins([read]));
  expect(review([{ ...read, description: 'Sends.' }])).toEqual([
    {
      ...{ part: 'description', before: null, after: 'Sends.', diff: '@@ -0,0 +1 @@\n+Sends.\n' },
      note: 'The approved text was not kept. Only its hash is known.',
    },
  ]);
});

test('S2: no value of a variable is kept', async () => {
  await approve([{ ...read, description: `Reads with ${secret}.` }]);
  expect(readFileSync(file(), 'utf8')).not.toContain('horse');
  const [part] = review([read]);
  expect(part).toMatchObject({
    before: null,
    after: 'Reads.',
    note: expect.stringContaining('contained a credential'),
  });
});

test('long texts are not kept, and a long change is cut with a note', async () => {
  const long = { ...read, description: 'x'.repeat(20_000) };
  const many = Array.from({ length: 40 }, (_, at) => ({ name: `t${at}`, description: `${at}${'y'.repeat(10_000)}` }));
  await approve([long, ...many]);
  expect(readFileSync(file(), 'utf8').length).toBeLessThan(300_000);
  const parts = review([{ ...read, description: 'Reads.', inputSchema: { type: 'object' } }, ...many]);
  expect(parts).toMatchObject([{ before: null, note: expect.stringContaining('too long to keep') }]);
  const nested = JSON.parse(`${'['.repeat(1000)}${']'.repeat(1000)}`) as unknown;
  const [deep, wide] = review([{ ...long, inputSchema: nested, title: 'z\n'.repeat(200_000) }, ...many]);
  expect(deep?.after?.length).toBe(2000);
  expect(wide).toMatchObject({ part: 'title', note: 'Only the beginning is shown.' });
  expect(wide?.diff.length).toBeLessThanOrEqual(60_000);
  const [first] = review([{ ...read, description: 'Reads.' }, ...many], { maxCharacters: 10 });
  expect(first).toMatchObject({ after: null, diff: '', note: expect.stringContaining('too long') });
});

test('a definition is compared with the approved one that is most like it', async () => {
  const summing = { ...read, description: 'Reads and sums up.', title: 'Read' };
  await approve([read], [summing]);
  expect(review([{ ...summing, title: 'Sum' }])).toMatchObject([{ part: 'title', before: 'Read', after: 'Sum' }]);
});

test('an approval does not fail if its texts cannot be kept', async () => {
  writeFileSync(join(project.dataDir, 'approved-texts'), '');
  chmodSync(join(project.dataDir, 'approved-texts'), 0o600);
  await approve([read]);
  expect(project.approvals.toolsChanged(server, createToolPins([read]))).toEqual([]);
  expect(review([{ ...read, description: 'Sends.' }])).toMatchObject([{ before: null }]);
});
