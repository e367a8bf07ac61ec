import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, vi } from 'vitest';
import { type Check, type CheckParts, requireOffer } from './check.ts';
import type { ToolCall } from './upstream-scripts.ts';

/** The server asks the model of the client, and tells what it was told. */
export const checkSampling: Check = (visit) => checkAsks(visit, 'sampling/createMessage', visit.script.sampling);

/** The server asks the person behind the client. */
export const checkElicitation: Check = (visit) => checkAsks(visit, 'elicitation/create', visit.script.elicitation);

async function checkAsks(
  { client, script }: CheckParts,
  method: string,
  call: (ToolCall & { says: string }) | undefined,
) {
  const before = client.person.asked.filter((asked) => asked === method).length;
  const { tool, args, says } = call ?? script.call;
  const said = await client.call(tool, args);
  const times = client.person.asked.filter((asked) => asked === method).length - before;
  requireOffer(times > 0, `it never asks (${method})`);
  expect(said).toContain(says);
  expect(times).toBe(1);
}

/** The server knows the client's roots, and learns of their change. */
export const checkRoots: Check = async ({ client, script, folder }) => {
  const { tool } = script.roots!;
  const told = (path: string) => vi.waitFor(async () => expect(await client.call(tool)).toContain(path), waiting);
  const [first] = client.person.roots;
  await told(new URL(first!.uri).pathname);
  const more = join(folder, 'more');
  await mkdir(more, { recursive: true });
  client.person.roots = [...client.person.roots, { uri: pathToFileURL(more).href, name: 'more' }];
  // The modern era has no word for it: the server asks anew each time.
  if (client.era === 'handshake') await client.rootsChanged();
  await told(more);
  expect(client.person.asked).toContain('roots/list');
};

const waiting = { timeout: 30_000, interval: 30 };
