import { mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { openBoundedGateway } from '../gateway/bounded-gateway.ts';
import { counts } from '../proof.ts';

const on = openBoundedGateway();

test('W7: calls of file tools are rate limited like others', async () => {
  mkdirSync(join(on.folder, 'garden'));
  const workspaces = { garden: { path: join(on.folder, 'garden') } };
  // The next call is free after a minute: at sixty a minute, a slow machine would be given a fourth one.
  const quotas = { session: { callsPerMinute: 1, burst: 3 } };
  await on.start('modern', { servers: {}, workspaces, quotas });
  const { id } = await on.gateway.createSession({ workspaceId: 'garden' });
  const client = await on.connect(id, 'modern');
  const codes = [];
  for (const path of ['1', '2', '3', '4']) {
    const args = { session: 'current', path, content: '' };
    const { result } = await client.request('tools/call', { name: 'session_edit_file', arguments: args });
    codes.push((result?.['_meta'] as { 'ambit/error'?: { code: string } } | undefined)?.['ambit/error']?.code);
  }
  expect(codes).toEqual([undefined, undefined, undefined, 'QUOTA_EXCEEDED']);
  expect(readdirSync(join(on.folder, 'garden'))).toEqual(['1', '2', '3']);
});

test('W9: parallel sessions see only the files of their own workspace', async () => {
  const names = ['north', 'east', 'south', 'west'];
  for (const name of names) mkdirSync(join(on.folder, name));
  const folders = names.slice(0, 2).map((name) => [name, { path: join(on.folder, name) }]);
  const stored = names.slice(2).map((name) => [name, { backend: 'database' }]);
  await on.start('modern', { servers: {}, workspaces: Object.fromEntries([...folders, ...stored]) });
  const works = Array.from({ length: counts(24, 200) }, async (_, n) => {
    const place = names[n % names.length] as string;
    const { id } = await on.gateway.createSession({ workspaceId: place });
    const client = await on.connect(id, 'modern');
    const call = (name: string, args: object) => client.call(name, { session: 'current', ...args });
    await call('session_edit_file', { path: `by-${n}.txt`, content: `${place} ${n}\n` });
    await call('session_edit_file', { path: 'same.txt', content: `${place}\n` });
    const listed = await call('session_list_dir', {});
    const numbers = [...listed.matchAll(/by-(\d+)/g)].map((match) => Number(match[1]));
    expect(numbers).toContain(n);
    expect(numbers.filter((other) => names[other % names.length] !== place)).toEqual([]);
    expect(await call('session_read_file', { path: 'same.txt' })).toContain(place);
    const found = await call('session_grep_search', { pattern: names.join('|') });
    for (const other of names.filter((each) => each !== place)) expect(found).not.toContain(other);
  });
  await Promise.all(works);
});
