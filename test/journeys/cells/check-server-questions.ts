import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, vi } from 'vitest';
import { type CheckParts, readPart } from './feature-checks.ts';
import type { ToolCall } from './upstream-scripts.ts';

/** The server asks the person behind the client. */
export const checkElicitation = (visit: CheckParts) =>
  checkAsks(visit, 'elicitation/create', readPart(visit, 'elicitation'));

/** The server asks the model of the client, and tells what it was told. */
export const checkSampling = (visit: CheckParts) =>
  checkAsks(visit, 'sampling/createMessage', readPart(visit, 'sampling'));

async function checkAsks({ client }: CheckParts, method: string, { tool, args, says }: ToolCall & { says: string }) {
  const times = () => client.person.asked.filter((asked) => asked === method).length;
  const before = times();
  // Told apart by dropping the quotes' escapes: some servers tell what they heard as JSON.
  expect((await client.call(tool, args)).replaceAll('\\"', '"')).toContain(says);
  expect(times() - before).toBe(1);
}

/** The server knows the client's roots, and learns of their change where the era has a word for it. */
export async function checkRoots(visit: CheckParts): Promise<void> {
  const { client, folder } = visit;
  const { tool, keeps } = readPart(visit, 'roots');
  const told = (path: string) =>
    vi.waitFor(async () => expect(await client.call(tool)).toContain(path), { timeout: 30_000, interval: 30 });
  const [first] = client.person.roots;
  await told(new URL(first!.uri).pathname);
  expect(client.person.asked).toContain('roots/list');
  if (client.era === 'modern' && keeps) return;
  const more = join(folder, `more-${client.person.roots.length}`);
  await mkdir(more, { recursive: true });
  client.person.roots = [...client.person.roots, { uri: pathToFileURL(more).href, name: 'more' }];
  if (client.era === 'handshake') await client.rootsChanged();
  await told(more);
}
