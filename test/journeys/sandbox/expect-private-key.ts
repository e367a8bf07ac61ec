import { existsSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { expect } from 'vitest';
import type { RawClient } from '../../gateway/raw-client.ts';
import { findKeyFile, listKeyFiles } from '../context/find-key-file.ts';
import { waitUntilEmpty } from '../wait-until.ts';

const inside = '/run/ambit-context-key.json';

/**
 * The recorder of `client` reads its own key inside the sandbox and cannot change it. That of `other` has another key and
 * sees no file of the first. The file is gone when `end` has ended the process of `client`.
 */
export async function expectPrivateKey(
  dataDir: string,
  client: RawClient,
  other: RawClient,
  end: () => Promise<unknown>,
): Promise<void> {
  const raw = JSON.parse(await client.call('echo')) as { params: { _meta: { 'ambit/context': { token: string } } } };
  const file = findKeyFile(dataDir, raw.params._meta['ambit/context'].token) as string;
  expect(statSync(file).mode & 0o777).toBe(0o600);
  const read = (by: RawClient, path: string) => by.call('read', { path });
  const key = await read(client, inside);
  expect(JSON.parse(key)).toMatchObject({ kty: 'oct', alg: 'HS256' });
  expect(JSON.parse(await read(other, inside))).not.toEqual(JSON.parse(key));
  expect(await client.call('write', { path: inside, content: 'forged' })).toBe('EROFS');
  expect(await read(client, inside)).toBe(key);
  for (const path of [file, ...listKeyFiles(dataDir)]) expect(await read(other, path)).toBe('ENOENT');
  expect(await other.call('look', { path: dirname(file) })).toBe('"ENOENT"');
  await end();
  await waitUntilEmpty(() => [file].filter((path) => existsSync(path)), 30_000);
}
