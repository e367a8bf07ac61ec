import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, vi } from 'vitest';
import { type Check, type CheckParts, readPart, requireOffer } from './check.ts';

/** The server asks the model of the client, and tells what it was told. */
export const checkSampling: Check = (visit) => checkAsks(visit, 'sampling/createMessage', 'sampling');

/** The server asks the person behind the client. */
export const checkElicitation: Check = (visit) => checkAsks(visit, 'elicitation/create', 'elicitation');

async function checkAsks({ client, script }: CheckParts, method: string, part: 'sampling' | 'elicitation') {
  const times = () => client.person.asked.filter((asked) => asked === method).length;
  const before = times();
  const found = script[part];
  const { tool, args, says } = typeof found === 'string' ? script.call : found;
  const said = await client.call(tool, args);
  requireOffer(times() > before, `it never asks (${method})`);
  // Told apart by dropping the quotes' escapes: some servers tell what they heard as JSON.
  expect(said.replaceAll('\\"', '"')).toContain(says);
  expect(times() - before).toBe(1);
}

/** The server knows the client's roots, and learns of their change where the era has a word for it. */
export const checkRoots: Check = async (visit) => {
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
};
