import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { configSchema } from '../../src/config/schema/schema.ts';
import type { ConfigInput } from '../../src/index.ts';
import { defineServers } from '../../src/upstreams/definition.ts';
import { createApprovals } from '../../src/upstreams/pins/approvals.ts';
import { proof } from '../proof.ts';
import { defineServer, eras, openBoundedGateway } from './bounded-gateway.ts';

const on = openBoundedGateway();

/** A server that starts when the test lets it, and tells which calls it has seen. */
function gated(era: string, isShut = true) {
  const [gate, seen] = [join(on.folder, 'gate'), join(on.folder, 'seen')];
  if (isShut) execFileSync('mkfifo', [gate]);
  const server = defineServer(era);
  const gatedServer = { ...server, env: { ...server.env, GATE: gate, SEEN: seen } };
  return { gate, seen, server: gatedServer };
}

/** In the middle of the start: a pipe opens when both ends are there. */
async function whileStarting(gate: string, change: () => Promise<unknown>): Promise<void> {
  const opened = await open(gate, 'w');
  // Whatever starts in place of this process does not wait.
  rmSync(gate);
  await change();
  await opened.close();
}

const narrowed = (server: object): Partial<ConfigInput> => ({
  servers: { keep: { ...server, tools: { permissions: { mark: 'keep:mark' } } } } as ConfigInput['servers'],
});

const clients = [
  ['modern', 'keep', 'mark'],
  ['modern', undefined, 'keep__mark'],
  ['handshake', undefined, 'keep__mark'],
] as const;
const cells = eras.flatMap((era, at) => clients.map((client, of) => ({ era, client, isShort: at === of % 2 })));

test.each(proof ? cells : cells.filter(({ isShort }) => isShort))(
  'S3: a permission taken away while a server of the $era era starts stops the call ($client)',
  async ({ era, client: [clientEra, address, tool] }) => {
    const { gate, seen, server } = gated(era);
    await on.start(era, narrowed(server));
    const { id } = await on.gateway.createSession({ permissions: ['keep:mark'] });
    const client = await on.connect(id, clientEra, address);
    const calling = client.call(tool);
    await whileStarting(gate, () => on.gateway.restrictSession(id, { permissions: [] }));
    expect(await calling).toContain('PERMISSION_DENIED');
    expect(existsSync(seen)).toBe(false);
  },
);

test('S3: a rule that comes while a server starts stops the call', async () => {
  const { gate, seen, server } = gated('modern');
  const config = { servers: { keep: server } };
  await on.start('modern', config);
  const { id } = await on.gateway.createSession();
  const client = await on.connect(id, 'modern', 'keep');
  const calling = client.call('mark');
  await whileStarting(gate, () => on.start('modern', { ...config, rules: [{ id: 'none', deny: 'keep__*' }] }));
  expect(await calling).toContain('PERMISSION_DENIED');
  expect(existsSync(seen)).toBe(false);
});

test('S3: an approval taken away while a server starts stops the call', async () => {
  const { gate, seen, server } = gated('handshake', false);
  const config = { servers: { keep: { ...server, imported: 'claude-desktop' } } };
  const approvals = createApprovals({ dataDir: on.dataDir });
  const [keep] = defineServers(configSchema.parse({ version: 1, ...config }), on.folder).values();
  if (keep === undefined) throw new Error('not declared');
  await on.start('modern', config as Partial<ConfigInput>);
  await approvals.approve(keep);
  const { id } = await on.gateway.createSession();
  const client = await on.connect(id, 'modern', 'keep');
  // Its tools are known: the next call waits for nothing but the process.
  expect(await client.call('mark')).toBe('done');
  expect(await client.call('crash')).toContain('UPSTREAM_FAILED');
  execFileSync('mkfifo', [gate]);
  const calling = client.call('mark');
  await whileStarting(gate, () => approvals.revoke('keep'));
  expect(await calling).toContain('SERVER_NOT_APPROVED');
  expect(readFileSync(seen, 'utf8')).toBe('mark\ncrash\n');
});

test('S3: what a session lost while a server starts is not in the signed context either', async () => {
  const { gate, seen, server } = gated('modern');
  await on.start('modern', { servers: { keep: server } });
  const { id } = await on.gateway.createSession({ permissions: ['keep:mark'] });
  const client = await on.connect(id, 'modern', 'keep');
  const calling = client.call('told');
  await whileStarting(gate, () => on.gateway.restrictSession(id, { permissions: [] }));
  expect(JSON.parse(await calling)).toMatchObject({ permissions: [] });
  expect(existsSync(seen)).toBe(true);
});
