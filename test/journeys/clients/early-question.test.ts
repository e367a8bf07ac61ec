import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { type EmbeddedAmbit, startEmbeddedAmbit } from '../start-embedded-ambit.ts';
import { connectV1 } from './connect/connect-v1.ts';
import { createSimulatedUser } from './connect/simulated-user.ts';
import { readStdioEvidence, tapArguments } from './evidence/evidence.ts';
import { createFolders, listStdioArguments, type TestFolders } from './upstreams.ts';

const places = new Map<string, TestFolders>();
const roots = { roots: { listChanged: true } };
const patience = { timeout: 30_000, interval: 20 };
let ambit: EmbeddedAmbit;
let token: string;

beforeAll(async () => {
  const servers: Record<string, unknown> = {};
  for (const name of ['stream', 'call']) {
    const place = createFolders();
    places.set(name, place);
    servers[name] = {
      command: process.execPath,
      args: [...tapArguments(place.taps), ...listStdioArguments('filesystem', place)],
    };
  }
  ambit = await startEmbeddedAmbit({ servers });
  ({ token } = await ambit.open());
});

afterAll(async () => {
  await ambit?.stop();
  for (const place of places.values()) place.remove();
});

// server-filesystem asks for roots as soon as it is initialized, when a client over HTTP has no stream open yet.
test.each(['stream', 'call'])('a question that comes too early waits for the next %s', async (opening) => {
  const { files, taps } = places.get(opening)!;
  const person = createSimulatedUser([{ uri: pathToFileURL(files).href, name: 'files' }]);
  let openStream = () => {};
  const streamWanted = new Promise<void>((resolve) => {
    openStream = resolve;
  });
  const client = await connectV1({ kind: 'http', url: ambit.mcp(opening), token }, person, roots, streamWanted);
  await readStdioEvidence(taps).said(({ method }) => method === 'roots/list');
  expect(person.asked).toEqual([]);
  if (opening === 'stream') openStream();
  else await client.call('list_allowed_directories');
  await vi.waitFor(() => expect(person.asked).toEqual(['roots/list']), patience);
  await vi.waitFor(async () => expect(await client.call('list_allowed_directories')).toContain(files), patience);
  openStream();
  await client.leave();
});
